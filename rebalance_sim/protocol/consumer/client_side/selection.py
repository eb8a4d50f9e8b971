"""Client-side assignors: which one a group uses, and which member computes with it.

Source: coordinator §12.1-§12.4; where it leaves something open, ``docs/protocol.md`` says what is
done. A group uses a client-side assignor if all members offer one of the same name and at least one
of them reads what all say to it; else a broker's assignor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rebalance_sim.protocol.consumer.computation import (
    Computation,
    ComputationEvent,
    ComputationStep,
)
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.context import ConsumerContext
from rebalance_sim.protocol.consumer.timer_keys import assignment_key, computation_key
from rebalance_sim.protocol.runtime.outcome import Outcome, ScheduleTimer, TimerCommand
from rebalance_sim.protocol.wire.assignment_messages import CLASSIC_METADATA_VERSION, ClientAssignor
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.records import ConsumerGroupCurrentMemberAssignment, Record

_LEAST_MINIMUM_VERSION = CLASSIC_METADATA_VERSION


# -- what a member may offer (coordinator §12.1) -------------------------------------------


def validate_assignors(request: ConsumerGroupHeartbeatRequest, *, is_known_field: bool) -> None:
    """Raise GroupError for the first broken rule about the assignors that a request names.

    ``is_known_field``: the simulated version has the field at all.
    """
    assignors = request.client_assignors
    if assignors is None:
        return
    if not is_known_field:
        raise GroupError(
            ErrorCode.UNSUPPORTED_VERSION, "This version has no client-side assignors."
        )
    if assignors and request.server_assignor is not None:
        raise _invalid("ServerAssignor and ClientAssignors can't be used together.")
    for assignor in assignors:
        lowest, highest = assignor.minimum_version, assignor.maximum_version
        if not assignor.name.strip():
            raise _invalid("Assignor.Name can't be empty.")
        if lowest < _LEAST_MINIMUM_VERSION:
            raise _invalid(f"Assignor.MinimumVersion must be >= {_LEAST_MINIMUM_VERSION}.")
        if highest < 0 or highest < lowest:
            raise _invalid("Assignor.MaximumVersion must be >= 0 and >= MinimumVersion.")
        if not lowest <= assignor.metadata_version <= highest:
            raise _invalid("Assignor.MetadataVersion must lie within the assignor's versions.")
    if len({assignor.name for assignor in assignors}) != len(assignors):
        raise _invalid("ClientAssignors can't name an assignor twice.")


def check_assignors(
    group: ConsumerGroup, before: Member, after: Member, *, replaced_id: str | None
) -> None:
    """Raise GroupError where the assignors that ``after`` brings do not go with the group's.

    ``before`` is the sender as the group knows it, ``replaced_id`` a predecessor that goes.
    """
    gone = {after.member_id, replaced_id}
    others = [group.members[m] for m in sorted(group.members) if m not in gone]
    for assignor in after.client_assignors:
        if assignor.minimum_version <= CLASSIC_METADATA_VERSION:
            continue
        for other in others:
            offer = None if other.classic_metadata is None else offer_of(other, assignor.name)
            if offer is not None and offer.metadata_bytes:
                raise _invalid(
                    f"Assignor {assignor.name} must support version {CLASSIC_METADATA_VERSION}, "
                    "as members of the classic protocol have user data for it."
                )
    former = [before] if before.member_id in group.members or replaced_id is not None else []
    if _is_unreadable([*others, after]) and not _is_unreadable([*others, *former]):
        raise GroupError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            "No member would be able to read the metadata of all members.",
        )


# -- which assignor, which members (coordinator §12.2, §12.3) ------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The client-side assignor of a group, and who can run it now, in ascending member id."""

    assignor_name: str
    candidates: tuple[str, ...]


@dataclass(slots=True)
class _Tally:
    """What all members together say about assignors of one name."""

    count: int = 0
    rank: int = 0
    lowest_version: int = 0
    highest_version: int = 0

    def add(self, rank: int, offer: ClientAssignor) -> None:
        version = offer.metadata_version
        self.lowest_version = min(self.lowest_version, version) if self.count else version
        self.highest_version = max(self.highest_version, version) if self.count else version
        self.count += 1
        self.rank += rank


def plan_of(members: Collection[Member]) -> Plan | None:
    """How the target of these members is computed; None: by a broker's assignor.

    Of several common names the one with the lowest sum of ranks is taken, then the first in the
    alphabet (coordinator §12.2). A name counts only if somebody reads all that is said to it.
    """
    for name, readers in _common_offers(members):
        if readers:
            present = sorted(member.member_id for member in readers if member.member_epoch >= 0)
            return Plan(assignor_name=name, candidates=tuple(present))
    return None


def _is_unreadable(members: Collection[Member]) -> bool:
    """Do all offer the same assignor, and no one reads what all say to it?"""
    common = _common_offers(members)
    return bool(common) and not any(readers for _, readers in common)


def _common_offers(members: Collection[Member]) -> list[tuple[str, list[Member]]]:
    """Names that all members offer, best first, each with the members that read all metadata.

    A member of the classic protocol offers what it knows, and can compute nothing.
    """
    tallies: dict[str, _Tally] = {}
    for member in members:
        for rank, offer in enumerate(_offers(member)):
            tallies.setdefault(offer.name, _Tally()).add(rank, offer)
    common = [name for name, tally in tallies.items() if tally.count == len(members)]
    common.sort(key=lambda name: (tallies[name].rank, name))
    found = []
    for name in common:
        lowest, highest = tallies[name].lowest_version, tallies[name].highest_version
        readers = []
        for member in members:
            own = offer_of(member, name) if member.classic_metadata is None else None
            if own is not None and own.reads(lowest, highest):
                readers.append(member)
        found.append((name, readers))
    return found


