"""Members of a generation: whoever comes or goes ends it.

Sources: classic §1.4, §2.3, §2.5, §2.8, §2.9.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicLook
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest

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
