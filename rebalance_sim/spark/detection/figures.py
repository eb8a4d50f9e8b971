"""What a measurement says of each defect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.spark.detection.mix import profile_of
from rebalance_sim.spark.detection.oracles import Oracle
from rebalance_sim.spark.detection.rows import MeasuredRun
from rebalance_sim.spark.reports.intervals import Share, share_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ShrunkSize:
    """The scenario that is left of the first run that noticed a defect."""

    faults: int
    clients: int
    topics: int
    seconds: float
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleFigures:
    """What one oracle says of a defect: in how many of its ``runs`` it ``reached`` anything (the
    digest differs, or it is noticed: what only a property looks at is in no digest) or was
    ``noticed``; the density of noticing it; the first run of the mix that did, with its profile,
    and by which property or decision; how many by each. Runs that cannot have the defect count as
    not reached."""

    runs: int
    reached: int
    noticed: int
    density: Share
    first: int | None
    first_run: str
    by: str
    counts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefectFigures:
    """One defect, by each oracle that was asked."""

    defect: str
    by_oracle: Mapping[Oracle, OracleFigures]
    shrunk: ShrunkSize | None = None

    @property
    def component(self) -> str:
        """Where the defect is."""
        return DEFECTS[self.defect].component

    @property
    def is_noticed(self) -> bool:
        """Whether any oracle noticed it."""
        return any(one.noticed for one in self.by_oracle.values())

    @property
    def is_reached(self) -> bool:
        """Whether it decided anything otherwise, in any run."""
        return any(one.reached for one in self.by_oracle.values())


def is_noticed(base: MeasuredRun, run: MeasuredRun) -> bool:
    """Whether a run notices its defect: something is wrong that is not without it."""
    return run.is_bad and (run.oracle is Oracle.REFERENCE or not base.is_bad)


def figures_of(pairs: Sequence[tuple[MeasuredRun, MeasuredRun]]) -> OracleFigures:
    """The figures of a defect from its runs, each after the same one without it.

    Raises ValueError without a run.
    """
    noticing = [run for base, run in pairs if is_noticed(base, run)]
    first = min(noticing, key=lambda run: run.index, default=None)
    return OracleFigures(
        runs=len(pairs),
        reached=sum(
            is_noticed(base, run) or (run.digest not in ("", base.digest)) for base, run in pairs
        ),
        noticed=len(noticing),
        density=share_of(len(noticing), len(pairs)),
        first=None if first is None else first.index,
        first_run="" if first is None else f"{profile_of(first.index)} {first.index}",
        by="" if first is None else first.what,
        counts=dict(Counter(run.what for run in noticing).most_common()),
    )
