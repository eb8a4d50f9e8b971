"""A view that is computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

_T = TypeVar("_T")


class computed_once(Generic[_T]):
    """A property that keeps its first value. ``functools.cached_property`` takes a lock for each,
    in Python 3.11, which costs more than most of what is computed here."""

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, owner: None, kind: type) -> computed_once[_T]: ...

    @overload
    def __get__(self, owner: object, kind: type) -> _T: ...

    def __get__(self, owner: object | None, kind: type) -> computed_once[_T] | _T:
        if owner is None:
            return self
        # From now on the value is found before this descriptor is asked.
        found = owner.__dict__[self._name] = self._compute(owner)
        return found
