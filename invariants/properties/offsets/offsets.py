"""Committed offsets: who may write them.

Sources: coordinator §8.1, §14; defects S4.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CloseConnection,
    CommitAnswered,
    Disconnected,
    RequestExpired,
    SendCommit,
)
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.records import OffsetCommit
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 140


class CommitFenced(Property):
    """coordinator C22 and client O3."""

    id = "offsets.commit_fenced"
    sentence = (
        "A commit is stored only at the member's epoch, or at an older one for partitions kept "
        "since then, or for a group without members at no epoch."
    )
    clauses = ("coordinator C22", "client O3", "defects S4")
    violated_by = (
        "mut-commit-no-fence",
        "KAFKA-19274",
    )

    def on_commit(self, step: Step, stored: Sequence[TopicPartition]) -> Finding | None:
        """Look at every partition that was stored."""
        request: OffsetCommitRequest = step.request
        ledger = self.model.ledger_of(step.shard)
        epoch = request.generation_id_or_member_epoch
        entry = ledger.members.get(request.member_id)
        if entry is None:
            if epoch < 0 and not ledger.members:
                return None
            return Finding(
                f"a commit of {request.member_id or 'nobody'}, who is no member, was stored at "
                f"epoch {epoch}",
                member=request.member_id,
            )
        if epoch == entry.epoch or (epoch < entry.epoch and kept_since(entry, epoch, stored)):
            return None
        return Finding(
            f"a commit of {self.model.who(request.member_id)} at epoch {epoch} for "
            f"{self.model.names_of(stored)} was stored; the member is at {entry.epoch}",
            member=request.member_id,
        )


class CommitOfOwner(Property):
    """coordinator E4. A broker stores whatever a member commits at its present epoch, whoever holds
    the partition (``CommitFenced``): this rests on the clients, and says nothing of others. A
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
        "KAFKA-16258",
        "mut-ack-before-stop",
        "mut-client-commits-released",
        "mut-client-rejoins-before-lost",
        "mut-client-reports-target",
    )

    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired),
        effects=(SendCommit, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._in_flight: dict[str, dict[int, OffsetCommitRequest]] = self.of_process({})
        self._given_up: dict[str, list[OffsetCommitRequest]] = self.of_process({})

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
        owner = self.model.ledger_of(step.shard).owner
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
        shard, request = step.shard, step.request
        name = self.model.wire_name_of(shard, request.wire_topics, request.api_version, partition)
        topic = shard.coordinator.image.by_name.get(name or "")
        return partition if topic is None else TopicPartition(topic.topic_id, partition.partition)


class StoredAsAsked(Property):
    """coordinator §8.4. ``offsets.of_this_topic`` looks at the topic."""

    id = "offsets.stored_as_asked"
    sentence = "A commit stores the offsets that it is told are accepted, and no others."
    clauses = ("coordinator §8.4", "coordinator §9.1")
    violated_by = ("test:stores-another-offset",)
    judges_mixed = True
    interest = Interest(requests=(OffsetCommitRequest,))

    def before_offsets(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Compare answer and records."""
        request, shard = step.request, step.shard
        wire_topics, version = request.wire_topics, request.api_version
        accepted = {
            (self.model.wire_name_of(shard, wire_topics, version, p), p.partition): request.offsets[
                p
            ]
            for p, code in step.response.errors.items()
            if not code
        }
        stored = {
            (record.topic, record.partition): record.value.offset
            for record in step.records
            if type(record) is OffsetCommit and record.value is not None
        }
        if stored == accepted:
            return None
        return Finding(
            f"accepted was {sorted(accepted.values())}, stored {sorted(stored.values())}"
        )


def kept_since(entry: MemberEntry, epoch: int, partitions: Sequence[TopicPartition]) -> bool:
    """Whether the member has had all of these since this epoch; it says so in record 8."""
    if entry.current is None or epoch < 0:
        return False
    assigned, pending = entry.current.assigned, entry.current.pending_revocation
    for partition in partitions:
        since = assigned.get(partition, pending.get(partition))
        if since is None or since > epoch:
            return False
    return True
