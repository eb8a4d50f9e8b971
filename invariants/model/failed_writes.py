"""What is wrong for good at a shard since a batch of it could not be written.

Sources: coordinator §4.1, §15, D14: timers are set and cancelled while a request is handled, and
stay so when its records are rolled back; classic §7.5: the session of a classic member that joins a
consumer group begins when its records are committed, and never if that takes too long.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.explanation import Seen, Subject
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.step import ShardView
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer, session_key
from rebalance_sim.protocol.runtime.outcome import TimerCommand, TimerKey


class FailedWrites:
    """Shard -> members of one group whose timers went with a batch that failed."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._unwatched: dict[str, dict[tuple[str, str], Seen]] = {}
        self._left_armed: dict[str, dict[tuple[str, str], Seen]] = {}
        self._joined_in_vain: dict[str, dict[str, Seen]] = {}

    def note(self, shard: ShardView, ledger: GroupLedger, step: int, at_ms: int) -> None:
        """A batch has failed, and memory is back where it was: whose timers are not?"""
        lost = self._unwatched.setdefault(shard.name, {})
        left_armed = self._left_armed.setdefault(shard.name, {})
        for member_id, entry in ledger.members.items():
            for kind in ("session", "rebalance"):
                if self._lacks_timer(shard, member_id, entry, kind):
                    lost[member_id, kind] = Seen(
                        subject=Subject(member=member_id),
                        step=step,
                        at_ms=at_ms,
                        what=f"a batch that could not be written took the {kind} timer of "
                        f"{member_id} with it",
                    )
                timer = shard.armed_timers.get(
                    TimerKey(ConsumerTimer(kind), self._group_id, member_id)
                )
                if timer is None:
                    left_armed.pop((member_id, kind), None)
                else:
                    left_armed[member_id, kind] = Seen(
                        subject=Subject(member=member_id),
                        step=step,
                        at_ms=at_ms,
                        what=f"a batch that could not be written left the {kind} timer of "
                        f"{member_id} armed",
                    )

    def note_join(self, shard: ShardView, member_id: str, step: int, at_ms: int) -> None:
        """The join of a classic member was not committed in time, but its records stay."""
        self._joined_in_vain.setdefault(shard.name, {})[member_id] = Seen(
            subject=Subject(member=member_id),
            step=step,
            at_ms=at_ms,
            what=f"the join of {member_id} was not committed in time, and is",
        )

    def unwatched(self, shard: ShardView, ledger: GroupLedger) -> tuple[Seen, ...]:
        """The members without a session since their join was not committed in time."""
        return tuple(
            seen
            for member_id, seen in self._joined_in_vain.get(shard.name, {}).items()
            if member_id in ledger.members
            and session_key(self._group_id, member_id) not in shard.armed_timers
        )

    def forget(self, shard_name: str) -> None:
        """A load arms all timers anew."""
        self._unwatched.pop(shard_name, None)
        self._left_armed.pop(shard_name, None)
        self._joined_in_vain.pop(shard_name, None)

    def lost(self, shard: ShardView, member_id: str, kind: str) -> Seen | None:
        """How a member lost this timer, if it did so."""
        return self._unwatched.get(shard.name, {}).get((member_id, kind))

    def note_timers(self, shard: ShardView, commands: Iterable[TimerCommand]) -> None:
        """Timers were set, or cancelled: none of them is what a failed batch has left."""
        left_armed = self._left_armed.get(shard.name)
        if left_armed:
            for command in commands:
                key = command.key
                if key.group_id == self._group_id:
                    left_armed.pop((key.member_id, key.kind), None)

    def left_armed(self, shard: ShardView, member_id: str, kind: str) -> Seen | None:
        """Whether the timer that has fired was armed as a batch failed, and not anew since: what
        was rolled back may have armed it. While a coordinator stalls timers fire late."""
        return self._left_armed.get(shard.name, {}).get((member_id, kind))

    def still_lost(self, shard: ShardView, ledger: GroupLedger) -> tuple[Seen, ...]:
        """The members that are still without a timer that they lost so."""
        return tuple(
            seen
            for (member_id, kind), seen in self._unwatched.get(shard.name, {}).items()
            if member_id in ledger.members
            and self._lacks_timer(shard, member_id, ledger.members[member_id], kind)
        )

    def _lacks_timer(self, shard: ShardView, member_id: str, entry: MemberEntry, kind: str) -> bool:
        if kind == "rebalance" and (entry.current is None or not entry.current.pending_revocation):
            return False
        timer = shard.armed_timers.get(TimerKey(ConsumerTimer(kind), self._group_id, member_id))
        # A rebalance timer does nothing to a member that is at another epoch.
        return timer is None or (kind == "rebalance" and timer.epoch != entry.epoch)
