"""A partition has one owner, who fetches what it is assigned, and gives up before it says so.

Sources: client §3, §4, §8, §11.3, §12; classic §3.2, §10; coordinator E1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from rebalance_sim.invariants.model.client_entry import ClientEntry, is_registered
from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.property import Finding, Interest, Property, notes_of_process
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.clients.common.events import CallbackCompleted
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS, EVERY_KIND
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest as Heartbeat
from rebalance_sim.protocol.wire.topics import TopicPartition

_NOTHING: frozenset[TopicPartition] = frozenset()


class _OneOwner(Property):
    """Of topics that there are: no one gets records of one that is gone. ``is_about_classic``:
    whether one of the clients speaks the classic protocol."""

    is_about_classic: ClassVar[bool]

    def on_ownership(self, step: Step) -> Finding | None:
        """Look at the partitions that more than one client may fetch."""
        model, shard = self.model, self.model.acting_shard()
        if shard is None:
            return None
        for partition in sorted(model.contested):
            users = [model.entries[name] for name in sorted(model.fetchers[partition])]
            if (
                any(entry.is_classic for entry in users) is not self.is_about_classic
                or partition.topic_id not in shard.coordinator.image.by_id
            ):
                continue
            names = [entry.name for entry in users if self._stands(entry, partition, shard)]
            if len(names) > 1:
                return Finding(
                    f"{model.name_of(partition)} is fetched by {' and '.join(names)}, and all of "
                    "them are members in good standing",
                    partition=partition,
                )
        return None

    def _stands(self, entry: ClientEntry, partition: TopicPartition, shard: ShardView) -> bool:
        """Whether the coordinator has it, at exactly the epoch or generation that the client is at,
        and has ever given it the partition."""
        model, member = self.model, entry.member
        if not model.is_member_in(shard, member):
            return False
        if model.classic_group_in(shard) is None:
            return not model.is_from_lost_commit(member.member_id, partition)
        return not _has_missed_a_generation(entry)


def _has_missed_a_generation(entry: ClientEntry) -> bool:
    """Whether others may have got what it has while it was away from its classic group, and it has
    not learnt so: its claims were too old to count (classic §5.3). Who continues with what it
    had under another member id has learnt it."""
    member = entry.member
    if entry.settled is None or member.state is ClientState.STABLE:
        return False
    member_id, generation = entry.settled
    return member_id == member.member_id and generation < member.member_epoch - 1


class ExclusiveConsumption(_OneOwner):
    """client O1, and with it coordinator E1."""

    id = "cross.exclusive_consumption"
    is_seen_from_outside = True
    sentence = "No two members that are registered at their present epoch may fetch a partition."
    clauses = (
        *("client O1", "client O2", "coordinator E1", "defects S1"),
        "TLA+ NoDoubleClientAssignment",
    )
    violated_by = ("mut-early-grant", "KAFKA-16147", "KAFKA-16258")
    is_about_classic = False


class ExclusiveAmongKinds(_OneOwner):
    """classic C9, C10, H12. Who missed a generation is in good standing when the group settles."""

    id = "classic.exclusive_consumption"
    is_seen_from_outside = True
    sentence = (
        "No two members at their present generation or epoch may fetch a partition, if either "
        "speaks the classic protocol."
    )
    clauses = ("classic C9", "classic C10", "classic H12", "defects S1")
    violated_by = (
        *("classic-forgotten-owners", "classic-recreated-topic", "classic-reused-generation"),
        *("classic-unheard-removal", "sim-late-downgrade"),
    )
    client_kinds = EVERY_KIND
    judges_mixed = True
    is_about_classic = True


class AssignedIsHeld(Property):
    """client O4."""

    id = "cross.assigned_is_held"
    is_seen_from_outside = True
    outlives_lost_commits = False
    sentence = "What a client at the coordinator's epoch is assigned, the coordinator holds for it."
    clauses = ("client O4", "defects S1")
    violated_by = (
        *("mut-ack-before-stop", "KAFKA-16258", "mut-client-rejoins-before-lost"),
        *("mut-client-reports-target", "mut-client-second-reconciliation"),
    )

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge the client that moved."""
        ledger = self.model.acting_ledger()
        return None if ledger is None else self._judge(entry, ledger)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Judge the clients whose member was touched."""
        if self.model.acting_ledger() is change.ledger:
            for member_id in change.members:
                entry = self.model.by_member_id.get(member_id)
                if entry and (finding := self._judge(entry, change.ledger)):
                    return finding
        return None

    def _judge(self, entry: ClientEntry, ledger: GroupLedger) -> Finding | None:
        member = entry.member
        assigned = member.assigned.keys()
        if not assigned or not is_registered(member, ledger):
            return None
        held = ledger.members[member.member_id].held()
        if assigned <= held:
            return None
        return Finding(
            f"{entry.name} is assigned {self.model.names_of(assigned - held)} at epoch "
            f"{member.member_epoch}; the coordinator does not hold that for it",
            client=entry.name,
        )


class CurrentFitsTarget(Property):
    """ValidMemberEpoch of the TLA+ model, at the moment the client adopts epoch or assignment."""

    id = "cross.current_fits_target"
    outlives_lost_commits = False
    sentence = (
        "A client that adopts the target epoch has applied nothing that the target gives to "
        "another member."
    )
    clauses = ("client §11.3", "TLA+ ValidMemberEpoch")
    violated_by = ("mut-client-reports-target", "mut-client-second-reconciliation")

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare the current assignment with the target."""
        member, ledger = entry.member, self.model.acting_ledger()
        is_new = member.member_epoch != entry.member_epoch or member.current is not entry.current
        if not is_new or ledger is None or member.member_epoch != ledger.target_epoch:
            return None
        current = member.current.partitions
        is_target = not ledger.in_target.rivals and current == ledger.targets.get(member.member_id)
        if is_target or not is_registered(member, ledger):
            return None
        for partition in sorted(current):
            owner = ledger.in_target.owner.get(partition, member.member_id)
            if owner != member.member_id:
                return Finding(
                    f"{entry.name} came to the target epoch {member.member_epoch} with "
                    f"{self.model.name_of(partition)}, which the target gives to "
                    f"{self.model.who(owner)}",
                    partition=partition,
                )
        return None


