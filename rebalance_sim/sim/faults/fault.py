"""What every kind of fault is: a value with a time, what it does, how it is drawn and simplified.

A fault is one real event: something breaks, or somebody changes something on purpose. Each kind is
a class in a module of this folder; ``register`` adds kinds from elsewhere. Values are plain data
and check themselves: ValueError names the field. ``at_ms`` is simulated time.

Fields with these names mean the same in every kind, and are checked, shown and simplified alike:

- ``client``, ``clients``, ``topic``, ``topics``: by name; ``clients`` empty means all.
- ``group``: by id; None is the group of the world (``WorldSpec.group_id``).
- ``broker``: by node id (0, 1, ...); None, where a kind does not say otherwise, is whichever broker
  leads an offsets partition when the fault begins.
- ``offsets_partition``: a partition of ``__consumer_offsets`` by number; None is the one that holds
  the group of the world.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rebalance_sim.protocol.runtime.discovery import modules_in

if TYPE_CHECKING:
    from rebalance_sim.sim.draw import Draw
    from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
    from rebalance_sim.sim.faults.targets import Targets

    How = Callable[[Draw, DrawRule, Targets, Mapping[str, Any]], Any]
    """Draws a field, as a profile's rule says, after the fields before it."""

Names = Collection[str]
End = Callable[[], None]
"""Ends a fault that lasts."""


def bound(least: int) -> Mapping[str, Any]:
    """Metadata of a field that must not be below ``least``; None passes."""
    return {"least": least}


def size(least: int, most: int | None = None) -> dict[str, Any]:
    """The same for a field that is tried with smaller values when a scenario is shrunk; it must not
    be above ``most`` either."""
    return {"least": least, "most": most, "is_size": True}


def drawn_from(low: int, high: int) -> dict[str, Any]:
    """Metadata of a field whose range a profile may give under its name; this one unless it does.
    ``Fault.drawn`` finds it in its rule."""
    return {"drawn": (low, high)}


def drawn_by(how: How) -> dict[str, Any]:
    """Metadata of a field that ``Fault.drawn`` draws in a way of its own."""
    return {"drawn_by": how}


def away_ms(draw: Draw, rule: DrawRule, targets: Targets, so_far: Mapping[str, Any]) -> int | None:
    """How long the process of ``client`` is away; None: for good."""
    return targets.down_ms(draw, rule, so_far["client"])


