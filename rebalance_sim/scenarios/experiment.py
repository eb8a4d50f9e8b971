"""An experiment: one question to many runs, as one value and as one TOML file.

It names what scenarios are made from, what is varied of them, which protocols and versions are held
side by side, and how many seeds each cell has. A cell is one choice of all that is varied. Every
cell has the same seeds, and random streams belong to a concern and an actor: so two cells differ in
what is varied, and in what follows from it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from random import Random
from typing import Any

from rebalance_sim.scenarios.compare import protocol_named
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.profile import check_version
from rebalance_sim.scenarios.profile_file import built_in
from rebalance_sim.scenarios.settings import Setting, check_range, is_drawn
from rebalance_sim.scenarios.toml import parse_toml, read_text
from rebalance_sim.scenarios.variant import Variant

GRID, LIST, RANDOM, LATIN_HYPERCUBE = "grid", "list", "random", "latin_hypercube"
DESIGNS = (GRID, LIST, RANDOM, LATIN_HYPERCUBE)
SCALES = ("linear", "log")
CELLS_MOST = 10_000
SEED_END = 2**63 - 1
SEEDS = 100
METRICS = ("unowned_partition_ms", "rebalance_ms_max", "partition_moves", "group_stopped_ms")
"""What is reported unless other metrics are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What is varied: a value, or the same one in several places.

    ``name`` is that of its column. ``values`` are what it takes; or it is any number ``between``
    two, both included, on a ``linear`` or a ``log`` scale. Whole ends give whole numbers.
    """

    name: str
    paths: tuple[str, ...]
    values: tuple[Any, ...] = ()
    between: tuple[float, float] | None = None
    scale: str = SCALES[0]

    def __post_init__(self) -> None:
        place = f"vary.{self.name}"
        if not self.name.replace("_", "a").isalnum() or self.name in RESERVED:
            raise ScenarioError("is no name of a column: give letters, digits and _", place=place)
        if not self.paths or not all(isinstance(path, str) for path in self.paths):
            raise ScenarioError("must name at least one path, as text", place=place)
        if bool(self.values) == (self.between is not None):
            raise ScenarioError("give either values or between", place=place)
        if self.scale not in SCALES:
            remedy = did_you_mean(self.scale, SCALES)
            raise ScenarioError(f"scale {self.scale!r}: {remedy}", place=place)
        if self.scale != SCALES[0] and self.between is None:
            raise ScenarioError("a scale goes with between", place=place)
        if self.scale == "log" and self.between is not None and self.between[0] <= 0:
            raise ScenarioError("a log scale begins above 0", place=place)
        for value in self.values:
            if is_drawn(value):
                raise ScenarioError("is drawn by seed: that belongs to [draw]", place=place)

    def at(self, share: float) -> Any:
        """The value at this share of the way, which is in [0, 1)."""
        if self.between is None:
            return self.values[int(share * len(self.values))]
        low, high = self.between
        is_whole = isinstance(low, int) and isinstance(high, int)
        if self.scale == "log":
            value = math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
            return min(high, max(low, round(value))) if is_whole else value
        return low + int(share * (high - low + 1)) if is_whole else low + share * (high - low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One choice of all that is varied: parameter -> value."""

    number: int
    values: Mapping[str, Any]
    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """What is asked, of which scenarios.

    ``base``: a profile, or a file, with a version if one is named: ``faulty@kafka-4.1``. ``set``
    and ``draw`` hold in all cells: the first with one value for all, the second with one for each
    seed. Without ``protocols`` clients speak what they speak; without ``semantics`` the version is
    the base's own. ``design``: the cells are all combinations of values (``grid``), the first
    values of all, then the second, and so on (``list``), or so many ``cells`` that are drawn from
    the ranges, independently (``random``) or so that each range is covered evenly
    (``latin_hypercube``; McKay, Beckman, Conover 1979), by ``design_seed``. Raises ScenarioError.
    """

    base: Variant
    question: str = ""
    protocols: tuple[str, ...] = ()
    semantics: tuple[str, ...] = ()
    first_seed: int = 0
    seeds: int = SEEDS
    metrics: tuple[str, ...] = METRICS
    vary: tuple[Parameter, ...] = ()
    fixed: tuple[Setting, ...] = ()
    design: str = GRID
    cell_count: int = 0
    design_seed: int = 0
    cells: tuple[Cell, ...] = field(init=False)

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.first_seed < 0:
            raise ScenarioError(f"must be at least one, got {self.seeds}", place="seeds")
        if self.first_seed + self.seeds > SEED_END:
            raise ScenarioError(f"must end at {SEED_END:_} at most", place="seeds")
        for protocol in self.protocols:
            try:
                protocol_named(protocol)
            except ScenarioError as problem:
                raise ScenarioError(str(problem), place="protocols") from None
        for version in self.semantics:
            check_version(version)
        for name, items in (
            ("protocols", self.protocols),
            ("semantics", self.semantics),
            ("metrics", self.metrics),
            ("vary", [parameter.name for parameter in self.vary]),
        ):
            if len(set(items)) != len(items):
                raise ScenarioError("names one thing twice", place=name)
        if not self.metrics:
            raise ScenarioError("must name at least one", place="metrics")
        if self.design not in DESIGNS:
            remedy = did_you_mean(self.design, DESIGNS)
            raise ScenarioError(f"no design {self.design!r}; {remedy}", place="design")
        if not self.base.text:
            built_in(self.base.profile)  # raises ScenarioError if there is none
        self._check_paths()
        cells = tuple(self._cells())
        if not cells:
            raise ScenarioError(f"must name something for design {self.design!r}", place="vary")
        object.__setattr__(self, "cells", cells)

    def _check_paths(self) -> None:
        """Raises ScenarioError for a path with two values: one of them would not count."""
        fixed = [(setting.path, "set or draw") for setting in self.fixed]
        varied = [(path, f"vary.{one.name}") for one in self.vary for path in one.paths]
        places: dict[str, str] = {}
        for path, place in (*fixed, *varied):
            if path == "world.seed":
                raise ScenarioError("is the seed of a run: give seeds", place=path)
            if path in places:
                raise ScenarioError(f"has a value in {places[path]} already: {path}", place=place)
            places[path] = place

    @property
    def variants(self) -> tuple[Variant, ...]:
        """What each seed is run for: every cell under every version and protocol."""
        return tuple(variant for _, variant in self.cell_variants)

    @property
    def cell_variants(self) -> tuple[tuple[Cell, Variant], ...]:
        """The same, each with its cell."""
        return tuple(
            (cell, replace(base, protocol=protocol))
            for cell in self.cells
            for version in self.semantics or (self.base.semantics,)
            for base in [
                replace(self.base, semantics=version).setting((*self.fixed, *cell.settings))
            ]
            for protocol in self.protocols or (self.base.protocol,)
        )

    @property
    def run_count(self) -> int:
        """How many runs it takes."""
        per_cell = max(1, len(self.semantics)) * max(1, len(self.protocols))
        return len(self.cells) * per_cell * self.seeds

    def _cells(self) -> Iterator[Cell]:
        seen = set()
        for number, values in enumerate(self._choices()):
            settings = tuple(
                Setting.of(path, value)
                for parameter, value in zip(self.vary, values, strict=True)
                for path in parameter.paths
            )
            if settings in seen:
                raise ScenarioError(
                    "two cells are the same: give fewer cells, or other values", place="vary"
                )
            seen.add(settings)
            names = [parameter.name for parameter in self.vary]
            yield Cell(
                number=number, values=dict(zip(names, values, strict=True)), settings=settings
            )

    def _choices(self) -> Iterator[tuple[Any, ...]]:
        ranges = [p for p in self.vary if p.between is not None]
        if self.design in (GRID, LIST):
            for count, place in ((self.cell_count, "cells"), (self.design_seed, "design_seed")):
                if count:
                    raise ScenarioError(
                        f"follow from the values of a {self.design}: leave it out", place=place
                    )
            if ranges:
                raise ScenarioError(
                    f'a range needs design = "{RANDOM}" or "{LATIN_HYPERCUBE}", and cells',
                    place=f"vary.{ranges[0].name}",
                )
            yield from self._listed()
            return
        if not 1 <= self.cell_count <= CELLS_MOST:
            raise ScenarioError(
                f"must be a number from 1 to {CELLS_MOST:_} for design {self.design!r}",
                place="cells",
            )
        columns = [self._shares(parameter) for parameter in self.vary]
        for shares in zip(*columns, strict=True):
            yield tuple(p.at(share) for p, share in zip(self.vary, shares, strict=True))

    def _listed(self) -> Iterator[tuple[Any, ...]]:
        columns = [parameter.values for parameter in self.vary]
        if self.design == GRID:
            count = math.prod(map(len, columns))
            if count > CELLS_MOST:
                raise ScenarioError(f"make {count:_} cells; at most {CELLS_MOST:_}", place="vary")
            yield from itertools.product(*columns)
            return
        if len(set(map(len, columns))) > 1:
            raise ScenarioError("a list takes as many values of each parameter", place="vary")
        yield from zip(*columns, strict=True)

    def _shares(self, parameter: Parameter) -> list[float]:
        """Where in its range each cell is; a stream of its own for each parameter."""
        stream = Random(f"design-1/{self.design_seed}/{parameter.name}")
        count = self.cell_count
        if self.design == RANDOM:
            return [stream.random() for _ in range(count)]
        strata = list(range(count))
        stream.shuffle(strata)
        return [(stratum + stream.random()) / count for stratum in strata]


