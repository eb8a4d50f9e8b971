"""One member as a memoised machine over numbered states.

The machine is that of ``protocol/clients``: it is made anew from a picture for each event that a
state has not met yet, and what came of that is remembered. Its clock is its own: it goes on only
when a deadline is let come.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, cast

from rebalance_sim.protocol.clients import (
    ClientState,
    ConsumerConfig,
    Effect,
    FindCoordinator,
    RequestMetadata,
    ResetPositions,
    SendOffsetFetch,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.common import effects as all_effects
from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.java.consumer import ConsumerMember
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.runtime.snapshot import Freezer, KeyMaker
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.explore.actions import Stimulus
from rebalance_sim.scenarios.explore.interning import Interned, Messages
from rebalance_sim.scenarios.explore.scope import GROUP, Scope, member_id, topic_id

NEVER_MS = 1_000_000_000
"""Length of what ends only when that is chosen: far beyond anything that a path can add up to."""

INTERVAL_MS = 5_000
"""Of heartbeats, and of every backoff: a member that waits for both goes on with both."""

_FAR_MS = NEVER_MS // 2

ABSENT = 0
"""The state of a member whose process is not there, before its start."""

GONE = 1
"""The state of a member whose first process has ended; those of the following ones come next."""


class Sent(NamedTuple):
    """A request by number; ``term``: of the coordinator that it goes to; -1: a search, which any
    broker answers. ``is_at_once``: it is answered before anything else happens."""

    message: int
    term: int
    is_at_once: bool


class Moved(NamedTuple):
    """What came of an event: the next state, and what was sent, in order."""

    state: int
    sent: tuple[Sent, ...]


class MemberFacts(NamedTuple):
    """What properties look at. Partitions are bits, by their place in ``Scope.all_partitions``.

    ``is_idle``: it sends no heartbeats, so that the coordinator has every right to remove it.
    ``place``: of its process in ``Scope.member_ids``, the last one if that has ended; -1: none.
    """

    epoch: int = 0
    assigned: int = 0
    fetchable: int = 0
    current: int = 0
    current_epoch: int = -1
    is_releasing: bool = True
    is_idle: bool = True
    place: int = -1


class _Kept(NamedTuple):
    """A state: its picture, what may happen to it by itself, what properties look at."""

    picture: bytes
    stimuli: tuple[Stimulus, ...]
    facts: MemberFacts


_RELEASING = frozenset(
    {
        ClientState.FENCED,
        ClientState.STALE,
        ClientState.FATAL,
        ClientState.PREPARE_LEAVING,
        ClientState.LEAVING,
    }
)


class MemberStates:
    """All states of one member that have been met."""

    def __init__(self, scope: Scope, name: str, messages: Messages) -> None:
        self.name = name
        self._scope = scope
        self._messages = messages
        self._rules = scope.rules.member()
        self._config = ConsumerConfig(
            group_id=GROUP,
            max_poll_interval_ms=NEVER_MS,
            enable_auto_commit=scope.auto_commit,
            auto_commit_interval_ms=NEVER_MS,
            default_api_timeout_ms=NEVER_MS,
            retry_backoff_ms=INTERVAL_MS,
            retry_backoff_max_ms=INTERVAL_MS,
            group_remote_assignor=scope.assignor,
            group_instance_id=scope.instance_of(name),
        )
        self._processes = scope.processes
        self._places = {one: place for place, one in enumerate(scope.member_ids)}
        first = self._new(1)
        self._freezer = Freezer(first.constants)
        self._maker = KeyMaker(
            first.state_fields,
            constants=first.constants,
            free_times=_free_times(scope, self._rules),
        )
        self._bits = {p: 1 << place for place, p in enumerate(scope.all_partitions)}
        self._kept: Interned[_Kept] = Interned()
        self._edges: dict[tuple[int, Hashable], Moved] = {}
        self.call_count = 0
        self._kept.add("absent", _Kept(b"", (Stimulus.START,), MemberFacts()))
        for process in range(1, self._processes + 1):
            stimuli = (Stimulus.START,) if process < self._processes else ()
            facts = MemberFacts(place=self._places[member_id(name, process)])
            self._kept.add(("gone", process), _Kept(b"", stimuli, facts))

    def __len__(self) -> int:
        return len(self._kept)

    def has_ended(self, state: int) -> bool:
        """Whether the member's process is not there any more."""
        return GONE <= state < GONE + self._processes

    def _new(self, process: int) -> ConsumerMember:
        return ConsumerMember(
            config=self._config,
            member_id=member_id(self.name, process),
            rules=self._rules,
            now_ms=0,
        )

    def _gone(self, place: int) -> int:
        """The state in which this process has ended, by its place in ``Scope.member_ids``."""
        return GONE + place % self._processes

    # --- what may happen --------------------------------------------------------------------------

    def stimuli(self, state: int) -> tuple[Stimulus, ...]:
        """What may happen to a member in a state, whatever the network does."""
        return self._kept.values[state].stimuli

    def facts(self, state: int) -> MemberFacts:
        """What properties look at in a state."""
        return self._kept.values[state].facts

    def apply(self, state: int, stimulus: Stimulus) -> Moved:
        """Let something happen. Raises what the machine raises where it breaks its own rules."""
        return self._edge(state, stimulus)

    def answer(self, state: int, rank: int, message: int, kind: type) -> Moved:
        """Answer the request of this rank among those in flight; ``kind``: of the event."""
        return self._edge(state, (rank, message, kind))

    def found(self, state: int, rank: int, term: int) -> Moved:
        """Answer a search: the coordinator of this term is found."""
        return self._edge(state, (rank, term))

    def _edge(self, state: int, what: Hashable) -> Moved:
        moved = self._edges.get((state, what))
        if moved is None:
            moved = self._edges[state, what] = self._run(state, what)
        return moved

    def thawed(self, state: int) -> ConsumerMember:
        """A machine of one's own in a state."""
        return cast(ConsumerMember, self._freezer.thaw(self._kept.values[state].picture))

    # --- a real call ------------------------------------------------------------------------------

    def _run(self, state: int, what: Hashable) -> Moved:
        self.call_count += 1
        if what is Stimulus.CRASH:
            return Moved(self._gone(self.facts(state).place), ())
        if what is Stimulus.START:
            member = self._new(state - ABSENT + 1)
        else:
            member = self.thawed(state)
        term = member.coordinator_id
        effects = self.drive(member, what)
        return Moved(self._intern(member), self._sent(member, effects, term))

    def drive(self, member: ConsumerMember, what: Hashable) -> list[Effect]:
        """Let something happen to a machine, with all that the host answers at once."""
        effects: list[Effect] = []
        for event, now_ms in self._events(member, what):
            effects += member.on_event(event, now_ms=now_ms)
        done = 0
        while done < len(effects):
            reaction = self._reaction(effects[done])
            done += 1
            if reaction is not None:
                effects += member.on_event(reaction, now_ms=member.now_ms)
        return effects

    def _events(self, member: ConsumerMember, what: Hashable) -> list[tuple[events.Event, int]]:
        now_ms = member.now_ms
        event: events.Event
        if isinstance(what, tuple):
            number = member.open_requests[what[0]]
            if len(what) == 2:
                return [(events.CoordinatorFound(correlation_id=number, node_id=what[1]), now_ms)]
            response = self._messages[what[1]]
            return [(what[2](correlation_id=number, response=response), now_ms)]
        match what:
            case Stimulus.START:
                names = {topic_id(name): name for name in self._scope.topic_names}
                return [
                    (events.MetadataKnown(topic_names=names), now_ms),
                    (self._subscribe(), now_ms),
                    (events.PollingResumed(), now_ms),
                ]
            case Stimulus.TICK:
                deadline_ms = member.next_deadline_ms
                return [(events.Tick(), max(now_ms, deadline_ms or 0))]
            case Stimulus.POLL:
                event = events.Poll()
            case Stimulus.CALLBACK_DONE:
                event = events.CallbackCompleted()
            case Stimulus.CALLBACK_FAILED:
                event = events.CallbackCompleted(failed=True)
            case Stimulus.POLL_TIMEOUT:
                later: list[tuple[events.Event, int]] = [(events.Tick(), now_ms + NEVER_MS)]
                stopped = (events.PollingStopped(), now_ms)
                return later if member.running_callback else [stopped, *later]
            case Stimulus.POLL_AGAIN:
                event = events.PollingResumed()
            case Stimulus.LOST:
                event = events.Disconnected(correlation_ids=member.open_requests)
            case Stimulus.UNSUBSCRIBE:
                event = events.Unsubscribe()
            case Stimulus.SUBSCRIBE:
                event = self._subscribe()
            case Stimulus.SUBSCRIBE_LESS:
                event = events.Subscribe(topic_names=frozenset(self._scope.topic_names[:1]))
            case Stimulus.CLOSE:
                event = events.Close(timeout_ms=NEVER_MS)
            case _:
                raise ValueError(f"nothing that happens to a member: {what!r}")
        return [(event, now_ms)]

    def _subscribe(self) -> events.Subscribe:
        return events.Subscribe(topic_names=frozenset(self._scope.topic_names))

    def _reaction(self, effect: Effect) -> events.Event | None:
        """What the host answers at once: positions and metadata are never late."""
        match effect:
            case ValidatePositions():
                return events.PositionsKnown(positions=effect.positions)
            case ResetPositions():
                positions: dict[TopicPartition, int] = dict.fromkeys(sorted(effect.partitions), 0)
                return events.PositionsKnown(positions=positions)
            case RequestMetadata():
                names = {topic_id(name): name for name in self._scope.topic_names}
                return events.MetadataKnown(topic_names=names)
        return None

    def _sent(
        self, member: ConsumerMember, effects: Sequence[Effect], former_term: int | None
    ) -> tuple[Sent, ...]:
        sent: list[Sent] = []
        term = former_term if member.coordinator_id is None else member.coordinator_id
        for effect in effects:
            match effect:
                case FindCoordinator():
                    sent.append(Sent(-1, -1, True))
                case all_effects.SendRequest():
                    number = self._messages.number(effect.request)
                    is_lookup = isinstance(effect, SendOffsetFetch)
                    is_at_once = is_lookup and not self._scope.slow_lookups
                    sent.append(Sent(number, -1 if term is None else term, is_at_once))
        return tuple(sent)

    def _intern(self, member: ConsumerMember) -> int:
        if member.is_closed:
            return self._gone(self._places[member.member_id])
        key = self._maker.key(member, now_ms=member.now_ms)
        number = self._kept.find(key)
        if number is None:
            kept = _Kept(
                self._freezer.freeze(member), tuple(self._stimuli_of(member)), self._facts(member)
            )
            number = self._kept.add(key, kept)
        return number

    def bits(self, partitions: Iterable[TopicPartition]) -> int:
        """A set of partitions as bits."""
        return sum(self._bits[partition] for partition in partitions)

    def _facts(self, member: ConsumerMember) -> MemberFacts:
        return MemberFacts(
            epoch=member.member_epoch,
            assigned=self.bits(member.assigned),
            fetchable=self.bits(member.fetchable),
            current=self.bits(member.current.partitions),
            current_epoch=member.current.local_epoch,
            is_releasing=member.state in _RELEASING,
            is_idle=not member.state.sends_heartbeats and member.state is not ClientState.FENCED,
            place=self._places[member.member_id],
        )

    def _stimuli_of(self, member: ConsumerMember) -> list[Stimulus]:
        """What may happen by itself, and what the application may do."""
        found: list[Stimulus] = []
        deadline_ms = member.next_deadline_ms
        if deadline_ms is not None and deadline_ms - member.now_ms < _FAR_MS:
            found.append(Stimulus.TICK)
        callback = member.running_callback
        if callback is not None:
            found += [Stimulus.CALLBACK_DONE, Stimulus.CALLBACK_FAILED]
        if member.state.takes_assignments and (member.is_polling or callback is not None):
            found.append(Stimulus.POLL_TIMEOUT)
        if member.open_requests:
            found.append(Stimulus.LOST)
        is_free = callback is None and member.blocked_in is None
        if is_free and not member.is_polling:
            found.append(Stimulus.POLL_AGAIN)
        elif is_free:
            poll_due_ms = member.poll_due_ms
            if poll_due_ms is not None and poll_due_ms <= member.now_ms:
                found.append(Stimulus.POLL)
            if member.has_subscription and member.state is not ClientState.FATAL:
                found += [Stimulus.UNSUBSCRIBE, Stimulus.CLOSE]
                if len(member.subscribed_topic_names) > 1:
                    found.append(Stimulus.SUBSCRIBE_LESS)
            elif not member.has_subscription:
                found.append(Stimulus.SUBSCRIBE)
        found.append(Stimulus.CRASH)
        return found


def _free_times(scope: Scope, rules: MemberRules) -> tuple[str, ...]:
    """Moments that come only when that is chosen, or never (``NEVER_MS``), and what nobody looks
    at: how many attempts there have been counts only where backoffs grow."""
    free = ["last_poll_at_ms", "_interval_due_ms", "deadline_ms", "attempts"]
    if type(rules).forgets_request_in_flight is MemberRules.forgets_request_in_flight:
        free += ["_last_response_ms", "_sent_since_response"]
    return tuple(free)
