"""Classic groups, as a coordinator is given them.

Sources: classic §2.1, §2.2, §8; what each handler does stands in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.classic.classic_describe import describe_classic, describe_no_classic
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_heartbeat import heartbeat
from rebalance_sim.protocol.classic.classic_offsets import (
    expiry_base,
    renewed_session,
    validate_commit,
    validate_delete,
    validate_txn_commit,
)
from rebalance_sim.protocol.classic.classic_rebalance import prepare_rebalance, rearm
from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.classic.classic_state_fields import CLASSIC_GROUP_STATE
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState, Event
from rebalance_sim.protocol.classic.join import join
from rebalance_sim.protocol.classic.leave import (
    join_timer_fired,
    leave,
    session_expired,
    sync_timer_fired,
)
from rebalance_sim.protocol.classic.operation import ClassicTimer, Operation
from rebalance_sim.protocol.classic.sync import sync
from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.group_type import Call, GroupType, Handler, Projection
from rebalance_sim.protocol.runtime.outcome import (
    Completion,
    Continuation,
    Outcome,
    TimerCommand,
    TimerKey,
    Token,
)
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.classic_messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import ListedGroup
from rebalance_sim.protocol.wire.errors import ErrorCode, ReplayError
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.records import GroupMetadata, OffsetCommitValue, Record
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import TxnOffsetCommitRequest

ClassicContext = CoordinatorContext[ClassicGroupRules]

_SETTLED = (ClassicGroupState.STABLE, ClassicGroupState.EMPTY, ClassicGroupState.DEAD)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Creation(Continuation):
    """A classic group that was created by this write, and is gone again if the write is undone;
    ``token`` is that of the JoinGroup which created it. What was undone with it may have been the
    end of another group of this id, which is there again then."""

    group_id: str
    group: ClassicGroup
    token: Token

    def write_failed(
        self, context: ClassicContext, error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """Parked requests are answered with the error."""
        groups = context.groups_of(ClassicGroup)
        op = Operation(context, now_ms=now_ms)
        is_there = groups.get(self.group_id) is self.group
        if is_undone:
            if is_there:
                del groups[self.group_id]
            op.answer_parked(self.group, error)
        elif is_there:
            op.refuse_parked_join(self.group, self.token, error)
        return op.outcome()


def refused_join(context: ClassicContext, request: JoinGroupRequest) -> Outcome | None:
    """The answer to a JoinGroup that is wrong whatever the group; None if it is not."""
    config = context.config
    low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not request.group_id:
        code = ErrorCode.INVALID_GROUP_ID
    elif not low <= request.session_timeout_ms <= high:
        code = ErrorCode.INVALID_SESSION_TIMEOUT
    else:
        return None
    return Outcome(JoinGroupResponse(error_code=code, member_id=request.member_id))


def join_new_group(
    context: ClassicContext, call: Call[JoinGroupRequest], tombstones: Sequence[Record] = ()
) -> Outcome:
    """A JoinGroup that makes its group, after ``tombstones`` of the one that gives way.

    The group exists durably before it has a member; where the join fails, there is none.
    """
    request = call.request
    if request.member_id:
        code = ErrorCode.UNKNOWN_MEMBER_ID
        return Outcome(JoinGroupResponse(error_code=code, member_id=request.member_id))
    op = Operation(context, now_ms=call.now_ms)
    group = ClassicGroup(request.group_id, now_ms=op.wall_ms, first_of=op.rules.first_member)
    op.records += tombstones
    op.write(group)
    code = join(op, group, call, context.new_member_id)
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return Outcome(completions=tuple(op.completions))
    op.on_commit = _Creation(group_id=request.group_id, group=group, token=call.parking_token)
    context.put_group(ClassicGroup, request.group_id, group)
    return op.outcome()


class ClassicGroupType(GroupType[ClassicGroup]):
    """The groups of JoinGroup and SyncGroup."""

    name = "classic"
    group_class = ClassicGroup
    timers = ClassicTimer
    parks = (JoinGroupRequest, SyncGroupRequest)
    records = (GroupMetadata,)
    state_fields = CLASSIC_GROUP_STATE
    _context: ClassicContext

    def _operation(self, now_ms: int) -> Operation:
        return Operation(self._context, now_ms=now_ms)

    # -- requests --------------------------------------------------------------------------

    def handlers(self) -> Mapping[type, Handler]:
        """The four requests of classic members."""
        return {
            JoinGroupRequest: self._join,
            SyncGroupRequest: self._sync,
            HeartbeatRequest: self._heartbeat,
            LeaveGroupRequest: self._leave,
        }

    def _join(self, call: Call[JoinGroupRequest]) -> Outcome:
        """classic §2.2."""
        request = call.request
        refused = refused_join(self._context, request)
        if refused is not None:
            return refused
        group = self.groups.get(request.group_id)
        if group is not None:
            op = self._operation(call.now_ms)
            join(op, group, call, self._context.new_member_id)
            return op.outcome()
        if call.group is not None:
            code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            return Outcome(JoinGroupResponse(error_code=code, member_id=request.member_id))
        return join_new_group(self._context, call)

    def _sync(self, call: Call[SyncGroupRequest]) -> Outcome:
        """classic §2.6."""
        token = call.parking_token
        group = self.groups.get(call.request.group_id)
        if group is None or not call.request.group_id:
            return Outcome(SyncGroupResponse(error_code=_missing(call.request.group_id)))
        op = self._operation(call.now_ms)
        return op.outcome(sync(op, group, call.request, token))

    def _heartbeat(self, call: Call[HeartbeatRequest]) -> Outcome:
        """classic §2.7."""
        group = self.groups.get(call.request.group_id)
        if group is None or not call.request.group_id:
            return Outcome(HeartbeatResponse(error_code=_missing(call.request.group_id)))
        op = self._operation(call.now_ms)
        return op.outcome(heartbeat(op, group, call.request))

    def _leave(self, call: Call[LeaveGroupRequest]) -> Outcome:
        """classic §2.8."""
        request = call.request
        if not request.group_id:
            return Outcome(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        group = self.groups.get(request.group_id)
        if group is not None:
            op = self._operation(call.now_ms)
            return op.outcome(leave(op, group, request))
        code = ErrorCode.UNKNOWN_MEMBER_ID
        rows = tuple(
            MemberResponse(one.member_id, one.group_instance_id, code) for one in request.members
        )
        return Outcome(LeaveGroupResponse(members=rows))

    def reads(self) -> Mapping[type, Callable[[Any], Any]]:
        """DescribeGroups."""
        return {DescribeGroupsRequest: self._describe}

    def _describe(self, request: DescribeGroupsRequest) -> tuple[DescribedGroup, ...]:
        groups = committed(self.groups)
        return tuple(
            describe_classic(groups[group_id])
            if group_id in groups
            else describe_no_classic(
                request, group_id, is_of_other_type=self.is_of_other_type(group_id)
            )
            for group_id in request.group_ids
        )

    # -- timers, load, unload --------------------------------------------------------------

    def fire(self, key: TimerKey, *, epoch: int, now_ms: int) -> Outcome:
        """classic §1.5, §2.9."""
        group = self.groups.get(key.group_id)
        op = self._operation(now_ms)
        if group is None:
            return op.outcome()
        match key.kind:
            case ClassicTimer.SESSION:
                session_expired(op, group, key.member_id)
            case ClassicTimer.JOIN:
                join_timer_fired(op, group)
            case ClassicTimer.SYNC:
                sync_timer_fired(op, group, epoch)
        return op.outcome()

    def on_loaded(self, *, now_ms: int) -> Iterable[TimerCommand]:
        """classic §8.2: full sessions for all; a group that has grown too large starts over."""
        op = self._operation(now_ms)
        for group_id in sorted(self.groups):
            group = self.groups[group_id]
            for member_id in sorted(group.members):
                op.renew_session(group, group.members[member_id])
            if len(group.members) > self._context.config.group_max_size:
                prepare_rebalance(op, group, RebalanceCause.CAPACITY)
        return op.timers

    def on_reverted(self, armed: Container[TimerKey], *, now_ms: int) -> Iterable[TimerCommand]:
        """A group that a lost batch had converted is in the phase in which it was, whose timers
        found no such group meanwhile, or served the group that had come in its place."""
        op = self._operation(now_ms)
        for group_id in sorted(self.groups):
            rearm(op, self.groups[group_id], armed)
        return op.timers

    def on_unloaded(self, *, now_ms: int) -> Iterable[Completion]:
        """Every parked request is answered, and every group is Dead."""
        op = self._operation(now_ms)
        for group_id in sorted(self.groups):
            group = self.groups[group_id]
            op.answer_parked(group, ErrorCode.NOT_COORDINATOR)
            group.apply(Event.UNLOADED, now_ms=op.wall_ms)
        return op.completions

    # -- the log ---------------------------------------------------------------------------

    def replay(self, record: GroupMetadata, *, strict: bool) -> None:
        """Live, the group that wrote the record is newer than the record says."""
        group_id, value = record.group_id, record.value
        if value is None:
            self.groups.pop(group_id, None)
            return
        group = self.groups.get(group_id)
        if group is None or group.written is not value:
            rules = self._context.rules
            self.groups[group_id] = ClassicGroup.from_record(
                group_id,
                value,
                first_of=rules.first_member,
                first_generation=rules.first_generation(self._context.term),
                keeps_type=rules.loads_protocol_type,
            )
            self.claim(group_id, strict=strict)

    def give_way(self, group: ClassicGroup, group_type: str, *, strict: bool) -> None:
        """A group that only holds offsets gives way: it may be a trace of one whose tombstone has
        been compacted away. Any other is an error, live; a load takes the log as it is."""
        replaces_simple = self._context.rules.replaces_simple_group
        if not (group.is_simple and replaces_simple) and (strict or not replaces_simple):
            raise ReplayError(f"group {group.group_id} is not a {group_type} group")
        del self.groups[group.group_id]

    def adopt_offsets(self, group_id: str) -> bool:
        """A simple group: it exists because somebody without membership committed an offset
        (coordinator §8.1)."""
        self.groups[group_id] = ClassicGroup(group_id, now_ms=None)
        return True

    # -- offsets ---------------------------------------------------------------------------

    def check_commit(
        self,
        group: ClassicGroup,
        request: OffsetCommitRequest,
        partitions: Sequence[TopicPartition],
    ) -> None:
        """classic §8.4."""
        validate_commit(group, request)

    def check_txn_commit(
        self,
        group: ClassicGroup,
        request: TxnOffsetCommitRequest,
        partitions: Sequence[TopicPartition],
    ) -> None:
        """transactions §3."""
        validate_txn_commit(group, request)

    def on_commit_accepted(
        self, group: ClassicGroup, request: OffsetCommitRequest, *, now_ms: int
    ) -> tuple[TimerCommand, ...]:
        """classic §8.4: it counts as a sign of life."""
        return renewed_session(group, request.member_id, now_ms=now_ms)

    def check_offset_delete(self, group: ClassicGroup) -> None:
        """classic §8.4."""
        validate_delete(group)

    def expiry_base(self, group: ClassicGroup) -> Callable[[OffsetCommitValue], int] | None:
        """classic §8.5."""
        return expiry_base(group, in_rebalances=self._context.rules.expires_in_rebalances)

    # -- what is shown ---------------------------------------------------------------------

    def tombstones(self, group: ClassicGroup) -> tuple[Record, ...]:
        """coordinator §8.6."""
        return (GroupMetadata(group.group_id),)

    def list_row(self, group: ClassicGroup) -> ListedGroup:
        """coordinator §6.2: the state is not in the log, so the live one is shown."""
        return ListedGroup(
            group_id=group.group_id,
            protocol_type=group.protocol_type or "",
            group_state=group.state.value,
            group_type=self.name,
        )

    def project(self, group: ClassicGroup) -> Projection:
        """The live state, which is not in the log."""
        return Projection(
            group_type=self.name,
            state=group.state.value,
            epoch=group.generation_id,
            is_settled=group.state in _SETTLED,
            members=group.members.keys(),
        )


def _missing(group_id: str) -> ErrorCode:
    """No group has the id "" for members, though offsets may be committed under it."""
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
