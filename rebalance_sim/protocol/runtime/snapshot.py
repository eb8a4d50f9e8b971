"""A machine as a value: to save, to restore any number of times, to compare.

Machines are made of objects that know each other; a copy must not know the original's. ``Freezer``
takes a snapshot of such a web and makes new ones from it; ``state_key`` is equal for two machines
that behave alike, whatever the clock says and however often they have counted.

What a class says of its fields (``StateFields``) only ever makes more keys equal: a field that
nothing is said of stands in the key as it is.
"""

from __future__ import annotations

import io
import pickle
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any

from rebalance_sim.protocol.wire.errors import ProtocolBug

# --- snapshots ------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, numbers: Mapping[int, int]) -> None:
        super().__init__(file, protocol=5)
        self._numbers = numbers

    def persistent_id(self, obj: Any) -> int | None:
        return self._numbers.get(id(obj))


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, constants: tuple[object, ...]) -> None:
        super().__init__(file)
        self._constants = constants

    def persistent_load(self, pid: int) -> object:
        return self._constants[pid]


class Freezer:
    """Takes snapshots of webs of objects. ``constants`` are not part of them: settings, rules,
    what the host has brought; a web made from a snapshot has the very same ones."""

    def __init__(self, constants: Iterable[object]) -> None:
        self._constants = tuple(constants)
        self._numbers = {id(constant): number for number, constant in enumerate(self._constants)}

    def freeze(self, web: object) -> bytes:
        """A snapshot of everything that can be reached from here. Raises ProtocolBug for a function
        made inside of another one: what is to be done later must be data."""
        file = io.BytesIO()
        try:
            _Pickler(file, self._numbers).dump(web)
        except (AttributeError, TypeError, pickle.PicklingError) as problem:
            raise ProtocolBug(f"state that cannot be kept: {problem}") from problem
        return file.getvalue()

    def thaw(self, frozen: bytes) -> Any:
        """A new web, equal to the one that was frozen."""
        return _Unpickler(io.BytesIO(frozen), self._constants).load()


# --- keys -----------------------------------------------------------------------------------------


_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFields:
    """What the fields of a class mean for the question whether two states behave alike.

    ``times``: moments, with how long (ms) they matter after they have passed; two that have passed
    longer ago are the same. ``caches``: follow from other fields. ``unordered``: mappings that
    no one goes through in their order. ``ordinals``: numbers of which
    only the order counts among those of one name, or mappings to such numbers; ``key_ordinals``:
    mappings from such numbers. ``continuations``: the same for the arguments of methods that wait
    to be called, one name for each that comes first, None for one that is no such number.
    """

    times: Mapping[str, int] = field(default_factory=lambda: _NOTHING)
    caches: frozenset[str] = frozenset()
    unordered: frozenset[str] = frozenset()
    ordinals: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    key_ordinals: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    continuations: Mapping[str, tuple[str | None, ...]] = field(default_factory=lambda: _NOTHING)


_PLAIN = StateFields()


class KeyMaker:
    """Makes keys of webs of objects.

    ``fields`` of classes count for what derives from them, too. ``constants`` are distinguished by
    their place. ``free_times`` are moments that no key has: who compares lets them come whenever it
    likes.
    """

    def __init__(
        self,
        fields: Mapping[type, StateFields],
        *,
        constants: Iterable[object] = (),
        free_times: Iterable[str] = (),
    ) -> None:
        self._fields = fields
        self._kept = tuple(constants)
        self._constants = {id(one): ("constant", n) for n, one in enumerate(self._kept)}
        self._free = frozenset(free_times)
        self._shown: dict[type, tuple[tuple[str, ...], frozenset[str]]] = {}
        self._said: dict[type, StateFields] = {}
        self._handlers: dict[type, Callable[[_Walk, Any], Hashable]] = {
            dict: _Walk.mapping,
            list: _Walk.sequence,
            tuple: _Walk.tuple_of,
            deque: _Walk.sequence,
            set: _Walk.set_of,
            frozenset: _Walk.set_of,
            partial: _Walk.partial_of,
            MethodType: _Walk.method,
            **dict.fromkeys((int, str, bool, float, bytes, type(None)), _Walk.leaf),
            **dict.fromkeys((FunctionType, BuiltinFunctionType, type), _Walk.leaf),
        }

    def key(self, web: object, *, now_ms: int) -> Hashable:
        """Equal for webs that behave alike, each at its own time."""
        walk = _Walk(self, now_ms)
        shape = walk.of(web)
        return shape, walk.ranks()

    def handler(self, kind: type) -> Callable[[_Walk, Any], Hashable]:
        """How a value of this class goes into a key."""
        handler = self._handlers.get(kind)
        if handler is None:
            if issubclass(kind, Enum | type):
                handler = _Walk.leaf
            elif issubclass(kind, tuple):
                is_plain = self.said_of(kind) is _PLAIN
                handler = _Walk.tuple_of if is_plain else _Walk.value
            elif issubclass(kind, dict):
                handler = _Walk.mapping
            elif issubclass(kind, list):
                handler = _Walk.sequence
            elif _is_frozen(kind):
                handler = _Walk.value
            else:
                handler = _Walk.part
            self._handlers[kind] = handler
        return handler

    def said_of(self, kind: type) -> StateFields:
        """What is said of a class, or of the first of its bases of which something is."""
        said = self._said.get(kind)
        if said is None:
            of_bases = [self._fields[base] for base in kind.__mro__ if base in self._fields]
            said = self._said[kind] = _merged(of_bases) if of_bases else _PLAIN
        return said

    def shown(self, kind: type) -> tuple[tuple[str, ...], frozenset[str]]:
        """The slots of a class that keys have, and what they have not got of its other fields."""
        found = self._shown.get(kind)
        if found is None:
            hidden = self.said_of(kind).caches | self._free
            names = getattr(kind, "_fields", None) or [
                name for base in kind.__mro__ for name in getattr(base, "__slots__", ())
            ]
            slots = tuple(name for name in names if name not in hidden)
            found = self._shown[kind] = (slots, hidden)
        return found

    def constant(self, one: object) -> Hashable | None:
        """How a constant stands in keys; None for what is none."""
        return self._constants.get(id(one))


