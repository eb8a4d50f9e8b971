"""Every property of this package, discovered by import.

Each module below ``laws/`` may define properties: classes with an ``id``, or
tuples of such classes. Modules are asked in the order of ``ORDER``, those that it does not name
last, by name; within a module the order is that of the definitions. So the cause of trouble comes
before its consequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import walk_packages
from types import ModuleType

from rebalance_sim.invariants import laws
from rebalance_sim.invariants.property import Kind, Property

ORDER = (
    "laws.owners",
    "laws.epochs",
    "laws.targets",
    "laws.log",
    "laws.replay",
    "laws.reads",
    "laws.timers",
    "laws.refusals",
    "laws.offset_refusals",
    "laws.offset_fences",
    "laws.offsets",
    "laws.classic",
    "laws.answers",
    "laws.ownership",
    "laws.leaders",
    "laws.conversions",
    "laws.application",
    "laws.requests",
    "laws.commits",
    "laws.assignors",
    "laws.liveness",
    "laws.obligations",
    "laws.goals",
)
"""Modules, below this package or another one that properties are looked for in."""


def find_properties(*packages: ModuleType) -> tuple[type[Property], ...]:
    """All properties in the modules of packages, in the order in which they are asked."""
    names = [
        info.name
        for package in packages
        for info in walk_packages(package.__path__, f"{package.__name__}.")
        if not info.ispkg
    ]
    places = {name: place for place, name in enumerate(ORDER)}
    prefix = laws.__name__.removesuffix("laws")
    names.sort(key=lambda name: (places.get(name.removeprefix(prefix), len(ORDER)), name))
    return tuple(found for name in names for found in _defined_in(import_module(name)))


def _defined_in(module: ModuleType) -> Iterator[type[Property]]:
    for value in vars(module).values():
        for item in value if isinstance(value, tuple) else (value,):
            if (
                isinstance(item, type)
                and issubclass(item, Property)
                and "id" in vars(item)
                and (item is not value or item.__module__ == module.__name__)
            ):
                yield item


PROPERTIES: tuple[type[Property], ...] = find_properties(laws)
"""All properties: invariants, liveness properties and reachability goals."""

_REGISTERED: list[type[Property]] = []


def register(kind: type[Property]) -> type[Property]:
    """Add a property whose module lies elsewhere; usable as a decorator.

    Every run checks it from now on, after those of this package. Raises ValueError for an id that
    is taken.
    """
    if any(kind.id == other.id for other in every_property()):
        raise ValueError(f"there is a property {kind.id!r} already")
    _REGISTERED.append(kind)
    return kind


def every_property() -> tuple[type[Property], ...]:
    """The properties of this package, and those that were registered."""
    return (*PROPERTIES, *_REGISTERED) if _REGISTERED else PROPERTIES


INVARIANTS = tuple(p for p in PROPERTIES if p.kind is Kind.ALWAYS)
LIVENESS = tuple(p for p in PROPERTIES if p.kind is Kind.EVENTUALLY)
GOALS = tuple(p for p in PROPERTIES if p.kind is Kind.SOMETIMES)


def unmet_goals(coverage: Mapping[str, int]) -> list[type[Property]]:
    """The goals that the merged coverage of a sweep has not reached."""
    return [goal for goal in GOALS if not goal.is_met(coverage)]
