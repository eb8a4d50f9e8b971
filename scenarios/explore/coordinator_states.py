"""The coordinator as a memoised machine over numbered states.

The machine is that of ``protocol/runtime``; every record is committed as soon as it is written. Its
clock stands still but for timers: one that fires takes it to its time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.hosting.error_answers import error_answer
from rebalance_sim.protocol.runtime.coordinator import CoordinatorSnapshot, GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.outcome import (
    Outcome,
    ScheduleTimer,
    ShardTimer,
    TimerCommand,
    TimerKey,
)
from rebalance_sim.protocol.wire.consumer_messages import Request
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import VALUE_FIELDS, Record
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.explore.interning import Interned, Messages
from rebalance_sim.scenarios.explore.scope import GROUP, Scope

LogKey = tuple[Hashable, ...]

TOPICS_GROW = "topics grow"
MOVE = "the coordinator moves"
WAIT = "the assignment interval is over"


class CoordinatorFacts(NamedTuple):
    """What properties look at, process by process in the order of ``Scope.member_ids``. Partitions
    are bits, by their place in ``Scope.all_partitions``; an epoch of 0: no such member.
    ``puts_off``: it computes no target yet, because it has computed one not long ago."""

    epochs: tuple[int, ...]
    held: tuple[int, ...]
    targets: tuple[int, ...]
    target_epoch: int
    puts_off: bool = False


class Shard:
    """A coordinator with its log and timers, as invariants see it (``ShardView``)."""

    is_active = True

    def __init__(self, scope: Scope) -> None:
        self.name = "coordinator"
        self.leader_epoch = 0
        self.now_ms = 0
        self.growth = 0
        self.timers: dict[TimerKey, ScheduleTimer] = {}
        self.log: dict[LogKey, Record] = {}
        self.appended: tuple[Record, ...] = ()
        self.coordinator = GroupCoordinator(
            config=scope.config,
            new_member_id=_no_member_id,
            semantics=scope.rules,
            image=scope.image(),
        )

    @property
    def log_end_offset(self) -> int:
        """See ``ShardView``."""
        return len(self.log) + len(self.appended)

    @property
    def high_watermark(self) -> int:
        """See ``ShardView``: everything is committed."""
        return self.log_end_offset

    @property
    def armed_timers(self) -> Mapping[TimerKey, Any]:
        """See ``ShardView``."""
        return self.timers

    @property
    def configs(self) -> ConfigsInForce:
        """See ``ShardView``."""
        return ConfigsInForce(broker=self.coordinator.config)

    def log_records(self) -> Sequence[Record]:
        """See ``ShardView``: what compaction has left, and what the last call has written."""
        return [*self.log.values(), *self.appended]

    # --- what a host does -------------------------------------------------------------------------

    def take(self, outcome: Outcome) -> None:
        """Put in force what the coordinator has decided. Raises what a replay raises."""
        for record in outcome.records:
            self.coordinator.replay(record)
        self.appended = outcome.records
        self.arm(outcome.timers)

    def arm(self, commands: Iterable[TimerCommand]) -> None:
        """Arm and disarm; the expiry of offsets is nobody's concern here."""
        for command in commands:
            self.timers.pop(command.key, None)
            if isinstance(command, ScheduleTimer) and not isinstance(command.key.kind, ShardTimer):
                self.timers[command.key] = command

    def compact(self) -> None:
        """The log has the last record of each key only, and no tombstones."""
        for record in self.appended:
            key = _key_of(record)
            self.log.pop(key, None)
            if record.value is not None:
                self.log[key] = record
        self.appended = ()


def _key_of(record: Record) -> LogKey:
    kind: Any = type(record)
    names = kind._fields if issubclass(kind, tuple) else kind.__dataclass_fields__
    return (kind, *(getattr(record, name) for name in names if name not in VALUE_FIELDS))


def _no_member_id() -> str:
    raise ValueError("members of this scope make their ids themselves")