class _Walk:
    """One key being made."""

    def __init__(self, maker: KeyMaker, now_ms: int) -> None:
        self._maker = maker
        self._now_ms = now_ms
        self._seen: dict[int, int] = {}
        self._numbers: dict[str, dict[int, int]] = {}

    def of(self, one: Any) -> Hashable:
        return self._maker.handler(type(one))(self, one)

    def ranks(self) -> Hashable:
        """Of each name, the numbers in the order in which they were met, as places in their
        order."""
        ranks = []
        for name, met in self._numbers.items():
            order = {number: rank for rank, number in enumerate(sorted(met))}
            ranks.append((name, *(order[number] for number in met)))
        return tuple(ranks)

    def leaf(self, one: Any) -> Hashable:
        return one  # type: ignore[no-any-return]

    def sequence(self, one: Any) -> Hashable:
        return tuple([self.of(each) for each in one])

    def tuple_of(self, one: Any) -> Hashable:
        return tuple([self.of(each) for each in one])

    def set_of(self, one: Any) -> Hashable:
        return frozenset([self.of(each) for each in one])

    def mapping(self, one: Any) -> Hashable:
        return tuple([(self.of(key), self.of(value)) for key, value in one.items()])

    def value(self, one: Any) -> Hashable:
        """A frozen value, which is the same wherever it stands."""
        constant = self._maker.constant(one)
        return self.fields(one) if constant is None else constant

    def partial_of(self, one: Any) -> Hashable:
        function = one.func
        names: tuple[str | None, ...] = ()
        if isinstance(function, MethodType):
            said = self._maker.said_of(type(function.__self__))
            names = said.continuations.get(function.__name__, ())
        args = [
            self.number(names[place], each)
            if place < len(names) and names[place] is not None
            else self.of(each)
            for place, each in enumerate(one.args)
        ]
        return (self.of(function), tuple(args), self.mapping(one.keywords))

    def method(self, one: Any) -> Hashable:
        return (one.__name__, self.of(one.__self__))

    def part(self, one: Any) -> Hashable:
        """An object with fields that may change."""
        maker = self._maker
        constant = maker.constant(one)
        if constant is not None:
            return constant
        number = self._seen.get(id(one))
        if number is not None:
            return ("again", number)
        self._seen[id(one)] = len(self._seen)
        return self.fields(one)

    def fields(self, one: Any) -> Hashable:
        kind = type(one)
        maker = self._maker
        slots, hidden = maker.shown(kind)
        said = maker.said_of(kind)
        found: list[Any] = [kind]
        for name in slots:
            if hasattr(one, name):
                found.append(self.field(name, getattr(one, name), said))
        for name, each in getattr(one, "__dict__", _NOTHING).items():
            if name not in hidden:
                found.append(name)
                found.append(self.field(name, each, said))
        return tuple(found)

    def field(self, name: str, value: Any, said: StateFields) -> Hashable:
        if said is _PLAIN:
            return self.of(value)
        kind = type(value)
        if kind is int:
            horizon_ms = said.times.get(name)
            if horizon_ms is not None:
                return max(int(value) - self._now_ms, -horizon_ms)
            ordinal = said.ordinals.get(name)
            return int(value) if ordinal is None else self.number(ordinal, value)
        if kind is dict:
            if name in said.ordinals:
                ordinal = said.ordinals[name]
                return tuple([(self.of(k), self.number(ordinal, n)) for k, n in value.items()])
            if name in said.key_ordinals:
                ordinal = said.key_ordinals[name]
                return tuple([(self.number(ordinal, n), self.of(v)) for n, v in value.items()])
            if name in said.unordered:
                return frozenset([(self.of(k), self.of(v)) for k, v in value.items()])
        return self.of(value)

    def number(self, name: str | None, value: int) -> Hashable:
        """A number of which only the order counts: which of those met so far it is. Below 0 stands
        what is no number yet."""
        if value < 0:
            return ("none", value)
        met = self._numbers.setdefault(name or "", {})
        return met.setdefault(value, len(met))


def _is_frozen(kind: type) -> bool:
    settings: Any = getattr(kind, "__dataclass_params__", None)
    return settings is not None and bool(settings.frozen)


def _merged(said: Iterable[StateFields]) -> StateFields:
    """What is said of a class and of its bases, together."""
    times: dict[str, int] = {}
    ordinals: dict[str, str] = {}
    key_ordinals: dict[str, str] = {}
    continuations: dict[str, tuple[str | None, ...]] = {}
    caches: set[str] = set()
    unordered: set[str] = set()
    for one in said:
        times |= one.times
        ordinals |= one.ordinals
        key_ordinals |= one.key_ordinals
        continuations |= one.continuations
        caches |= one.caches
        unordered |= one.unordered
    return StateFields(
        times=times,
        caches=frozenset(caches),
        unordered=frozenset(unordered),
        ordinals=ordinals,
        key_ordinals=key_ordinals,
        continuations=continuations,
    )
