"""The coordinator as a memoised machine over numbered states.

The machine is that of ``protocol/runtime``; every record is committed as soon as it is written. Its
clock stands still but for timers: one that fires takes it to its time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.hosting.error_answers import error_answer
from rebalance_sim.protocol.runtime.coordinator import CoordinatorSnapshot, GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.outcome import (
    Completion,
    Continuation,
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


class Token(NamedTuple):
    """A request that waits for its answer: of which member, and which of its requests."""

    name: str
    rank: int


class Seat(NamedTuple):
    """A member as the coordinator has it. Partitions are bits, by their place in
    ``Scope.all_partitions``; of a classic group none are known, and ``epoch`` is its generation."""

    epoch: int
    held: int = 0


class CoordinatorFacts(NamedTuple):
    """What properties look at: members and targets by member id. ``puts_off``: it computes no
    target yet, because it has computed one not long ago; ``parked``: the requests that wait;
    ``newest_ids``: the last member id that each client has been given, by what is unique in it;
    ``is_initial``: the first join phase of a classic group is held open."""

    seats: Mapping[str, Seat] = MappingProxyType({})
    targets: Mapping[str, int] = MappingProxyType({})
    target_epoch: int = 0
    puts_off: bool = False
    is_classic: bool = False
    parked: frozenset[Token] = frozenset()
    newest_ids: frozenset[str] = frozenset()
    is_initial: bool = False


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
        self.completions: tuple[Completion, ...] = ()
        self.client_id = ""
        self.given_ids: dict[str, int] = {}
        """How many member ids each client has been given."""
        self.coordinator = GroupCoordinator(
            config=scope.config,
            new_member_id=self._new_member_id,
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
        self.appended += outcome.records
        self.completions += outcome.completions
        self.arm(outcome.timers)

    def _new_member_id(self) -> str:
        count = self.given_ids[self.client_id] = self.given_ids.get(self.client_id, 0) + 1
        return f"{self.client_id}{count}"

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


class Finding(NamedTuple):
    """A violated property. ``known_as``: the known issue of the version that it is, if any."""

    property: str
    detail: str
    known_as: str | None = None


class Judge(Protocol):
    """Looks at every real call of the coordinator; ``found``: what the last one violated."""

    found: tuple[Finding, ...]

    def begin(self, shard: Shard) -> None:
        """A call is about to be made."""

    def on_written(self, shard: Shard, on_commit: Continuation, outcome: Outcome) -> None:
        """What hung on a commit has happened."""

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
    given_ids: dict[str, int]
    now_ms: int
    term: int
    growth: int
    facts: CoordinatorFacts


class Done(NamedTuple):
    """What came of a call: the next state, the number of the response (-1: none), which properties
    the call violated, and which requests that had waited are answered, each with the number of its
    answer."""

    state: int
    response: int
    found: tuple[Finding, ...]
    released: tuple[tuple[Token, int], ...] = ()


class CoordinatorStates:
    """All states of the coordinator that have been met. ``judge`` sees each call that is made."""

    def __init__(self, scope: Scope, messages: Messages, judge: Judge) -> None:
        self._scope = scope
        self._messages = messages
        self._judge = judge
        self._shard = Shard(scope)
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

    def may_park(self, message: int) -> bool:
        """Whether the answer to this request may come later."""
        return self._shard.coordinator.may_park(self._messages[message])

    def request(self, state: int, message: int, term: int, name: str, rank: int = -1) -> Done:
        """Handle a request of a member, which was sent to the coordinator of a term; ``rank``: its
        number among those that may wait. Raises what escapes from the coordinator."""
        return self._edge(state, (message, term, Token(name, rank)))

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
            self._judge.begin(self._shard)
            response, released = self._answers(what)
            done = Done(self._intern(), response, self._judge.found, released)
            self._edges[state, what] = done
        return done

    # --- real calls -------------------------------------------------------------------------------

    def _answers(self, what: Any) -> tuple[int, tuple[tuple[Token, int], ...]]:
        """Make a call: the number of its own answer (-1: none), and those to other requests."""
        response = self._call(what)
        own = what[2] if isinstance(what, tuple) and not isinstance(what, TimerKey) else None
        released = []
        for token, answer in self._shard.completions:
            number = self._messages.number(answer)
            if token == own:
                response = number
            else:
                released.append((cast(Token, token), number))
        return response, tuple(released)

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
        response = self._handle(*what)
        return -1 if response is None else self._messages.number(response)

    def _handle(self, message: int, term: int, token: Token) -> object | None:
        shard = self._shard
        request: Any = self._messages[message]
        if term != shard.leader_epoch:
            return error_answer(request, ErrorCode.NOT_COORDINATOR)
        shard.client_id = token.name
        outcome = shard.coordinator.handle(
            request,
            now_ms=shard.now_ms,
            client_id=token.name,
            token=None if token.rank < 0 else token,
        )
        shard.take(outcome)
        self._judge.on_request(shard, request, outcome)
        self._commit(outcome)
        return outcome.response

    def _commit(self, outcome: Outcome) -> None:
        """``on_commit`` of its records is handled at once."""
        shard = self._shard
        while outcome.on_commit is not None:
            on_commit = outcome.on_commit
            outcome = shard.coordinator.committed(on_commit, now_ms=shard.now_ms)
            shard.take(outcome)
            self._judge.on_written(shard, on_commit, outcome)

    def _fire(self, key: TimerKey) -> None:
        shard = self._shard
        timer = shard.timers.pop(key)
        shard.now_ms = max(shard.now_ms, timer.at_ms)
        outcome = shard.coordinator.fire(key, epoch=timer.epoch, now_ms=shard.now_ms)
        shard.take(outcome)
        self._judge.on_timer(shard, key, outcome)
        self._commit(outcome)

    def _load(self) -> None:
        shard = self._shard
        shard.completions = shard.coordinator.on_unloaded(now_ms=shard.now_ms)
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
            image=image, newest_topic_version=image.version, term=self._shard.leader_epoch
        )

    # --- states -----------------------------------------------------------------------------------

    def _restore(self, state: int) -> None:
        kept, shard = self._kept.values[state], self._shard
        shard.coordinator.restore(kept.snapshot)
        shard.log, shard.timers = dict(kept.log), dict(kept.timers)
        shard.now_ms, shard.leader_epoch, shard.growth = kept.now_ms, kept.term, kept.growth
        shard.given_ids = dict(kept.given_ids)
        shard.appended, shard.completions = (), ()

    def _intern(self) -> int:
        shard = self._shard
        shard.compact()
        armed = frozenset((key, timer.epoch) for key, timer in shard.timers.items())
        state_key = shard.coordinator.state_key(now_ms=shard.now_ms)
        given_ids = tuple(sorted(shard.given_ids.items()))
        key = (state_key, armed, shard.leader_epoch, given_ids)
        number = self._kept.find(key)
        if number is not None:
            return number
        kept = _Kept(
            shard.coordinator.snapshot(),
            shard.log,
            dict(sorted(shard.timers.items())),
            shard.given_ids,
            shard.now_ms,
            shard.leader_epoch,
            shard.growth,
            self._facts(),
        )
        return self._kept.add(key, kept)

    def _facts(self) -> CoordinatorFacts:
        classic = self._shard.coordinator.groups_of(ClassicGroup).get(GROUP)
        if classic is not None:
            newest = (f"{name}{count}" for name, count in self._shard.given_ids.items())
            return _facts_of_classic(classic)._replace(newest_ids=frozenset(newest))
        group = self._shard.coordinator.groups_of(ConsumerGroup).get(GROUP)
        if group is None:
            return CoordinatorFacts()
        return CoordinatorFacts(
            seats={
                member_id: Seat(
                    max(one.member_epoch, 0), self._sum({**one.assigned, **one.pending_revocation})
                )
                for member_id, one in group.members.items()
            },
            targets={one: self._sum(group.target_of(one)) for one in sorted(group.members)},
            target_epoch=group.target_assignment_epoch,
            puts_off=self._puts_off(group.target_assignment_timestamp),
        )

    def _puts_off(self, computed_ms: int | None) -> bool:
        interval_ms = self._scope.config.group_consumer_assignment_interval_ms
        return computed_ms is not None and self._shard.now_ms < computed_ms + interval_ms

    def _sum(self, partitions: Iterable[TopicPartition]) -> int:
        return sum(self._bits[partition] for partition in partitions)


def _facts_of_classic(group: ClassicGroup) -> CoordinatorFacts:
    waiting = [
        token
        for member in group.members.values()
        for token in (member.awaiting_join, member.awaiting_sync)
        if token is not None
    ]
    return CoordinatorFacts(
        seats={member_id: Seat(group.generation_id) for member_id in group.members},
        is_classic=True,
        parked=frozenset(cast(list[Token], waiting)),
        is_initial=group.initial_tick is not None,
    )
