"""The timers of a consumer group.

Sources: coordinator §4.1, §7.2, §12.3, §13; classic §7.7.
"""

from __future__ import annotations

from functools import lru_cache

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.runtime.outcome import CancelTimer, TimerCommand, TimerKey, TimerKind


class ConsumerTimer(TimerKind):
    """What the timers of a consumer group are for."""

    SESSION = "session"
    REBALANCE = "rebalance"
    REJOIN = "mixed-join"
    RESYNC = "mixed-sync"
    METADATA = "metadata"
    ASSIGNMENT = "assignment"
    COMPUTATION = "computation"
    REGEX = "regex"

    @property
    def group_type(self) -> str:
        """``consumer``."""
        return "consumer"

    @property
    def is_retried(self) -> bool:
        """The result of a resolution of patterns is dropped: the next heartbeat starts another one
        (``CoordinatorExecutorImpl``)."""
        return self is not ConsumerTimer.REGEX

    @property
    def follows_soft_state(self) -> bool:
        """A resolution that is under way stays so when the batch is lost in which it was ordered
        (coordinator §7.2)."""
        return self is ConsumerTimer.REGEX

    @property
    def measures_silence(self) -> bool:
        """The session of a member does."""
        return self is ConsumerTimer.SESSION


@lru_cache(maxsize=4096)
def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a member whose heartbeats stop."""
    return TimerKey(ConsumerTimer.SESSION, group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a member that does not acknowledge a revocation."""
    return TimerKey(ConsumerTimer.REBALANCE, group_id, member_id)


def join_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a classic member that was asked to rejoin and does not."""
    return TimerKey(ConsumerTimer.REJOIN, group_id, member_id)


def sync_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a classic member that rejoins and does not fetch its assignment."""
    return TimerKey(ConsumerTimer.RESYNC, group_id, member_id)


def metadata_key(group_id: str) -> TimerKey:
    """The timer by which a coordinator looks at changed topics itself."""
    return TimerKey(ConsumerTimer.METADATA, group_id)


def assignment_key(group_id: str) -> TimerKey:
    """The timer by which a coordinator computes, or has somebody compute, a target."""
    return TimerKey(ConsumerTimer.ASSIGNMENT, group_id)


def computation_key(group_id: str) -> TimerKey:
    """The timer that limits the computation of a member (coordinator §12.3)."""
    return TimerKey(ConsumerTimer.COMPUTATION, group_id)


def regex_key(group_id: str) -> TimerKey:
    """The operation that resolves the patterns of a group."""
    return TimerKey(ConsumerTimer.REGEX, group_id)


def member_timers(group_id: str, member: Member) -> tuple[TimerCommand, ...]:
    """Cancel all timers of a member. A load gives a classic one that has to revoke something a
    rebalance timer, too."""
    member_id = member.member_id
    if member.classic_metadata is not None:
        return (
            CancelTimer(session_key(group_id, member_id)),
            CancelTimer(rebalance_key(group_id, member_id)),
            CancelTimer(join_key(group_id, member_id)),
            CancelTimer(sync_key(group_id, member_id)),
        )
    return (
        CancelTimer(session_key(group_id, member_id)),
        CancelTimer(rebalance_key(group_id, member_id)),
    )
