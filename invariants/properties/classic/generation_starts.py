"""What members of a classic group have when a generation begins: a leader that knows of it, and
time to go on.

Sources: classic §1.5, §1.6, §2.6, §2.9.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicLook, ClassicModel
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.operation import session_key
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 166

_COMPLETING = ClassicGroupState.COMPLETING_REBALANCE


def _begins_generation(look: ClassicLook) -> bool:
    """Has a join phase ended, with members? A write that is taken back brings no generation."""
    now, before = look.now, look.before
    return (
        now is not None
        and look.step.kind is not StepKind.LOG_TRUNCATED
        and now.state is _COMPLETING
        and (before is None or not look.is_same_group or before.generation_id < now.generation_id)
    )


class SessionsRenewed(Property):
    """classic §2.9, first row. While a request is parked no session is over, and a timer that runs
    out then is not armed again by anything else."""

    id = "classic.sessions_renewed"
    sentence = (
        "When the JoinGroups or SyncGroups of a generation are answered, the sessions of their "
        "senders begin anew."
    )
    clauses = ("classic §1.5", "classic §2.6", "classic §2.9")
    violated_by = ("PR-451",)
    interest = Interest(is_in_changes=True)

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Look at all who were waiting."""
        group, before = look.group, look.before
        if group is None:
            return None
        if _begins_generation(look):
            # Static members that did not join may still be members.
            waited = [m for m, one in group.members.items() if one.group_instance_id is None]
        elif (
            step.kind is StepKind.COORDINATOR_WRITTEN
            and not step.detail
            and before is not None
            and before.state is _COMPLETING
            and group.state is ClassicGroupState.STABLE
        ):
            # Who was answered with REBALANCE_IN_PROGRESS by a conversion that was refused, or could
            # not be written, waits no more (classic §7.3, step 1).
            waited = [
                request.member_id
                for request in look.classic_model.parked.values()
                if type(request) is SyncGroupRequest
                and request.member_id in group.members
                and request.member_id not in group.pending_sync
            ]
        else:
            return None
        renewed = {command.key for command in step.timers if type(command) is ScheduleTimer}
        for member_id in sorted(waited):
            if session_key(group.group_id, member_id) not in renewed:
                return Finding(
                    f"{member_id} was answered in generation {group.generation_id}, and its "
                    "session goes on from before",
                    {"member": member_id},
                )
        return None


class LeaderHasJoined(Property):
    """classic §1.6. A dynamic member that has not joined is none any more."""

    id = "classic.leader_has_joined"
    sentence = (
        "Whoever leads a generation has joined it: a static leader that was silent gives way to "
        "a member that was not."
    )
    clauses = ("classic §1.5", "classic §1.6")
    violated_by = ("mut-silent-leader",)
    interest = Interest(is_in_changes=True)

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._failed: set[str] = set()
        """Shards at which a JoinGroup of the join phase was answered with the error of its write,
        or that this took too long, while its sender counts as if it still waited (classic §8.3)."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Nobody waits."""
        self._failed.discard(step.shard.name)
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """A write is taken back, by which somebody had waited."""
        self._failed.add(step.shard.name)
        return None

    def on_written(self, step: Step) -> Finding | None:
        """Has a write failed?"""
        if step.detail:
            self._failed.add(step.shard.name)
        return None

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Did a write take too long?"""
        response = step.response
        if (
            isinstance(response, JoinGroupResponse)
            and response.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
        ):
            self._failed.add(step.shard.name)
        return None

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Is the JoinGroup of the leader among those that were waiting?"""
        group = look.group
        if group is None or not _begins_generation(look):
            return None
        leader = group.members.get(group.leader_id or "")
        if leader is None or leader.group_instance_id is None:
            return None
        joins = [step.request, *look.classic_model.parked.values()]
        if look.shard.name in self._failed or any(
            type(request) is JoinGroupRequest
            and (
                leader.group_instance_id == request.group_instance_id
                or leader.member_id == request.member_id  # It need not say its instance id again.
            )
            for request in joins
        ):
            self._failed.discard(look.shard.name)
            return None
        return Finding(
            f"{leader.member_id} leads generation {group.generation_id}, and has not joined it",
            {"member": leader.member_id},
        )
