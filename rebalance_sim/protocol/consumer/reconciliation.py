"""The reconciliation state machine: revoke before assign, as one table.

Sources: coordinator §3.1-§3.5. A member moves towards its target only in its own heartbeat.
``TRANSITIONS`` says for each state and situation what comes next; a pair that is not in the table
cannot happen, and raises IllegalTransition if it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from rebalance_sim.protocol.consumer.consumer_member import NO_PARTITIONS, Member
from rebalance_sim.protocol.wire.assignment_messages import AssignmentMetadata
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError, IllegalTransition
from rebalance_sim.protocol.wire.records import CurrentAssignmentValue, MemberState
from rebalance_sim.protocol.wire.topics import TopicPartition


class Situation(Enum):
    """What a heartbeat meets; the conditions of the table in coordinator §3.5."""

    RECONCILED = "at the target, nothing to do"
    NOT_ACKNOWLEDGED = "still holds what it has to revoke"
    MUST_REVOKE = "holds, or may hold, partitions outside the target"
    MUST_WAIT = "nothing to revoke, but part of the target is held by others"
    CAN_COMPLETE = "nothing to revoke, and all of the target is free"
    UNSUBSCRIBED_HELD = "dropped a topic and may still use its partitions"
    UNSUBSCRIBED_RELEASED = "dropped a topic and has let go of its partitions already"


class Effect(Enum):
    """What happens to the two partition sets and the epoch."""

    NOTHING = "unchanged"
    REVOKE = "pending := drop, assigned := keep, the epoch stays"
    GRANT = "assigned := keep and what is free, pending := {}, epoch := target epoch"
    GIVE_UP = "unsubscribed partitions leave assigned, the epoch stays"


class Transition(NamedTuple):
    """Next state and effect. Entering UNREVOKED (re)starts the rebalance timer; every other
    written result cancels it (coordinator §4.1)."""

    next_state: MemberState
    effect: Effect


_STABLE = MemberState.STABLE
_UNREVOKED = MemberState.UNREVOKED_PARTITIONS
_UNRELEASED = MemberState.UNRELEASED_PARTITIONS
_UNKNOWN = MemberState.UNKNOWN

TRANSITIONS: Mapping[tuple[MemberState, Situation], Transition] = {
    (_STABLE, Situation.RECONCILED): Transition(_STABLE, Effect.NOTHING),
    (_STABLE, Situation.MUST_REVOKE): Transition(_UNREVOKED, Effect.REVOKE),
    (_STABLE, Situation.MUST_WAIT): Transition(_UNRELEASED, Effect.GRANT),
    (_STABLE, Situation.CAN_COMPLETE): Transition(_STABLE, Effect.GRANT),
    (_STABLE, Situation.UNSUBSCRIBED_HELD): Transition(_UNREVOKED, Effect.GIVE_UP),
    (_STABLE, Situation.UNSUBSCRIBED_RELEASED): Transition(_STABLE, Effect.GIVE_UP),
    (_UNREVOKED, Situation.NOT_ACKNOWLEDGED): Transition(_UNREVOKED, Effect.NOTHING),
    (_UNREVOKED, Situation.UNSUBSCRIBED_HELD): Transition(_UNREVOKED, Effect.GIVE_UP),
    (_UNREVOKED, Situation.MUST_REVOKE): Transition(_UNREVOKED, Effect.REVOKE),
    (_UNREVOKED, Situation.MUST_WAIT): Transition(_UNRELEASED, Effect.GRANT),
    (_UNREVOKED, Situation.CAN_COMPLETE): Transition(_STABLE, Effect.GRANT),
    (_UNRELEASED, Situation.MUST_REVOKE): Transition(_UNREVOKED, Effect.REVOKE),
    (_UNRELEASED, Situation.MUST_WAIT): Transition(_UNRELEASED, Effect.GRANT),
    (_UNRELEASED, Situation.CAN_COMPLETE): Transition(_STABLE, Effect.GRANT),
    (_UNKNOWN, Situation.MUST_WAIT): Transition(_UNRELEASED, Effect.GRANT),
    (_UNKNOWN, Situation.CAN_COMPLETE): Transition(_STABLE, Effect.GRANT),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Everything the step from a member to its next current assignment depends on.

    ``target`` is already reduced to what the member may have. ``owned`` is the reported list (None
    = not reported). ``is_free`` asks the ownership map. ``gives_up`` holds the partitions of
    ``assigned`` whose topic the member has just unsubscribed from, or is None where this request
    does not change the subscription or the version waits for the target. ``revoking_epoch`` is the
    epoch a member carries on when an acknowledged revocation is followed by another
    (coordinator §3.4). ``target_metadata`` comes with the target and is the member's when it has
    reached that.
    """

    member: Member
    target_epoch: int
    target: frozenset[TopicPartition]
    owned: frozenset[TopicPartition] | None
    is_free: Callable[[TopicPartition], bool]
    gives_up: frozenset[TopicPartition] | None = None
    subscribes_to_nothing: bool = False
    revoking_epoch: int | None = None
    target_metadata: AssignmentMetadata | None = None


