"""One member as a memoised machine over numbered states.

The machine is that of ``protocol/clients``: it is made again from a snapshot for each event that a
state has not met yet, and what came of that is remembered. Its clock is its own: it continues only
when a deadline is let come.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple, cast

from rebalance_sim.protocol.clients.common import effects as all_effects
from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.effects import (
    Effect,
    FindCoordinator,
    RequestMetadata,
    ResetPositions,
    SendOffsetFetch,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.runtime.snapshot import Freezer, KeyMaker
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.explore.actions import Stimulus
from rebalance_sim.scenarios.explore.interning import Interned, Messages
from rebalance_sim.scenarios.explore.member_kinds import NEVER_MS, MemberKind
from rebalance_sim.scenarios.explore.scope import Scope, topic_id

ABSENT = 0
"""The state of a member whose process is not there, before its start."""


class Sent(NamedTuple):
    """A request by number; ``term``: of the coordinator that it goes to; -1: a search, which any
    broker answers. ``is_at_once``: it is answered before anything else happens."""

    message: int
    term: int
    is_at_once: bool


class Moved(NamedTuple):
    """What came of an event: the next state, what was sent, in order, and which of the requests
    that were in flight before it the member has given up by itself, by their places."""

    state: int
    sent: tuple[Sent, ...]
    given_up: tuple[int, ...] = ()


class MemberFacts(NamedTuple):
    """What properties look at. Partitions are bits, by their place in ``Scope.all_partitions``.

    ``is_idle``: it sends no heartbeats, so that the coordinator has every right to remove it.
    ``member_id``: that of the last process, if none is there now. ``keeps_too_much``: it joins a
    classic group eagerly, and has not given everything up. ``awaits_id``: it has asked the
    coordinator for a member id.
    """

    epoch: int = 0
    assigned: int = 0
    fetchable: int = 0
    current: int = 0
    is_idle: bool = True
    member_id: str = ""
    is_classic: bool = False
    keeps_too_much: bool = False
    awaits_id: bool = False


class _Kept(NamedTuple):
    """A state: its snapshot, what may happen to it by itself, what properties look at. ``process``:
    which one it is, or has been, from 1 on. ``known``: how many topics it knows."""

    frozen: bytes
    process: int
    known: int
    stimuli: tuple[Stimulus, ...]
    facts: MemberFacts


class MemberStates:
    """All states of one member that have been met."""

    def __init__(self, scope: Scope, name: str, messages: Messages) -> None:
        self.name = name
        self._scope = scope
        self._messages = messages
        self._kind = MemberKind(scope, name)
        first = self._kind.new(1)
        self._freezer = Freezer(first.constants)
        self._maker = KeyMaker(
            first.state_fields, constants=first.constants, free_times=self._kind.free_times
        )
        self._bits = {p: 1 << place for place, p in enumerate(scope.all_partitions)}
        # A classic member has partitions by name of a topic that its metadata do not have.
        names = {topic_id(name): name for name in scope.topic_names}
        self._bits |= {
            TopicPartition(names[p.topic_id], p.partition): bit for p, bit in self._bits.items()
        }
        self._kept: Interned[_Kept] = Interned()
        self._edges: dict[tuple[int, Hashable], Moved] = {}
        self.call_count = 0
        self._gone: set[int] = set()
        self._kept.add("absent", _Kept(b"", 0, 0, (Stimulus.START,), MemberFacts()))

    def __len__(self) -> int:
        return len(self._kept)

    def has_ended(self, state: int) -> bool:
        """Whether the member's process is not there any more."""
        return state in self._gone

    def _end(self, process: int, member_id: str) -> int:
        """The state in which this process has ended."""
        stimuli = (Stimulus.START,) if process < self._scope.processes else ()
        facts = MemberFacts(member_id=member_id, is_classic=self._kind.is_classic)
        number = self._kept.number(
            ("gone", process, member_id), _Kept(b"", process, 0, stimuli, facts)
        )
        self._gone.add(number)
        return number

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

    def thawed(self, state: int) -> GroupMember:
        """A machine of one's own in a state."""
        return cast(GroupMember, self._freezer.thaw(self._kept.values[state].frozen))

    # --- a real call ------------------------------------------------------------------------------

    def _run(self, state: int, what: Hashable) -> Moved:
        self.call_count += 1
        kept = self._kept.values[state]
        if what is Stimulus.CRASH:
            return Moved(self._end(kept.process, kept.facts.member_id), ())
        is_new = what is Stimulus.START
        member = self._kind.new(kept.process + 1) if is_new else self.thawed(state)
        term, before = member.coordinator_id, member.open_requests
        known = self._known_after(what, kept.known)
        effects = self.drive(member, what, known)
        after = frozenset(member.open_requests)
        answered = what[0] if isinstance(what, tuple) else -1
        given_up = [n for n, one in enumerate(before) if one not in after and n != answered]
        return Moved(
            self._intern(member, kept.process + is_new, known),
            self._sent(member, effects, term),
            tuple(given_up),
        )

    def _known_after(self, what: Hashable, known: int) -> int:
        """How many topics a process knows once this has happened."""
        if what is Stimulus.START:
            return 0 if self._scope.slow_metadata else self._scope.topics
        return known + (what is Stimulus.METADATA)

    def drive(self, member: GroupMember, what: Hashable, known: int) -> list[Effect]:
        """Let something happen to a machine that knows so many topics by then, with all that the
        host answers at once."""
        effects: list[Effect] = []
        for event, now_ms in self._events(member, what, known):
            effects += member.on_event(event, now_ms=now_ms)
        done = 0
        while done < len(effects):
            reaction = self._reaction(effects[done], known)
            done += 1
            if reaction is not None:
                effects += member.on_event(reaction, now_ms=member.now_ms)
        return effects

    def _events(
        self, member: GroupMember, what: Hashable, known: int
    ) -> list[tuple[events.Event, int]]:
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
                return [
                    (self._metadata(known), now_ms),
                    (self._subscribe(), now_ms),
                    (events.PollingResumed(), now_ms),
                ]
            case Stimulus.TICK:
                deadline_ms = member.next_deadline_ms
                return [(events.Tick(), max(now_ms, deadline_ms or 0))]
            case Stimulus.METADATA:
                event = self._metadata(known)
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

    def _metadata(self, known: int) -> events.MetadataKnown:
        names = self._scope.topic_names[:known]
        return events.MetadataKnown(
            topic_names={topic_id(name): name for name in names},
            partition_counts=dict.fromkeys(names, self._scope.partitions),
        )

    def _subscribe(self) -> events.Subscribe:
        return events.Subscribe(topic_names=frozenset(self._scope.topic_names))

    def _reaction(self, effect: Effect, known: int) -> events.Event | None:
        """What the host answers at once: positions are never late, and of metadata what there
        is."""
        match effect:
            case ValidatePositions():
                return events.PositionsKnown(positions=effect.positions)
            case ResetPositions():
                positions: dict[TopicPartition, int] = dict.fromkeys(sorted(effect.partitions), 0)
                return events.PositionsKnown(positions=positions)
            case RequestMetadata():
                return self._metadata(known)
        return None

    def _sent(
        self, member: GroupMember, effects: Sequence[Effect], former_term: int | None
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

    def _intern(self, member: GroupMember, process: int, known: int) -> int:
        if member.is_closed:
            return self._end(process, member.member_id)
        key = (process, known, self._maker.key(member, now_ms=member.now_ms))
        number = self._kept.find(key)
        if number is None:
            stimuli = tuple(self._kind.stimuli_of(member))
            if known < self._scope.topics:
                stimuli += (Stimulus.METADATA,)
            frozen = self._freezer.freeze(member)
            kept = _Kept(frozen, process, known, stimuli, self._facts(member))
            number = self._kept.add(key, kept)
        return number

    def bits(self, partitions: Iterable[TopicPartition]) -> int:
        """A set of partitions as bits."""
        return sum(self._bits[partition] for partition in partitions)

    def _facts(self, member: GroupMember) -> MemberFacts:
        return MemberFacts(
            epoch=member.member_epoch,
            assigned=self.bits(member.assigned),
            fetchable=self.bits(member.fetchable),
            current=self.bits(member.current.partitions),
            is_idle=self._kind.is_idle(member),
            member_id=member.member_id,
            is_classic=self._kind.is_classic,
            keeps_too_much=self._kind.keeps_too_much(member),
            awaits_id=self._kind.awaits_id(member),
        )
