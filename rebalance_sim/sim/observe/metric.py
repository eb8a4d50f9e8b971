"""A metric that is a class of its own: of a module of this folder, discovered by import, or of a
plug-in.

It looks at the same steps as the checker, or at the end alone. What is measured at every step is in
``metrics.py``.
"""

from __future__ import annotations

import functools
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from inspect import isabstract
from numbers import Real
from typing import ClassVar

from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.protocol.runtime.discovery import modules_in
from rebalance_sim.sim.observe.checkers import Checker


class Metric(ABC):
    """A number that a run comes to, made from its steps; there is one object for each group.

    ``name`` has its unit at the end; ``world`` is the group's view of the world. The run's value is
    the sum over its groups. One without ``after_step`` costs nothing before the end.
    """

    name: ClassVar[str]

    def __init__(self, world: WorldView) -> None:
        self.world = world

    def after_step(self, step: Step) -> None:  # noqa: B027 (not every metric looks at steps)
        """A step that concerns the group has just happened. The object is used again."""

    @classmethod
    def looks_at_steps(cls) -> bool:
        """Whether it has an ``after_step``."""
        return cls.after_step is not Metric.after_step

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
    if any(metric.name == other.name for other in every_metric()):
        raise ValueError(f"there is a metric {metric.name!r} already")
    _REGISTERED.append(metric)
    return metric


def every_metric() -> Sequence[type[Metric]]:
    """Those of this folder by name of their module, and those of plug-ins as they came."""
    return (*_found(), *_REGISTERED)


@functools.cache
def _found() -> tuple[type[Metric], ...]:
    return tuple(
        value
        for module in modules_in(__name__.rpartition(".")[0])
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, Metric)
        and value.__module__ == module.__name__
        and not isabstract(value)
    )


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


class Measured:
    """What watches a group, with the metrics that look at the same steps."""

    def __init__(self, checker: Checker, metrics: Sequence[Metric]) -> None:
        self._checker = checker
        self._metrics = metrics

    def after_step(self, step: Step) -> None:
        """The checker first: it may stop looking, and metrics do not."""
        self._checker.after_step(step)
        for metric in self._metrics:
            metric.after_step(step)

    def at_end(self) -> None:
        """The run is over."""
        self._checker.at_end()

    @classmethod
    def of(cls, checker: Checker, metrics: Iterable[Metric]) -> Checker:
        """The checker alone, if none of these looks at steps."""
        looking = [metric for metric in metrics if metric.looks_at_steps()]
        return cls(checker, looking) if looking else checker
