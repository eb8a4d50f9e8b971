"""The state of a classic group: generations, states, members, leader, timers.

Source: classic §1, §2.9, §10.1, C1-C6, C12, C14.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.model.classic_model import ClassicLook, GroupPicture, lacks_session
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step, StepKind, WorldView
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import join_key, session_key, sync_key
from rebalance_sim.protocol.wire.classic_records import ClassicMemberValue

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

    def full(self, view: WorldView) -> Finding | None:
        """Judge all members, counted anew."""
        picture = self.model.acting_picture()
        return None if picture is None else self._judge(picture)

    def _judge(self, seen: GroupPicture) -> Finding | None:
        raise NotImplementedError


class ClassicGenerationSteps(Property):
    """classic C1."""

    id = "classic.generation_steps"
    sentence = (
        "While a coordinator holds a classic group, its generation grows by one at each end of "
        "a join phase, the first time to a number that no former coordinator can have given, and "
        "changes at no other time."
    )
    clauses = ("classic C1", "classic §1.4", "classic §8.2")
    violated_by = ("test:classic-generation-skipped", "test:classic-generation-back")
    interest = Interest(is_in_changes=True)

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Compare the numbers before and after."""
        before, now = look.before, look.now
        if before is None or now is None or not look.is_same_group:
            return None
        grown = now.generation_id - before.generation_id
        if grown > 1 and now.generation_id == self.model.rules().first_generation(
            look.shard.coordinator.term
        ):
            grown = 1
        enters = now.state in (COMPLETING, EMPTY) and now.state is not before.state
        if grown == enters or (grown == 1 and now.state is before.state is COMPLETING):
            return None
        return Finding(
            f"the generation went from {before.generation_id} to {now.generation_id} while the "
            f"group went from {before.state.value} to {now.state.value}"
        )


_IN_ONE_STEP: Mapping[ClassicGroupState, tuple[ClassicGroupState, ...]] = {
    EMPTY: (EMPTY, PREPARING, COMPLETING),
    PREPARING: (PREPARING, COMPLETING, EMPTY),
    COMPLETING: (COMPLETING, PREPARING, EMPTY),
    STABLE: (STABLE, PREPARING, COMPLETING, EMPTY),
}
"""classic §1.4, with the ways that begin and end a join phase in one step. Only a commit leads from
CompletingRebalance to Stable."""


