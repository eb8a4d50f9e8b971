"""Members of a generation: whoever comes or goes ends it, and nothing else does.

Sources: classic §1.4, §2.3-§2.5, §2.8, §2.9.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicLook, GroupSnapshot, MemberNote
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.assignors.classic.classic_assignor import ungrouped
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
)
from rebalance_sim.protocol.wire.embedded import Assignment, Subscription

ORDER = 161

_HAS_GENERATION = (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)


class MembersOfGeneration(Property):
    """classic §1.4, the triggers of a rebalance. A static heir is the same member."""

    id = "classic.members_of_generation"
    sentence = (
        "A generation keeps its members: when one comes, leaves, or is removed by a timer, the "
        "group begins to rebalance."
    )
    clauses = ("classic §1.4", "classic §2.3", "classic §2.8", "classic §2.9")
    violated_by = ("test:classic-leave-without-rebalance", "test:classic-arrival-unnoticed")
    interest = Interest(is_in_changes=True)

    def on_classic(self, step: object, look: ClassicLook) -> Finding | None:
        """Count the members before and after, where the generation is the same."""
        before, now = look.before, look.now
        if (
            before is None
            or now is None
            or not look.is_same_group
            or before.member_count == now.member_count
            or before.generation_id != now.generation_id
            or before.state not in _HAS_GENERATION
            or now.state not in _HAS_GENERATION
        ):
            return None
        return Finding(
            f"generation {now.generation_id} went from {before.member_count} to "
            f"{now.member_count} members, and the group stays {now.state.value}"
        )


class HeirEndsGeneration(Property):
    """classic §2.5. The leader may be assigning to the id that is no more."""

    id = "classic.heir_ends_generation"
    sentence = (
        "When a static member comes back while its group waits for assignments, the group begins "
        "to rebalance."
    )
    clauses = ("classic §2.5",)
    violated_by = ("KAFKA-9801",)
    interest = Interest(is_in_changes=True)

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Has a JoinGroup put another id in the place of one, and no more?"""
        before, now = look.before, look.now
        if (
            not look.gone
            or type(step.request) is not JoinGroupRequest
            or before is None
            or now is None
            or not look.is_same_group
            or before.state is not ClassicGroupState.COMPLETING_REBALANCE
            or now.state not in _HAS_GENERATION
            or before.generation_id != now.generation_id
        ):
            return None
        return Finding(
            f"{', '.join(sorted(look.gone))} of generation {now.generation_id} came back under "
            f"another id, and the group stays {now.state.value}"
        )


class SessionEnds(Property):
    """classic §2.9, the rows of the session timer. A parked request stands for heartbeats, but for
    that of a newcomer, who has no other bound."""

    id = "classic.session_ends"
    sentence = (
        "When the session timer of a member of a classic group fires, that member is removed, "
        "unless its SyncGroup is parked, or, once it has had a generation, its JoinGroup."
    )
    clauses = ("classic §2.9",)
    violated_by = ("test:classic-waiting-is-silence", "test:classic-silence-is-forgiven")
    interest = Interest(is_in_changes=True)

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Is the member whose timer has fired there, and has it waited?"""
        if (
            step.kind is not StepKind.COORDINATOR_TIMER
            or step.event.kind != ClassicTimer.SESSION
            or look.group is None
            or not look.is_same_group
        ):
            return None
        member_id = step.event.member_id
        note = (look.notes_before or {}).get(member_id)
        if note is not None:
            what = self._parked(look, member_id, note)
            if what is None:
                return None
            return self._finding(
                member_id, f"is removed by its session timer, and its {what} waits"
            )
        note = look.classic_model.members.get(member_id)
        if note is None or note.awaits_join or note.awaits_sync:
            return None
        return self._finding(
            member_id, "is still a member; its session timer has fired, and nothing of it is parked"
        )

    def _parked(self, look: ClassicLook, member_id: str, note: MemberNote) -> str | None:
        """What a member waits for, if that stands for heartbeats."""
        if note.awaits_sync:
            return "SyncGroup"
        written = look.before and look.classic_model.written.get(look.before.generation_id)
        if note.awaits_join and written and member_id in written.assignments:
            return "JoinGroup"
        return None

    def _finding(self, member_id: str, what: str) -> Finding:
        return Finding(f"{member_id} {what}", {"member": member_id})


class RebalanceCause(Property):
    """classic §1.4, the triggers of a rebalance, the other way round. Whoever comes or goes changes
    the number of members; what else there is, is a JoinGroup that says something new, and a write
    that failed."""

    id = "classic.rebalance_cause"
    sentence = (
        "A generation ends when a member comes or goes (one that has only been given its id and "
        "leaves, too), when a member joins with other metadata than before, when the leader of a "
        "stable group joins again, when a static member returns in whose absence something may "
        "have changed, or for whose partitions others wait, or when the assignment cannot be "
        "written."
    )
    clauses = ("classic §1.4", "classic §2.4", "classic §2.5", "classic §2.8")
    violated_by = ("test:classic-rebalance-for-nothing", "test:classic-rebalance-for-an-heir")
    interest = Interest(is_in_changes=True)

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Has a join phase begun (maybe it is over by now), and if so, what for?"""
        before, now = look.before, look.now
        if (
            before is None
            or now is None
            or not look.is_same_group
            or before.state not in _HAS_GENERATION
            or before.member_count != now.member_count
            or (now.state in _HAS_GENERATION and now.generation_id == before.generation_id)
        ):
            return None
        if type(step.request) is JoinGroupRequest and step.kind is StepKind.COORDINATOR_REQUEST:
            if self._is_due(step.request, look, before):
                return None
        elif type(step.request) is LeaveGroupRequest:
            if now.pending_join_count < before.pending_join_count:
                return None
        elif step.detail and before.state is ClassicGroupState.COMPLETING_REBALANCE:
            return None  # What was to be written could not be.
        return Finding(
            f"generation {before.generation_id} ends in a group that was {before.state.value}; "
            f"all {now.member_count} members are as they were"
        )

    def _is_due(self, request: JoinGroupRequest, look: ClassicLook, before: GroupSnapshot) -> bool:
        note = look.joined_before
        is_stable = before.state is ClassicGroupState.STABLE
        if note is None:
            return False
        if request.member_id:
            leads = request.member_id == before.leader_id
            return (leads and is_stable) or request.protocols != note.protocols
        if not is_stable:
            return True
        if tuple(protocol.name for protocol in request.protocols) != note.protocol_names:
            return True  # Another assignor may be selected.
        return self.model.rules().rebalances_on_return and (
            before.leader_id in look.gone
            or _topics(request.protocols) != _topics(note.protocols)
            or self._was_to_give_up(request, look, note)
        )

    def _was_to_give_up(
        self, request: JoinGroupRequest, look: ClassicLook, note: MemberNote
    ) -> bool:
        """Whether others wait for what the member of before owned, and has not been assigned."""
        group = look.group
        if group is None:
            return False
        heir = group.members[group.static_members[request.group_instance_id or ""]]
        given = heir.assignment.partitions if isinstance(heir.assignment, Assignment) else ()
        claimed = {
            partition
            for protocol in note.protocols
            if isinstance(protocol.metadata, Subscription)
            for partition in ungrouped(protocol.metadata.owned_partitions)
        }
        return not claimed <= set(ungrouped(given))


def _topics(protocols: tuple[JoinGroupProtocol, ...]) -> set[str]:
    """What a JoinGroup subscribes to, by whichever assignor."""
    return {
        topic
        for protocol in protocols
        if isinstance(protocol.metadata, Subscription)
        for topic in protocol.metadata.topics
    }