class Finding(NamedTuple):
    """A violated property. ``known_as``: the known issue of the version that it is, if any."""

    property: str
    detail: str
    known_as: str | None = None


class Judge(Protocol):
    """Looks at every real call of the coordinator; ``found``: what the last one violated."""

    found: tuple[Finding, ...]

    def on_request(self, shard: Shard, request: Request, outcome: Outcome) -> None:
        """A request was handled."""

    def on_timer(self, shard: Shard, key: TimerKey, outcome: Outcome) -> None:
        """A timer fired."""

    def on_loaded(self, shard: Shard, timers: tuple[TimerCommand, ...]) -> None:
        """A new coordinator has read the log."""


class _Kept(NamedTuple):
    snapshot: CoordinatorSnapshot
    log: dict[LogKey, Record]
    timers: dict[TimerKey, ScheduleTimer]
    now_ms: int
    term: int
    growth: int
    facts: CoordinatorFacts


class Done(NamedTuple):
    """What came of a call: the next state, the number of the response (-1: none), and which
    properties the call violated."""

    state: int
    response: int
    found: tuple[Finding, ...]


class CoordinatorStates:
    """All states of the coordinator that have been met. ``judge`` sees each call that is made."""

    def __init__(self, scope: Scope, messages: Messages, judge: Judge) -> None:
        self._scope = scope
        self._messages = messages
        self._judge = judge
        self._shard = Shard(scope)
        self._member_ids = tuple(scope.member_ids)
        self._bits = {p: 1 << place for place, p in enumerate(scope.all_partitions)}
        self._kept: Interned[_Kept] = Interned()
        self._edges: dict[tuple[int, Hashable], Done] = {}
        self.call_count = 0
        self._intern()

    def __len__(self) -> int:
        return len(self._kept)

    # --- reading ----------------------------------------------------------------------------------

    def facts(self, state: int) -> CoordinatorFacts:
        """What properties look at in a state."""
        return self._kept.values[state].facts

    def term(self, state: int) -> int:
        """Which coordinator serves, from 0."""
        return self._kept.values[state].term

    def armed(self, state: int) -> tuple[TimerKey, ...]:
        """The timers that may fire in a state."""
        return tuple(self._kept.values[state].timers)

    def shard_at(self, state: int) -> Shard:
        """The coordinator in a state, to be read before the next call."""
        self._restore(state)
        return self._shard

    # --- what may happen --------------------------------------------------------------------------

    def request(self, state: int, message: int, term: int, client_id: str) -> Done:
        """Handle a request, which was sent to the coordinator of a term. Raises what escapes from
        the coordinator."""
        return self._edge(state, (message, term, client_id))

    def fire(self, state: int, key: TimerKey) -> Done:
        """Let an armed timer fire. Raises what escapes from the coordinator."""
        return self._edge(state, key)

    def move(self, state: int) -> Done:
        """Another broker takes over."""
        return self._edge(state, MOVE)

    def grow(self, state: int) -> Done:
        """The last topic gets one more partition."""
        return self._edge(state, TOPICS_GROW)

    def wait(self, state: int) -> Done:
        """So much time passes that the coordinator may compute a target."""
        return self._edge(state, WAIT)

    def _edge(self, state: int, what: Hashable) -> Done:
        done = self._edges.get((state, what))
        if done is None:
            self.call_count += 1
            self._restore(state)
            self._judge.found = ()
            response = self._call(what)
            done = self._edges[state, what] = Done(self._intern(), response, self._judge.found)
        return done

    # --- real calls -------------------------------------------------------------------------------

    def _call(self, what: Any) -> int:
        if what == MOVE:
            self._load()
            return -1
        if what == WAIT:
            self._shard.now_ms += self._scope.config.group_consumer_assignment_interval_ms
            return -1
        if what == TOPICS_GROW:
            self._shard.growth += 1
            image = self._scope.image(growth=self._shard.growth)
            self._shard.arm(self._shard.coordinator.update_image(image, now_ms=self._shard.now_ms))
            return -1
        if isinstance(what, TimerKey):
            self._fire(what)
            return -1
        return self._messages.number(self._handle(*what))

    def _handle(self, message: int, term: int, client_id: str) -> object:
        shard = self._shard
        request: Any = self._messages[message]
        if term != shard.leader_epoch:
            return error_answer(request, ErrorCode.NOT_COORDINATOR)
        outcome = shard.coordinator.handle(request, now_ms=shard.now_ms, client_id=client_id)
        shard.take(outcome)
        self._judge.on_request(shard, request, outcome)
        return outcome.response

    def _fire(self, key: TimerKey) -> None:
        shard = self._shard
        timer = shard.timers.pop(key)
        shard.now_ms = max(shard.now_ms, timer.at_ms)
        outcome = shard.coordinator.fire(key, epoch=timer.epoch, now_ms=shard.now_ms)
        shard.take(outcome)
        self._judge.on_timer(shard, key, outcome)

    def _load(self) -> None:
        shard = self._shard
        shard.leader_epoch += 1
        shard.timers = {}
        shard.coordinator.restore(self._empty(shard.growth))
        for record in shard.log.values():
            shard.coordinator.replay(record, strict=False)
        timers = shard.coordinator.on_loaded(now_ms=shard.now_ms)
        shard.arm(timers)
        self._judge.on_loaded(shard, timers)

    def _empty(self, growth: int) -> CoordinatorSnapshot:
        image = self._scope.image(growth=growth)
        return self._kept.values[0].snapshot._replace(
            image=image, newest_topic_version=image.version
        )

    # --- states -----------------------------------------------------------------------------------

    def _restore(self, state: int) -> None:
        kept, shard = self._kept.values[state], self._shard
        shard.coordinator.restore(kept.snapshot)
        shard.log, shard.timers = dict(kept.log), dict(kept.timers)
        shard.now_ms, shard.leader_epoch, shard.growth = kept.now_ms, kept.term, kept.growth
        shard.appended = ()

    def _intern(self) -> int:
        shard = self._shard
        shard.compact()
        armed = frozenset((key, timer.epoch) for key, timer in shard.timers.items())
        state_key = shard.coordinator.state_key(now_ms=shard.now_ms)
        key = (state_key, armed, shard.leader_epoch)
        number = self._kept.find(key)
        if number is not None:
            return number
        kept = _Kept(
            shard.coordinator.snapshot(),
            shard.log,
            dict(sorted(shard.timers.items())),
            shard.now_ms,
            shard.leader_epoch,
            shard.growth,
            self._facts(),
        )
        return self._kept.add(key, kept)

    def _facts(self) -> CoordinatorFacts:
        group = self._shard.coordinator.groups_of(ConsumerGroup).get(GROUP)
        nobody = (0,) * len(self._member_ids)
        if group is None:
            return CoordinatorFacts(nobody, nobody, nobody, 0)
        members = [group.members.get(member_id) for member_id in self._member_ids]
        return CoordinatorFacts(
            epochs=tuple(0 if one is None else max(one.member_epoch, 0) for one in members),
            held=tuple(
                0 if one is None else self._sum({**one.assigned, **one.pending_revocation})
                for one in members
            ),
            targets=tuple(self._sum(group.target_of(one)) for one in self._member_ids),
            target_epoch=group.target_assignment_epoch,
            puts_off=self._puts_off(group.target_assignment_timestamp),
        )

    def _puts_off(self, computed_ms: int | None) -> bool:
        interval_ms = self._scope.config.group_consumer_assignment_interval_ms
        return computed_ms is not None and self._shard.now_ms < computed_ms + interval_ms

    def _sum(self, partitions: Iterable[TopicPartition]) -> int:
        return sum(self._bits[partition] for partition in partitions)
