"""Offsets are written and shown at a member's epoch, and by who owns the partition.

Sources: coordinator §8.1, §8.2, §14; classic §8.4; defects S4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.ledger import MemberEntry
from rebalance_sim.invariants.property import Finding, Interest, Property, notes_of_process
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common.effects import CloseConnection, SendCommit
from rebalance_sim.protocol.clients.common.events import (
    CommitAnswered,
    Disconnected,
    RequestExpired,
)
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.topics import TopicPartition


class CommitFenced(Property):
    """coordinator C22, client O3, classic C8."""

    id = "offsets.commit_fenced"
    sentence = (
        "A commit is stored only at its member's epoch or generation, at an older epoch for what "
        "it kept since, at none in an empty group; not in CompletingRebalance."
    )
    clauses = ("coordinator C22", "client O3", "classic C8", "classic §8.4", "defects S4")
    violated_by = ("mut-commit-no-fence", "KAFKA-19274", "test:classic-commit-unfenced")

    def on_commit(self, step: Step, stored: Sequence[TopicPartition]) -> Finding | None:
        """Look at every partition that was stored."""
        request, members = step.request, self.model.ledger_of(step.shard).members
        entry, epoch = members.get(request.member_id), request.generation_id_or_member_epoch
        if entry is None:
            return self._of_no_one(request, members)
        if epoch == entry.epoch or (epoch < entry.epoch and kept_since(entry, epoch, stored)):
            return None
        return self._found(request, f"the member is at {entry.epoch}")

    def on_classic_commit(
        self, step: Step, stored: Sequence[TopicPartition], classic_model: ClassicModel
    ) -> Finding | None:
        """Look at who committed, and when."""
        request, group = step.request, classic_model.group
        if group is None:
            return None
        if request.member_id not in group.members:
            return self._of_no_one(request, group.members)
        generation_id, is_open = group.generation_id, ClassicGroupState.COMPLETING_REBALANCE
        if request.generation_id_or_member_epoch == generation_id and group.state is not is_open:
            return None
        return self._found(request, f"the group is {group.state.value} at {generation_id}")

    def _of_no_one(self, request: OffsetCommitRequest, members: Collection[str]) -> Finding | None:
        if request.generation_id_or_member_epoch < 0 and not members:
            return None
        return self._found(request, "who is no member")

    def _found(self, request: OffsetCommitRequest, stored: str) -> Finding:
        return Finding(
            f"a commit of {self.model.who(request.member_id) or 'no one'} at epoch "
            f"{request.generation_id_or_member_epoch} was stored; {stored}",
            member=request.member_id,
        )


def kept_since(entry: MemberEntry, epoch: int, partitions: Sequence[TopicPartition]) -> bool:
    """Whether the member has had all of these since this epoch; it says so in record 8."""
    if entry.current is None or epoch < 0:
        return False
    since = {**entry.current.pending_revocation, **entry.current.assigned}
    return all(since.get(partition, epoch + 1) <= epoch for partition in partitions)


class FetchFenced(Property):
    """coordinator §8.2: a fetch that is signed needs its member, at exactly its epoch."""

    id = "offsets.fetch_fenced"
    sentence = "A signed offset fetch is answered at the member's present epoch only."
    clauses = ("coordinator §8.2",)
    violated_by = ("mut-fetch-no-fence",)
    interest = Interest(requests=(OffsetFetchRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Look at every fetch of a member that was answered."""
        request, member_id = step.request, step.request.member_id
        if not request.require_stable or member_id is None or step.response.error_code:
            return None
        ledger = self.model.ledger_of(step.shard)
        entry = ledger.members.get(member_id)
        if not ledger.has_group or (entry is not None and entry.epoch == request.member_epoch):
            return None
        stored = "no one" if entry is None else f"at {entry.epoch}"
        return Finding(
            f"offsets were shown to {self.model.who(member_id)} at epoch {request.member_epoch}; "
            f"the member is {stored}",
            member=member_id,
        )


class CommitOfOwner(Property):
    """coordinator E4. A broker stores whatever a member commits at its present epoch, also for what
    another one holds (``CommitFenced``): this rests on the clients, and says nothing of others. A
    client that has lost a commit with its connection may go on, and give partitions up, while the
    broker has still to handle it (client §7)."""

    id = "offsets.commit_of_owner"
    outlives_lost_commits = False
    sentence = (
        "No commit of a client is stored for a partition that another member holds by then, but "
        "one that the client has lost with its connection."
    )
    clauses = ("coordinator E4", "defects S4")
    violated_by = (
        *("KAFKA-16258", "mut-ack-before-stop", "mut-client-commits-released"),
        *("mut-client-rejoins-before-lost", "mut-client-reports-target", "sim-waiting-commit"),
    )

    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired), effects=(SendCommit, CloseConnection)
    )
    _in_flight: dict[str, dict[int, OffsetCommitRequest]] = notes_of_process(dict)
    _given_up: dict[str, list[OffsetCommitRequest]] = notes_of_process(dict)

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """A commit is over for its client."""
        in_flight = self._in_flight.get(entry.name)
        if not in_flight:
            return
        if type(step.event) is CommitAnswered:
            in_flight.pop(step.event.correlation_id, None)
            return
        for correlation_id in step.event.correlation_ids:
            if (request := in_flight.pop(correlation_id, None)) is not None:
                self._given_up.setdefault(entry.name, []).append(request)

    def on_effects(self, step: Step, entry: ClientEntry) -> None:
        """A commit leaves, or the connection is closed, and nothing on it is waited for."""
        in_flight = self._in_flight.setdefault(entry.name, {})
        for effect in step.effects:
            if type(effect) is SendCommit:
                in_flight[effect.correlation_id] = effect.request
            elif type(effect) is CloseConnection and in_flight:
                self._given_up.setdefault(entry.name, []).extend(in_flight.values())
                in_flight.clear()

    def _is_given_up(self, request: OffsetCommitRequest) -> bool:
        return any(request is one for lost in self._given_up.values() for one in lost)

    def on_commit(self, step: Step, stored: Sequence[TopicPartition]) -> Finding | None:
        """Look for another holder of each partition that was stored."""
        committer = step.request.member_id
        owner = self.model.ledger_of(step.shard).holders.owner
        foreign = [
            p
            for p in stored
            if owner.get(p, committer) != committer
            and owner.get(self._as_stored(step, p), committer) != committer
        ]
        if not foreign or not self.model.is_client(committer) or self._is_given_up(step.request):
            return None
        partition = min(foreign)
        holder, who = owner[partition], self.model.who
        return Finding(
            f"a commit of {who(committer)} for {self.model.name_of(partition)} was stored; "
            f"{who(holder)} holds it",
            member=committer,
            partition=partition,
        )

    def _as_stored(self, step: Step, partition: TopicPartition) -> TopicPartition:
        """The partition that the broker knows under the name of the request, by its id of now."""
        name = self.model.wire_name_of(step, partition.topic_id)
        topic = step.shard.coordinator.image.by_name.get(name or "")
        return partition if topic is None else TopicPartition(topic.topic_id, partition.partition)
