"""Metrics that a run has beside its own: those of plug-ins.

They look at the same steps as the checker. A run without any pays nothing for them.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
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


def values_of(metrics: Iterable[Metric]) -> dict[str, float]:
    """Each by name, summed over groups."""
    values: dict[str, float] = {}
    for metric in metrics:
        values[metric.name] = values.get(metric.name, 0) + metric.value()
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
