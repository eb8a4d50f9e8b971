"""The four classic requests, whatever kind of group they meet; and timers of classic groups.

Source: classic §2.1, §2.2, §8.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_heartbeat import heartbeat
from rebalance_sim.protocol.classic.classic_rebalance import prepare_rebalance
from rebalance_sim.protocol.classic.classic_states import Event
from rebalance_sim.protocol.classic.join import Join, join
from rebalance_sim.protocol.classic.leave import (
    join_timer_fired,
    leave,
    session_expired,
    sync_timer_fired,
)
from rebalance_sim.protocol.classic.operation import Operation
from rebalance_sim.protocol.classic.static_replacement import (
    Replacement,
    replacement_committed,
    replacement_failed,
)
from rebalance_sim.protocol.classic.sync import (
    LeaderAssignment,
    assignment_committed,
    assignment_failed,
    sync,
)
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.context import CoordinatorContext
from rebalance_sim.protocol.consumer.removal import group_tombstones
from rebalance_sim.protocol.migration import mixed
from rebalance_sim.protocol.migration.downgrade import Downgrade
from rebalance_sim.protocol.runtime.outcome import (
    Completion,
    Outcome,
    TimerCommand,
    TimerKey,
    Token,
)
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.wire.classic_messages import (
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
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug

__all__ = ["ClassicRequests"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Creation:
    """A classic group that was created by this write, and is gone again if the write is undone;
    ``token`` is that of the JoinGroup which created it."""

    group_id: str
    token: Token


class ClassicRequests:
    """Dispatch for one coordinator. It reads ``groups``, and changes ``context.classic_groups``."""

    def __init__(self, context: CoordinatorContext, groups: dict[str, ConsumerGroup]) -> None:
        self._context = context
        self._groups = groups
        self._classic = context.classic_groups

    def _operation(self, now_ms: int) -> Operation:
        return Operation(self._context.config, self._context.rules, now_ms=now_ms)

    # -- requests --------------------------------------------------------------------------

    def join(
        self,
        request: JoinGroupRequest,
        *,
        token: Token,
        now_ms: int,
        client_id: str,
        client_host: str,
    ) -> Outcome:
        """classic §2.2: a consumer group with members, a classic group, or a new one."""
        if not request.group_id:
            return Outcome(_refused_join(ErrorCode.INVALID_GROUP_ID, request))
        config = self._context.config
        low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            return Outcome(_refused_join(ErrorCode.INVALID_SESSION_TIMEOUT, request))
        group = self._groups.get(request.group_id)
        if group is not None and group.members:
            return mixed.join(
                self._context,
                group,
                request,
                now_ms=now_ms,
                client_id=client_id,
                client_host=client_host,
            )
        op = self._operation(now_ms)
        classic = self._classic.get(request.group_id)
        is_new = classic is None
        if classic is None:
            if request.member_id:
                return Outcome(_refused_join(ErrorCode.UNKNOWN_MEMBER_ID, request))
            classic = self._create(op, request.group_id, replaced=group)
        arrival = Join(
            request=request,
            token=token,
            client_id=client_id,
            client_host=client_host,
            new_member_id=self._context.new_member_id,
        )
        join(op, classic, arrival)
        if is_new:
            op.on_commit = _Creation(group_id=request.group_id, token=token)
        return op.outcome()

    def _create(
        self, op: Operation, group_id: str, *, replaced: ConsumerGroup | None
    ) -> ClassicGroup:
        """A group exists durably before it has a member. An empty consumer group gives way."""
        if replaced is not None:
            op.records += group_tombstones(group_id)
        classic = ClassicGroup(group_id, now_ms=op.now_ms, first_of=op.rules.first_member)
        op.write(classic)
        self._classic[group_id] = classic
        return classic

    def sync(self, request: SyncGroupRequest, *, token: Token, now_ms: int) -> Outcome:
        """classic §2.6, or classic §7.6 in a consumer group."""
        group = self._groups.get(request.group_id)
        if group is not None:
            return mixed.sync(self._context, group, request, now_ms=now_ms)
        classic = self._classic.get(request.group_id)
        if classic is None:
            return Outcome(SyncGroupResponse(error_code=_missing(request.group_id)))
        op = self._operation(now_ms)
        sync(op, classic, request, token)
        return op.outcome()

    def heartbeat(self, request: HeartbeatRequest, *, now_ms: int) -> Outcome:
        """classic §2.7, or classic §7.6 in a consumer group."""
        group = self._groups.get(request.group_id)
        if group is not None:
            return mixed.heartbeat(self._context, group, request, now_ms=now_ms)
        classic = self._classic.get(request.group_id)
        if classic is None:
            return Outcome(HeartbeatResponse(error_code=_missing(request.group_id)))
        op = self._operation(now_ms)
        return op.outcome(heartbeat(op, classic, request))

    def leave(self, request: LeaveGroupRequest, *, now_ms: int) -> Outcome:
        """classic §2.8, or classic §7.6 in a consumer group."""
        group = self._groups.get(request.group_id)
        if group is not None:
            return mixed.leave(self._context, group, request, now_ms=now_ms)
        classic = self._classic.get(request.group_id)
        if classic is None:
            if not request.group_id:
                return Outcome(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
            code = ErrorCode.UNKNOWN_MEMBER_ID
            rows = tuple(MemberResponse(*identity, code) for identity in request.members)
            return Outcome(LeaveGroupResponse(members=rows))
        op = self._operation(now_ms)
        return op.outcome(leave(op, classic, request))

    # -- commits ---------------------------------------------------------------------------

    def committed(self, value: object, *, now_ms: int) -> Outcome:
        """What was announced by ``on_commit`` is durable."""
        op = self._operation(now_ms)
        match value:
            case LeaderAssignment() if (group := self._classic.get(value.group_id)) is not None:
                assignment_committed(op, group, value)
            case Replacement() if (group := self._classic.get(value.group_id)) is not None:
                replacement_committed(op, group, value)
            case mixed.MixedJoin() if (consumers := self._groups.get(value.group_id)) is not None:
                return mixed.join_committed(consumers, value, now_ms=now_ms)
        return op.outcome()

    def write_failed(
        self, value: object, error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """It is not, and the records are gone if ``is_undone``; ``error`` is what the waiting
        clients are told."""
        op = self._operation(now_ms)
        match value:
            case LeaderAssignment() if (group := self._classic.get(value.group_id)) is not None:
                assignment_failed(op, group, value, error)
            case Replacement() if (group := self._classic.get(value.group_id)) is not None:
                replacement_failed(op, group, value, error)
            case Downgrade() if is_undone:
                # The consumer group is as it was.
                self._classic.pop(value.group_id, None)
            case _Creation() if (group := self._classic.get(value.group_id)) is not None:
                if is_undone:
                    del self._classic[value.group_id]
                    op.answer_parked(group, error)
                else:
                    op.refuse_parked_join(group, value.token, error)
        return op.outcome()

    # -- timers, load, unload --------------------------------------------------------------

    def fire(self, key: TimerKey, *, epoch: int, now_ms: int) -> Outcome:
        """A timer of a classic group has expired. Raises ProtocolBug for one that is none."""
        group = self._classic.get(key.group_id)
        op = self._operation(now_ms)
        if group is None:
            return op.outcome()
        match key.kind:
            case "classic-session":
                session_expired(op, group, key.member_id)
            case "classic-join":
                join_timer_fired(op, group)
            case "classic-sync":
                sync_timer_fired(op, group, epoch)
            case _:
                raise ProtocolBug(f"unknown timer {key}")
        return op.outcome()

    def on_loaded(self, *, now_ms: int) -> list[TimerCommand]:
        """classic §8.2: full sessions for all; a group that has grown too large starts over."""
        op = self._operation(now_ms)
        for group_id in sorted(self._classic):
            group = self._classic[group_id]
            for member_id in sorted(group.members):
                op.renew_session(group, group.members[member_id])
            if len(group.members) > self._context.config.group_max_size:
                prepare_rebalance(op, group, RebalanceCause.CAPACITY)
        return op.timers

    def on_unloaded(self, *, now_ms: int) -> tuple[Completion, ...]:
        """Another broker takes over: every parked request is answered, and every group is Dead."""
        op = self._operation(now_ms)
        for group_id in sorted(self._classic):
            group = self._classic[group_id]
            op.answer_parked(group, ErrorCode.NOT_COORDINATOR)
            group.apply(Event.UNLOADED, now_ms=now_ms)
        return tuple(op.completions)


def _missing(group_id: str) -> ErrorCode:
    return ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID


def _refused_join(code: ErrorCode, request: JoinGroupRequest) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id)