RESERVED = frozenset(
    {"seed", "cell", "group", "profile", "semantics", "protocol", "outcome", "reason", "repairs"}
)
"""Columns that every experiment has."""

_KEYS: Mapping[str, type | tuple[type, ...]] = {
    "question": str,
    "base": (str, dict),
    "protocols": list,
    "semantics": list,
    "seeds": (int, str),
    "metrics": list,
    "vary": dict,
    "set": dict,
    "draw": dict,
    "design": str,
    "cells": int,
    "design_seed": int,
}


def load_experiment(path: str | Path, **instead: Any) -> Experiment:
    """Read an experiment from a TOML file; ``instead`` are keys with other values than there.

    Raises ScenarioError, in one line with file, place and remedy, for everything that is wrong.
    """
    text = read_text(path)
    try:
        tables = {**parse_toml(text), **instead}
        if isinstance(tables.get("base"), dict):
            tables["base"] = str(path)  # read as a profile, the file is its own base
        elif isinstance(tables.get("base"), str):
            tables["base"] = _beside(Path(path), tables["base"])
        return make_experiment(**tables)
    except ScenarioError as problem:
        raise problem if problem.source else problem.within(str(path)) from None


def make_experiment(**tables: Any) -> Experiment:
    """An experiment from the keys of its file, as keyword arguments. Raises ScenarioError."""
    for key, value in tables.items():
        if key not in _KEYS:
            raise ScenarioError(f"unknown key {key!r}; {did_you_mean(key, _KEYS)}", place=key)
        is_base = key == "base" and isinstance(value, Variant | Path)
        is_list = _KEYS[key] is list and isinstance(value, tuple)
        is_kind = isinstance(value, _KEYS[key]) and not isinstance(value, bool)
        if not (is_base or is_list or is_kind):
            raise ScenarioError(f"has a value of another type: {value!r}", place=key)
    if "base" not in tables:
        raise ScenarioError("key 'base' is missing: name a profile or a file")
    base = tables["base"]
    first_seed, seeds = _seeds(tables.get("seeds", SEEDS))
    fixed = [Setting.of(path, value) for path, value in _flat(tables.get("set", {}))]
    for path, value in _flat(tables.get("draw", {})):
        if not is_drawn(value):
            raise ScenarioError(
                "write { between = [a, b] } or { one_of = [...] }", place=f"draw.{path}"
            )
        fixed.append(Setting.of(path, value))
    return Experiment(
        base=Variant.of(base if isinstance(base, Variant) else str(base)),
        question=tables.get("question", ""),
        protocols=_names(tables, "protocols"),
        semantics=_names(tables, "semantics"),
        first_seed=first_seed,
        seeds=seeds,
        metrics=_names(tables, "metrics") if "metrics" in tables else METRICS,
        vary=tuple(_parameters(tables.get("vary", {}))),
        fixed=tuple(fixed),
        design=tables.get("design", GRID),
        cell_count=tables.get("cells", 0),
        design_seed=tables.get("design_seed", 0),
    )


