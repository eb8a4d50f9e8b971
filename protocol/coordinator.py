"""A group coordinator: dispatch of requests and timers, replay, load.

One instance holds the groups of one partition of the offsets topic. It is pure: the host owns the
log, the clock and the network (``protocol/shard.py`` is the smallest host). Sources:
consumer-group-coordinator.md, sections 2.3, 2.5, 4.1, 8.6, 9.3 and 9.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from protocol.config import CoordinatorConfig, GroupConfig, alter_group_config
from protocol.consumer_group.context import (
    CompileRegex,
    CoordinatorContext,
    metadata_hash,
    no_regex_engine,
)
from protocol.consumer_group.describe import describe, describe_missing, list_row, simple_row
from protocol.consumer_group.group import ConsumerGroup, GroupState
from protocol.consumer_group.heartbeat import heartbeat
from protocol.consumer_group.regexes import resolve
from protocol.consumer_group.removal import fence_member, leave, rebalance_key, session_key
from protocol.consumer_group.target import compute_target
from protocol.consumer_group.validation import validate_heartbeat
from protocol.errors import ErrorCode, GroupError, ProtocolBug
from protocol.messages import (
    JOIN_EPOCH,
    AlterGroupConfigRequest,
    AlterGroupConfigResponse,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    Request,
)
from protocol.messages_offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from protocol.offsets import OffsetStore
from protocol.outcome import Outcome, ScheduleTimer, TimerCommand, TimerKey
from protocol.records import (
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupTargetAssignmentMetadata,
    GroupMetadata,
    GroupMetadataValue,
    MemberState,
    OffsetCommit,
    Record,
)
from protocol.semantics import DEFAULT_SEMANTICS, Semantics
from protocol.topics import EMPTY_IMAGE, MetadataImage, Topic

__all__ = ["EXPIRY_KEY", "GroupCoordinator"]

EXPIRY_KEY = TimerKey("expiry", "")
"""The shard-wide job that deletes empty groups (section 8.5)."""


class GroupCoordinator:
    """State machine of one shard. Its attributes are read-only for everybody else.

    ``groups`` are the consumer groups; ``simple_groups`` the ids of groups that exist only because
    somebody without membership committed an offset (section 8.1).
    """

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        new_member_id: Callable[[], str],
        semantics: Semantics = DEFAULT_SEMANTICS,
        image: MetadataImage = EMPTY_IMAGE,
        compile_regex: CompileRegex = no_regex_engine,
    ) -> None:
        self.semantics = semantics
        self.groups: dict[str, ConsumerGroup] = {}
        self.simple_groups: set[str] = set()
        self._context = CoordinatorContext(
            config=config,
            rules=semantics.coordinator(),
            image=image,
            new_member_id=new_member_id,
            compile_regex=compile_regex,
        )
        self.offsets = OffsetStore(self._context)

    @property
    def config(self) -> CoordinatorConfig:
        """The configuration in force."""
        return self._context.config

    @property
    def image(self) -> MetadataImage:
        """The topics as this coordinator knows them."""
        return self._context.image

    @property
    def group_configs(self) -> Mapping[str, GroupConfig]:
        """The dynamic settings of groups, by group id."""
        return self._context.group_configs

    # -- requests --------------------------------------------------------------------------

    def handle(
        self, request: Request, *, now_ms: int, client_id: str = "", client_host: str = ""
    ) -> Outcome:
        """Answer one request. A refused one changes nothing (but see ``removes_fenced_member``).

        Describe and list read this instance as it is; a host that must show committed state only
        asks an instance that holds no more than that (section 9.4, read operations).
        """
        match request:
            case ConsumerGroupHeartbeatRequest():
                return self._heartbeat(request, now_ms, client_id, client_host)
            case ConsumerGroupDescribeRequest():
                return Outcome(tuple(self._describe(group_id) for group_id in request.group_ids))
            case ListGroupsRequest():
                return Outcome(self._list(request))
            case DeleteGroupsRequest():
                return self._delete(request.group_id)
            case OffsetCommitRequest():
                group = self.groups.get(request.group_id)
                return self.offsets.commit(
                    request, group, now_ms=now_ms, is_simple=request.group_id in self.simple_groups
                )
            case OffsetFetchRequest():
                return Outcome(self.offsets.fetch(request, self.groups.get(request.group_id)))
            case OffsetDeleteRequest():
                is_simple = request.group_id in self.simple_groups
                group = self.groups.get(request.group_id)
                return self.offsets.delete(request, group, is_simple=is_simple)
            case AlterGroupConfigRequest():
                return Outcome(self._alter_config(request))
        raise TypeError(f"not a request: {request!r}")

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        now_ms: int,
        client_id: str,
        client_host: str,
    ) -> Outcome:
        context = self._context
        try:
            validate_heartbeat(
                request,
                assignors=context.config.group_consumer_assignors,
                refuses_non_positive_rebalance_timeout=(
                    context.rules.refuses_non_positive_rebalance_timeout
                ),
            )
            group = self._find(request)
            prefix: tuple[Record, ...] = ()
            if request.group_id in self.simple_groups:
                # An empty classic group gives way; its offsets stay (section 2.5).
                prefix = (GroupMetadata(request.group_id),)
            if request.member_epoch < JOIN_EPOCH:
                outcome = leave(context, group, request)
            else:
                outcome = heartbeat(
                    context,
                    group,
                    request,
                    now_ms=now_ms,
                    client_id=client_id,
                    client_host=client_host,
                )
        except GroupError as error:
            response = ConsumerGroupHeartbeatResponse(
                error_code=error.code, error_message=error.message
            )
            return self._refuse(request, error, response, now_ms)
        if prefix:
            outcome = Outcome(outcome.response, prefix + outcome.records, outcome.timers)
        return self._complete(group, outcome, now_ms)

    def _find(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroup:
        """Section 2.5. A fresh group stays outside ``groups`` until its records are replayed."""
        group = self.groups.get(request.group_id)
        if group is not None:
            return group
        if request.member_epoch == JOIN_EPOCH:
            return self._new_group(request.group_id)
        if request.group_id in self.simple_groups:
            raise GroupError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group."
            )
        kind = "Group" if request.member_epoch < JOIN_EPOCH else "Consumer group"
        raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, f"{kind} {request.group_id} not found.")

    def _refuse(
        self,
        request: ConsumerGroupHeartbeatRequest,
        error: GroupError,
        response: ConsumerGroupHeartbeatResponse,
        now_ms: int,
    ) -> Outcome:
        rules = self._context.rules
        if error.code is ErrorCode.FENCED_MEMBER_EPOCH and rules.removes_fenced_member:
            group = self.groups[request.group_id]
            removal = fence_member(self._context, group, group.members[request.member_id])
            outcome = Outcome(response, removal.records, removal.timers)
            return self._complete(group, outcome, now_ms)
        return Outcome(response)

    def _complete(self, group: ConsumerGroup, outcome: Outcome, now_ms: int) -> Outcome:
        if not outcome.records:
            return outcome
        records, timers = self._context.rules.follow_up(group, outcome.records, now_ms)
        if not records and not timers:
            return outcome
        return Outcome(outcome.response, outcome.records + records, outcome.timers + timers)

    def _describe(self, group_id: str) -> ConsumerGroupDescribeResponse:
        group = self.groups.get(group_id)
        return describe_missing(group_id) if group is None else describe(self._context, group)

    def _list(self, request: ListGroupsRequest) -> ListGroupsResponse:
        states = {state.strip().lower() for state in request.states_filter}
        types = {kind.strip().lower() for kind in request.types_filter}
        rows = [list_row(group) for group in self.groups.values()]
        rows += [simple_row(group_id) for group_id in self.simple_groups]
        return ListGroupsResponse(
            groups=tuple(
                row
                for row in sorted(rows, key=lambda row: row.group_id)
                if (not states or row.group_state.lower() in states)
                and (not types or row.group_type.lower() in types)
            )
        )

    def _delete(self, group_id: str) -> Outcome:
        group = self.groups.get(group_id)
        offsets = tuple(self.offsets.tombstones_of_group(group_id))
        if group is None:
            if group_id in self.simple_groups:
                records = (*offsets, GroupMetadata(group_id))
                return Outcome(DeleteGroupsResponse(group_id=group_id), records)
            return Outcome(
                DeleteGroupsResponse(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            )
        if group.state is not GroupState.EMPTY:
            return Outcome(
                DeleteGroupsResponse(group_id=group_id, error_code=ErrorCode.NON_EMPTY_GROUP)
            )
        return Outcome(
            DeleteGroupsResponse(group_id=group_id), offsets + _group_tombstones(group_id)
        )

    def _alter_config(self, request: AlterGroupConfigRequest) -> AlterGroupConfigResponse:
        """Section 10.2. The settings live outside the group log; the host shows them to every
        later coordinator of the group by ``update_group_config``."""
        current = self._context.group_configs.get(request.group_id, GroupConfig())
        try:
            if not request.group_id:
                raise GroupError(ErrorCode.INVALID_REQUEST, "A group id must be given.")
            altered = alter_group_config(
                self.config,
                current,
                request.configs,
                has_assignment_interval=self._context.rules.has_assignment_interval,
            )
        except GroupError as error:
            return AlterGroupConfigResponse(error_code=error.code, error_message=error.message)
        self.update_group_config(request.group_id, altered)
        return AlterGroupConfigResponse()

    # -- timers ----------------------------------------------------------------------------

    def fire(self, key: TimerKey, *, epoch: int = 0, now_ms: int) -> Outcome:
        """An armed timer has expired. ``epoch`` is what it was armed with.

        A timer whose group or member is gone does nothing (section 4.1).
        """
        if key.kind == "expiry":
            return self._expire(now_ms)
        if key.kind == "topic-deleted":
            return Outcome(None, tuple(self.offsets.tombstones_of_topic(key.member_id)))
        group = self.groups.get(key.group_id)
        if group is None:
            return Outcome()
        match key.kind:
            case "session" | "rebalance":
                member = group.members.get(key.member_id)
                if member is None or (key.kind == "rebalance" and member.member_epoch != epoch):
                    return Outcome()
                outcome = fence_member(self._context, group, member)
            case "metadata":
                outcome = self._notice_topics(group)
            case "assignment":
                outcome = self._assign(group, now_ms)
            case "regex":
                outcome = resolve(self._context, group, asked_at_ms=epoch)
            case _:
                raise ProtocolBug(f"unknown timer {key}")
        return self._complete(group, outcome, now_ms)

    def _expire(self, now_ms: int) -> Outcome:
        """Section 8.5: offsets whose retention is over, and empty groups that have none left."""
        records: list[Record] = []
        for group_id in sorted({*self.groups, *self.simple_groups, *self.offsets.group_ids()}):
            group = self.groups.get(group_id)
            gone = self.offsets.expired(group_id, group, now_ms=now_ms)
            records += gone
            if len(gone) < len(self.offsets.of_group(group_id)):
                continue
            if group is None:
                records.append(GroupMetadata(group_id))
            elif group.state is GroupState.EMPTY:
                records += _group_tombstones(group_id)
        interval_ms = self.config.offsets_retention_check_interval_ms
        return Outcome(None, tuple(records), (ScheduleTimer(EXPIRY_KEY, now_ms + interval_ms),))

    def _notice_topics(self, group: ConsumerGroup) -> Outcome:
        new_hash = metadata_hash(group.all_subscribed_names(), self._context.image)
        if not self._context.rules.notices_metadata(group, new_hash):
            return Outcome()
        value = GroupMetadataValue(epoch=group.group_epoch + 1, metadata_hash=new_hash)
        return Outcome(None, (ConsumerGroupMetadata(group.group_id, value),))

    def _assign(self, group: ConsumerGroup, now_ms: int) -> Outcome:
        if group.group_epoch <= group.target_assignment_epoch or not group.members:
            return Outcome()
        target = compute_target(
            self._context,
            group,
            group_epoch=group.group_epoch,
            subscription_type=group.subscription_type,
            now_ms=now_ms,
        )
        return Outcome(None, target.records)

    # -- state -----------------------------------------------------------------------------

    def replay(self, record: Record, *, strict: bool = True) -> None:
        """Apply one record; the only way in which hard state changes.

        ``strict`` is False during a load (section 9.3). Raises ProtocolBug where a live record
        contradicts the state it meets.
        """
        match record:
            case OffsetCommit():
                self.offsets.replay(record)
                if record.value is not None and record.group_id not in self.groups:
                    self.simple_groups.add(record.group_id)
                return
            case GroupMetadata():
                self.simple_groups.discard(record.group_id)
                return
        group = self.groups.get(record.group_id)
        if group is None:
            if record.value is None:
                return
            self.simple_groups.discard(record.group_id)
            group = self.groups[record.group_id] = self._new_group(record.group_id)
        group.replay(record, strict=strict)
        if group.is_deleted:
            del self.groups[record.group_id]

    def update_image(self, image: MetadataImage, *, now_ms: int = 0) -> tuple[TimerCommand, ...]:
        """Take a new metadata image. Groups subscribed to a changed name look at it at their next
        heartbeat (section 7.3); versions that look themselves ask for a timer."""
        old, self._context.image = self._context.image, image
        names = {*old.by_name, *image.by_name}
        changed = {n for n in names if old.by_name.get(n) != image.by_name.get(n)}
        if any(name not in old.by_name for name in changed):
            self._context.newest_topic_version = image.version
        timers: list[TimerCommand] = [
            # The topic's name takes the place of a member id in the key.
            ScheduleTimer(TimerKey("topic-deleted", "", name), now_ms)
            for name in sorted(changed)
            if _is_other_topic(old.by_name.get(name), image, name)
        ]
        for group_id in sorted(self.groups):
            group = self.groups[group_id]
            if changed.isdisjoint(self._context.rules.names_watched(group)):
                continue
            group.request_metadata_refresh()
            if self._context.rules.notices_topics_itself:
                timers.append(ScheduleTimer(TimerKey("metadata", group_id), now_ms))
        return tuple(timers)

    def update_group_config(self, group_id: str, config: GroupConfig) -> None:
        """Take a group's dynamic settings. Timers that are running are not adjusted."""
        self._context.group_configs[group_id] = config

    def on_loaded(self, *, now_ms: int) -> tuple[TimerCommand, ...]:
        """Timers of a freshly loaded shard: full timeouts for every member, expiry (9.5)."""
        rules = self._context.rules
        expiry_ms = self.config.offsets_retention_check_interval_ms
        timers: list[TimerCommand] = [ScheduleTimer(EXPIRY_KEY, now_ms + expiry_ms)]
        for group_id in sorted(self.groups):
            group = self.groups[group_id]
            group.rebuild_ownership()
            group.request_metadata_refresh()
            for member_id in sorted(group.members):
                member = group.members[member_id]
                if rules.arms_session_timers_on_load():
                    timers.append(
                        ScheduleTimer(
                            session_key(group_id, member_id),
                            now_ms + self._context.session_timeout_ms(group_id),
                        )
                    )
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    timers.append(
                        ScheduleTimer(
                            rebalance_key(group_id, member_id),
                            now_ms + member.rebalance_timeout_ms,
                            member.member_epoch,
                        )
                    )
            if rules.notices_topics_itself:
                timers.append(ScheduleTimer(TimerKey("metadata", group_id), now_ms))
                timers.append(ScheduleTimer(TimerKey("assignment", group_id), now_ms))
        return tuple(timers)

    def _new_group(self, group_id: str) -> ConsumerGroup:
        rules = self._context.rules
        return ConsumerGroup(
            group_id, initial_epoch=rules.initial_group_epoch, ownership=rules.ownership
        )


def _is_other_topic(old: Topic | None, image: MetadataImage, name: str) -> bool:
    """Was there a topic under this name that is gone, or has been created anew?"""
    if old is None:
        return False
    new = image.by_name.get(name)
    return new is None or new.topic_id != old.topic_id


def _group_tombstones(group_id: str) -> tuple[Record, ...]:
    """Section 8.6: an empty group goes by tombstones 6, 4, 3."""
    return (
        ConsumerGroupTargetAssignmentMetadata(group_id, None),
        ConsumerGroupPartitionMetadata(group_id),
        ConsumerGroupMetadata(group_id, None),
    )
