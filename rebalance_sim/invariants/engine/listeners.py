"""Who is asked when: the methods of all invariants, by trigger and by their interest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from rebalance_sim.invariants.engine.coverage import Visits
from rebalance_sim.invariants.property import TRIGGERS, Finding, Property
from rebalance_sim.invariants.step import Step, has_error
from rebalance_sim.protocol.clients.common.events import Answered

Listener = Callable[..., Finding | None]
"""A bound method of an invariant; what it takes depends on the trigger."""

Found = tuple[Listener, Finding]
"""Who has found what."""

_K = TypeVar("_K", bound="type | tuple[type, ...]")


class Questions:
    """Puts questions to listeners; ``found`` is told what they find. How many subjects a question
    has depends on the trigger: a call that unpacks them takes as long as most answers."""

    def __init__(self, found: Callable[[Step, Listener, Finding], None]) -> None:
        self._found = found

    def ask(self, listeners: Iterable[Listener], step: Step) -> None:
        """Ask about a step."""
        for listener in listeners:
            finding = listener(step)
            if finding is not None:
                self._found(step, listener, finding)

    def ask_about(self, listeners: Iterable[Listener], step: Step, subject: Any) -> None:
        """Ask about a step and a subject."""
        for listener in listeners:
            finding = listener(step, subject)
            if finding is not None:
                self._found(step, listener, finding)

    def ask_about_all(self, listeners: Iterable[Listener], step: Step, *subjects: Any) -> None:
        """Ask about a step and several subjects."""
        for listener in listeners:
            finding = listener(step, *subjects)
            if finding is not None:
                self._found(step, listener, finding)


def gather(
    listeners: Iterable[Listener], step: Step, ledger: Any, classic_model: Any
) -> Sequence[Found]:
    """What these find; nothing is reported yet."""
    found: list[Found] | None = None
    for listener in listeners:
        finding = listener(step, ledger, classic_model)
        if finding is not None:
            found = [*(found or ()), (listener, finding)]
    return found or ()


@cache
def _triggers_of(watcher: Any) -> frozenset[str]:
    """The triggers that a class has a method for."""
    return frozenset(name for name in TRIGGERS if hasattr(watcher, name))


@cache
def _places_by_trigger(watchers: tuple[Hashable, ...]) -> Mapping[str, tuple[int, ...]]:
    """Trigger -> the places of the classes that have a method for it. Every run asks for the same
    few tuples of classes."""
    triggers = tuple(map(_triggers_of, watchers))
    return {
        name: tuple(place for place, listened in enumerate(triggers) if name in listened)
        for name in TRIGGERS
    }


def _owner_of(listener: Listener) -> Any:
    """The invariant, or the visits, that a bound method belongs to."""
    return listener.__self__  # type: ignore[attr-defined]


def _with(what: str, listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Those whose interest says so."""
    return tuple(one for one in listeners if getattr(_owner_of(one).interest, what))


def _without(limit: str, listeners: tuple[Listener, ...]) -> tuple[Listener, ...]:
    """Those whose interest is not limited so."""
    return tuple(one for one in listeners if not getattr(_owner_of(one).interest, limit))


