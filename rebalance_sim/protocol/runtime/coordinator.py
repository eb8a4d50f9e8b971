"""A group coordinator: dispatch of requests and timers, replay, load.

One instance holds the groups of one partition of the offsets topic. It is pure: the host owns the
log, the clock and the network (``protocol/hosting/minimal_shard.py`` is the smallest host). What a
group does is its type's business (``protocol/runtime/group_type.py``).
Sources: coordinator §2.3, §4.1, §8.6, §9.3-§9.5.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence, Set
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeVar

from rebalance_sim.protocol.runtime.context import (
    CompileRegex,
    CoordinatorContext,
    no_regex_engine,
)
from rebalance_sim.protocol.runtime.coordinator_config import (
    ConfigsInForce,
    CoordinatorConfig,
    GroupConfig,
)
from rebalance_sim.protocol.runtime.group_directory import Directory
from rebalance_sim.protocol.runtime.group_store import GroupStore
from rebalance_sim.protocol.runtime.group_type import (
    Call,
    Component,
    CoordinatorSemantics,
    GroupType,
    Handler,
    Projection,
)
from rebalance_sim.protocol.runtime.offsets import OFFSET_STATE
from rebalance_sim.protocol.runtime.outcome import (
    Completion,
    Continuation,
    Outcome,
    ScheduleTimer,
    ShardTimer,
    TimerCommand,
    TimerKey,
    Token,
    topic_deleted,
    topic_deleted_key,
)
from rebalance_sim.protocol.runtime.rule_desk import RULE_STATE, RuleDesk, RuleTimerKind
from rebalance_sim.protocol.runtime.snapshot import Freezer, KeyMaker, StateFields
from rebalance_sim.protocol.runtime.timeline import Timeline
from rebalance_sim.protocol.wire.consumer_messages import (
    AlterGroupConfigRequest,
    AlterGroupConfigResponse,
    DeleteGroupsRequest,
    ListGroupsRequest,
    Request,
    Response,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError, ProtocolBug
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import EMPTY_IMAGE, MetadataImage, Topic, TopicPartition

EXPIRY_KEY = TimerKey(ShardTimer.EXPIRY, "")
"""The shard-wide job that deletes expired offsets and empty groups (coordinator §8.5)."""

_G = TypeVar("_G")


class CoordinatorSnapshot(NamedTuple):
    """Topics and settings as a coordinator knows them, the term in which it serves, and a snapshot
    of all the rest."""

    image: MetadataImage
    newest_topic_version: int
    configs: ConfigsInForce
    term: int
    state: bytes


class GroupCoordinator:
    """State machine of one shard. Its attributes are read-only for everybody else.

    ``keeps_history`` is for hosts that replay records before they are committed: they say at which
    offset, and reads then answer from the last committed one. Without, all is committed at once.
    ``term`` is the leader epoch in which it serves, ``partition`` the one whose shard it is.
    ``wall_offset_ms``: how far the wall clock of its host is ahead of the ``now_ms`` that it is
    handed, which is monotonic. ``free_times``: fields with times that no ``state_key`` has, for who
    never lets them matter.
    """

    free_times: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        new_member_id: Callable[[], str],
        semantics: CoordinatorSemantics,
        image: MetadataImage = EMPTY_IMAGE,
        compile_regex: CompileRegex = no_regex_engine,
        keeps_history: bool = False,
        group_configs: Mapping[str, GroupConfig] = MappingProxyType({}),
        term: int = 0,
        partition: int = 0,
        wall_offset_ms: int = 0,
    ) -> None:
        self.semantics = semantics
        self._context: CoordinatorContext[Any] = CoordinatorContext(
            configs=ConfigsInForce(broker=config, groups=group_configs),
            rules=semantics.coordinator(),
            image=image,
            new_member_id=new_member_id,
            compile_regex=compile_regex,
            timeline=Timeline() if keeps_history else None,
            term=term,
            partition=partition,
            wall_offset_ms=wall_offset_ms,
        )
        self._desk = RuleDesk(self._context, self._members_of)
        self._context.rules.desk = self._desk
        self._components = [component(self._context) for component in semantics.group_types]
        self._store = GroupStore(self._context, self._components)
        self.offsets = self._store.offsets
        self._directory = Directory(self._store)
        self._handlers: dict[type, Handler] = {
            OffsetCommitRequest: self._commit_offsets,
            OffsetFetchRequest: self._fetch_offsets,
            OffsetDeleteRequest: lambda call: self.offsets.delete(call.request, call.group),
            DeleteGroupsRequest: lambda call: self._directory.delete(call.request.group_id),
            AlterGroupConfigRequest: lambda call: Outcome(self._alter_config(call.request)),
        }
        self._crossings: dict[tuple[type, type], Handler] = {}
        self._reads: dict[type, Callable[[Any], Any]] = {
            ListGroupsRequest: self._directory.rows,
            OffsetFetchRequest: self._fetch_committed,
        }
        self._timers: dict[type, Component[Any]] = {}
        self._parks = tuple(kind for component in self._components for kind in component.parks)
        for component in self._components:
            self._handlers.update(component.handlers())
            self._crossings.update(component.crossings())
            self._reads.update(component.reads())
            if component.timers is not None:
                self._timers[component.timers] = component

    # -- its state as a value --------------------------------------------------------------

    def snapshot(self) -> CoordinatorSnapshot:
        """All that its answers depend on, for ``restore``. Raises ValueError for a coordinator that
        keeps history."""
        if self._context.timeline is not None:
            raise ValueError("a coordinator that keeps history has no snapshot")
        context = self._context
        self._desk.forget()
        return CoordinatorSnapshot(
            image=context.image,
            newest_topic_version=context.newest_topic_version,
            configs=context.configs,
            term=context.term,
            state=self._freezer.freeze((*context.state, self.offsets.state)),
        )

    def restore(self, snapshot: CoordinatorSnapshot) -> None:
        """Continue from a snapshot of this coordinator, whatever has happened since."""
        context = self._context
        context.image = snapshot.image
        context.newest_topic_version = snapshot.newest_topic_version
        context.configs, context.config = snapshot.configs, snapshot.configs.broker
        context.term = snapshot.term
        tables, parts, offsets = self._freezer.thaw(snapshot.state)
        context.take_state(tables, parts)
        self.offsets.take_state(offsets)

    def state_key(self, *, now_ms: int) -> Hashable:
        """Equal for two states, each at its time, in which the same requests and timers have the
        same outcomes, but for times. Armed timers and the log are the host's."""
        context = self._context
        self._desk.forget()
        tables, parts = context.state
        state = self._key_maker.key((tables, parts, self.offsets.state), now_ms=now_ms)
        return context.image.version, state

    @cached_property
    def _constants(self) -> tuple[object, ...]:
        context = self._context
        return (context, context.rules, *self._components)

    @cached_property
    def _freezer(self) -> Freezer:
        return Freezer(self._constants)

    @cached_property
    def _key_maker(self) -> KeyMaker:
        fields: dict[type, StateFields] = {**RULE_STATE, **OFFSET_STATE}
        for component in self._components:
            if isinstance(component, GroupType):
                fields |= component.state_fields
        return KeyMaker(fields, constants=self._constants, free_times=self.free_times)

    # -- what there is ---------------------------------------------------------------------

    def groups_of(self, group_class: type[_G]) -> Mapping[str, _G]:
        """The groups of this class, by id."""
        return self._context.tables[group_class]

    def project(self, group_id: str) -> Projection | None:
        """The group of this id, of whichever type, for checkers and metrics; None if there is
        none."""
        group = self._store.get(group_id)
        return None if group is None else self._store.type_of(group).project(group)

    def assigned_to(self, group_id: str, member_id: str) -> Set[TopicPartition] | None:
        """See ``GroupType.assigned_to``; None if there is no such group."""
        group = self._store.get(group_id)
        return None if group is None else self._store.type_of(group).assigned_to(group, member_id)

    def has_matched(self, group_id: str) -> bool:
        """See ``GroupType.has_matched``; there may be no such group."""
        group = self._store.get(group_id)
        return group is None or self._store.type_of(group).has_matched(group)

    def log_state(self, group_id: str) -> Mapping[str, object]:
        """See ``GroupType.log_state``; empty if there is no such group."""
        group = self._store.get(group_id)
        return {} if group is None else self._store.type_of(group).log_state(group)

    @property
    def rule_state(self) -> Mapping[str, object]:
        """What rules have declared, and hold now: name, group and member -> value; only what is
        not as at first."""
        if not self._desk.declared:
            return {}
        values = self._desk.memory.values
        return {" ".join(filter(None, key)): values[key] for key in sorted(values)}

    @property
    def config(self) -> CoordinatorConfig:
        """The configuration in force."""
        return self._context.config

    @property
    def term(self) -> int:
        """The leader epoch in which it serves."""
        return self._context.term

    @property
    def wall_offset_ms(self) -> int:
        """How far the wall clock of its host is ahead of ``now_ms``."""
        return self._context.wall_offset_ms

    @property
    def image(self) -> MetadataImage:
        """The topics as this coordinator knows them."""
        return self._context.image

    @property
    def group_configs(self) -> Mapping[str, GroupConfig]:
        """The dynamic settings of groups, by group id."""
        return self._context.configs.groups

    def _members_of(self, group_id: str) -> Any:
        group = self._store.get(group_id)
        return None if group is None else getattr(group, "members", ())

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

        ``token`` is the host's name for a request that may be parked: an outcome without a response
        answers it by a completion, at once or later. Raises TypeError where it is missing, and for
        a request that no one handles.
        """
        handler = self._handlers.get(type(request))
        if handler is None:
            if type(request) not in self._reads:
                raise TypeError(f"not a request: {request!r}")
            return Outcome(self.read(request))
        group = self._store.get(request.group_id)  # type: ignore[union-attr]
        call: Call[Any] = Call(request, group, now_ms, client_id, client_host, token)
        crossing = self._crossings.get((type(request), type(group)))
        self._desk.begin(now_ms)
        return self._desk.closed(handler(call) if crossing is None else crossing(call))

    def is_read(self, request: object) -> bool:
        """Whether this is a read operation, which waits for nothing (coordinator §9.4).

        An offset fetch that requires stable offsets is a write without records instead
        (coordinator §8.2).
        """
        if type(request) is OffsetFetchRequest:
            return not request.require_stable
        return type(request) in self._reads

    def may_park(self, request: object) -> bool:
        """Whether the answer to this request may come later, under its token."""
        return isinstance(request, self._parks)

    def read(self, request: Any) -> Response:
        """Answer a read operation from what is committed (coordinator §9.4).

        The host may let the answer go at once. Where nothing is uncommitted, this is the newest
        state; soft state is always shown as it is.
        """
        response: Response = self._reads[type(request)](request)
        return response

    def _commit_offsets(self, call: Call[OffsetCommitRequest]) -> Outcome:
        return self.offsets.commit(call.request, call.group, now_ms=call.now_ms)

    def _fetch_offsets(self, call: Call[OffsetFetchRequest]) -> Outcome:
        if not call.request.require_stable:
            return Outcome(self.read(call.request))
        return Outcome(self.offsets.fetch(call.request, call.group, is_committed=False))

    def _fetch_committed(self, request: OffsetFetchRequest) -> Response:
        group = self._store.get_committed(request.group_id)
        return self.offsets.fetch(request, group, is_committed=True)

    def _alter_config(self, request: AlterGroupConfigRequest) -> AlterGroupConfigResponse:
        """coordinator §10.2. The settings live outside the group log; the host shows them to every
        later coordinator of the group."""
        try:
            altered = self._context.configs.altered(
                request.group_id,
                request.configs,
                has_assignment_interval=self._context.rules.has_assignment_interval,
            )
        except GroupError as error:
            return AlterGroupConfigResponse(error_code=error.code, error_message=error.message)
        self.update_configs(altered)
        return AlterGroupConfigResponse()

    # -- commits ---------------------------------------------------------------------------

    def committed(self, on_commit: Continuation, *, now_ms: int) -> Outcome:
        """All records of the outcome that announced ``on_commit`` are committed."""
        self._desk.begin(now_ms)
        return self._desk.closed(on_commit.committed(self._context, now_ms=now_ms))

    def write_failed(
        self, on_commit: Continuation, error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """They are not, as far as the host knows; ``error`` is for the clients
        (coordinator §9.6).

        ``is_undone``: nothing of them is in the log, and the host has rolled them back. A write
        that only took too long may still be committed, and what it did stays.
        """
        self._desk.begin(now_ms)
        return self._desk.closed(
            on_commit.write_failed(self._context, error, is_undone=is_undone, now_ms=now_ms)
        )

    # -- timers ----------------------------------------------------------------------------

    def expired(self, *, now_ms: int) -> tuple[Record, ...]:
        """What a look for expired offsets at this time takes away (coordinator §8.5)."""
        return tuple(self._directory.expired(now_ms=now_ms + self._context.wall_offset_ms))

    def fire(self, key: TimerKey, *, epoch: int = 0, now_ms: int) -> Outcome:
        """An armed timer has expired. ``epoch`` is what it was armed with.

        A timer whose group or member is gone does nothing (coordinator §4.1). Raises ProtocolBug
        for a kind that no one has.
        """
        self._desk.begin(now_ms)
        return self._desk.closed(self._fired(key, epoch, now_ms))

    def _fired(self, key: TimerKey, epoch: int, now_ms: int) -> Outcome:
        if key.kind is ShardTimer.EXPIRY:
            again = now_ms + self.config.offsets_retention_check_interval_ms
            return Outcome(None, self.expired(now_ms=now_ms), (ScheduleTimer(EXPIRY_KEY, again),))
        if key.kind is ShardTimer.TOPIC_DELETED:
            return Outcome(None, self.offsets.tombstones_of_topic(*topic_deleted(key)))
        if key.kind is RuleTimerKind.RULE:
            group = self._store.get(key.group_id)
            outcome = self._desk.fired(key, group)
            entailed = None if group is None else self._store.type_of(group).entailed
            return outcome if entailed is None else entailed(group, outcome, now_ms=now_ms)
        owner = self._timers.get(type(key.kind))
        if owner is None:
            raise ProtocolBug(f"unknown timer {key}")
        return owner.fire(key, epoch=epoch, now_ms=now_ms)

    # -- state -----------------------------------------------------------------------------

    def replay(self, record: Record, *, strict: bool = True, offset: int | None = None) -> None:
        """Apply one record; the only way in which hard state changes.

        ``strict`` is False during a load (coordinator §9.3). ``offset`` is that of a record which
        is not committed yet, for a coordinator that keeps history. Raises ProtocolBug where a live
        record contradicts the state it meets.
        """
        self._store.replay((record,), strict=strict, offset=offset)

    def replay_batch(self, records: Sequence[Record], *, offset: int) -> None:
        """Apply the records of an operation, none of which is committed yet; ``offset``: that of
        the first. Raises ProtocolBug as ``replay`` does; some may be in force then."""
        self._store.replay(records, strict=True, offset=offset)

    def commit_to(self, offset: int) -> None:
        """The high watermark is at ``offset``: reads see everything below it from now on."""
        self._store.commit_to(offset)

    def revert_to(self, offset: int) -> None:
        """Undo everything from ``offset`` on, which could not be written (coordinator §9.4).

        Soft state and timers stay as they are (coordinator §15, D14). Raises ValueError for a
        coordinator that keeps no history.
        """
        self._store.revert_to(offset)

    def timers_after_revert(
        self, armed: Container[TimerKey], *, now_ms: int
    ) -> tuple[TimerCommand, ...]:
        """What ``revert_to`` has brought back may have soft state, whose timers have run out, or
        were cancelled, while it was away: those that it needs, and that are not armed."""
        return tuple(
            timer
            for component in self._components
            for timer in component.on_reverted(armed, now_ms=now_ms)
        )

    def update_image(self, image: MetadataImage, *, now_ms: int = 0) -> tuple[TimerCommand, ...]:
        """Take a new metadata image (coordinator §7.3)."""
        old, self._context.image = self._context.image, image
        names = {*old.by_name, *image.by_name}
        changed = {n for n in names if old.by_name.get(n) != image.by_name.get(n)}
        self._desk.begin(now_ms)
        if any(name not in old.by_name for name in changed):
            self._context.newest_topic_version = image.version
        timers: list[TimerCommand] = [
            ScheduleTimer(topic_deleted_key(old.by_name[name]), now_ms)
            for name in sorted(changed)
            if self._store.types and _is_other_topic(old.by_name.get(name), image, name)
        ]
        for component in self._components:
            timers += component.on_topics_changed(changed, now_ms=now_ms)
        return (*timers, *self._desk.timers())

    def update_configs(self, configs: ConfigsInForce) -> None:
        """Take altered settings (coordinator §10.2). Timers that are running are not adjusted."""
        self._context.take_configs(configs)

    def set_wall_clock(self, offset_ms: int) -> None:
        """The wall clock of the host is ``offset_ms`` ahead of ``now_ms`` from now on."""
        self._context.wall_offset_ms = offset_ms

    def on_loaded(self, *, now_ms: int) -> tuple[TimerCommand, ...]:
        """Timers of a freshly loaded shard: full timeouts for every member, expiry
        (coordinator §9.5)."""
        self._desk.begin(now_ms)
        expiry_ms = self.config.offsets_retention_check_interval_ms
        timers: list[TimerCommand] = []
        if self._store.types:
            timers.append(ScheduleTimer(EXPIRY_KEY, now_ms + expiry_ms))
        for component in self._components:
            timers += component.on_loaded(now_ms=now_ms)
        for group in self._store.all_groups():
            self._context.rules.after_load(group)
        return (*timers, *self._desk.timers())

    def on_unloaded(self, *, now_ms: int) -> tuple[Completion, ...]:
        """Another broker takes over: what parked requests are answered. The host drops this
        instance, and its timers, afterwards (classic §8.2)."""
        return tuple(
            completion
            for component in self._components
            for completion in component.on_unloaded(now_ms=now_ms)
        )


def _is_other_topic(old: Topic | None, image: MetadataImage, name: str) -> bool:
    """Was there a topic under this name that is gone, or has been recreated?"""
    if old is None:
        return False
    new = image.by_name.get(name)
    return new is None or new.topic_id != old.topic_id
