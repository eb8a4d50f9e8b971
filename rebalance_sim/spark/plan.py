"""What a sweep will do, fixed before it starts and stored beside its results.

The unit of work is a batch: a run of consecutive seeds, or, of an experiment with few seeds, a part
of what one is run for. Its borders follow from the plan alone, never from the number of cores, so a
sweep can continue elsewhere.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.sim.observe.sampling import DEFAULT_INTERVAL_MS
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.options import METRICS_SEEDS, PROVE
from rebalance_sim.spark.supervised import Limits

LAYOUT_VERSION = 8
PROVEN_OF = 8
"""One seed in so many is proven in full where a sweep proves a sample."""

SEED_MAX = 2**63 - 1
BATCH_SIZE_MAX = 100_000
BATCHES_AT_LEAST = 16
"""So many batches even a small sweep should have, so that no core is idle."""


@dataclass(frozen=True, slots=True)
class SeedRange:
    """The seeds ``first``, ``first + 1``, ... up to but not including ``end``."""

    first: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.first < self.end <= SEED_MAX:
            raise SweepError(
                f"seed range {self}: the first seed must be below the end, as in 0:2000"
            )

    def __str__(self) -> str:
        return f"{self.first}:{self.end}"

    def __len__(self) -> int:
        return self.end - self.first

    @classmethod
    def of(cls, seeds: Seeds) -> SeedRange:
        """A range however it is given: as one, as Python's, as text, as its first seed and its end,
        or as a number of seeds. Raises SweepError."""
        match seeds:
            case SeedRange():
                return seeds
            case str():
                return cls.parse(seeds)
            case range():
                if seeds.step != 1:
                    raise SweepError(f"seeds {seeds!r}: a sweep leaves none out, give a step of 1")
                return cls(seeds.start, seeds.stop)
            case int() if not isinstance(seeds, bool):
                return cls(0, seeds)
            case list():
                raise SweepError(
                    f"seeds {seeds!r}: a list names single ones, and a sweep leaves none out: give "
                    "range(4), a pair, or text such as 0:2000"
                )
            case (int() as first, int() as end):
                return cls(first, end)
        raise SweepError(f"seeds {seeds!r}: give range(4), a pair, or text such as 0:2000")

    def __contains__(self, seed: int) -> bool:
        return self.first <= seed < self.end

    @classmethod
    def parse(cls, text: str) -> SeedRange:
        """Read ``"0:2000"``: first seed, colon, end (not included)."""
        match = re.fullmatch(r"(\d{1,19}):(\d{1,19})", text.strip())
        if match is None:
            raise SweepError(f"seed range {text!r}: write first:end, as in 0:2000")
        return cls(int(match.group(1)), int(match.group(2)))


Seeds = SeedRange | range | str | tuple[int, int] | int
"""How seeds may be given."""


class Unit(NamedTuple):
    """One run: what its scenario is generated for, and from which seed."""

    variant: Variant
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """Everything that decides what the rows of a sweep are.

    ``code_digest`` covers the source of what runs a scenario; ``python`` is the minor version,
    because the standard library's samplers may change with it. ``metrics_seeds`` seeds at most,
    evenly spread, keep their series, with a sample every ``metrics_interval_ms``. ``variants``:
    each seed is run once for each of them, all in the same batch, unless that would make too few
    batches of an experiment; a comparison has one for each protocol, an experiment one for each
    cell and protocol, a sweep has a single one.
    ``keeps_rebalances``: it is an experiment, and there is a row for each rebalance, too.
    ``prove``: one of ``PROVE``. ``leap``: runs leap over rest.
    ``plugins``: modules that are loaded before anything is run. ``begun_with``: with how many seeds
    it was begun, if it was extended since, else 0. Raises SweepError on a batch size outside
    1 .. 100,000, an interval below 1, a negative number of seeds, or a variant that is named twice.
    """

    variants: tuple[Variant, ...]
    seeds: SeedRange
    batch_size: int
    runner: str
    code_digest: str
    limits: Limits
    metrics_interval_ms: int = DEFAULT_INTERVAL_MS
    metrics_seeds: int = METRICS_SEEDS
    keeps_rebalances: bool = False
    prove: str = PROVE[0]
    leap: bool = True
    plugins: tuple[str, ...] = ()
    begun_with: int = 0
    python: str = f"{sys.version_info.major}.{sys.version_info.minor}"
    layout: int = LAYOUT_VERSION

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= BATCH_SIZE_MAX:
            raise SweepError(
                f"batch size {self.batch_size}: give between 1 and {BATCH_SIZE_MAX} seeds a batch"
            )
        if self.metrics_interval_ms < 1:
            raise SweepError(
                f"metrics interval {self.metrics_interval_ms} ms: give at least 1 ms, "
                "or 0 seeds to keep no series"
            )
        if self.metrics_seeds < 0:
            raise SweepError(f"metrics of {self.metrics_seeds} seeds: give 0 or more")
        if len(set(self.variants)) != len(self.variants):
            raise SweepError(f"{', '.join(map(str, self.variants))}: name each of them once")

    @property
    def sweep_id(self) -> str:
        """A name that equal plans share and different plans do not."""
        text = json.dumps(self._as_tables(), sort_keys=True)
        return blake2b(text.encode(), digest_size=6).hexdigest()

    @property
    def batch_count(self) -> int:
        return -(-len(self.seeds) // self.batch_size) * self._parts

    @property
    def _parts(self) -> int:
        """How many batches share a seed: more than one in an experiment that had too few. Reports
        of it read all rows; those of a comparison need whole seeds in a batch."""
        if not self.keeps_rebalances or self.batch_size > 1:
            return 1
        return min(len(self.variants), -(-BATCHES_AT_LEAST // len(self.seeds)))

    def batch_seeds(self, index: int) -> range:
        """The seeds of batch ``index``, ascending."""
        first = self.seeds.first + index // self._parts * self.batch_size
        return range(first, min(first + self.batch_size, self.seeds.end))

    @property
    def base(self) -> Variant:
        """What the variants have in common: profile and version."""
        return self.variants[0].speaking("")

    @property
    def protocols(self) -> tuple[str, ...]:
        """What is compared; empty in a sweep that compares nothing."""
        return tuple(variant.protocol for variant in self.variants if variant.protocol)

    def batch_units(self, index: int) -> list[Unit]:
        """The runs of batch ``index``: by ascending seed, and the variants of one in order."""
        part, parts, count = index % self._parts, self._parts, len(self.variants)
        variants = self.variants[part * count // parts : (part + 1) * count // parts]
        return [Unit(variant, seed) for seed in self.batch_seeds(index) for variant in variants]

    def metrics_interval_of(self, seed: int) -> int | None:
        """How often this seed is sampled, in simulated milliseconds; None for not at all."""
        if self.metrics_seeds == 0:
            return None
        is_sampled = (seed - self.seeds.first) % self._stride == 0
        return self.metrics_interval_ms if is_sampled else None

    def prove_of(self, seed: int) -> str:
        """How much is found out about known issues in the run of this seed, on every worker: a
        value of ``scenarios.counterfactual.Prove``."""
        if self.prove != "sampled":
            return self.prove
        return "doubtful" if seed % PROVEN_OF else "all"

    def is_sampled(self, index: int) -> bool:
        """Whether some seed of a batch is sampled."""
        seeds = self.batch_seeds(index)
        return any(self.metrics_interval_of(seed) is not None for seed in seeds)

    @property
    def _stride(self) -> int:
        """Every so many seeds one is sampled; it stays when the sweep is extended."""
        return -(-(self.begun_with or len(self.seeds)) // self.metrics_seeds)

    def extended(self, end: int) -> SweepPlan:
        """The same sweep with seeds up to ``end``, not included. Raises SweepError if that is no
        more than it has."""
        if end <= self.seeds.end:
            raise SweepError(f"it has the seeds {self.seeds} already: give an end above that")
        seeds = SeedRange(self.seeds.first, end)
        return replace(self, seeds=seeds, begun_with=self.begun_with or len(self.seeds))

    def to_json(self) -> str:
        """The text of ``plan.json``."""
        return json.dumps({"sweep_id": self.sweep_id, **self._as_tables()}, indent=2) + "\n"

    def _as_tables(self) -> dict[str, Any]:
        """The plan as plain data: each file that scenarios are made from once, by its digest."""
        texts = {variant.digest: variant.text for variant in self.variants if variant.text}
        variants = [
            {
                **asdict(variant),
                "settings": list(map(str, variant.settings)),
                "text": variant.digest,
            }
            for variant in self.variants
        ]
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"seeds": asdict(self.seeds), "limits": asdict(self.limits)}
        return {**values, "variants": variants, "files": texts}

    @classmethod
    def from_json(cls, text: str) -> SweepPlan:
        """Read ``plan.json``. Raises SweepError if it is not one of this layout."""
        try:
            values: dict[str, Any] = json.loads(text)
            if values["layout"] != LAYOUT_VERSION:
                raise SweepError(f"written with layout {values['layout']}, not {LAYOUT_VERSION}")
            del values["sweep_id"]
            seeds, limits = SeedRange(**values.pop("seeds")), Limits(**values.pop("limits"))
            texts = values.pop("files")
            values["plugins"] = tuple(values["plugins"])
            variants = tuple(_variant(row, texts) for row in values.pop("variants"))
            return cls(seeds=seeds, limits=limits, variants=variants, **values)
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise SweepError(f"not the plan of a sweep ({problem})") from problem

    def differences(self, other: SweepPlan) -> list[str]:
        """Where two plans differ, as ``name mine, not other's``."""
        return [
            f"{field.name} {as_text(getattr(self, field.name))}, "
            f"not {as_text(getattr(other, field.name))}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(other, field.name)
        ]


def _variant(row: dict[str, Any], texts: dict[str, str]) -> Variant:
    row["repairs"] = tuple(row["repairs"])
    row["settings"] = tuple(map(Setting.parse, row["settings"]))
    row["text"] = texts[row["text"]] if row["text"] else ""
    return Variant(**row)


def as_text(value: object) -> str:
    """A value of a plan as people read it: variants with their settings, ``none`` for nothing."""
    if isinstance(value, Variant):
        digest = f" ({value.digest})" if value.text else ""
        return " ".join((str(value) + digest, *map(str, value.settings)))
    text = ", ".join(map(as_text, value)) if isinstance(value, tuple) else str(value)
    return text or "none"
