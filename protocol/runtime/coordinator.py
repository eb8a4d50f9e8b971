"""A group coordinator: dispatch of requests and timers, replay, load.

One instance holds the groups of one partition of the offsets topic. It is pure: the host owns the
log, the clock and the network (``protocol/hosting/minimal_shard.py`` is the smallest host).
Sources: coordinator §2.3, §2.5, §4.1, §8.6, §9.3, §9.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from rebalance_sim.protocol.classic.operation import Operation
from rebalance_sim.protocol.consumer.client_side.assignment_requests import (
    answer_assignment_request,
)
from rebalance_sim.protocol.consumer.client_side.selection import validate_assignors
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_heartbeat import heartbeat
from rebalance_sim.protocol.consumer.context import (
    CompileRegex,
    CoordinatorContext,
    no_regex_engine,
)
from rebalance_sim.protocol.consumer.removal import leave, remove_members
from rebalance_sim.protocol.consumer.timer_expiry import fired
from rebalance_sim.protocol.consumer.timer_keys import rebalance_key, session_key
from rebalance_sim.protocol.consumer.validation import validate_heartbeat
from rebalance_sim.protocol.migration.classic_router import ClassicRequests
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.migration.upgrade import upgrade
from rebalance_sim.protocol.runtime.coordinator_config import (
    ConfigsInForce,
    CoordinatorConfig,
    GroupConfig,
    alter_group_config,
)
from rebalance_sim.protocol.runtime.group_directory import Directory
from rebalance_sim.protocol.runtime.group_store import GroupStore
from rebalance_sim.protocol.runtime.outcome import (
    Completion,
    Outcome,
    ScheduleTimer,
    TimerCommand,
    TimerKey,
    Token,
)
from rebalance_sim.protocol.runtime.reads import ReadRequest, Reads
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance, RebalanceCause
from rebalance_sim.protocol.runtime.rule_set import CORRECT_RULES, RuleSet
from rebalance_sim.protocol.runtime.timeline import Timeline
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)
from rebalance_sim.protocol.wire.classic_messages import (
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    AlterGroupConfigRequest,
    AlterGroupConfigResponse,
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DeleteGroupsRequest,
    ListGroupsRequest,
    Request,
    Response,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import GroupMetadata, MemberState, Record
from rebalance_sim.protocol.wire.topics import EMPTY_IMAGE, MetadataImage, Topic

__all__ = ["EXPIRY_KEY", "GroupCoordinator"]

EXPIRY_KEY = TimerKey("expiry", "")
"""The shard-wide job that deletes empty groups (coordinator §8.5)."""


_MIGRATION = Rebalance("consumer", RebalanceCause.MIGRATION)


class GroupCoordinator:
    """State machine of one shard. Its attributes are read-only for everybody else.

    ``keeps_history`` is for hosts that replay records before they are committed: they say at which
    offset, and reads then answer from the last committed one. Without, all is committed at once.

    ``groups`` are the consumer groups. ``classic_groups`` are all others; theirs is soft state,
    which handlers change in place.
    """

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        new_member_id: Callable[[], str],
        semantics: RuleSet = CORRECT_RULES,
        image: MetadataImage = EMPTY_IMAGE,
        compile_regex: CompileRegex = no_regex_engine,
        keeps_history: bool = False,
        group_configs: Mapping[str, GroupConfig] = MappingProxyType({}),
    ) -> None:
        self.semantics = semantics
        self._context = CoordinatorContext(
            configs=ConfigsInForce(broker=config, groups=group_configs),
            rules=semantics.rules(MigrationRules)(),
            image=image,
            new_member_id=new_member_id,
            compile_regex=compile_regex,
            timeline=Timeline() if keeps_history else None,
        )
        self._store = GroupStore(self._context)
        self.groups = self._store.groups
        self.classic_groups = self._store.classic_groups
        self.offsets = self._store.offsets
        self._directory = Directory(self._store)
        self._reads = Reads(self._context, self._store, self._directory)
        self._classic = ClassicRequests(self._context, self.groups)

    @property
    def simple_groups(self) -> frozenset[str]:
        """Ids of the classic groups that exist only because somebody without membership committed
        an offset (coordinator §8.1)."""
        return frozenset(i for i, group in self.classic_groups.items() if group.is_simple)

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
        return self._context.configs.groups

    # -- requests --------------------------------------------------------------------------

    def handle(
        self,
        request: Request,
        *,
        now_ms: int,
        client_id: str = "",
        client_host: str = "",
        token: Token | None = None,
    ) -> Outcome:
        """Answer one request. A refused one changes nothing (but see ``removes_fenced_member``).

        ``token`` is the host's name for a JoinGroup or SyncGroup: an outcome without a response
        answers it by a completion, at once or later. Raises TypeError where it is missing.
        """
        match request:
            case ConsumerGroupHeartbeatRequest():
                return self._heartbeat(request, now_ms, client_id, client_host)
            case OffsetCommitRequest():
                group = self._store.get(request.group_id)
                return self.offsets.commit(request, group, now_ms=now_ms)
            case OffsetFetchRequest() if request.require_stable:
                return Outcome(self.offsets.fetch(request, self.groups.get(request.group_id)))
            case OffsetFetchRequest() | ConsumerGroupDescribeRequest() | ListGroupsRequest():
                return Outcome(self.read(request))
            case DescribeGroupsRequest():
                return Outcome(self.read(request))
            case OffsetDeleteRequest():
                return self.offsets.delete(request, self._store.get(request.group_id))
            case DeleteGroupsRequest():
                return self._directory.delete(request.group_id)
            case AlterGroupConfigRequest():
                return Outcome(self._alter_config(request))
            case ConsumerGroupPrepareAssignmentRequest() | ConsumerGroupInstallAssignmentRequest():
                return answer_assignment_request(self._context, self.groups, request, now_ms=now_ms)
        outcome = self._handle_classic(request, token, now_ms, client_id, client_host)
        group_of_members = self.groups.get(request.group_id)
        if group_of_members is None:
            return outcome
        return self._complete(group_of_members, outcome, now_ms)

    def read(self, request: ReadRequest) -> Response:
        """Answer a read operation from what is committed (coordinator §9.4).

        The host may let the answer go at once. Where nothing is uncommitted, this is the newest
        state.
        """
        return self._reads.answer(request)

    def _handle_classic(
        self, request: Request, token: Token | None, now_ms: int, client_id: str, client_host: str
    ) -> Outcome:
        match request:
            case HeartbeatRequest():
                return self._classic.heartbeat(request, now_ms=now_ms)
            case LeaveGroupRequest():
                return self._classic.leave(request, now_ms=now_ms)
        if token is None:
            raise TypeError(f"{type(request).__name__} needs a token, as its answer may come later")
        match request:
            case SyncGroupRequest():
                return self._classic.sync(request, token=token, now_ms=now_ms)
            case JoinGroupRequest():
                return self._classic.join(
                    request,
                    token=token,
                    now_ms=now_ms,
                    client_id=client_id,
                    client_host=client_host,
                )
        raise TypeError(f"not a request: {request!r}")

    def committed(self, on_commit: object, *, now_ms: int) -> Outcome:
        """All records of the outcome that announced ``on_commit`` are committed."""
        return self._classic.committed(on_commit, now_ms=now_ms)

    def write_failed(
        self, on_commit: object, error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """They are not, as far as the host can tell; ``error`` is for the clients
        (coordinator §9.6).

        ``is_undone``: nothing of them is in the log, and the host has rolled them back. A write
        that only took too long may still be committed, and what it did stays.
        """
        return self._classic.write_failed(on_commit, error, is_undone=is_undone, now_ms=now_ms)

    def _heartbeat(
        self,
        request: ConsumerGroupHeartbeatRequest,
        now_ms: int,
        client_id: str,
        client_host: str,
    ) -> Outcome:
        context = self._context
        conversion: Operation | None = None
        try:
            validate_heartbeat(
                request,
                assignors=context.config.group_consumer_assignors,
                refuses_non_positive_rebalance_timeout=(
                    context.rules.refuses_non_positive_rebalance_timeout
                ),
            )
            validate_assignors(request, is_known_field=context.rules.has_client_assignors)
            group = self.groups.get(request.group_id)
            if group is None:
                conversion = Operation(context.config, context.rules, now_ms=now_ms)
                group = self._find(request, conversion)
            if request.member_epoch < JOIN_EPOCH:
                outcome = leave(context, group, request, now_ms=now_ms)
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
            outcome = self._refuse(request, error, response, now_ms)
            if conversion is not None:
                # Whoever was parked has been told already that the group starts over.
                outcome = replace(outcome, completions=tuple(conversion.completions))
            return outcome
        if conversion is not None:
            outcome = replace(
                outcome,
                records=(*conversion.records, *outcome.records),
                timers=(*conversion.timers, *outcome.timers),
                completions=tuple(conversion.completions),
            )
            if conversion.records and group.members:
                outcome = replace(outcome, rebalances=(_MIGRATION,))
        return self._complete(group, outcome, now_ms)

    def _find(self, request: ConsumerGroupHeartbeatRequest, conversion: Operation) -> ConsumerGroup:
        """coordinator §2.5, for an id that no consumer group has.

        A fresh or converted group stays outside ``groups`` until its records are replayed.
        """
        group_id = request.group_id
        classic = self.classic_groups.get(group_id)
        if request.member_epoch != JOIN_EPOCH:
            kind = "Group" if request.member_epoch < JOIN_EPOCH else "Consumer group"
            raise GroupError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                f"{kind} {group_id} not found."
                if classic is None
                else f"Group {group_id} is not a consumer group.",
            )
        if classic is None:
            return self._store.new_group(group_id)
        if classic.is_empty:
            # An empty classic group gives way; its offsets stay.
            conversion.records.append(GroupMetadata(group_id))
            return self._store.new_group(group_id)
        return upgrade(self._context, classic, conversion)

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
            member = group.members[request.member_id]
            outcome = remove_members(
                self._context,
                group,
                [member],
                now_ms=now_ms,
                cause=RebalanceCause.MEMBER_FENCED,
                response=response,
            )
            return self._complete(group, outcome, now_ms)
        return Outcome(response)

    def _complete(self, group: ConsumerGroup, outcome: Outcome, now_ms: int) -> Outcome:
        if not outcome.records:
            return outcome
        records, timers = self._context.rules.follow_up(
            group, outcome.records, self._context.topic_ids, now_ms
        )
        if not records and not timers:
            return outcome
        return replace(outcome, records=outcome.records + records, timers=outcome.timers + timers)

    def _alter_config(self, request: AlterGroupConfigRequest) -> AlterGroupConfigResponse:
        """coordinator §10.2. The settings live outside the group log; the host shows them to every
        later coordinator of the group."""
        configs = self._context.configs
        current = configs.groups.get(request.group_id, GroupConfig())
        try:
            if not request.group_id:
                refusal = "Default group resources are not allowed."
                raise GroupError(ErrorCode.INVALID_REQUEST, refusal)
            altered = alter_group_config(
                self.config,
                current,
                request.configs,
                has_assignment_interval=self._context.rules.has_assignment_interval,
            )
        except GroupError as error:
            return AlterGroupConfigResponse(error_code=error.code, error_message=error.message)
        self.update_configs(configs.with_group(request.group_id, altered))
        return AlterGroupConfigResponse()

    # -- timers ----------------------------------------------------------------------------

    def fire(self, key: TimerKey, *, epoch: int = 0, now_ms: int) -> Outcome:
        """An armed timer has expired. ``epoch`` is what it was armed with.

        A timer whose group or member is gone does nothing (coordinator §4.1).
        """
        if key.kind == "expiry":
            return self._expire(now_ms)
        if key.kind == "topic-deleted":
            return Outcome(None, tuple(self.offsets.tombstones_of_topic(key.member_id)))
        if key.kind.startswith("classic-"):
            return self._classic.fire(key, epoch=epoch, now_ms=now_ms)
        group = self.groups.get(key.group_id)
        outcome = fired(self._context, group, key, epoch=epoch, now_ms=now_ms)
        return outcome if group is None else self._complete(group, outcome, now_ms)

    def _expire(self, now_ms: int) -> Outcome:
        interval_ms = self.config.offsets_retention_check_interval_ms
        again = ScheduleTimer(EXPIRY_KEY, now_ms + interval_ms)
        return Outcome(None, tuple(self._directory.expired(now_ms=now_ms)), (again,))

    # -- state -----------------------------------------------------------------------------

    def replay(self, record: Record, *, strict: bool = True, offset: int | None = None) -> None:
        """Apply one record; the only way in which hard state changes.

        ``strict`` is False during a load (coordinator §9.3). ``offset`` is that of a record which
        is not committed yet, for a coordinator that keeps history. Raises ProtocolBug where a live
        record contradicts the state it meets.
        """
        self._store.replay(record, strict=strict, offset=offset)

    def commit_to(self, offset: int) -> None:
        """The high watermark is at ``offset``: reads see everything below it from now on."""
        self._store.commit_to(offset)

    def revert_to(self, offset: int) -> None:
        """Undo everything from ``offset`` on, which could not be written (coordinator §9.4).

        Soft state and timers stay as they are (coordinator §15, D14). Raises ValueError for a
        coordinator that keeps no history.
        """
        self._store.revert_to(offset)

    def update_image(self, image: MetadataImage, *, now_ms: int = 0) -> tuple[TimerCommand, ...]:
        """Take a new metadata image. Groups subscribed to a changed name look at it at their next
        heartbeat (coordinator §7.3); versions that look themselves ask for a timer."""
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

    def update_configs(self, configs: ConfigsInForce) -> None:
        """Take altered settings (coordinator §10.2). Timers that are running are not adjusted."""
        self._context.take_configs(configs)

    def on_loaded(self, *, now_ms: int) -> tuple[TimerCommand, ...]:
        """Timers of a freshly loaded shard: full timeouts for every member, expiry
        (coordinator §9.5)."""
        rules = self._context.rules
        expiry_ms = self.config.offsets_retention_check_interval_ms
        timers: list[TimerCommand] = [ScheduleTimer(EXPIRY_KEY, now_ms + expiry_ms)]
        for group_id in sorted(self.groups):
            group = self.groups[group_id]
            group.rebuild_maps()
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
        return (*timers, *self._classic.on_loaded(now_ms=now_ms))

    def on_unloaded(self, *, now_ms: int) -> tuple[Completion, ...]:
        """Another broker takes over: what parked requests are answered. The host drops this
        instance, and its timers, afterwards (migration, classic §8.2)."""
        return self._classic.on_unloaded(now_ms=now_ms)


def _is_other_topic(old: Topic | None, image: MetadataImage, name: str) -> bool:
    """Was there a topic under this name that is gone, or has been created anew?"""
    if old is None:
        return False
    new = image.by_name.get(name)
    return new is None or new.topic_id != old.topic_id
