"""The coordinator as a memoised machine over numbered states.

It runs on a host that commits every record as soon as it is written. Its clock stands still but
where an interval is waited for: a timer may fire at any time. Where a rule remembers times, one
that fires takes the clock to its own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.hosting.error_answers import error_answer
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.hosting.ports import ShardListener
from rebalance_sim.protocol.runtime.coordinator import CoordinatorSnapshot, GroupCoordinator
from rebalance_sim.protocol.runtime.offsets import OFFSET_TIMES
from rebalance_sim.protocol.runtime.outcome import (
    ScheduleTimer,
    TimerKey,
)
from rebalance_sim.protocol.runtime.rule_desk import remembers_times
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import VALUE_FIELDS, GroupMetadata, Record
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.explore.interning import Interned, Messages
from rebalance_sim.scenarios.explore.scope import GROUP, Disturbance, Scope

TOPICS_GROW = "topics grow"
MOVE = "the coordinator moves"
WAIT = "the assignment interval is over"

_BEGIN_MS = 1_000_000
"""Long after 0, which stands for a time that is not known (coordinator §4.3)."""


class Token(NamedTuple):
    """A request that waits for its answer: of which member, and which of its requests."""

    name: str
    rank: int


class KnownMember(NamedTuple):
    """A member as the coordinator has it. Partitions are bits, by their place in
    ``Scope.all_partitions``; of a classic group none are known, and ``epoch`` is its generation."""

    epoch: int
    held: int = 0


class CoordinatorFacts(NamedTuple):
    """What properties look at: members and targets by member id. ``puts_off``: it computes no
    target yet, because it has computed one not long ago; ``parked``: the requests that wait;
    ``newest_ids``: the last member id that each client has been given, by what is unique in it;
    ``is_initial``: the first join phase of a classic group is held open; ``exempt``: the properties
    that are not judged, as a rule has acted that replaces them."""

    members: Mapping[str, KnownMember] = MappingProxyType({})
    targets: Mapping[str, int] = MappingProxyType({})
    target_epoch: int = 0
    puts_off: bool = False
    is_classic: bool = False
    parked: frozenset[Token] = frozenset()
    newest_ids: frozenset[str] = frozenset()
    is_initial: bool = False
    exempt: frozenset[str] = frozenset()


class _Machine(GroupCoordinator):
    """No one continues from where an exception has escaped, and no offset expires."""

    free_times = OFFSET_TIMES

    def revert_to(self, offset: int) -> None:
        """As of ``GroupCoordinator``."""


class Shard(MinimalShard):
    """A coordinator that goes from state to state. Of its log there is what compaction leaves."""

    coordinator_class = _Machine
    keeps_history = False

    def __init__(self, scope: Scope, judge: Judge) -> None:
        self.growth = 0
        self.client_id = ""
        self.given_ids: dict[str, int] = {}
        """How many member ids each client has been given."""
        self.exempt: frozenset[str] = frozenset()
        """As of ``CoordinatorFacts``."""
        super().__init__(
            config=scope.config,
            new_member_id=self._next_member_id,
            semantics=scope.rules,
            image=scope.image(),
            listener=judge,
        )
        self.now_ms = _BEGIN_MS

    def _next_member_id(self) -> str:
        count = self.given_ids[self.client_id] = self.given_ids.get(self.client_id, 0) + 1
        return f"{self.client_id}{count}"

    def compact(self) -> None:
        """The log has the last record of each key only, and no tombstones."""
        last: dict[Hashable, Record] = {}
        for record in self.log:
            last.pop(key := _key_of(record), None)
            if record.value is not None:
                last[key] = record
        self.keep(last.values(), {k: t for k, t in self.timers.items() if k.group_id})

    def keep(self, log: Collection[Record], timers: Mapping[TimerKey, ScheduleTimer]) -> None:
        """Have this log and these timers, and no others."""
        self.log[:] = log
        self.high_watermark = len(log)
        self.timers.clear()
        self.timers.update(timers)
        self.batches.clear()
        self.answers.clear()
        self.shard.forget()


def _key_of(record: Record) -> Hashable:
    kind: Any = type(record)
    names = kind._fields if issubclass(kind, tuple) else kind.__dataclass_fields__
    return (kind, *(getattr(record, name) for name in names if name not in VALUE_FIELDS))


class Finding(NamedTuple):
    """A violated property. ``suspects``: the known issues of the version that may be the reason."""

    property: str
    detail: str
    suspects: tuple[str, ...] = ()


class Judge(ShardListener):
    """Looks at every real call of the coordinator; ``found``: what the last one violated."""

    found: tuple[Finding, ...] = ()

    def begin(self, shard: Shard) -> None:
        """A call is about to be made."""

    def escaped(self, request: object, event: object, problem: Exception) -> None:
        """As of ``ShardListener``. Raises the exception."""
        raise problem


class _Kept(NamedTuple):
    snapshot: CoordinatorSnapshot
    log: tuple[Record, ...]
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
        self._shard = Shard(scope, judge)
        self._has_clock = remembers_times(type(scope.rules.of_both.coordinator()))
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
        own = self._call(what)
        response = -1 if own is None else self._messages.number(own)
        return response, tuple(
            (cast(Token, token), self._messages.number(answer))
            for token, answer in self._shard.answers.items()
        )

    def _call(self, what: Any) -> object | None:
        shard = self._shard
        if what == MOVE:
            shard.leader_epoch += 1
            shard.restart()
        elif what == WAIT:
            shard.now_ms += self._scope.config.group_consumer_assignment_interval_ms
        elif what == TOPICS_GROW:
            shard.growth += 1
            shard.update_image(self._scope.image(growth=shard.growth))
        elif isinstance(what, TimerKey):
            if self._has_clock:
                shard.now_ms = max(shard.now_ms, shard.timers[what].at_ms)
            shard.fire(what)
        else:
            return self._handle(*what)
        return None

    def _handle(self, message: int, term: int, token: Token) -> object | None:
        request: Any = self._messages[message]
        if term != self._shard.leader_epoch:
            return error_answer(request, ErrorCode.NOT_COORDINATOR)
        self._shard.client_id = token.name
        return self._shard.request(request, client_id=token.name, token=token)

    # --- states -----------------------------------------------------------------------------------

    def _restore(self, state: int) -> None:
        kept, shard = self._kept.values[state], self._shard
        shard.coordinator.restore(kept.snapshot)
        shard.keep(kept.log, kept.timers)
        shard.now_ms, shard.leader_epoch, shard.growth = kept.now_ms, kept.term, kept.growth
        shard.given_ids, shard.exempt = dict(kept.given_ids), kept.facts.exempt

    def _intern(self) -> int:
        shard = self._shard
        shard.compact()
        armed = frozenset(
            (key, timer.epoch, max(timer.at_ms - shard.now_ms, 0) if self._has_clock else None)
            for key, timer in shard.timers.items()
        )
        state_key = shard.coordinator.state_key(now_ms=shard.now_ms)
        given_ids = tuple(sorted(shard.given_ids.items()))
        key = (state_key, armed, shard.leader_epoch, given_ids, shard.exempt, self._on_disk())
        number = self._kept.find(key)
        if number is not None:
            return number
        return self._kept.add(key, self._kept_now())

    def _kept_now(self) -> _Kept:
        shard = self._shard
        return _Kept(
            shard.coordinator.snapshot(),
            tuple(shard.log),
            dict(sorted(shard.timers.items())),
            shard.given_ids,
            shard.now_ms,
            shard.leader_epoch,
            shard.growth,
            self._facts()._replace(exempt=shard.exempt),
        )

    def _on_disk(self) -> Hashable:
        """What the next coordinator would load, and the groups of this one do not say: those of the
        classic protocol are soft state. Nothing where there is no next one."""
        if Disturbance.COORDINATOR_MOVE not in self._scope.disturbances:
            return None
        values = (one.value for one in self._shard.log if isinstance(one, GroupMetadata))
        return tuple(value and replace(value, current_state_timestamp=None) for value in values)

    def _facts(self) -> CoordinatorFacts:
        classic = self._shard.coordinator.groups_of(ClassicGroup).get(GROUP)
        if classic is not None:
            newest = (f"{name}{count}" for name, count in self._shard.given_ids.items())
            return _facts_of_classic(classic)._replace(newest_ids=frozenset(newest))
        group = self._shard.coordinator.groups_of(ConsumerGroup).get(GROUP)
        if group is None:
            return CoordinatorFacts()
        return CoordinatorFacts(
            members={
                member_id: KnownMember(
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
        members={member_id: KnownMember(group.generation_id) for member_id in group.members},
        is_classic=True,
        parked=frozenset(cast(list[Token], waiting)),
        is_initial=group.initial_tick is not None,
    )
