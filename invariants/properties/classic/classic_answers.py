"""What members of a classic group are told: generations, assignments, refusals, commits.

Source: classic §2, §8.3, §8.4, §10.1, C5, C7, C8, C15.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 170


class ClassicSyncIsDurable(Property):
    """classic C7."""

    id = "classic.sync_is_durable"
    sentence = (
        "A SyncGroup of a generation succeeds only when the leader's assignment is committed, "
        "with what that gives to the member."
    )
    clauses = ("classic C7", "classic §2.6", "classic §8.3")
    violated_by = (
        "KAFKA-9801",
        "classic-early-sync",
    )

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Is the record committed, and does it say so?"""
        request, response = step.request, step.response
        if (
            not isinstance(request, SyncGroupRequest)
            or not isinstance(response, SyncGroupResponse)
            or response.error_code is not ErrorCode.NONE
            or classic_model.group is None
        ):
            return None
        member_id, generation_id = request.member_id, request.generation_id
        written = classic_model.written.get(generation_id)
        if written is None:
            return Finding(
                f"{member_id} synced generation {generation_id}, of which nothing was written"
            )
        committed = step.shard.high_watermark
        if written.end_offset > committed:
            return Finding(
                f"{member_id} synced generation {generation_id}; its record ends at offset "
                f"{written.end_offset}, committed is {committed}",
                member=member_id,
            )
        if response.assignment != written.assignments.get(member_id):
            return Finding(
                f"{member_id} was given something else than the leader of generation "
                f"{generation_id} gave to it"
            )
        return None


class ClassicCommitFenced(Property):
    """classic C8."""

    id = "classic.commit_fenced"
    sentence = (
        "A commit to a classic group with members is stored only for one of them, at the "
        "present generation, and not in CompletingRebalance; without members only at none."
    )
    clauses = ("classic C8", "classic §8.4", "defects S4")
    violated_by = ("test:classic-commit-unfenced",)

    def on_classic_commit(
        self, step: Step, stored: Sequence[TopicPartition], classic_model: ClassicModel
    ) -> Finding | None:
        """Look at who committed, and when."""
        request: OffsetCommitRequest = step.request
        group = classic_model.group
        if group is None:
            return None
        generation_id, member_id = request.generation_id_or_member_epoch, request.member_id
        if not group.members:
            if generation_id < 0:
                return None
            return Finding(
                f"a commit of {member_id or 'nobody'} at generation {generation_id} was stored "
                "for a group without members"
            )
        if member_id not in group.members:
            return Finding(f"a commit of {member_id or 'nobody'}, who is no member, was stored")
        if generation_id != group.generation_id:
            return Finding(
                f"a commit of {member_id} at generation {generation_id} was stored; the group is "
                f"at {group.generation_id}"
            )
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            return Finding(f"a commit of {member_id} was stored in CompletingRebalance")
        return None


class ClassicRemovedMemberRefused(Property):
    """classic C15, where the coordinator decides; a parked request is answered when it is let
    go."""

    id = "classic.removed_member_refused"
    sentence = (
        "A member id that was removed or replaced has no request granted any more, as long as "
        "the same coordinator has the group."
    )
    clauses = ("classic C15", "classic §2.5")
    violated_by = ("test:classic-ghost-heartbeat",)
    interest = Interest(requests=(HeartbeatRequest,))

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Look at what is answered at once."""
        request, response = step.request, step.response
        if not isinstance(request, HeartbeatRequest) or response is None:
            return None
        return self._judge(step, classic_model)

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Look at what was parked."""
        if not isinstance(step.request, (JoinGroupRequest, SyncGroupRequest)):
            return None
        return self._judge(step, classic_model)

    def _judge(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        member_id = step.request.member_id
        if not member_id or member_id not in classic_model.gone:
            return None
        if step.response.error_code is not ErrorCode.NONE:
            return None
        return self._found(member_id, type(step.request).__name__.removesuffix("Request"))

    def _found(self, member_id: str, what: str) -> Finding:
        return Finding(f"{member_id} was removed, and its {what} is granted")
