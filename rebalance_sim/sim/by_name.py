"""Values by name, to be gone through in ascending name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

Value = TypeVar("Value")


class ByName(Generic[Value]):
    """Sorted only when somebody goes through it: thousands of clients come one by one."""

    def __init__(self) -> None:
        self._values: dict[str, Value] = {}
        self._last = ""
        self._is_sorted = True

    def put(self, name: str, value: Value) -> None:
        """Add a value, or replace that of a name."""
        values = self._values
        if name not in values:
            if name < self._last:
                self._is_sorted = False
            else:
                self._last = name
        values[name] = value

    def get(self, name: str) -> Value | None:
        """The value of a name; None for an unknown one."""
        return self._values.get(name)

    def in_order(self) -> Mapping[str, Value]:
        """Name -> value, in ascending name."""
        if not self._is_sorted:
            self._values = dict(sorted(self._values.items()))
            self._is_sorted = True
        return self._values