def reconcile(step: Reconciliation) -> Member:
    """The member after this heartbeat; the very same value if nothing changes.

    Raises GroupError(FENCED_MEMBER_EPOCH) for a member of unknown state that still owns something,
    IllegalTransition for a pair outside the table.
    """
    member = step.member
    situation = situation_of(step)
    transition = TRANSITIONS.get((member.state, situation))
    if transition is None:
        raise IllegalTransition(f"{member.state.name} x {situation.name}")
    match transition.effect:
        case Effect.NOTHING:
            return _stay(step, situation)
        case Effect.REVOKE:
            after = _revoke(step)
        case Effect.GRANT:
            after = _grant(step, transition.next_state)
        case Effect.GIVE_UP:
            after = _give_up(step, transition.next_state)
    return member if after == member else after


def situation_of(step: Reconciliation) -> Situation:
    """Which row of coordinator §3.5 applies (coordinator §3.3, §3.4)."""
    member = step.member
    if member.is_reconciled_to(step.target_epoch):
        return _unsubscribed(step) or Situation.RECONCILED
    if member.state is MemberState.UNREVOKED_PARTITIONS and not _acknowledged(step):
        return _unsubscribed(step) or Situation.NOT_ACKNOWLEDGED
    if member.state is MemberState.UNKNOWN and step.owned != frozenset():
        raise GroupError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in an unknown state. "
            "The member must abandon all its partitions and rejoin.",
        )
    if member.assigned.keys() == step.target:
        return Situation.CAN_COMPLETE
    if _holds(step.owned, [p for p in member.assigned if p not in step.target]):
        return Situation.MUST_REVOKE
    for partition in step.target:
        if partition not in member.assigned and not step.is_free(partition):
            return Situation.MUST_WAIT
    return Situation.CAN_COMPLETE


def _acknowledged(step: Reconciliation) -> bool:
    """The gate of UNREVOKED: owned is reported and disjoint from what is to be revoked."""
    return step.owned is not None and not any(
        p in step.owned for p in step.member.pending_revocation
    )


def _holds(owned: frozenset[TopicPartition] | None, partitions: list[TopicPartition]) -> bool:
    """Does the member hold any of these, as far as it has reported? Not reported counts as yes."""
    return bool(partitions) and (owned is None or any(p in owned for p in partitions))


def _unsubscribed(step: Reconciliation) -> Situation | None:
    if not step.gives_up:
        return None
    pending = [*step.member.pending_revocation, *step.gives_up]
    if _holds(step.owned, pending):
        return Situation.UNSUBSCRIBED_HELD
    return Situation.UNSUBSCRIBED_RELEASED


def _stay(step: Reconciliation, situation: Situation) -> Member:
    """Nothing changes, as a rule."""
    # An oddity of 4.3 (coordinator §3.4): a member that now subscribes to no name, and has nothing,
    # has its record rewritten all the same when only the previous epoch differs. The section says
    # "no existing topic"; a broker looks at the names, whether such topics exist or not.
    member = step.member
    if (
        situation is Situation.RECONCILED
        and step.gives_up is not None
        and step.subscribes_to_nothing
        and not member.assigned
        and not member.pending_revocation
        and member.previous_member_epoch != member.member_epoch
    ):
        return replace(member, previous_member_epoch=member.member_epoch)
    return member


def _revoke(step: Reconciliation) -> Member:
    member, target = step.member, step.target
    if member.state is MemberState.UNREVOKED_PARTITIONS and step.revoking_epoch is not None:
        epoch = step.revoking_epoch
    else:
        epoch = member.member_epoch
    return replace(
        member,
        state=MemberState.UNREVOKED_PARTITIONS,
        member_epoch=epoch,
        previous_member_epoch=member.member_epoch,
        assigned={p: e for p, e in member.assigned.items() if p in target},
        pending_revocation={p: e for p, e in member.assigned.items() if p not in target},
    )


def _grant(step: Reconciliation, next_state: MemberState) -> Member:
    member, target, assigned = step.member, step.target, step.member.assigned
    if assigned.keys() != target:
        granted = {p: e for p, e in assigned.items() if p in target}
        for partition in sorted(target):
            if partition not in granted and step.is_free(partition):
                granted[partition] = step.target_epoch
        assigned = granted
    return member.with_current_assignment(
        CurrentAssignmentValue(
            state=next_state,
            member_epoch=step.target_epoch,
            previous_member_epoch=member.member_epoch,
            assigned=assigned,
            pending_revocation=NO_PARTITIONS,
            metadata=step.target_metadata,
        )
    )


def _give_up(step: Reconciliation, next_state: MemberState) -> Member:
    member, gone = step.member, step.gives_up or frozenset()
    pending = member.pending_revocation
    if next_state is MemberState.UNREVOKED_PARTITIONS:
        pending = {**pending, **{p: e for p, e in member.assigned.items() if p in gone}}
    return replace(
        member,
        state=next_state,
        previous_member_epoch=member.member_epoch,
        assigned={p: e for p, e in member.assigned.items() if p not in gone},
        pending_revocation=pending,
    )
