"""Numbers for values: equal values have the same one."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from rebalance_sim.protocol.runtime.snapshot import KeyMaker

_V = TypeVar("_V")


class Interned(Generic[_V]):
    """Values by number, from 0 on; the first of several with one key stands for all."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self.values: list[_V] = []

    def __len__(self) -> int:
        return len(self.values)

    def find(self, key: Hashable) -> int | None:
        """The number of the value with this key."""
        return self._numbers.get(key)

    def add(self, key: Hashable, value: _V) -> int:
        """Give a value the next number."""
        number = self._numbers[key] = len(self.values)
        self.values.append(value)
        return number

    def number(self, key: Hashable, value: _V) -> int:
        """The number of a value, given now if need be."""
        found = self._numbers.get(key)
        return self.add(key, value) if found is None else found


class Messages:
    """Requests and responses by number; some have dicts in them, so they are compared by key."""

    def __init__(self) -> None:
        self._interned: Interned[object] = Interned()
        self._maker = KeyMaker({})

    def number(self, message: object) -> int:
        """The number of a message."""
        return self._interned.number(self._maker.key(message, now_ms=0), message)

    def __getitem__(self, number: int) -> object:
        return self._interned.values[number]
