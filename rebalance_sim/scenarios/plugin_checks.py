"""What a thing of a plug-in has to have, asked when it is loaded.

What is missing would otherwise be found out in the middle of a run, or never: a method that no one
calls finds nothing.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection
from typing import Any

from rebalance_sim.invariants.property import TRIGGERS, Kind, Property
from rebalance_sim.scenarios.errors import did_you_mean
from rebalance_sim.scenarios.experiment import RESERVED
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.observe.metric import Metric

_MEANT = (Property, Metric, Fault)
NAME = re.compile(r"[\w.-]+")
_CALLED = re.compile(r"(on|before)_\w+")


def check_property(kind: type[Property]) -> None:
    """Raises ValueError for a property that no run can ask, or report."""
    _check_name(kind, "id")
    if not isinstance(getattr(kind, "sentence", None), str):
        raise ValueError(f"{kind.__name__} has no sentence: say in words what it demands")
    if not isinstance(kind.kind, Kind):
        raise ValueError(f"{kind.__name__}: kind {kind.kind!r} is not one of {', '.join(Kind)}")
    for name in vars(kind):
        if _CALLED.fullmatch(name) and name not in TRIGGERS:
            raise ValueError(
                f"{kind.__name__}.{name} is never called; {did_you_mean(name, TRIGGERS)}"
            )
    if kind.kind is Kind.ALWAYS and not kind.triggers():
        raise ValueError(f"{kind.__name__} is never asked: give it a method such as on_change")
    if kind.kind is Kind.EVENTUALLY and kind.late is Property.late:
        raise ValueError(f"{kind.__name__} is never asked: give it the method late")


def check_metric(metric: type[Metric]) -> None:
    """Raises ValueError for a metric without a name, or with that of another column."""
    _check_name(metric, "name")
    if metric.name in RESERVED:
        raise ValueError(f"{metric.name!r} is another column of results: name the metric otherwise")


def check_fault(kind: type[Fault]) -> None:
    """Raises ValueError for a fault whose fields cannot be set."""
    if "__annotations__" in vars(kind) and "__dataclass_fields__" not in vars(kind):
        raise ValueError(
            f"{kind.__name__} is no dataclass: write "
            "@dataclass(frozen=True, slots=True, kw_only=True) above it"
        )


def check_assignor(assignor: type[Any]) -> None:
    """Raises ValueError for an assignor without a name."""
    _check_name(assignor, "name")


def check_complete(kind: type[Any], own: Collection[type[Any]]) -> None:
    """Raises ValueError for what is meant as a property, a metric or a fault, lacks something, and
    is not what something of one's ``own`` is derived from."""
    if not issubclass(kind, _MEANT) or any(kind in other.__mro__[1:] for other in own):
        return
    if inspect.isabstract(kind):
        lacks = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
        raise ValueError(f"{kind.__name__} lacks {lacks}: define it")
    if issubclass(kind, Property):
        _check_name(kind, "id")


def _check_name(kind: type[Any], key: str) -> None:
    value = getattr(kind, key, None)
    if not isinstance(value, str) or not NAME.fullmatch(value):
        said = "has no" if value is None else f"has {value!r} for its"
        raise ValueError(
            f"{kind.__name__} {said} {key}: give a text of letters, digits, '-', '_' and '.'"
        )
