"""What members of a classic group are told: generations, assignments, refusals, commits.

Source: classic §2, §8.3, §8.4, §10.1, C5, C7, C8, C15.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.invariants.model.classic_model import ClassicLook, ClassicModel
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
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
        "test:classic-sync-before-commit",
        "test:classic-sync-of-another",
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
    violated_by = ("test:classic-commit-unfenced", "test:classic-commit-while-completing")

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
    violated_by = ("test:classic-ghost-heartbeat", "test:classic-ghost-sync")
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


class _Waiting:
    """JoinGroups and SyncGroups at one shard that have no answer yet, by operation."""

    __slots__ = ("held", "newest", "owed")

    def __init__(self) -> None:
        self.held: dict[int, tuple[str, str]] = {}
        """Those that the group keeps -> for which member, and which of the two."""
        self.newest: dict[tuple[str, str], int] = {}
        """The same the other way round: a member's next request takes the place of its last."""
        self.owed: dict[int, tuple[int, str]] = {}
        """Those that it does not keep -> until when they must be answered, and whose they are."""

    def note_repeated(self, step: Step) -> None:
        """Who asks again gives up the first answer, also if its phase ends with that."""
        request = step.request
        if type(request) is JoinGroupRequest or type(request) is SyncGroupRequest:
            key = request.member_id, type(request).__name__.removesuffix("Request")
            if step.response is None and key in self.newest:
                self.newest[key] = step.operation

    def take_overdue(self, step: Step) -> Finding | None:
        """One that should have been answered by now; it is reported once."""
        for operation, (until_ms, member_id) in self.owed.items():
            if step.at_ms > until_ms:
                del self.owed[operation]
                return Finding(
                    f"nobody has answered request {operation} of the shard, of "
                    f"{member_id or 'a new member'}, which has waited since {until_ms} ms at most",
                    member=member_id,
                )
        return None


class ClassicAlwaysAnswered(Property):
    """classic §2.2-§2.6, §2.9. A request that is parked and forgotten keeps its sender out of the
    group until request.timeout.ms is over. Whoever asks again itself gives up the first answer."""

    id = "classic.always_answered"
    sentence = (
        "A JoinGroup or SyncGroup to a classic group is answered at once, or kept for its sender; "
        "when the sender is removed or replaced, its phase ends or the group is converted, it is "
        "answered at once as well, but for the SyncGroup of a member that is made to leave; in a "
        "consumer group it is answered when its write has ended."
    )
    clauses = (
        *("classic §1.5", "classic §2.5", "classic §2.6", "classic §2.8", "classic §2.9"),
        "classic §7.3",
    )
    violated_by = ("test:classic-refuses-silently", "test:classic-forgets-the-replaced")
    judges_mixed = True
    interest = Interest(requests=(JoinGroupRequest, SyncGroupRequest), is_in_changes=True)

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._waiting: dict[str, _Waiting] = {}

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """A new term: nothing is parked."""
        self._waiting.pop(step.shard.name, None)
        return None

    def on_unloaded(self, step: Step) -> Finding | None:
        """The term is over: the broker answers in its place, or its connections are gone."""
        self._waiting.pop(step.shard.name, None)
        return None

    def on_classic_request(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """A request is parked, or answered by what comes with it."""
        name = step.shard.name
        waiting = self._waiting.get(name)
        finding = None if waiting is None else waiting.take_overdue(step)
        if step.response is None:
            if waiting is None:
                self._waiting[name] = _Waiting()
            self._enter(step, classic_model.group)
        return finding

    def _enter(self, step: Step, group: ClassicGroup | None) -> None:
        waiting = self._waiting[step.shard.name]
        request, operation = step.request, step.operation
        if group is None:
            until_ms = step.at_ms + self.model.config.offsets_commit_timeout_ms
            waiting.owed[operation] = until_ms, request.member_id
            return
        api = type(request).__name__.removesuffix("Request")
        for member_id in (request.member_id,) if request.member_id else tuple(group.members):
            if _holds(group, member_id, api, operation):
                waiting.held[operation] = member_id, api
                waiting.newest[member_id, api] = operation
                return
        waiting.owed[operation] = step.at_ms, request.member_id

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """What does the group keep no more?"""
        waiting = self._waiting.get(look.shard.name)
        if waiting is None:
            return None
        finding = waiting.take_overdue(step)
        now, before, group = look.now, look.before, look.group
        waiting.note_repeated(step)
        if look.gone or now is None or before is None or now.state is not before.state:
            for operation, (member_id, api) in tuple(waiting.held.items()):
                is_newest = waiting.newest.get((member_id, api)) == operation
                if is_newest and group is not None and _holds(group, member_id, api, operation):
                    continue
                del waiting.held[operation]
                if is_newest:
                    del waiting.newest[member_id, api]
                    if api == "JoinGroup" or not _is_made_to_leave(step, group, member_id):
                        waiting.owed[operation] = step.at_ms, member_id
        return finding

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """It is answered."""
        waiting = self._waiting.get(step.shard.name)
        if waiting is None:
            return None
        waiting.owed.pop(step.operation, None)
        key = waiting.held.pop(step.operation, None)
        if key is not None and waiting.newest.get(key) == step.operation:
            del waiting.newest[key]
        return None


def _holds(group: ClassicGroup, member_id: str, api: str, operation: int) -> bool:
    member = group.members.get(member_id)
    if member is None:
        return False
    token = member.awaiting_join if api == "JoinGroup" else member.awaiting_sync
    return getattr(token, "operation", token) == operation


def _is_made_to_leave(step: Step, group: ClassicGroup | None, member_id: str) -> bool:
    """Whether a LeaveGroup has just removed a member; its SyncGroup is forgotten (classic §2.8)."""
    is_leave = type(step.request) is LeaveGroupRequest
    return is_leave and (group is None or member_id not in group.members)
