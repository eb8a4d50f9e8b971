"""Metrics that a run has beside its own: those of plug-ins.

They look at the same steps as the checker. A run without any pays nothing for them.
"""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from numbers import Real
from typing import ClassVar, Protocol

from rebalance_sim.invariants.step import Step, WorldView


class Metric(ABC):
    """A number that a run comes to, made from its steps; there is one object for each group.

    ``name`` has its unit at the end; ``world`` is the group's view of the world. The run's value is
    the sum over its groups.
    """

    name: ClassVar[str]

    def __init__(self, world: WorldView) -> None:
        self.world = world

    @abstractmethod
    def after_step(self, step: Step) -> None:
        """A step that concerns the group has just happened. The object is used again."""

    @abstractmethod
    def value(self) -> float:
        """What it has come to."""


_EXACT = 2**53
"""A whole number up to this is the same as a float, which is what tables have."""

_REGISTERED: list[type[Metric]] = []


def register(metric: type[Metric]) -> type[Metric]:
    """Add a metric; usable as a decorator. Every run has it from now on.

    Raises ValueError for a name that is taken, or is none.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", metric.name):
        raise ValueError(f"{metric.name!r} is no name of a metric: write small letters and _")
    if any(metric.name == other.name for other in _REGISTERED):
        raise ValueError(f"there is a metric {metric.name!r} already")
    _REGISTERED.append(metric)
    return metric


def registered_metrics() -> Sequence[type[Metric]]:
    """Those of plug-ins, in the order in which they came."""
    return _REGISTERED


def values_of(metrics: Iterable[Metric], beside: Collection[str] = ()) -> dict[str, float]:
    """Each by name, summed over groups.

    Raises TypeError for what is no finite number, since no table holds it, and no mean is one with
    it; and ValueError for a name among those ``beside``, which are the run's own.
    """
    values: dict[str, float] = {}
    for metric in metrics:
        if metric.name in beside:
            raise ValueError(f"a run has a metric {metric.name!r} of its own: name it otherwise")
        value = metric.value()
        if not isinstance(value, Real) or not abs(value) <= sys.float_info.max:
            raise TypeError(f"metric {metric.name!r} came to {value!r}, which is no finite number")
        is_exact = isinstance(value, int) and abs(value) <= _EXACT
        values[metric.name] = values.get(metric.name, 0) + (value if is_exact else float(value))
    return values


class _Watcher(Protocol):
    def after_step(self, step: Step) -> None: ...

    def at_end(self) -> None: ...


class Measured:
    """What watches a group, with the metrics that look at the same steps."""

    def __init__(self, watcher: _Watcher, metrics: Sequence[Metric]) -> None:
        self._watcher = watcher
        self.metrics = metrics

    def after_step(self, step: Step) -> None:
        """The watcher first: it may stop looking, and metrics do not."""
        self._watcher.after_step(step)
        for metric in self.metrics:
            metric.after_step(step)

    def at_end(self) -> None:
        """The run is over."""
        self._watcher.at_end()
