"""Consumer groups, as a coordinator is given them.

Sources: coordinator §6, §8, §9; what each handler does stands in its own module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from rebalance_sim.protocol.consumer.client_side.assignment_requests import (
    answer_assignment_request,
)
from rebalance_sim.protocol.consumer.committed_group import CommittedGroup
from rebalance_sim.protocol.consumer.consumer_describe import describe, describe_missing, list_row
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, GroupState
from rebalance_sim.protocol.consumer.context import ConsumerContext
from rebalance_sim.protocol.consumer.group_state_fields import CONSUMER_GROUP_STATE
from rebalance_sim.protocol.consumer.heartbeat_request import (
    answer_heartbeat,
    completed,
    new_group,
)
from rebalance_sim.protocol.consumer.regexes import are_resolved
from rebalance_sim.protocol.consumer.removal import group_tombstones
from rebalance_sim.protocol.consumer.timer_expiry import fired
from rebalance_sim.protocol.consumer.timer_keys import (
    ConsumerTimer,
    assignment_key,
    metadata_key,
    rebalance_key,
    session_key,
)
from rebalance_sim.protocol.runtime.group_type import Call, GroupType, Handler, Projection
from rebalance_sim.protocol.runtime.offsets import FIRST_VERSION_WITH_MEMBER_EPOCH
from rebalance_sim.protocol.runtime.outcome import Outcome, ScheduleTimer, TimerCommand, TimerKey
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ListedGroup,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError, ReplayError
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    MemberState,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import TxnOffsetCommitRequest

_SETTLED = (GroupState.STABLE, GroupState.EMPTY)


class ConsumerGroupType(GroupType[ConsumerGroup]):
    """The groups of KIP-848."""

    name = "consumer"
    group_class = ConsumerGroup
    timers = ConsumerTimer
    records = (
        ConsumerGroupCurrentMemberAssignment,
        ConsumerGroupMemberMetadata,
        ConsumerGroupMetadata,
        ConsumerGroupPartitionMetadata,
        ConsumerGroupRegularExpression,
        ConsumerGroupTargetAssignmentMember,
        ConsumerGroupTargetAssignmentMetadata,
    )
    state_fields = CONSUMER_GROUP_STATE
    _context: ConsumerContext

    # -- requests and timers ---------------------------------------------------------------

    def handlers(self) -> Mapping[type, Handler]:
        """Heartbeats, and the requests of members that compute targets."""
        return {
            ConsumerGroupHeartbeatRequest: lambda call: answer_heartbeat(self._context, call),
            ConsumerGroupPrepareAssignmentRequest: self._answer_assignment_request,
            ConsumerGroupInstallAssignmentRequest: self._answer_assignment_request,
        }

    def _answer_assignment_request(self, call: Call[Any]) -> Outcome:
        return answer_assignment_request(
            self._context, self.groups, call.request, now_ms=call.now_ms
        )

    def reads(self) -> Mapping[type, Callable[[Any], Any]]:
        """ConsumerGroupDescribe."""
        return {ConsumerGroupDescribeRequest: self._describe}

    def _describe(
        self, request: ConsumerGroupDescribeRequest
    ) -> tuple[ConsumerGroupDescribeResponse, ...]:
        return tuple(self._describe_one(group_id) for group_id in request.group_ids)

    def _describe_one(self, group_id: str) -> ConsumerGroupDescribeResponse:
        group = committed(self.groups).get(group_id)
        if group is not None:
            return describe(self._context, CommittedGroup(group))
        return describe_missing(group_id, is_of_other_type=self.is_of_other_type(group_id))

    def fire(self, key: TimerKey, *, epoch: int, now_ms: int) -> Outcome:
        """coordinator §4.1."""
        group = self.groups.get(key.group_id)
        outcome = fired(self._context, group, key, epoch=epoch, now_ms=now_ms)
        return outcome if group is None else completed(self._context, group, outcome, now_ms)

    def entailed(self, group: ConsumerGroup, outcome: Outcome, *, now_ms: int) -> Outcome:
        """As of any other timer."""
        return completed(self._context, group, outcome, now_ms)

    def on_topics_changed(self, names: set[str], *, now_ms: int) -> Iterable[TimerCommand]:
        """Groups subscribed to a changed name look at it at their next heartbeat
        (coordinator §7.3); versions that look themselves ask for a timer."""
        rules = self._context.rules
        for group_id in sorted(self.groups):
            group = self.groups[group_id]
            if names.isdisjoint(rules.names_watched(group)):
                continue
            group.request_metadata_refresh()
            if rules.notices_topics_itself:
                yield ScheduleTimer(metadata_key(group_id), now_ms)

    def on_loaded(self, *, now_ms: int) -> Iterable[TimerCommand]:
        """coordinator §9.5: full timeouts for every member."""
        rules = self._context.rules
        for group_id in sorted(self.groups):
            group = self.groups[group_id]
            group.rebuild_maps()
            group.request_metadata_refresh()
            session_timeout_ms = self._context.session_timeout_ms(group_id)
            for member_id in sorted(group.members):
                member = group.members[member_id]
                if rules.arms_session_timers_on_load:
                    at_ms = now_ms + session_timeout_ms
                    yield ScheduleTimer(session_key(group_id, member_id), at_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    at_ms = now_ms + member.rebalance_timeout_ms
                    key = rebalance_key(group_id, member_id)
                    yield ScheduleTimer(key, at_ms, member.member_epoch)
            if rules.notices_topics_itself:
                yield ScheduleTimer(metadata_key(group_id), now_ms)
                yield ScheduleTimer(assignment_key(group_id), now_ms)

    # -- the log ---------------------------------------------------------------------------

    def replay(self, record: Record, *, strict: bool) -> None:
        """coordinator §9.3: the first record of an id makes the group."""
        group_id = record.group_id
        group = self.groups.get(group_id)
        if group is None:
            if not self._context.rules.tolerates_compacted_log and (
                record.value is None or type(record) is not ConsumerGroupMemberMetadata
            ):
                raise ReplayError(f"group {group_id} does not exist")
            if record.value is None:
                return
            self.claim(group_id, strict=strict)
            group = self.groups[group_id] = new_group(self._context, group_id)
        group.replay(record, strict=strict)
        if group.is_deleted:
            del self.groups[group_id]

    # -- offsets ---------------------------------------------------------------------------

    def check_commit(
        self,
        group: ConsumerGroup,
        request: OffsetCommitRequest,
        partitions: Sequence[TopicPartition],
    ) -> None:
        """coordinator §8.1: a member commits at its epoch; an empty group takes any commit."""
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not group.members:
            return
        member = group.members.get(request.member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        is_old_version = request.api_version < FIRST_VERSION_WITH_MEMBER_EPOCH
        if is_old_version and member.classic_metadata is None:
            raise GroupError(ErrorCode.UNSUPPORTED_VERSION)
        rules = self._context.rules
        if not rules.accepts_commit(member, epoch, partitions):
            raise GroupError(rules.stale_epoch_error(member))

    def check_txn_commit(
        self,
        group: ConsumerGroup,
        request: TxnOffsetCommitRequest,
        partitions: Sequence[TopicPartition],
    ) -> None:
        """transactions §3: as a commit, but for the error, and who names no member is not
        checked."""
        is_signed = bool(request.member_id) or request.generation_id >= 0
        if not is_signed or (request.generation_id < 0 and not group.members):
            return
        member = group.members.get(request.member_id)
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not self._context.rules.accepts_commit(member, request.generation_id, partitions):
            raise GroupError(ErrorCode.ILLEGAL_GENERATION)

    def check_fetch(
        self, group: ConsumerGroup, request: OffsetFetchRequest, *, is_committed: bool
    ) -> None:
        """coordinator §8.2: who signs must be a member, at its epoch."""
        if request.member_id is None and request.member_epoch < 0:
            return
        members = committed(group.members) if is_committed else group.members
        member = members.get(request.member_id or "")
        if member is None:
            raise GroupError(ErrorCode.UNKNOWN_MEMBER_ID)
        rules = self._context.rules
        if member.member_epoch != request.member_epoch and rules.checks_epoch_of_fetch:
            raise GroupError(rules.stale_epoch_error(member))

    # -- what is shown ---------------------------------------------------------------------

    def tombstones(self, group: ConsumerGroup) -> tuple[Record, ...]:
        """coordinator §8.6."""
        return group_tombstones(group.group_id)

    def list_row(self, group: ConsumerGroup) -> ListedGroup:
        """coordinator §6.2, as committed."""
        return list_row(CommittedGroup(group))

    def project(self, group: ConsumerGroup) -> Projection:
        """The newest state."""
        state = group.state
        return Projection(
            group_type=self.name,
            state=state.value,
            epoch=group.group_epoch,
            is_settled=state in _SETTLED,
            members=group.members.keys(),
        )

    def assigned_to(self, group: ConsumerGroup, member_id: str) -> Set[TopicPartition] | None:
        """See ``GroupType``."""
        member = group.members.get(member_id)
        return None if member is None else member.assigned.keys()

    def has_matched(self, group: ConsumerGroup) -> bool:
        """See ``GroupType``: patterns are resolved at most once in ten seconds."""
        return are_resolved(self._context, group)

    def log_state(self, group: ConsumerGroup) -> Mapping[str, object]:
        """Everything but when topics are looked at again, and who computes a target."""
        return {
            "group epoch": group.group_epoch,
            "metadata hash": group.metadata_hash,
            "members": group.members,
            "target epoch": group.target_assignment_epoch,
            "target": group.target_assignment,
            "metadata of the target": group.target_metadata,
            "resolved patterns": group.resolved_regexes,
            "owners": group.current_partition_epoch,
        }