_DRAWN_BY: Mapping[str, How] = {
    "duration_ms": lambda draw, rule, *_: draw.between(rule.duration_ms),
    "down_ms": lambda draw, rule, *_: draw.between(rule.duration_ms),
    "gap_ms": lambda draw, rule, *_: draw.between(rule.gap_ms),
    "graceful": lambda draw, rule, *_: draw.chance(rule.graceful_probability),
    "client": lambda draw, _, targets, __: targets.client(draw).name,
    "topic": lambda draw, _, targets, __: draw.pick(targets.topics).name,
    "broker": lambda draw, _, targets, __: targets.broker(draw),
    "offsets_partition": lambda draw, _, targets, so_far: targets.offsets_partition(
        draw, broker=so_far.get("broker")
    ),
}
"""How fields that mean the same in every kind are drawn where theirs does not say otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(ABC):
    """Something that happens to a world at ``at_ms``.

    ``kind`` is its name in traces, coverage, files and profiles: ``client_crash``.
    ``reaches_admin``: the administrators' client may be its ``client``. ``may_lose_committed``:
    what was committed may be lost. ``changes_topics``: which topics there are, or partitions of
    them. ``ends_topic``: its ``topic`` is deleted. ``alters_settings``: of brokers or groups, as
    its ``changes`` say. ``needs_data_plane``: it needs records. ``holds_up``: while it lasts
    requests wait, or brokers for each other, which shows only later.
    """

    kind: ClassVar[str]
    reaches_admin: ClassVar[bool] = False
    may_lose_committed: ClassVar[bool] = False
    changes_topics: ClassVar[bool] = False
    ends_topic: ClassVar[bool] = False
    alters_settings: ClassVar[bool] = False
    needs_data_plane: ClassVar[bool] = False
    holds_up: ClassVar[bool] = False

    at_ms: int = field(metadata=bound(0))

    def __init_subclass__(cls) -> None:
        cls.kind = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            least, value = item.metadata.get("least"), getattr(self, item.name)
            if least is not None and value is not None and value < least:
                raise ValueError(f"{item.name} must be >= {least}, got {value}")
            most = item.metadata.get("most")
            if most is not None and value is not None and value > most:
                raise ValueError(f"{item.name} must be <= {most:_}, got {value}")

    @abstractmethod
    def begin(self, world: FaultWorld) -> End | bool:
        """Do it. Returns what ends it, or, of a fault without a window, whether it did anything;
        False: there is nothing that it could happen to."""

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """One occurrence of this kind in a generated scenario, with what belongs to it.

        Here: its fields, one after the other, from the range that the profile gives
        (``drawn_from``), as the field says (``drawn_by``), or as its name means; of any other the
        default.
        """
        drawn: dict[str, Any] = {}
        for item in dataclasses.fields(cls):
            if "drawn" in item.metadata:
                drawn[item.name] = draw.between(getattr(rule, item.name))
            elif how := item.metadata.get("drawn_by", _DRAWN_BY.get(item.name)):
                drawn[item.name] = how(draw, rule, targets, drawn)
        yield cls(at_ms=at_ms, **drawn)

    @property
    def target(self) -> str:
        """What it names, in words: ``a``, ``broker 1``, ``orders``; empty if nothing."""
        for name, label in (
            ("client", ""),
            ("broker", "broker "),
            ("topic", ""),
            ("offsets_partition", "offsets partition "),
            ("transaction_state_partition", "transaction state partition "),
        ):
            value = getattr(self, name, None)
            if value is not None:
                return f"{label}{value}"
        return ""

    @property
    def starts(self) -> tuple[str, ...]:
        """The clients whose first process starts when this says so, not at their ``start_ms``."""
        return ()

    @property
    def retires(self) -> tuple[str, ...]:
        """The clients that it may close for good."""
        return ()

    @property
    def after_effect_ms(self) -> int:
        """For how long at most somebody may have to wait for nothing but its consequences."""
        return 0

    def among_alike(self) -> Fault:
        """The fault in a world whose clients all go on speaking one protocol."""
        return self

    def __str__(self) -> str:
        return self.kind + (f"({self.target})" if self.target else "")

    @staticmethod
    def kinds() -> Mapping[str, type[Fault]]:
        """Every kind of fault by its name, in ascending order."""
        return dict(sorted(_kinds().items()))

    # --- simplifying ------------------------------------------------------------------------------

    def sizes(self) -> Iterator[tuple[str, int]]:
        """(field, least value) for everything that can be made smaller."""
        for item in dataclasses.fields(self):
            value = getattr(self, item.name)
            if "is_size" in item.metadata and value is not None:
                least: int = item.metadata["least"]
                if value > least:
                    yield item.name, least

    def without(
        self, *, clients: Names = (), groups: Names = (), topics: Names = ()
    ) -> Self | None:
        """The fault in a world that lacks these; None if it concerned nothing else."""
        for name, gone in (("client", clients), ("group", groups), ("topic", topics)):
            if getattr(self, name, None) in gone:
                return None
        changes: dict[str, Any] = {}
        for name, gone in (("clients", clients), ("topics", topics)):
            named = getattr(self, name, None)
            if not named:
                continue
            kept = tuple(one for one in named if one not in gone)
            if not kept and name == "clients":
                return None
            if kept != named:
                changes[name] = kept
        return dataclasses.replace(self, **changes) if changes else self

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """The fault with one thing less to think about; ``topics`` are those of the world."""
        if getattr(self, "offsets_partition", None) is not None:
            yield self.changed(offsets_partition=None)

    def changed(self, **changes: Any) -> Self:
        """``replace`` for fields that are known by name only."""
        return dataclasses.replace(self, **changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(Fault):
    """A fault that lasts from ``at_ms`` for ``duration_ms``.

    One that reaches beyond the world's ``duration_ms`` ends there, so that a shrinker may cut the
    world short.
    """

    duration_ms: int = field(metadata=size(1))

    @property
    def until_ms(self) -> int:
        """The end of the window (exclusive)."""
        return self.at_ms + self.duration_ms


def register(kind: type[Fault]) -> type[Fault]:
    """Add a kind of fault whose module lies elsewhere; usable as a decorator.

    Profiles, scenario files and worlds know it from then on. Raises ValueError for a name that is
    taken.
    """
    if kind.kind in _kinds():
        raise ValueError(f"there is a kind of fault {kind.kind!r} already")
    _kinds()[kind.kind] = kind
    return kind


@functools.cache
def _kinds() -> dict[str, type[Fault]]:
    """The kinds of this folder; those that are registered come to them."""
    modules = modules_in(__name__.rpartition(".")[0])
    return {value.kind: value for module in modules for value in _faults_of(module)}


def _faults_of(module: Any) -> Iterable[type[Fault]]:
    for value in vars(module).values():
        is_fault = isinstance(value, type) and issubclass(value, Fault)
        if is_fault and value.__module__ == module.__name__ and not inspect.isabstract(value):
            yield value