class StableMeansEqual(Property):
    """client C7."""

    id = "client.stable.means_equal"
    sentence = (
        "A client that is at rest is assigned what it was sent last, and has acknowledged it."
    )
    clauses = ("client C7",)
    violated_by = ("KAFKA-16185", "mut-ack-before-stop", "mut-client-ack-before-apply")

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge the client that moved."""
        member, what = entry.member, None
        if member.state is not ClientState.STABLE:
            return None
        if member.target != member.current:
            what = self.model.target_and_current(member)
        elif member.is_reconciling:
            what = "is not done with its reconciliation"
        elif member.assigned.keys() != member.current.partitions:
            what = f"is assigned {self.model.names_of(member.assigned)}, which is something else"
        if what is None:
            return None
        return Finding(f"{entry.name} is stable and {what}")


class RevokeBeforeAck(Property):
    """client C9. The request was built somewhere inside the event, so both ends of it are asked. A
    heartbeat that librdkafka repeats is as it was."""

    id = "client.revoke_before_ack"
    is_seen_from_outside = True
    sentence = (
        "What a client may fetch, and what it is assigned and has announced, is in every list of "
        "owned partitions that it sends."
    )
    clauses = ("client C9", "coordinator A3", "defects S1")
    violated_by = (
        *("mut-ack-before-stop", "KAFKA-16258", "mut-client-rejoins-before-lost"),
        "mut-client-reports-target",
    )

    def on_sent(
        self, step: Step, entry: ClientEntry, request: Heartbeat, state: ClientState
    ) -> Finding | None:
        """Compare the owned list with what the client works on."""
        owned, member = request.topic_partitions, entry.member
        if owned is None or request.member_epoch < JOIN_EPOCH or entry.repeats(request):
            return None
        hidden: Collection[TopicPartition] = (entry.fetchable & member.fetchable) - owned
        hidden = hidden or [
            p
            for p, partition in member.assigned.items()
            if p not in owned and p in entry.assigned and not partition.awaiting_assigned_callback
        ]
        if not hidden:
            return None
        names_of = self.model.names_of
        return Finding(f"{entry.name} reports {names_of(owned)} and still has {names_of(hidden)}")


class FetchSubset(Property):
    """client C11, with callbacks as the client reports them. librdkafka and franz-go take no
    notice of one that throws, nor do they stop while a loss is reported."""

    id = "client.fetch.subset"
    sentence = (
        "A client fetches only what it is assigned, after onPartitionsAssigned has returned and "
        "before onPartitionsRevoked or onPartitionsLost is called."
    )
    clauses = ("client C11", "client §8", "defects S1")
    violated_by = ("mut-client-fetches-during-callback",)
    interest = Interest(events=(CallbackCompleted,), effects=(RunCallback,))
    _unannounced: dict[str, set[TopicPartition]] = notes_of_process(dict)
    _assigning: set[str] = notes_of_process(set)

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """A successful assigned callback announces everything that is assigned."""
        if entry.name in self._assigning:
            self._assigning.discard(entry.name)
            if not step.event.failed or not entry.member.heeds_failed_callbacks:
                self._unannounced.pop(entry.name, None)

    def on_effects(self, step: Step, entry: ClientEntry) -> None:
        """Remember what an assigned callback is about to announce."""
        for effect in step.effects_of(RunCallback):
            if effect.kind is CallbackKind.ASSIGNED:
                self._unannounced.setdefault(entry.name, set()).update(effect.partitions)
                self._assigning.add(entry.name)

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge the fetchable set of the client that moved."""
        member = entry.member
        fetchable, running = member.fetchable, member.running_callback
        if not fetchable:
            return None
        is_let_off = member.fetches_while_lost and running and running.kind is CallbackKind.LOST
        if wrong := fetchable - member.assigned.keys():
            what = "which is not assigned to it"
        elif wrong := fetchable & self._unannounced.get(entry.name, _NOTHING):
            what = "before it is announced"
        elif running and not is_let_off and (wrong := fetchable & running.partitions):
            what = "while a callback tells of that"
        else:
            return None
        return Finding(f"{entry.name} may fetch {self.model.names_of(wrong)}, {what}")


class EagerRevokesFirst(Property):
    """classic C9, where it can be seen: at the member that sends JoinGroup."""

    id = "classic.eager_revokes_first"
    is_seen_from_outside = True
    sentence = (
        "An eager member of the classic protocol owns nothing from its JoinGroup until its "
        "SyncGroup is answered."
    )
    clauses = ("classic C9", "classic §3.2")
    violated_by = ("test:classic-eager-keeps",)
    client_kinds = CLASSIC_KINDS
    interest = Interest(is_beyond_moves=True)

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge the client that moved."""
        assigned = entry.member.assigned
        view = entry.member.classic if assigned else None
        if view is None or view.is_cooperative or not view.is_rebalancing:
            return None
        return Finding(
            f"{entry.name} is {view.state.value} and still has {self.model.names_of(assigned)}"
        )
