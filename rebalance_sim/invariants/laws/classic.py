"""Classic groups: what members learn of a generation, and that its join phase ends.

Source: classic §1.5, §2.2-§2.9, §8.3, §10.1, C7, C15.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicLook, ClassicModel
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.property import Finding, Interest, Property, notes
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    SyncGroupRequest,
)


class ClassicJoinPhaseEnds(Property):
    """Members that were waited for may have joined, left, or never used the id that it was given. A
    member that is refused for size is removed, and no one looks at the phase."""

    id = "classic.join_phase_ends"
    sentence = (
        "Once every member has joined and no id is pending, the join phase is over, unless it "
        "began in an empty group, or the group is full."
    )
    clauses = ("classic §1.5", "classic §2.2", "classic §2.9", "defects L1")
    violated_by = ("KAFKA-7909",)

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Is anybody waited for?"""
        group, count = look.group, look.classic_model.awaiting_count
        if (
            group is None
            or group.state is not ClassicGroupState.PREPARING_REBALANCE
            or group.previous_state is ClassicGroupState.EMPTY
            or group.pending_join
            or count != len(group.members)
            or count >= look.shard.configs.broker.group_max_size
        ):
            return None
        return Finding(f"all {count} members have joined, and the group is {group.state.value}")


class ClassicSyncIsDurable(Property):
    """classic C7."""

    id = "classic.sync_is_durable"
    sentence = (
        "A SyncGroup of a generation succeeds only when the leader's assignment is committed, "
        "with what that gives to the member."
    )
    clauses = ("classic C7", "classic §2.6", "classic §8.3")
    violated_by = ("KAFKA-9801", "classic-early-sync")
    _failed: set[str] = notes(set)
    """Shards where a write has failed in this term, and a conversion may have been undone."""

    def on_truncated(self, step: Step) -> None:
        """What was written before is not known any more."""
        self._failed.add(step.shard.name)

    def on_loaded(self, step: Step, ledger: GroupLedger) -> None:
        """It is known again."""
        self._failed.discard(step.shard.name)

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Is the record committed, and does it say so?"""
        request, response = step.request, step.response
        is_sync = isinstance(request, SyncGroupRequest) and not response.error_code
        if not is_sync or classic_model.group is None:
            return None
        written, shard = classic_model.written.get(request.generation_id), step.shard
        committed = shard.high_watermark
        if written is None and shard.name in self._failed:
            return None
        if written is None:
            why = "of which nothing was written"
        elif written.end_offset > committed:
            why = f"whose record ends at offset {written.end_offset}, and committed is {committed}"
        elif response.assignment != written.assignments.get(request.member_id):
            why = "and was given something else than its leader gave to it"
        else:
            return None
        return Finding(
            f"{request.member_id} synced generation {request.generation_id}, {why}",
            member=request.member_id,
        )


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
        return None if step.response is None else self._judge(step, classic_model)

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """Look at what was parked."""
        is_parked = isinstance(step.request, (JoinGroupRequest, SyncGroupRequest))
        return self._judge(step, classic_model) if is_parked else None

    def _judge(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        member_id = step.request.member_id
        if member_id not in classic_model.gone or step.response.error_code:
            return None
        what = type(step.request).__name__.removesuffix("Request")
        return Finding(f"{member_id} was removed, and its {what} is granted")