class ClassicLegalState(_OfClassicGroup):
    """classic C2."""

    id = "classic.legal_state"
    sentence = (
        "A classic group takes only the legal transitions; it is Empty without members, and "
        "has members in CompletingRebalance and Stable."
    )
    clauses = ("classic C2", "classic §1.4")
    violated_by = ("test:classic-stable-without-commit", "test:classic-empty-with-members")
    interest = Interest(is_in_changes=True)

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Compare the states before and after."""
        before, now = look.before, look.now
        if before is not None and now is not None and look.is_same_group:
            allowed = _IN_ONE_STEP.get(before.state, ())
            is_commit = (before.state, now.state) == (COMPLETING, STABLE) and (
                look.step.kind is StepKind.COORDINATOR_WRITTEN and not look.step.detail
            )
            if now.state not in allowed and not is_commit:
                return Finding(
                    f"the group went from {before.state.value} to {now.state.value} "
                    f"in a step of kind {look.step.kind.value}"
                )
        return super().on_classic(step, look)

    def _judge(self, seen: GroupPicture) -> Finding | None:
        group = seen.group
        count = len(group.members)
        fits = group.state in (EMPTY, PREPARING) if not count else group.state is not EMPTY
        return None if fits else Finding(f"the group is {group.state.value} with {count} members")


class ClassicAwaitingCounted(_OfClassicGroup):
    """classic C3."""

    id = "classic.awaiting_join"
    sentence = (
        "The number of members that await a join is that of the parked JoinGroups: none in "
        "CompletingRebalance, and in Stable only of static members that wait for a write."
    )
    clauses = ("classic C3",)
    violated_by = ("test:classic-awaiting-miscounted", "test:classic-forgotten-join")
    interest = Interest(is_in_changes=True)

    def _judge(self, seen: GroupPicture) -> Finding | None:
        group = seen.group
        if group.num_awaiting_join != seen.awaiting_count:
            return Finding(
                f"{group.num_awaiting_join} members are said to await a join, "
                f"{seen.awaiting_count} have a parked JoinGroup"
            )
        if not seen.awaiting_count or group.state not in (COMPLETING, STABLE):
            return None
        for member_id in sorted(seen.touched):
            member = group.members[member_id]
            if member.awaiting_join is None:
                continue
            if group.state is COMPLETING or member.group_instance_id is None:
                return Finding(f"{member_id} awaits a join and the group is {group.state.value}")
        return None


class ClassicIdsApart(_OfClassicGroup):
    """classic C4."""

    id = "classic.ids_apart"
    sentence = (
        "An id that was only handed out is no member's; whoever is to sync is a member; each "
        "static member, and nobody else, stands under its instance id."
    )
    clauses = ("classic C4",)
    violated_by = ("test:classic-pending-member", "test:classic-instance-lost")

    def _judge(self, seen: GroupPicture) -> Finding | None:
        group = seen.group
        members = group.members
        if group.pending_join:
            both = group.pending_join & members.keys()
            if both:
                return Finding(f"{min(both)} is a member, and its id counts as not used yet")
        if group.pending_sync:
            strangers = group.pending_sync - members.keys()
            if strangers:
                return Finding(f"{min(strangers)} is to sync and is no member")
        for member_id in sorted(seen.touched):
            instance_id = members[member_id].group_instance_id
            if instance_id is not None and group.static_members.get(instance_id) != member_id:
                holder = group.static_members.get(instance_id, "nobody")
                return Finding(f"{member_id} has instance id {instance_id}, held by {holder}")
        for instance_id, member_id in group.static_members.items():
            if member_id not in members:
                return Finding(f"instance id {instance_id} is held by {member_id}, no member")
        return None


class ClassicLeaderIsMember(_OfClassicGroup):
    """First clause of classic C5."""

    id = "classic.leader_is_member"
    sentence = "A classic group with members is led by one of them, any other by nobody."
    clauses = ("classic C5", "classic §1.6")
    violated_by = ("test:classic-leader-gone",)
    interest = Interest(is_in_changes=True)

    def _judge(self, seen: GroupPicture) -> Finding | None:
        group = seen.group
        leader = group.leader_id
        if leader in group.members if group.members else leader is None:
            return None
        return Finding(
            f"a group of {len(group.members)} members is led by {leader or 'nobody'}, no member"
            if leader
            else f"a group of {len(group.members)} members has no leader"
        )


class ClassicProtocolsCounted(_OfClassicGroup):
    """classic C6."""

    id = "classic.protocols_counted"
    sentence = (
        "The number of members that offer an assignor is counted rightly, and every member of "
        "a generation offers the one that was selected."
    )
    clauses = ("classic C6", "classic §1.7")
    violated_by = ("test:classic-protocols-miscounted", "test:classic-foreign-protocol")

    def _judge(self, seen: GroupPicture) -> Finding | None:
        group, counts = seen.group, seen.protocol_counts
        if group.supported_protocols != counts:
            found = group.supported_protocols
            odd = min(name for name in {*found, *counts} if found.get(name) != counts.get(name))
            return Finding(
                f"{found.get(odd, 0)} members are said to offer {odd}, {counts.get(odd, 0)} do"
            )
        if group.state not in (COMPLETING, STABLE):
            return None
        selected = group.protocol_name
        count = 0 if selected is None else counts.get(selected, 0)
        if count == len(group.members):
            return None
        return Finding(
            f"{'nothing' if selected is None else repr(selected)} is selected; {count} of "
            f"{len(group.members)} members offer it"
        )


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
        "test:classic-no-sync-deadline",
        "test:classic-join-timer-lost",
        "test:classic-session-lost",
    )
    relies_on = ("unparked", "restored")

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
            return Finding(
                "the group is PreparingRebalance without a join timer", self._evidence(group)
            )
        if group.state is COMPLETING and group.pending_sync and sync_key(group_id) not in armed:
            waits_for = listed(sorted(group.pending_sync))
            detail = f"the group waits for SyncGroups of {waits_for} without a sync timer"
            return Finding(detail, self._evidence(group))
        for member_id in sorted(seen.touched):
            if lacks_session(group, seen.shard, member_id):
                return Finding(
                    f"member {member_id} has no session timer",
                    {
                        **self._evidence(group),
                        "member": member_id,
                        "is_unparked": self.model.unparked.get(member_id),
                    },
                )
        for member_id in sorted(group.pending_join):
            if session_key(group_id, member_id) not in armed:
                return Finding(
                    f"the id {member_id}, not used yet, has no session timer", self._evidence(group)
                )
        return None

    def _evidence(self, group: ClassicGroup) -> dict[str, object]:
        return {"lost_with_failed_write": self.model.restored.get(group.generation_id)}


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


class ClassicLoadedState(Property):
    """classic C14. A group that has grown too large starts over at once (classic §8.2)."""

    id = "classic.loaded_state"
    sentence = (
        "A load finds a classic group Empty or Stable, at the last generation in the log, with "
        "its members, their leader, the assignor and the assignments, and what each has said."
    )
    clauses = ("classic C14", "classic §8.2")
    violated_by = (
        "test:classic-load-forgets",
        "test:classic-load-forgets-leader",
        "test:classic-load-forgets-assignment",
    )

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Compare with the last record."""
        shard = step.shard
        group = shard.coordinator.groups_of(ClassicGroup).get(self.model.group_id)
        value = ledger.classic
        if value is None:
            if group is None or group.is_simple:
                return None
            return Finding("a classic group is there, and the log has none")
        if group is None:
            return Finding(f"the classic group of generation {value.generation} is not there")
        limit = shard.configs.broker.group_max_size
        wanted = STABLE if value.members else EMPTY
        states = (PREPARING, wanted) if len(value.members) > limit else (wanted,)
        ids = sorted(row.member_id for row in value.members)
        if (
            group.state not in states
            or group.generation_id != value.generation
            or sorted(group.members) != ids
        ):
            return Finding(
                f"the group was loaded as {group.state.value} at generation {group.generation_id} "
                f"with {listed(sorted(group.members))}; the log has generation "
                f"{value.generation} with {listed(ids)}"
            )
        if value.members and (group.leader_id, group.protocol_name) != (
            value.leader,
            value.protocol,
        ):
            return Finding(
                f"the group was loaded with leader {group.leader_id or 'nobody'} and assignor "
                f"{group.protocol_name or 'none'}; the log has {value.leader or 'nobody'} and "
                f"{value.protocol or 'none'}"
            )
        for row in value.members:
            if not _is_as_written(group.members[row.member_id], row):
                return Finding(f"member {row.member_id} was loaded otherwise than it is in the log")
        return None


def _is_as_written(member: ClassicMember, row: ClassicMemberValue) -> bool:
    """An old record may lack the rebalance timeout: then it is that of the session."""
    return (
        member.group_instance_id == row.group_instance_id
        and member.client_id == row.client_id
        and member.client_host == row.client_host
        and member.session_timeout_ms == row.session_timeout_ms
        and member.rebalance_timeout_ms
        == (row.session_timeout_ms if row.rebalance_timeout_ms == -1 else row.rebalance_timeout_ms)
        and member.assignment == row.assignment
        and [metadata for _, metadata in member.protocols] == [row.subscription]
    )
