"""A heartbeat moves its sender by one step of the reconciliation, and by the right one.

The table of coordinator §3.5, worked out anew as a function of sets.
Sources: coordinator §3.3-§3.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rebalance_sim.invariants.model.heartbeat_case import HeartbeatCase
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH
from rebalance_sim.protocol.wire.records import CurrentAssignmentValue, MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 36

Owned = frozenset[TopicPartition] | None
Epochs = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a member stands: record 8 without the epochs of single partitions."""

    epoch: int
    previous: int
    state: MemberState
    assigned: frozenset[TopicPartition]
    pending: frozenset[TopicPartition]

    @classmethod
    def of(cls, value: CurrentAssignmentValue) -> Place:
        """The same in fewer words."""
        return cls(
            value.member_epoch,
            value.previous_member_epoch,
            value.state,
            frozenset(value.assigned),
            frozenset(value.pending_revocation),
        )


class OneStep(Property):
    """coordinator §3.5."""

    id = "coordinator.one_step"
    sentence = (
        "A heartbeat takes its sender one step towards its target: state, epochs, and what is "
        "assigned, given up and kept are those of the table."
    )
    clauses = ("coordinator §3.3", "coordinator §3.4", "coordinator §3.5", "coordinator §4.6")
    violated_by = (
        "test:previous-epoch-lost",
        "KAFKA-16249-ack",
        "KAFKA-19431",
        "KAFKA-19449",
        "mut-early-grant",
    )
    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """The KIP's text moves members at other moments (coordinator §13)."""
        return semantics.coordinator.assigns_in_heartbeat

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Compare where the member stands now with where it had to go."""
        if (
            not case.is_accepted
            or case.has_ambiguous_instances
            or case.stored_current.state is MemberState.UNKNOWN
        ):
            return None
        value = case.written_current or case.stored_current
        now = Place.of(value)
        request = case.request
        expected = self._next(case, request.topic_partitions)
        if now == expected or self._may_also_be(case, now, expected):
            return None
        return Finding(
            f"{self.model.who(case.sender)} was {self._told(Place.of(case.stored_current))}; it "
            f"had to be {self._told(expected)}, and is {self._told(now)}",
            {"member": case.sender},
        )

    def _may_also_be(self, case: HeartbeatCase, now: Place, expected: Place) -> bool:
        """What an owned list that leaves out more than it was told to comes to is coordinator D12;
        and a member that subscribes to nothing may be rewritten (coordinator §3.4)."""
        if case.request.topic_partitions is not None and case.request.member_epoch != JOIN_EPOCH:
            before = case.stored_current.assigned.keys()
            if not before <= case.request.topic_partitions and now == self._next(
                case, case.request.topic_partitions | before
            ):
                return True
        return (
            case.changes_subscription
            and not case.subscribed_ids
            and not now.assigned
            and not now.pending
            and now == replace(expected, previous=expected.epoch)
        )

    def _next(self, case: HeartbeatCase, owned: Owned) -> Place:
        place = Place.of(case.stored_current)
        filters = self.model.rules.filters_target
        gone: frozenset[TopicPartition] = frozenset()
        if case.changes_subscription and filters:
            gone = frozenset(p for p in place.assigned if p.topic_id not in case.subscribed_ids)
        is_at_target = place.state is MemberState.STABLE and place.epoch == case.target_epoch
        is_revoking = place.state is MemberState.UNREVOKED_PARTITIONS
        if is_at_target or (is_revoking and (owned is None or not owned.isdisjoint(place.pending))):
            return _give_up(place, gone, owned) if gone else place
        epoch = place.epoch
        if is_revoking and not self.model.rules.writes_assignment_epochs:
            epoch += 1  # 4.1 tells a second revocation from the first (coordinator §3.4).
        target = case.target
        if filters:
            target = frozenset(p for p in target if p.topic_id in case.subscribed_ids)
        return _advance(place, epoch, case.target_epoch, target, owned, self._free(case, target))

    def _free(
        self, case: HeartbeatCase, partitions: Iterable[TopicPartition]
    ) -> frozenset[TopicPartition]:
        """Of these partitions, those that nobody else holds; classic members hold by name."""
        owner, itself = case.ledger.owner, (None, case.predecessor, case.sender)
        member_id = case.predecessor or case.sender
        return frozenset(
            p
            for p in partitions
            if owner.get(p) in itself
            and not self.model.is_held_by_name(case.shard, case.ledger, member_id, p)
        )

    def _told(self, place: Place) -> str:
        return (
            f"at epoch {place.epoch} (before: {place.previous}), {place.state.name}, assigned "
            f"{self.model.names_of(place.assigned)}, to revoke {self.model.names_of(place.pending)}"
        )


class AssignmentEpochs(Property):
    """coordinator §3.3, of versions that keep them: commits go by these (coordinator §8.1)."""

    id = "coordinator.assignment_epochs"
    sentence = (
        "A partition that a member is granted has the target epoch; one that it keeps, or is to "
        "revoke, has the epoch that it had."
    )
    clauses = ("coordinator §3.3", "coordinator §4.5", "coordinator §8.1")
    violated_by = ("test:epochs-of-kept-renewed",)
    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """They came with 4.3."""
        return semantics.coordinator.writes_assignment_epochs

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Compare partition by partition."""
        written = case.written_current
        if not case.is_accepted or written is None or not written.with_epochs:
            return None
        stored = case.stored_current
        had: Epochs = {**stored.pending_revocation, **stored.assigned}
        for partition, epoch in (*written.assigned.items(), *written.pending_revocation.items()):
            expected = had.get(partition, case.target_epoch)
            if partition in stored.pending_revocation and partition in written.assigned:
                expected = case.target_epoch  # Given up, and given back (coordinator §3.5).
            if epoch != expected:
                return Finding(
                    f"{self.model.who(case.sender)} has {self.model.name_of(partition)} since "
                    f"epoch {expected}, and {epoch} was written",
                    {"member": case.sender},
                )
        return None


def _give_up(place: Place, gone: frozenset[TopicPartition], owned: Owned) -> Place:
    """coordinator §3.4: what a member unsubscribes from goes at once, at the same epoch."""
    pending = place.pending | gone
    kept = replace(place, previous=place.epoch, assigned=place.assigned - gone)
    if owned is None or not owned.isdisjoint(pending):
        return replace(kept, state=MemberState.UNREVOKED_PARTITIONS, pending=pending)
    return kept


def _advance(
    place: Place,
    epoch: int,
    target_epoch: int,
    target: frozenset[TopicPartition],
    owned: Owned,
    free: frozenset[TopicPartition],
) -> Place:
    """coordinator §3.3, the function of that name."""
    keep, drop = place.assigned & target, place.assigned - target
    if drop and (owned is None or not owned.isdisjoint(drop)):
        return Place(epoch, place.epoch, MemberState.UNREVOKED_PARTITIONS, keep, drop)
    has_all = target <= keep | free
    state = MemberState.STABLE if has_all else MemberState.UNRELEASED_PARTITIONS
    return Place(target_epoch, place.epoch, state, keep | free, frozenset())
