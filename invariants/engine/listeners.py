"""Who is asked when: the methods of all invariants, by trigger and by their interest."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from rebalance_sim.invariants.engine.coverage import Visits
from rebalance_sim.invariants.property import TRIGGERS, Finding, Interest, Property

Listener = Callable[..., Finding | None]
"""A bound method of an invariant; what it takes depends on the trigger."""

Found = tuple[Listener, Finding]
"""Who has found what."""


def gather(listeners: Iterable[Listener], *args: object) -> Sequence[Found]:
    """What these find; nothing is reported yet."""
    found: list[Found] | None = None
    for listener in listeners:
        finding = listener(*args)
        if finding is not None:
            found = [*(found or ()), (listener, finding)]
    return found or ()


@cache
def _places_by_trigger(watchers: tuple[Hashable, ...]) -> Mapping[str, tuple[int, ...]]:
    """Trigger -> the places of the classes that have a method for it. Every run asks for the same
    few tuples of classes."""
    return {
        name: tuple(place for place, watcher in enumerate(watchers) if hasattr(watcher, name))
        for name in TRIGGERS
    }


def _owner_of(listener: Listener) -> Any:
    """The invariant, or the visits, that a bound method belongs to."""
    return listener.__self__  # type: ignore[attr-defined]


class Listeners:
    """The bound methods of invariants and visits, in their order. ``of`` has them by trigger."""

    def __init__(self, invariants: Sequence[Property], visits: Visits) -> None:
        self._invariants = invariants
        self._visits = visits
        self._forgetting = tuple(i.forget_process for i in invariants if i.has_notes_of_processes)
        self._interested: dict[tuple[str, tuple[type, ...]], tuple[Listener, ...]] = {}
        watchers: tuple[Property | Visits, ...] = (*invariants, visits)
        classes: tuple[Any, ...] = tuple(map(type, watchers))
        by_trigger = {
            name: tuple(getattr(watchers[place], name) for place in places)
            for name, places in _places_by_trigger(classes).items()
        }
        self.of: Mapping[str, tuple[Listener, ...]] = by_trigger

    def about(self, kind: str) -> Listeners:
        """Those whose property is about this kind of client."""
        chosen = [i for i in self._invariants if kind in i.client_kinds]
        if len(chosen) == len(self._invariants):
            return self
        return Listeners(chosen, self._visits)

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

    def interested(self, trigger: str, kinds: tuple[type, ...]) -> tuple[Listener, ...]:
        """Those of ``on_event``, or of ``on_effects``, to whom any of these types matters."""
        listeners = self._interested.get((trigger, kinds))
        if listeners is None:
            listeners = self._interested[trigger, kinds] = tuple(
                listener
                for listener in self.of[trigger]
                if self._matters(_owner_of(listener).interest, trigger, kinds)
            )
        return listeners

    @staticmethod
    def _matters(interest: Interest, trigger: str, kinds: tuple[type, ...]) -> bool:
        types = interest.events if trigger == "on_event" else interest.effects
        return types is None or not {*kinds}.isdisjoint(types)


class ListenersOfKinds(dict[str, Listeners]):
    """Kind of client -> those whose property is about it, put together when one is first seen."""

    def __init__(self, listeners: Listeners) -> None:
        super().__init__()
        self._listeners = listeners

    def __missing__(self, kind: str) -> Listeners:
        chosen = self[kind] = self._listeners.about(kind)
        return chosen
