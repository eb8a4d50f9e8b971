"""What a measurement says of each defect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.spark.detection.mix import profile_of
from rebalance_sim.spark.detection.rows import REFUSED, MeasuredRun
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
class DefectFigures:
    """One defect: in how many of its ``runs`` it ``reached`` anything (the digest differs, or it is
    noticed: what only a property looks at is in no digest), was ``noticed``, or was explained as
    ``known``; the density of noticing it; the first run of the mix that did, and by which property;
    how many by each. Runs that cannot have the defect count as not reached."""

    defect: str
    runs: int
    reached: int
    noticed: int
    known: int
    density: Share
    first: int | None
    by: str
    properties: Mapping[str, int] = field(default_factory=dict)
    shrunk: ShrunkSize | None = None

    @property
    def component(self) -> str:
        """Where the defect is."""
        return DEFECTS[self.defect].component

    @property
    def first_run(self) -> str:
        """Profile and seed of the first run that noticed it; empty if none did."""
        return "" if self.first is None else f"{profile_of(self.first)} {self.first}"


def is_noticed(base: MeasuredRun, run: MeasuredRun) -> bool:
    """Whether a run notices its defect: something is wrong that is not without it."""
    return run.is_bad and not base.is_bad


def figures_of(
    defect_id: str,
    pairs: Sequence[tuple[MeasuredRun, MeasuredRun]],
    shrunk: ShrunkSize | None = None,
) -> DefectFigures:
    """The figures of a defect from its runs, each after the same one without it.

    Raises ValueError without a run.
    """
    noticing = [run for base, run in pairs if is_noticed(base, run)]
    first = min(noticing, key=lambda run: run.index, default=None)
    return DefectFigures(
        defect=defect_id,
        runs=len(pairs),
        reached=sum(
            is_noticed(base, run) or (run.digest != base.digest and run.outcome != REFUSED)
            for base, run in pairs
        ),
        noticed=len(noticing),
        known=sum(run.outcome == "known" and base.outcome == "ok" for base, run in pairs),
        density=share_of(len(noticing), len(pairs)),
        first=None if first is None else first.index,
        by="" if first is None else first.what,
        properties=dict(Counter(run.what for run in noticing).most_common()),
        shrunk=shrunk,
    )