class Listeners:
    """The bound methods of invariants and visits, in their order. ``of`` has them by trigger."""

    def __init__(self, invariants: Sequence[Property], visits: Visits) -> None:
        self._invariants = invariants
        self._visits = visits
        self._forgetting = tuple(i.forget_process for i in invariants if i.remembers_processes)
        self.of = by_trigger = ListenersByTrigger((*invariants, visits))
        self._of_granted = _Interested[type](by_trigger["on_event"], "events")
        self._of_others = _Interested[type](by_trigger["on_event"], "events", "refusals")
        self.on_effects = _Interested[type | tuple[type, ...]](by_trigger["on_effects"], "effects")
        self.on_request = _Interested[type](by_trigger["on_request"], "requests")
        self.on_released = _Interested[type](by_trigger["on_released"], "requests")
        self.on_untouched = _without("is_in_changes", by_trigger["on_classic"])
        """Of ``on_classic``, those to whom more than changes matter."""
        self.on_commits_alone = _without("is_beyond_commits", by_trigger["on_append"])
        """Of ``on_append``, those to whom commits matter."""
        self.on_acted = _with("is_beyond_moves", by_trigger["on_moved"])
        """Of ``on_moved``, those to whom more than that matters."""
        before = by_trigger["before_request"]
        self.before_request = (
            _Interested[type](before, "requests"),
            _Interested[type](before, "requests", "refused_requests"),
        )
        """By whether there is an error in the answer: who is refused matters to more."""
        self.on_classic_request = _Interested[type](by_trigger["on_classic_request"], "requests")

    def about(self, kind: str) -> Listeners:
        """Those whose property is about this kind of client."""
        chosen = [i for i in self._invariants if kind in i.client_kinds]
        if len(chosen) == len(self._invariants):
            return self
        return Listeners(chosen, self._visits)

    def of_event(self, event: object) -> tuple[Listener, ...]:
        """Those whom an event may matter to, by its type. An answer without an error is the usual
        case, and matters to few."""
        kind = type(event)
        granted, others = self._of_granted[kind], self._of_others[kind]
        is_granted = (
            len(granted) < len(others)
            and isinstance(event, Answered)
            and not has_error(event.response)
        )
        return granted if is_granted else others

    def forget_process(self, client: str) -> None:
        """A new process of this client starts: no property remembers the last one."""
        for forget in self._forgetting:
            forget(client)

    def owner_of(self, listener: Listener) -> Property:
        """Whose method this is. Raises TypeError for visits, which judge nothing."""
        owner = _owner_of(listener)
        if not isinstance(owner, Property):
            raise TypeError(f"{type(owner).__name__} judges nothing")
        return owner


class ListenersByTrigger(dict[str, tuple[Listener, ...]]):
    """Trigger -> who listens to it, put together when it is first asked for."""

    def __init__(self, watchers: tuple[Property | Visits, ...]) -> None:
        super().__init__()
        self._watchers = watchers
        classes: tuple[Any, ...] = tuple(map(type, watchers))
        self._places = _places_by_trigger(classes)

    def __missing__(self, trigger: str) -> tuple[Listener, ...]:
        watchers = self._watchers
        chosen = tuple(getattr(watchers[place], trigger) for place in self._places[trigger])
        self[trigger] = chosen
        return chosen


class _Interested(dict[_K, tuple[Listener, ...]]):
    """Type of what happened, or types -> those of a trigger to whom that matters, chosen when it is
    first seen. ``about``: the fields of an interest that count."""

    def __init__(self, listeners: tuple[Listener, ...], *about: str) -> None:
        super().__init__()
        self._listeners = listeners
        owners: tuple[Any, ...] = tuple(type(_owner_of(listener)) for listener in listeners)
        self._places = _places_of_interested(owners, about)

    def __missing__(self, what: _K) -> tuple[Listener, ...]:
        chosen = self[what] = tuple(self._listeners[place] for place in self._places[what])
        return chosen


class _PlacesOfInterested(dict["type | tuple[type, ...]", tuple[int, ...]]):
    """Type, or types -> the places of the classes to whom this, or one of these, matters."""

    def __init__(self, watchers: tuple[Any, ...], about: tuple[str, ...]) -> None:
        super().__init__()
        interests = [watcher.interest for watcher in watchers]
        self._of_interest = [[getattr(one, name) for name in about] for one in interests]

    def __missing__(self, what: type | tuple[type, ...]) -> tuple[int, ...]:
        kinds = frozenset(what if isinstance(what, tuple) else (what,))
        chosen = self[what] = tuple(
            place
            for place, of_one in enumerate(self._of_interest)
            if any(types is None or not kinds.isdisjoint(types) for types in of_one)
        )
        return chosen


_places_of_interested = cache(_PlacesOfInterested)
"""By the classes, and the fields of their interest: every run asks for the same few."""


class ListenersOfKinds(dict[str, Listeners]):
    """Kind of client -> those whose property is about it, put together when one is first seen."""

    def __init__(self, listeners: Listeners) -> None:
        super().__init__()
        self._listeners = listeners

    def __missing__(self, kind: str) -> Listeners:
        chosen = self[kind] = self._listeners.about(kind)
        return chosen
