"""What a sweep found, as one value. Needs no Spark."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from rebalance_sim.invariants.engine.discovery import unmet_goals
from rebalance_sim.scenarios.html_page import HtmlPage
from rebalance_sim.scenarios.result import UNPROVEN
from rebalance_sim.scenarios.units import shown_in_unit, title_of
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.runner import DEFAULT_RUNNER
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import read_plan, read_summary
from rebalance_sim.spark.store.store import Location, shown
from rebalance_sim.spark.store.summary import Summary
from rebalance_sim.spark.store.tables import OUTCOMES, PASSING
from rebalance_sim.spark.traces import traces_in

REPORT_FILE = "report.md"
NORMAL_95 = 1.96
FAILURES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that runs showed: a violated property, a known issue, a visited situation."""

    name: str
    sentence: str
    runs: int
    count: int
    first_seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFinding(Finding):
    """A known issue; ``step``, ``subject`` and ``detail`` are those of the first seed that showed
    it. ``verdicts``: what runs without it say -> of how many of its rows. ``page`` is empty where a
    runner of its own gave no more than the name."""

    page: str = ""
    step: int = 0
    subject: str = ""
    detail: str = ""
    verdicts: Mapping[str, int] = field(default_factory=dict)

    @property
    def proof(self) -> str:
        """The verdicts in words."""
        counts = (f"{count:,} {name}" for name, count in sorted(self.verdicts.items()) if name)
        return ", ".join(counts) or "not held against a run without it"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """One metric over all runs that report it; ``ci95`` is half the width of its interval."""

    name: str
    runs: int
    mean: float
    ci95: float
    p50: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Wall time: of the runs themselves, and of the last call that worked on the sweep."""

    run_ms_mean: float
    run_ms_p99: float
    seeds_run: int
    elapsed_s: float

    @property
    def seeds_per_s(self) -> float:
        return self.seeds_run / self.elapsed_s if self.elapsed_s > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSummary:
    """The findings of a sweep, of all its runs or of those that are there. ``outcomes`` has every
    outcome that occurred."""

    plan: SweepPlan
    report: Location
    runs: int  # those that are there
    stopped: str  # why the last call did not run all; empty if it did
    outcomes: dict[str, int]
    violations: tuple[Finding, ...]
    known: tuple[KnownFinding, ...]
    coverage: tuple[Finding, ...]
    missed: tuple[tuple[str, str], ...]  # id and sentence of what never happened and should have
    metrics: tuple[MetricSummary, ...]
    distributions: Mapping[str, Mapping[float, int]]  # metric -> rounded value -> runs
    failures: tuple[tuple[int, str, str], ...]  # seed, outcome, reason; the first of them
    failed: int  # how many there are
    traces: dict[int, Location]  # seed -> every step of its run; only of some that failed
    steps: int
    simulated_ms: int
    throughput: Throughput

    @property
    def passed(self) -> bool:
        """Whether every run gave a verdict and no run found anything new."""
        return set(self.outcomes) <= PASSING

    @property
    def is_complete(self) -> bool:
        """Whether every planned run is there."""
        return self.runs == len(self.plan.seeds) * len(self.plan.variants)

    @property
    def unproven(self) -> tuple[str, ...]:
        """Known issues that some run showed, and no run without them has proven."""
        return tuple(issue.name for issue in self.known if issue.verdicts.get(UNPROVEN))

    def replay_command(self, seed: int) -> str:
        """What to type to see that seed again."""
        if self.plan.runner != DEFAULT_RUNNER:
            return f"seed {seed} of {self.plan.runner}"
        return f"rebalance-sim run {self.plan.base.options_with(self.plan.plugins)} --seed {seed}"

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.outcomes.items())
        return f"<SweepSummary of {self.plan.base}, seeds {self.plan.seeds}: {counts}>"

    def _repr_html_(self) -> str:
        """What a notebook shows; the whole is in the report."""
        page = HtmlPage(f"Sweep of `{self.plan.base}`, seeds {self.plan.seeds}")
        counts = ([name, f"{count:,}", OUTCOMES[name]] for name, count in self.outcomes.items())
        page.table([["outcome", "runs", "meaning"], *counts])
        rows = [["seed", "outcome", "reason", "see it"]]
        for seed, outcome, reason in self.failures[:FAILURES_SHOWN]:
            rows.append([str(seed), outcome, reason, f"`{self.replay_command(seed)}`"])
        if self.failures:
            page.table(rows)
        with page.fold(f"{len(self.metrics)} metrics"):
            rows = [["metric", "runs", "median", "95 % below", "max"]]
            for one in self.metrics:
                values = (shown_in_unit(one.name, value) for value in (one.p50, one.p95, one.max))
                rows.append([title_of(one.name), f"{one.runs:,}", *values])
            page.table(rows)
        page.paragraph(f"report: `{shown(self.report)}`")
        return page.fragment()

    def trace_command(self, seed: int) -> str | None:
        """What to type to read its trace along; None if there is none."""
        file = self.traces.get(seed)
        return None if file is None else f"rebalance-sim replay {shown(file)}"


def summarise(
    out: Location, *, seeds_run: int = 0, elapsed_s: float = 0.0, stopped: str = ""
) -> SweepSummary:
    """What the runs in ``out`` come to, all or those that are there by now.

    The other arguments describe the call that worked on them. Raises SweepError.
    """
    store = open_store(out)
    plan, total = read_plan(out), read_summary(out)
    coverage = tuple(
        Finding(name=name, sentence="", **asdict(one))
        for name, one in sorted(total.coverage.items())
    )
    return SweepSummary(
        plan=plan,
        report=store.location(REPORT_FILE),
        runs=total.rows,
        stopped=stopped,
        outcomes={name: total.outcomes[name] for name in OUTCOMES if total.outcomes[name]},
        violations=tuple(_violations(total)),
        known=tuple(_known(total)),
        coverage=coverage,
        missed=_missed(coverage) if plan.runner == DEFAULT_RUNNER else (),
        metrics=tuple(_metrics(total)),
        distributions={name: dict(one.counts) for name, one in sorted(total.metrics.items())},
        failures=tuple((one.seed, one.outcome, one.reason) for one in total.failures),
        failed=total.failed,
        traces=traces_in(out),
        steps=total.steps,
        simulated_ms=total.simulated_ms,
        throughput=Throughput(
            run_ms_mean=total.wall_ms.mean if total.rows else 0.0,
            run_ms_p99=total.wall_ms.quantile(0.99) if total.rows else 0.0,
            seeds_run=seeds_run,
            elapsed_s=elapsed_s,
        ),
    )


def _violations(total: Summary) -> Iterator[Finding]:
    for name, one in sorted(total.violations.items()):
        yield Finding(
            name=name,
            sentence=one.sentence,
            runs=one.runs,
            count=one.count,
            first_seed=one.first_seed,
        )


def _known(total: Summary) -> Iterator[KnownFinding]:
    for name, one in sorted(total.known.items()):
        first = one.first
        yield KnownFinding(
            name=name,
            sentence=first.get("title", ""),
            runs=one.runs,
            count=one.count,
            first_seed=one.first_seed,
            page=first.get("page", ""),
            step=first.get("step", 0),
            subject=first.get("subject", ""),
            detail=first.get("detail", ""),
            verdicts=dict(one.verdicts),
        )


def _missed(coverage: tuple[Finding, ...]) -> tuple[tuple[str, str], ...]:
    """What a sweep has to have visited, or its silence proves little
    (rebalance_sim.invariants.engine.discovery)."""
    counts = {visited.name: visited.count for visited in coverage}
    return tuple((item.id, item.sentence) for item in unmet_goals(counts))


def _metrics(total: Summary) -> Iterator[MetricSummary]:
    for name, values in sorted(total.metrics.items()):
        yield MetricSummary(
            name=name,
            runs=values.count,
            mean=values.mean,
            ci95=NORMAL_95 * values.deviation / math.sqrt(values.count),
            p50=values.quantile(0.5),
            p95=values.quantile(0.95),
            p99=values.quantile(0.99),
            max=values.max,
        )