def _offers(member: Member) -> Sequence[ClientAssignor]:
    """The assignors of a member; those of a classic one have the version that marks user data."""
    classic = member.classic_metadata
    if classic is None:
        return member.client_assignors
    return [
        ClientAssignor(
            name=name,
            minimum_version=CLASSIC_METADATA_VERSION,
            maximum_version=CLASSIC_METADATA_VERSION,
            metadata_version=CLASSIC_METADATA_VERSION,
            metadata_bytes=_user_data(metadata),
        )
        for name, metadata in classic.supported_protocols
    ]


def _user_data(metadata: object) -> bytes:
    data = metadata.user_data if isinstance(metadata, Subscription) else None
    return data if isinstance(data, bytes) else b""


def offer_of(member: Member, assignor_name: str) -> ClientAssignor | None:
    """What a member says to the assignor of this name; None if it does not offer it."""
    return next((offer for offer in _offers(member) if offer.name == assignor_name), None)


# -- the course of a computation (coordinator §12.3) ---------------------------------------


def delegate(context: ConsumerContext, group: ConsumerGroup) -> Outcome | None:
    """The group needs a target: see to it that a member computes it. None: the broker has to.

    A member that has begun continues, even if the group has changed since: its target is valid for
    the epoch at which it began.
    """
    plan = plan_of(group.members.values())
    computation = group.computation
    if computation is not None and not _is_fit(group, computation, plan):
        computation = computation.after(ComputationEvent.UNFIT)
    if computation is None and plan is not None and plan.candidates:
        computation = _choose(plan)
    group.computation = computation
    return None if plan is None else Outcome()


def _is_fit(group: ConsumerGroup, computation: Computation, plan: Plan | None) -> bool:
    if plan is None:
        return False
    if computation.step is ComputationStep.PREPARED:
        member = group.members.get(computation.member_id)
        return member is not None and member.member_epoch >= 0
    return (
        computation.assignor_name == plan.assignor_name and computation.member_id in plan.candidates
    )


def _choose(plan: Plan, *, slow_id: str | None = None) -> Computation:
    """The smallest member id, or the one next to a member that was too slow (coordinator §12.3)."""
    later = (one for one in plan.candidates if slow_id is not None and one > slow_id)
    member_id = next(later, plan.candidates[0])
    return Computation(member_id=member_id, assignor_name=plan.assignor_name)


def notify_chosen(
    context: ConsumerContext, group: ConsumerGroup, member: Member, now_ms: int
) -> tuple[bool, tuple[TimerCommand, ...]]:
    """A heartbeat is being answered: is its sender to compute, and which timers does that start?

    The member is asked with every answer until it is done, as answers or its own requests may be
    lost; its time runs from the first time on. A group that lacks a target, and somebody to
    compute it, looks for one again.
    """
    computation = computation_under_way(group)
    if computation is None:
        if context.rules.is_outdated(group, group.target_assignment_epoch):
            return False, (ScheduleTimer(assignment_key(group.group_id), now_ms),)
        return False, ()
    if not context.rules.is_asked_to_compute(computation.member_id, member.member_id):
        return False, ()
    is_new = computation.step is ComputationStep.CHOSEN
    group.computation = computation.after(ComputationEvent.ANSWERED)
    return True, (deadline_timer(context, group, member, now_ms) if is_new else ())


def deadline_timer(
    context: ConsumerContext, group: ConsumerGroup, member: Member, now_ms: int
) -> tuple[TimerCommand, ...]:
    """From now on the member has its rebalance timeout to compute."""
    if not context.rules.limits_computations:
        return ()
    at_ms = now_ms + member.rebalance_timeout_ms
    return (ScheduleTimer(computation_key(group.group_id), at_ms),)


def expire(context: ConsumerContext, group: ConsumerGroup, now_ms: int) -> Outcome:
    """The rebalance timeout of the computing member is over: another one takes its place.

    It is not fenced. Where no one else can compute, it is given the same time again.
    """
    computation = computation_under_way(group)
    if computation is None or computation.step is ComputationStep.CHOSEN:
        return Outcome()
    plan = plan_of(group.members.values())
    slow_id = computation.member_id
    others = () if plan is None else tuple(m for m in plan.candidates if m != slow_id)
    if plan is not None and others:
        group.computation = computation.after(ComputationEvent.EXPIRED)
        group.computation = _choose(plan, slow_id=slow_id)
        return Outcome()
    member = group.members.get(slow_id)
    if member is None:
        return Outcome(timers=(ScheduleTimer(assignment_key(group.group_id), now_ms),))
    return Outcome(timers=deadline_timer(context, group, member, now_ms))


def computation_under_way(group: ConsumerGroup) -> Computation | None:
    """The computation that the group waits for. One whose epoch was taken back, because the batch
    that raised it could not be written, is dropped: the group has its target."""
    if group.group_epoch <= group.target_assignment_epoch:
        group.computation = None
    return group.computation


def loses_computing_member(group: ConsumerGroup, records: Iterable[Record]) -> bool:
    """Do these records remove the member that computes, or send it away for a while?"""
    computation = group.computation
    if computation is None:
        return False
    return any(
        isinstance(record, ConsumerGroupCurrentMemberAssignment)
        and record.member_id == computation.member_id
        and (record.value is None or record.value.member_epoch < 0)
        for record in records
    )


def _invalid(message: str) -> GroupError:
    return GroupError(ErrorCode.INVALID_REQUEST, message)
