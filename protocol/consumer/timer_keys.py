"""Keys of the timers that a consumer group keeps for each member.

Sources: coordinator §4.1; classic §7.7.
"""

from __future__ import annotations

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.runtime.outcome import CancelTimer, TimerCommand, TimerKey

__all__ = ["join_key", "member_timers", "rebalance_key", "session_key", "sync_key"]


def session_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a member whose heartbeats stop."""
    return TimerKey("session", group_id, member_id)


def rebalance_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a member that does not acknowledge a revocation."""
    return TimerKey("rebalance", group_id, member_id)


def join_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a classic member that was called back and does not rejoin."""
    return TimerKey("mixed-join", group_id, member_id)


def sync_key(group_id: str, member_id: str) -> TimerKey:
    """The timer that removes a classic member that rejoins and does not fetch its assignment."""
    return TimerKey("mixed-sync", group_id, member_id)


def member_timers(group_id: str, member: Member) -> tuple[TimerCommand, ...]:
    """Cancel all timers of a member."""
    member_id = member.member_id
    if member.classic_metadata is not None:
        return (
            CancelTimer(session_key(group_id, member_id)),
            CancelTimer(join_key(group_id, member_id)),
            CancelTimer(sync_key(group_id, member_id)),
        )
    return (
        CancelTimer(session_key(group_id, member_id)),
        CancelTimer(rebalance_key(group_id, member_id)),
    )
