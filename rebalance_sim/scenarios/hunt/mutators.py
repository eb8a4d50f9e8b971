"""A scenario made of others: each mutator changes one thing.

A mutator takes a ``Draw``, the scenario, and what is known beside it, and gives a scenario, or None
where there is nothing to change. It may raise ValueError: worlds check themselves, and one that
contradicts itself is no one's scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from rebalance_sim.scenarios.generate.client_assignors import keep_some_computing
from rebalance_sim.scenarios.generate.records import keep_some_polling
from rebalance_sim.scenarios.hunt.pairs import FAULT, Interval
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.settings import SettingsChange
from rebalance_sim.sim.spec import WorldSpec


class Ground(NamedTuple):
    """What is known beside a scenario: ``intervals`` of operations that its run had, another
    scenario, the ``donor``, and by how many runs each situation was ``reached``."""

    intervals: Sequence[Interval]
    donor: Scenario
    reached: Mapping[str, int] = MappingProxyType({})


Mutator = Callable[[Draw, Scenario, Ground], Scenario | None]

FAULTS_MOST = 200
"""A scenario does not grow beyond this by doubling and splicing."""

SEED_MOST = 2**53
_STACK = (1, 1, 1, 2, 2, 3)
"""How many mutators are applied one after another, each as likely as it stands here."""

_OF_CLIENTS = tuple(
    field.name for field in fields(ClientSpec) if field.name not in ("name", "group_id", "topics")
)
_OF_WORLD = ("network", "brokers", "data_plane", "admin_interval_ms")


def move_fault(draw: Draw, scenario: Scenario, ground: Ground) -> Scenario | None:
    """A fault comes while another operation is under way."""
    world = scenario.world
    if not world.faults:
        return None
    index = draw.between((0, len(world.faults) - 1))
    moved = _into_operation(draw, world.faults[index], world, ground)
    return _with_faults(scenario, (*world.faults[:index], moved, *world.faults[index + 1 :]))


def double_fault(draw: Draw, scenario: Scenario, ground: Ground) -> Scenario | None:
    """A fault comes once more, while some operation is under way."""
    world = scenario.world
    if not world.faults:
        return None
    again = _into_operation(draw, draw.pick(world.faults), world, ground)
    return _with_faults(scenario, (*world.faults, again))


def drop_fault(draw: Draw, scenario: Scenario, ground: Ground) -> Scenario | None:
    """A fault does not come."""
    faults = scenario.world.faults
    if not faults:
        return None
    index = draw.between((0, len(faults) - 1))
    return _with_faults(scenario, (*faults[:index], *faults[index + 1 :]))


def splice(draw: Draw, scenario: Scenario, ground: Ground) -> Scenario | None:
    """From some moment on, the faults are those of the donor, with the names of this world; but for
    changes of settings, which fit those of their own."""
    world, donor = scenario.world, ground.donor
    if not donor.world.faults:
        return None
    at_ms = _moment(draw, world, ground.intervals)
    own = tuple(fault for fault in world.faults if fault.at_ms < at_ms)
    theirs = (
        _at_home(fault, donor.world, world)
        for fault in donor.world.faults
        if not isinstance(fault, SettingsChange)
    )
    return _with_faults(scenario, (*own, *(one for one in theirs if one.at_ms >= at_ms)))


def borrow_fault(draw: Draw, scenario: Scenario, ground: Ground) -> Scenario | None:
    """One fault of the donor comes, too, while some operation is under way."""
    world, donor = scenario.world, ground.donor
    if not donor.world.faults:
        return None
    borrowed = _at_home(draw.pick(donor.world.faults), donor.world, world)
    borrowed = _into_operation(draw, borrowed, world, ground)
    return _with_faults(scenario, (*world.faults, borrowed))


def change_setting(draw: Draw, scenario: Scenario, ground: Ground) -> Scenario | None:
    """One setting has the value of the donor: of the brokers, of one client, or of the world."""
    world, other = scenario.world, ground.donor.world
    changes: list[Callable[[], WorldSpec]] = [
        _changed(world, config=replace(world.config, **{name: theirs}))
        for name, theirs in _differing(world.config, other.config, world.config.__slots__)
        if _is_legal(world.config, name, theirs)
    ]
    changes += [
        _changed(world, **{name: theirs}) for name, theirs in _differing(world, other, _OF_WORLD)
    ]
    index = draw.between((0, len(world.clients) - 1))
    client, theirs_of = world.clients[index], draw.pick(other.clients)
    for name, theirs in _differing(client, theirs_of, _OF_CLIENTS):
        if _is_legal(client, name, theirs):
            changed = replace(client, **{name: theirs})
            clients = (*world.clients[:index], changed, *world.clients[index + 1 :])
            changes.append(_changed(world, clients=clients))
    return replace(scenario, world=draw.pick(changes)()) if changes else None


def reseed(draw: Draw, scenario: Scenario, ground: Ground) -> Scenario | None:
    """The same plan with other delays."""
    return replace(scenario, world=replace(scenario.world, seed=draw.between((0, SEED_MOST))))


MUTATORS: Mapping[str, Mutator] = {
    "move": move_fault,
    "double": double_fault,
    "drop": drop_fault,
    "splice": splice,
    "borrow": borrow_fault,
    "setting": change_setting,
    "reseed": reseed,
}
"""By name, in the order in which they are drawn from."""


def mutate(draw: Draw, scenario: Scenario, ground: Ground) -> tuple[Scenario, str] | None:
    """A scenario that differs from this one, and by which mutators: ``move+setting``. None if none
    resulted, or none that is legal."""
    names = []
    mutant = scenario
    try:
        for _ in range(draw.pick(_STACK)):
            name = draw.pick(tuple(MUTATORS))
            changed = MUTATORS[name](draw, mutant, ground)
            if changed is not None:
                mutant = changed
                names.append(name)
        mutant = replace(mutant, world=_judgeable(mutant.world))
    except ValueError:  # it contradicts itself; ScenarioError is one, too
        return None
    if mutant.hash == scenario.hash:
        return None
    return replace(mutant, name=f"hunt-{mutant.hash}"), "+".join(names)


def _judgeable(world: WorldSpec) -> WorldSpec:
    """The world with faults in order, an open quiet period, and some clients
    that polling and computing are left to, as in generated ones."""
    faults = tuple(sorted(world.faults, key=lambda fault: fault.at_ms))
    clients = world.clients
    if world.data_plane:
        clients = keep_some_polling(clients, faults)
    clients = keep_some_computing(clients, faults)
    return replace(world, faults=faults, clients=clients, quiet_period_ms=None)


def _into_operation(draw: Draw, fault: Fault, world: WorldSpec, ground: Ground) -> Fault:
    """The fault in an operation, sooner in one that its kind has seldom come upon."""
    reached = ground.reached

    def rarity(operation: str) -> float:
        return 1 / (1 + reached.get(f"{FAULT}{fault.kind}.{operation}", 0))

    return fault.changed(at_ms=_moment(draw, world, ground.intervals, rarity))


def _moment(
    draw: Draw,
    world: WorldSpec,
    intervals: Sequence[Interval],
    weight: Callable[[str], float] = lambda operation: 1.0,
) -> int:
    """A time in an operation, which is drawn by the ``weight`` of its kind. Any time if there is
    none before the quiet period."""
    usable = [one for one in intervals if one.start_ms < world.duration_ms]
    kinds = sorted({one.operation for one in usable})
    if not kinds:
        return draw.between((0, world.duration_ms - 1))
    kind = kinds[draw.weighted([weight(kind) for kind in kinds])]
    chosen = draw.pick([one for one in usable if one.operation == kind])
    return draw.between((chosen.start_ms, min(chosen.end_ms, world.duration_ms) - 1))


def _with_faults(scenario: Scenario, faults: tuple[Fault, ...]) -> Scenario:
    if len(faults) > FAULTS_MOST:
        raise ValueError(f"faults: {len(faults)} are more than a hunt puts into a scenario")
    return replace(scenario, world=replace(scenario.world, faults=faults))


def _at_home(fault: Fault, there: WorldSpec, here: WorldSpec) -> Fault:
    """The same fault with the clients, topics, groups and brokers that have the same places here,
    and before the quiet period."""
    clients = _places([one.name for one in there.clients], [one.name for one in here.clients])
    topics = _places([one.name for one in there.topics], [one.name for one in here.topics])
    groups = _places(there.group_ids, here.group_ids)
    changes: dict[str, Any] = {"at_ms": min(fault.at_ms, here.duration_ms - 1)}
    for name, places in (("client", clients), ("topic", topics), ("group", groups)):
        value = getattr(fault, name, None)
        if value is not None:
            changes[name] = places.get(value, value)
    for name, places in (("clients", clients), ("successors", clients), ("topics", topics)):
        values = getattr(fault, name, None)
        if values:
            changes[name] = tuple(dict.fromkeys(places.get(one, one) for one in values))
    for name, count in (
        ("broker", here.brokers.count),
        ("to_broker", here.brokers.count),
        ("offsets_partition", here.brokers.offsets_partition_count),
    ):
        value = getattr(fault, name, None)
        if value is not None:
            changes[name] = value % count
    return fault.changed(**changes)


def _places(there: Sequence[str], here: Sequence[str]) -> dict[str, str]:
    return {name: here[index % len(here)] for index, name in enumerate(there)}


def _differing(own: Any, other: Any, names: Sequence[str]) -> list[tuple[str, Any]]:
    """The fields in which two values differ, with what the other one has."""
    pairs = ((name, getattr(other, name)) for name in names)
    return [(name, theirs) for name, theirs in pairs if theirs != getattr(own, name)]


def _changed(world: WorldSpec, **changes: Any) -> Callable[[], WorldSpec]:
    return lambda: replace(world, **changes)


def _is_legal(value: Any, name: str, theirs: Any) -> bool:
    try:
        replace(value, **{name: theirs})
    except ValueError:
        return False
    return True
