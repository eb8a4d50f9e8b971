"""What is wrong for good at a shard since a batch of it could not be written.

Sources: coordinator §4.1, §15, D14: timers are set and cancelled while a request is handled, and
stay so when its records are rolled back; classic §7.5: the session of a classic member that joins a
consumer group begins when its records are committed, and never if that takes too long.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer, session_key
from rebalance_sim.protocol.runtime.outcome import TimerKey


class FailedWrites:
    """Shard -> members of one group whose timers went with a batch that failed."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._unwatched: dict[str, set[tuple[str, str]]] = {}
        self._left_armed: dict[str, dict[tuple[str, str], int]] = {}
        self._joined_in_vain: dict[str, set[str]] = {}

    def note(self, shard: ShardView, ledger: GroupLedger) -> None:
        """A batch has failed, and memory is back where it was: whose timers are not?"""
        lost = self._unwatched.setdefault(shard.name, set())
        left_armed = self._left_armed.setdefault(shard.name, {})
        for member_id, entry in ledger.members.items():
            for kind in ("session", "rebalance"):
                if self._lacks_timer(shard, member_id, entry, kind):
                    lost.add((member_id, kind))
                timer = shard.armed_timers.get(
                    TimerKey(ConsumerTimer(kind), self._group_id, member_id)
                )
                if timer is not None:
                    left_armed[member_id, kind] = timer.at_ms

    def note_join(self, shard: ShardView, member_id: str) -> None:
        """The join of a classic member was not committed in time, but its records stay."""
        self._joined_in_vain.setdefault(shard.name, set()).add(member_id)

    def leave_unwatched(self, shard: ShardView, ledger: GroupLedger) -> bool:
        """Whether some member has no session since its join was not committed in time."""
        return any(
            member_id in ledger.members
            and session_key(self._group_id, member_id) not in shard.armed_timers
            for member_id in self._joined_in_vain.get(shard.name, ())
        )

    def forget(self, shard_name: str) -> None:
        """A load arms all timers anew."""
        self._unwatched.pop(shard_name, None)
        self._left_armed.pop(shard_name, None)
        self._joined_in_vain.pop(shard_name, None)

    def explains(self, shard: ShardView, member_id: str, kind: str) -> bool:
        """Whether a member lost this timer so."""
        return (member_id, kind) in self._unwatched.get(shard.name, ())

    def left_armed(self, shard: ShardView, member_id: str, kind: str, at_ms: int) -> bool:
        """Whether the timer that is due now was armed as a batch failed, and not anew since: what
        was rolled back may have armed it."""
        return self._left_armed.get(shard.name, {}).get((member_id, kind)) == at_ms

    def hold_up(self, shard: ShardView, ledger: GroupLedger) -> bool:
        """Whether some member is still without a timer that it lost so."""
        return any(
            member_id in ledger.members
            and self._lacks_timer(shard, member_id, ledger.members[member_id], kind)
            for member_id, kind in self._unwatched.get(shard.name, ())
        )

    def _lacks_timer(self, shard: ShardView, member_id: str, entry: MemberEntry, kind: str) -> bool:
        if kind == "rebalance" and (entry.current is None or not entry.current.pending_revocation):
            return False
        timer = shard.armed_timers.get(TimerKey(ConsumerTimer(kind), self._group_id, member_id))
        # A rebalance timer does nothing to a member that is at another epoch.
        return timer is None or (kind == "rebalance" and timer.epoch != entry.epoch)
