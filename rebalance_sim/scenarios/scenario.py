"""A scenario: everything a run depends on, as one frozen value and as a TOML file.

A run takes a ``Scenario`` and nothing else, so a failure is reproduced from the printed scenario
even after the generator that made it has changed.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w

from rebalance_sim.scenarios.codec import decode, encode
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.protocol_settings import check_protocols, left_out
from rebalance_sim.scenarios.recurring import each_time
from rebalance_sim.scenarios.settings import Setting, apply_settings
from rebalance_sim.scenarios.toml import parse_toml, read_text
from rebalance_sim.scenarios.traces.trace_file import is_trace_file, scenario_text
from rebalance_sim.sim.checks import NONE
from rebalance_sim.sim.faults.topics import TopicCreate
from rebalance_sim.sim.phases import Phase, check_phases
from rebalance_sim.sim.spec import CLIENTS_MOST, WorldSpec

MAX_STEPS = 1_000_000
"""Ten times what the largest generated scenario takes; more is a run that feeds on itself."""

FORMER_KEY = "wall_budget_ms"
"""Scenarios that earlier releases wrote have it. It ended a run by the time that a machine took."""

COUNT = "count"
"""In a file, an entry of ``clients`` with this key stands for so many clients that are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What to run, and how far.

    Raises ScenarioError, with the place, for a topic that no one creates, for a client without
    topics, and for phases that are none.
    """

    name: str
    """A label."""
    world: WorldSpec
    """Everything that the run depends on."""
    profile: str = ""
    """A label: the profile that it was generated from."""
    max_steps: int = MAX_STEPS
    """Bounds the run: by steps alone, so that it ends alike on every machine."""
    phases: tuple[Phase, ...] = ()
    """Parts of the run that metrics are given for, in order; they change nothing of it."""

    def __post_init__(self) -> None:
        if self.max_steps < 1:
            raise ScenarioError(f"must be >= 1, got {self.max_steps}", place="max_steps")
        _check_topics(self.world)
        try:
            check_phases(self.phases, self.world.duration_ms)
        except ValueError as problem:
            raise ScenarioError(str(problem)) from problem

    @property
    def seed(self) -> int:
        """Feeds every random stream of the world."""
        return self.world.seed

    @property
    def defects(self) -> tuple[str, ...]:
        """Defects that are switched on."""
        return self.world.defects

    @property
    def repairs(self) -> tuple[str, ...]:
        """Known issues of its version that it is run without."""
        return self.world.repairs

    def without(self, *issues: str) -> Scenario:
        """The same scenario without these known issues of its version.

        Raises ScenarioError for one that the version does not have, or that cannot be repaired.
        """
        repairs = tuple(sorted({*self.repairs, *issues}))
        try:
            return replace(self, world=replace(self.world, repairs=repairs))
        except ValueError as problem:
            raise ScenarioError(str(problem)) from problem

    @property
    def hash(self) -> str:
        """Sixteen hexadecimal digits; equal for two scenarios that are the same run.

        Labels do not count, nor do phases, nor keys that have their default: one key more changes
        no hash.
        """
        content = {"world": encode(self.world, defaults=False), "max_steps": self.max_steps}
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def load_scenario(path: str | Path, settings: Iterable[Setting] = ()) -> Scenario:
    """Read a scenario from a TOML file, or from the trace of a run of it; ``settings`` in place of
    what it says there.

    Raises ScenarioError, in one line with file, place and remedy, for everything that is wrong with
    the file, also if it cannot be read.
    """
    text = scenario_text(path) if is_trace_file(path) else read_text(path)
    try:
        return parse_scenario(text, settings)
    except ScenarioError as problem:
        raise problem.within(str(path)) from None


def parse_scenario(text: str, settings: Iterable[Setting] = ()) -> Scenario:
    """Read a scenario from the text of a TOML file. Raises ScenarioError as above."""
    return scenario_of(parse_toml(text), settings)


def scenario_of(
    data: Mapping[str, Any], settings: Iterable[Setting] = (), *, seed: int | None = None
) -> Scenario:
    """The scenario that these tables are, with values set by path; ``seed`` in place of its own.

    Raises ScenarioError as above.
    """
    if "sizes" in data and "world" not in data:
        raise ScenarioError("is a profile: run it with --profile and --seed")
    if FORMER_KEY in data:
        data = {key: value for key, value in data.items() if key != FORMER_KEY}
        warnings.warn(
            f"{FORMER_KEY} is ignored: a run is bounded by max_steps, and by the time limit of a "
            "sweep (--time-limit-s); delete the line",
            stacklevel=2,
        )
    values = list(settings)
    if seed is not None:
        if any(one.path == "world.seed" for one in values):
            raise ScenarioError("is the seed of the run: give that one", place="world.seed")
        values.append(Setting.of("world.seed", seed))
    tables = apply_settings(data, (one for one in values if one.path == "world.seed"))
    world = tables.get("world")
    own_seed = world.get("seed") if isinstance(world, dict) else None
    tables = apply_settings(tables, values, seed=own_seed if type(own_seed) is int else 0)
    world = tables.get("world")
    names: dict[str, list[str]] = {}
    if isinstance(world, dict) and isinstance(world.get("clients"), list):
        world["clients"] = left_out(counted(world["clients"], names))
    if isinstance(world, dict) and isinstance(world.get("faults"), list):
        faults = each_time(world["faults"], world)
        world["faults"] = [_of_counted(fault, names) for fault in faults]
    scenario = decode(Scenario, tables)
    check_protocols(tables["world"], scenario.world, values)
    return scenario


def counted(
    clients: Sequence[Any], names: MutableMapping[str, list[str]] | None = None
) -> Iterator[Any]:
    """One client for each; an entry with a ``count`` stands for so many: ``app-00``, ``app-01``.
    ``names`` gets those of each entry, by its own."""
    for index, client in enumerate(clients):
        if not isinstance(client, dict) or COUNT not in client:
            yield client
            continue
        count, place = client[COUNT], f"world.clients[{index}].{COUNT}"
        if type(count) is not int or not 1 <= count <= CLIENTS_MOST:
            raise ScenarioError(f"must be a number from 1 to {CLIENTS_MOST:_}", place=place)
        width = max(2, len(str(count - 1)))
        for number in range(count):
            own = {key: value for key, value in client.items() if key != COUNT}
            for key in ("name", "instance_id"):
                if isinstance(own.get(key), str) and own[key] != NONE:
                    own[key] = f"{own[key]}-{number:0{width}}"
            if names is not None and isinstance(client.get("name"), str):
                names.setdefault(client["name"], []).append(own["name"])
            yield own


def _of_counted(fault: Any, names: Mapping[str, Sequence[str]]) -> Any:
    """The fault with the clients of an entry with a ``count`` in place of its name."""
    if not isinstance(fault, dict):
        return fault
    spread = {
        key: [one for name in fault[key] for one in _named(name, names)]
        for key in ("clients", "successors")
        if isinstance(fault.get(key), list)
    }
    return {**fault, **spread}


def _named(name: Any, names: Mapping[str, Sequence[str]]) -> Sequence[Any]:
    return names.get(name, (name,)) if isinstance(name, str) else (name,)


def dump_scenario(scenario: Scenario, *, defaults: bool = True) -> str:
    """The scenario as TOML; ``parse_scenario`` gives it back.

    With ``defaults`` it is written whole; without, only what differs from them, for a reader.
    Raises ScenarioError for anything else.
    """
    if not isinstance(scenario, Scenario):
        raise ScenarioError(f"{scenario!r} is no scenario")
    return tomli_w.dumps(encode(scenario, defaults=defaults))


def _check_topics(world: WorldSpec) -> None:
    """Every topic that is named exists at some time: a misspelt one would be waited for in vain."""
    known = {topic.name for topic in world.topics}
    known |= {fault.topic for fault in world.faults if isinstance(fault, TopicCreate)}
    for index, client in enumerate(world.clients):
        place = f"world.clients[{index}].topics"
        if not client.topics and client.topic_regex is None:
            raise ScenarioError(
                f"client {client.name} subscribes to nothing; name a topic", place=place
            )
        for name in client.topics:
            _check_topic(name, known, place)
    for index, fault in enumerate(world.faults):
        place = f"world.faults[{index}].topic"
        if (topic := getattr(fault, "topic", None)) is not None:
            _check_topic(topic, known, place)
        for name in getattr(fault, "topics", None) or ():
            _check_topic(name, known, f"{place}s")


def _check_topic(name: str, known: set[str], place: str) -> None:
    if name in known:
        return
    close = difflib.get_close_matches(name, sorted(known), n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "add it to topics or create it by a fault"
    raise ScenarioError(f"no such topic: {name!r}; {remedy}", place=place)