def _beside(path: Path, base: str) -> str:
    """A base that is a file lies beside the experiment's."""
    file, at, rest = base.partition(".toml")
    return f"{path.parent / file}{at}{rest}" if at else base


def _names(tables: Mapping[str, Any], key: str) -> tuple[str, ...]:
    items = tables.get(key, ())
    for item in items:
        if not isinstance(item, str):
            raise ScenarioError(f"must be a list of names, not {item!r}", place=key)
    return tuple(items)


def _seeds(seeds: int | str) -> tuple[int, int]:
    """The first seed, and how many."""
    if isinstance(seeds, int):
        return 0, seeds
    first, colon, end = seeds.partition(":")
    if not (colon and first.isdecimal() and end.isdecimal() and int(first) < int(end)):
        raise ScenarioError(f"{seeds!r}: write a number, or first:end, as in 0:50", place="seeds")
    return int(first), int(end) - int(first)


def _flat(tables: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Paths and values, whether a path is one key in quotes or made of tables."""
    for key, value in tables.items():
        path = f"{above}.{key}" if above else key
        is_table = isinstance(value, dict) and value and not is_drawn(value)
        if is_table and not _KEYS_OF_PARAMETERS & set(value):
            yield from _flat(value, path)
        else:
            yield path, value


_KEYS_OF_PARAMETERS = frozenset(item.name for item in fields(Parameter)) | {"path"}


def _parameters(tables: Mapping[str, Any]) -> Iterator[Parameter]:
    rows = list(_flat(tables))
    short = [path.replace("]", "").replace("[", "_").split(".")[-1] for path, _ in rows]
    for (path, value), name in zip(rows, short, strict=True):
        if not isinstance(value, dict):
            value = {"values": value}
        place = f"vary.{path}"
        for key in value:
            if key not in _KEYS_OF_PARAMETERS:
                remedy = did_you_mean(key, _KEYS_OF_PARAMETERS)
                raise ScenarioError(f"unknown key {key!r}; {remedy}", place=place)
        if not value:
            raise ScenarioError("says nothing: give path, and values or between", place=place)
        if "path" in value and "paths" in value:
            raise ScenarioError("give either path or paths", place=place)
        named = value.get("path", value.get("paths", path))
        if not isinstance(named, str | list | tuple):
            raise ScenarioError(f"a path is text, not {named!r}", place=place)
        values = value.get("values", ())
        if not isinstance(values, list | tuple | range):
            raise ScenarioError("must be a list of values", place=place)
        between = value.get("between")
        is_short = short.count(name) == 1 and name not in RESERVED
        yield Parameter(
            name=name if is_short else path.replace(".", "_"),
            paths=(named,) if isinstance(named, str) else tuple(named),
            values=tuple(values),
            between=None if between is None else check_range(between, place),
            scale=value.get("scale", SCALES[0]),
        )


def common(values: Sequence[Any]) -> bool:
    """Whether the values can be put on an axis of numbers."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
