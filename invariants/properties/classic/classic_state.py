"""The state of a classic group: generations, states, members, leader, timers.

Source: classic §1, §2.9, §10.1, C1-C6, C12, C14.
"""

from __future__ import annotations

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.model.classic_model import ClassicLook, GroupPicture, lacks_session
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import join_key, session_key, sync_key

ORDER = 160


EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE


class _OfClassicGroup(Property):
    """A property about the state of a classic group: judged where a step has touched it."""

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Judge what was touched."""
        return None if look.picture is None else self._judge(look.picture)

    def _judge(self, seen: GroupPicture) -> Finding | None:
        raise NotImplementedError


class ClassicTimersArmed(_OfClassicGroup):
    """classic C12."""

    id = "classic.timers_armed"
    sentence = (
        "PreparingRebalance has a join timer, CompletingRebalance with members that are to "
        "sync a sync timer; every member without a parked request, and every id that was "
        "handed out, has a session timer."
    )
    clauses = ("classic C12", "classic §2.9")
    violated_by = (
        "KAFKA-12890",
        "KAFKA-9801",
    )

    def _judge(self, seen: GroupPicture) -> Finding | None:
        finding = self._find(seen)
        if finding is not None and self.model.group_in(seen.shard) is not None:
            # What a write has made that failed goes as soon as that is known, in the next step; the
            # group that the same write had ended is there again.
            return None
        return finding

    def _find(self, seen: GroupPicture) -> Finding | None:
        group = seen.group
        armed, group_id = seen.shard.armed_timers, group.group_id
        if group.state is PREPARING and join_key(group_id) not in armed:
            return Finding("the group is PreparingRebalance without a join timer")
        if group.state is COMPLETING and group.pending_sync and sync_key(group_id) not in armed:
            waits_for = listed(sorted(group.pending_sync))
            return Finding(f"the group waits for SyncGroups of {waits_for} without a sync timer")
        for member_id in sorted(seen.touched):
            if lacks_session(group, seen.shard, member_id):
                return Finding(f"member {member_id} has no session timer", member=member_id)
        for member_id in sorted(group.pending_join):
            if session_key(group_id, member_id) not in armed:
                return Finding(f"the id {member_id}, not used yet, has no session timer")
        return None


class ClassicJoinPhaseEnds(_OfClassicGroup):
    """Whoever was waited for may have joined, left, or never used the id that it was given."""

    id = "classic.join_phase_ends"
    sentence = (
        "Once every member has joined and no id is pending, the join phase is over, unless it "
        "began in an empty group, or the group is full, and may have refused whom it waited for."
    )
    clauses = ("classic §1.5", "classic §2.2", "classic §2.9", "defects L1")
    violated_by = ("KAFKA-7909",)

    def _judge(self, seen: GroupPicture) -> Finding | None:
        group = seen.group
        if (
            group.state is not PREPARING
            or group.previous_state is EMPTY
            or group.pending_join
            or seen.awaiting_count != len(group.members)
            # A member that is refused for size is removed, and nobody looks at the phase.
            or seen.awaiting_count >= seen.shard.configs.broker.group_max_size
        ):
            return None
        return Finding(
            f"all {len(group.members)} members have joined, and the group is still "
            f"{group.state.value}"
        )
