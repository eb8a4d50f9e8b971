"""What joins classic and consumer groups: requests of one protocol that meet a group of the other.

Source: classic §2.2, §7. Neither type knows the other, nor this module.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_type import join_new_group, refused_join
from rebalance_sim.protocol.classic.operation import Operation
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.heartbeat_request import (
    HeartbeatCall,
    apply_heartbeat,
    completed,
    new_group,
    not_found,
    refusal,
    validate,
)
from rebalance_sim.protocol.consumer.removal import Conversions, group_tombstones
from rebalance_sim.protocol.migration import mixed
from rebalance_sim.protocol.migration.downgrade import can_downgrade, downgrade
from rebalance_sim.protocol.migration.migration_rules import MigrationContext
from rebalance_sim.protocol.migration.upgrade import start_over, upgrade
from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.group_type import Call, Component, Handler
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance, RebalanceCause
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    Response,
)
from rebalance_sim.protocol.wire.errors import GroupError
from rebalance_sim.protocol.wire.records import GroupMetadata

_MIGRATION = Rebalance("consumer", RebalanceCause.MIGRATION)


class Migration(Component[Any]):
    """Conversions in both directions, and groups with members of both protocols."""

    _context: MigrationContext

    def __init__(self, context: CoordinatorContext[Any]) -> None:
        super().__init__(context)
        context.part(Conversions).append(self._convert_back)

    def crossings(self) -> Mapping[tuple[type, type], Handler]:
        """Every request of members that meets a group of the other type."""
        return {
            (ConsumerGroupHeartbeatRequest, ClassicGroup): self._convert,
            (JoinGroupRequest, ConsumerGroup): self._join,
            (SyncGroupRequest, ConsumerGroup): self._completing(mixed.sync),
            (HeartbeatRequest, ConsumerGroup): self._completing(mixed.heartbeat),
            (LeaveGroupRequest, ConsumerGroup): self._completing(mixed.leave),
        }

    def _completing(self, handler: mixed.MixedHandler) -> Handler:
        def handle(call: Call[Any]) -> Outcome:
            outcome = handler(self._context, call)
            return completed(self._context, call.group, outcome, call.now_ms)

        return handle

    def _join(self, call: Call[JoinGroupRequest]) -> Outcome:
        """A consumer group with members takes the classic member; an empty one gives way."""
        context, group = self._context, call.group
        refused = refused_join(context, call.request)
        if refused is not None:
            return refused
        if group.members:
            outcome = mixed.join(context, call)
        else:
            if call.request.member_id and not context.rules.keeps_empty_group_of_refused:
                context.drop_group(ConsumerGroup, group.group_id)
            outcome = join_new_group(context, call, group_tombstones(group.group_id))
        return completed(context, group, outcome, call.now_ms)

    def _convert(self, call: HeartbeatCall) -> Outcome:
        """A consumer joins a classic group, which becomes a consumer group; an empty one gives
        way, and its offsets stay. The group is not in force before its records are replayed."""
        context, request, classic = self._context, call.request, call.group
        op = Operation(context, now_ms=call.now_ms)
        try:
            validate(context, request)
            if request.member_epoch != JOIN_EPOCH:
                raise not_found(request, is_of_other_type=True)
            if classic.is_empty:
                op.records.append(GroupMetadata(request.group_id))
                group = new_group(context, request.group_id)
            else:
                group = upgrade(context, classic, op)
            outcome = apply_heartbeat(context, group, call)
        except GroupError as error:
            # Parked requests may have been answered already that the group rebalances.
            return replace(refusal(error), completions=tuple(op.completions))
        if context.rules.answers_parked_if_converted:
            start_over(classic, op)
        outcome = replace(
            outcome,
            records=(*op.records, *outcome.records),
            timers=(*op.timers, *outcome.timers),
            completions=tuple(op.completions),
            rebalances=(_MIGRATION,) if group.members else outcome.rebalances,
        )
        return completed(context, group, outcome, call.now_ms)

    def _convert_back(
        self,
        group: ConsumerGroup,
        leaving: Sequence[Member],
        response: Response | None,
        now_ms: int,
    ) -> Outcome | None:
        """A group in which only classic members remain becomes a classic group (classic §7.8)."""
        context = self._context
        if not group.classic_member_count or not can_downgrade(context, group, leaving):
            return None
        op = Operation(context, now_ms=now_ms)
        downgrade(context, group, op, leaving=leaving)
        return op.outcome(response)
