"""A request to a classic group is refused for one of the causes that there are, and else granted.

What a request deserves is worked out from the group as the shadow model had it before. A JoinGroup
or SyncGroup that deserves to be granted may be parked; whoever is refused while it waits must have
been removed, or the generation it waits for must be over.
Sources: classic §1.7, §2.1-§2.8.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicModel, GroupSnapshot
from rebalance_sim.invariants.model.group_settings import takes_session
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 132

_HAS_GENERATION = (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE)
_FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4

_ENDS_CONVERSION = (
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.INVALID_REQUEST,
)
"""classic §7.3: what a member is answered whose group cannot be converted, or is and then has no
place for it, as it is or as it asks."""

_OF_THE_BROKER = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
"""A write that failed, or a shard that was given up (coordinator §9.6); that nothing else fails so
is ``coordinator.no_uncaught_exception``."""


class ClassicRefusalCause(Property):
    """classic §2.2-§2.8, the checks of each request, read both ways."""

    id = "classic.refusal_cause"
    sentence = (
        "A JoinGroup, SyncGroup, Heartbeat or LeaveGroup to a classic group is refused with a code "
        "exactly when the sender, its generation, its assignors or the group are what the code "
        "says; one that is parked, only when its sender is removed or its generation is over."
    )
    clauses = (
        "classic §1.7",
        "classic §2.1",
        "classic §2.2",
        "classic §2.3",
        "classic §2.4",
        "classic §2.6",
        "classic §2.7",
        "classic §2.8",
    )
    violated_by = (
        "KAFKA-7824",
        "test:classic-refuses-right-protocol",
        "test:classic-refuses-present-generation",
        "test:classic-parked-for-nothing",
        "test:classic-leave-refused",
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._deserved: dict[tuple[str, int], ErrorCode] = {}
        """Shard and operation of a parked request -> what it deserved when it came."""
        self._unparked_ms: dict[str, int] = {}
        """When a conversion last failed at a shard, and so had answered all that were parked."""

    def before_classic(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel
    ) -> Finding | None:
        """Compare the answer with what the request deserves, or remember that."""
        if ledger.has_group:
            return None  # classic §7 has its own checks (``migration/mixed_refusals.py``).
        request, shard = step.request, step.shard
        if type(request) is LeaveGroupRequest:
            return self._judge_leave(step, request, classic_model)
        deserved = _deserved(
            request,
            classic_model,
            shard,
            takes_offered=self.model.rules.takes_offered_assignors,
        )
        if (
            isinstance(request, JoinGroupRequest)
            and deserved in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR)
            and self.model.rules.fences_joins
            and _has_missed_generation(request, classic_model)
        ):
            deserved = ErrorCode.UNKNOWN_MEMBER_ID
        if step.response is None:
            self._deserved[shard.name, step.operation] = deserved
            return None
        if deserved is step.response.error_code:
            return None
        return self._found(step, deserved)

    def on_classic_answer(self, step: Step, classic_model: ClassicModel) -> Finding | None:
        """A parked request is answered: has anything come between?"""
        deserved = self._deserved.pop((step.shard.name, step.operation), None)
        code: ErrorCode = step.response.error_code
        if deserved is None or code is deserved or code in _OF_THE_BROKER:
            return None
        if deserved is ErrorCode.NONE and (
            self._has_come_between(step, code, classic_model)
            or (
                code is ErrorCode.REBALANCE_IN_PROGRESS
                and self._unparked_ms.get(step.shard.name) == step.at_ms
            )
        ):
            return None
        return self._found(step, deserved)

    def on_refused(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """A conversion that fails over what members were assigned, or over their protocol
        (classic-early-conversion), has answered whoever waited: that is its first step."""
        if step.response.error_code in _ENDS_CONVERSION:
            self._unparked_ms[step.shard.name] = step.at_ms
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """So has a conversion that cannot be written; its own refusal is seen after theirs."""
        self._unparked_ms[step.shard.name] = step.at_ms
        return None

    def on_unloaded(self, step: Step) -> Finding | None:
        """Nobody waits at this shard any more."""
        name = step.shard.name
        self._deserved = {key: code for key, code in self._deserved.items() if key[0] != name}
        return None

    @staticmethod
    def _has_come_between(step: Step, code: ErrorCode, classic_model: ClassicModel) -> bool:
        """Was the sender removed, or its generation ended, while it waited?"""
        request, now = step.request, classic_model.snapshot
        if now is None or request.member_id == "":
            return code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.REBALANCE_IN_PROGRESS,
            )
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            return request.member_id not in classic_model.members
        if (
            code is not ErrorCode.REBALANCE_IN_PROGRESS
            or type(request) is not SyncGroupRequest
            or request.member_id not in classic_model.members
        ):
            return False
        return now.state not in _HAS_GENERATION or now.generation_id != request.generation_id

    def _judge_leave(
        self, step: Step, request: LeaveGroupRequest, classic_model: ClassicModel
    ) -> Finding | None:
        gone: frozenset[str] = frozenset()
        for identity, row in zip(request.members, step.response.members, strict=False):
            member_id = _leaving_id(identity, classic_model)
            deserved = ErrorCode.UNKNOWN_MEMBER_ID
            if member_id not in gone:
                deserved = _of_leaving(member_id, identity.group_instance_id, classic_model, gone)
            if deserved is ErrorCode.NONE:
                gone |= {member_id}
            if row.error_code is not deserved:
                return Finding(
                    f"the leave of {identity.member_id or identity.group_instance_id} was answered "
                    f"{row.error_code.name}; it deserves {deserved.name}",
                    member=identity.member_id,
                )
        if len(step.response.members) == len(request.members) or step.response.error_code:
            return None
        return Finding("a LeaveGroup was not answered for each of its members")

    def _found(self, step: Step, deserved: ErrorCode) -> Finding:
        request = step.request
        name = type(request).__name__.removesuffix("Request")
        generation = getattr(request, "generation_id", None)
        at = "" if generation is None else f" at generation {generation}"
        return Finding(
            f"a {name} of {request.member_id or 'a new member'}{at} was answered "
            f"{step.response.error_code.name}; it deserves {deserved.name}",
            member=request.member_id,
        )


def _deserved(
    request: JoinGroupRequest | SyncGroupRequest | HeartbeatRequest,
    classic_model: ClassicModel,
    shard: ShardView,
    *,
    takes_offered: bool,
) -> ErrorCode:
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if isinstance(request, JoinGroupRequest):
        return _of_join(request, classic_model, shard)
    now = classic_model.snapshot
    code = _of_identity(request.member_id, request.group_instance_id, classic_model)
    if code is not ErrorCode.NONE or now is None:
        return code
    if request.generation_id != now.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if isinstance(request, SyncGroupRequest) and not _fits(
        request, classic_model, takes_offered=takes_offered
    ):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if now.state is ClassicGroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _of_identity(
    member_id: str,
    instance_id: str | None,
    classic_model: ClassicModel,
    gone: frozenset[str] = frozenset(),
) -> ErrorCode:
    """classic §2.4, §2.6, §2.7: who it is."""
    members = classic_model.members
    if instance_id is not None:
        holders = [
            m
            for m, note in members.items()
            if note.group_instance_id == instance_id and m not in gone
        ]
        if not holders:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if member_id not in holders:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if member_id in members else ErrorCode.UNKNOWN_MEMBER_ID


def _fits(request: SyncGroupRequest, classic_model: ClassicModel, *, takes_offered: bool) -> bool:
    """classic §2.6: protocol type and name, where they are given, are those of the generation; or
    the name is any that the sender offers (classic-forgotten-assignor)."""
    group = classic_model.group
    if group is not None and request.protocol_type not in (None, group.protocol_type):
        return False
    # In its first join phase a group has none.
    known = classic_model.protocols.get(request.generation_id)
    return (
        None in (known, request.protocol_name)
        or request.protocol_name == known
        or (
            takes_offered
            and request.protocol_name in classic_model.members[request.member_id].protocol_names
        )
    )


def _of_join(request: JoinGroupRequest, classic_model: ClassicModel, shard: ShardView) -> ErrorCode:
    """classic §2.1-§2.5."""
    config, now = shard.configs.broker, classic_model.snapshot
    if not takes_session(config, request.session_timeout_ms):
        return ErrorCode.INVALID_SESSION_TIMEOUT
    if now is not None and not _has_room(request, classic_model, now, config.group_max_size):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if now is None and request.member_id and not _has_offsets_alone(request, shard):
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not _supports(request, classic_model):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    names = [name for name, _ in request.protocols]
    if not request.member_id:
        if (
            request.group_instance_id is None
            and request.api_version >= _FIRST_VERSION_WITH_MEMBER_ID_REQUIRED
        ):
            return ErrorCode.MEMBER_ID_REQUIRED
    elif request.member_id in classic_model.pending:
        if request.group_instance_id is not None:
            return ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        code = _of_identity(request.member_id, request.group_instance_id, classic_model)
        if code is not ErrorCode.NONE:
            return code
    return ErrorCode.NONE if len({*names}) == len(names) else ErrorCode.UNKNOWN_SERVER_ERROR


def _has_offsets_alone(request: JoinGroupRequest, shard: ShardView) -> bool:
    """Whether there is a group nobody has joined, which is none to the shadow model: it has its
    checks all the same. A JoinGroup that brings a member id makes no group, and removes none."""
    return request.group_id in shard.coordinator.groups_of(ClassicGroup)


def _has_missed_generation(request: JoinGroupRequest, classic_model: ClassicModel) -> bool:
    """classic §8.2: it owns something of a generation before this one, in which it has not joined
    (classic-reused-generation)."""
    said, now = request.protocols[0].metadata, classic_model.snapshot
    note = classic_model.members.get(request.member_id)
    return (
        note is not None
        and now is not None
        and isinstance(said, Subscription)
        and bool(said.owned_partitions)
        and 0 <= said.generation_id < now.generation_id
        and said.generation_id != note.joined_from
    )


def _has_room(
    request: JoinGroupRequest, classic_model: ClassicModel, now: GroupSnapshot, limit: int
) -> bool:
    """classic §2.2, capacity."""
    if now.state is ClassicGroupState.EMPTY:
        return True
    note = classic_model.members.get(request.member_id)
    if now.state is ClassicGroupState.PREPARING_REBALANCE:
        return (note is not None and note.awaits_join) or classic_model.awaiting_count < limit
    return note is not None or len(classic_model.members) < limit


def _supports(request: JoinGroupRequest, classic_model: ClassicModel) -> bool:
    """classic §1.7, the admission test; an Empty group takes any type and assignor."""
    count, group, now = len(classic_model.members), classic_model.group, classic_model.snapshot
    if group is None or now is None or now.state is ClassicGroupState.EMPTY:
        return bool(request.protocol_type) and bool(request.protocols)
    return request.protocol_type == group.protocol_type and any(
        classic_model.protocol_counts.get(name, 0) == count for name, _ in request.protocols
    )


def _leaving_id(identity: MemberIdentity, classic_model: ClassicModel) -> str:
    """Whom an entry of a LeaveGroup means: an administrator names the instance alone."""
    member_id, instance_id, _ = identity
    if member_id or instance_id is None:
        return member_id
    members = classic_model.members.items()
    return next((m for m, note in members if note.group_instance_id == instance_id), "")


def _of_leaving(
    member_id: str, instance_id: str | None, classic_model: ClassicModel, gone: frozenset[str]
) -> ErrorCode:
    """classic §2.8. Whoever has left with one entry is unknown to the next."""
    if member_id and member_id in classic_model.pending:
        return ErrorCode.NONE
    return _of_identity(member_id, instance_id, classic_model, gone)
