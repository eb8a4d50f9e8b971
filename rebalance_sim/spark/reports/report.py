"""What a sweep found, as one value and as rows of tables. Needs no Spark."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from rebalance_sim.invariants.engine.discovery import unmet_goals
from rebalance_sim.scenarios.documents.document import Document, Fold, Part, Table
from rebalance_sim.scenarios.documents.html_page import html_fragment
from rebalance_sim.scenarios.metric_limits import LIMITED, MetricLimit, limit_word
from rebalance_sim.scenarios.result import REPAIRED, SAMPLED, UNPROVEN
from rebalance_sim.scenarios.units import compared, explained, shown_in_unit
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.reports.intervals import Median, in_unit, median_of_counts
from rebalance_sim.spark.reports.markdown import REPORT_FILE
from rebalance_sim.spark.runner import DEFAULT_RUNNER
from rebalance_sim.spark.store.opening import open_store
from rebalance_sim.spark.store.reading import read_plan, read_summary, read_table
from rebalance_sim.spark.store.store import Location, shown
from rebalance_sim.spark.store.summary import Sighting, Summary
from rebalance_sim.spark.store.tables import OUTCOMES, PASSING
from rebalance_sim.spark.traces import traces_in

_PROOFS: Mapping[str, str] = {
    REPAIRED: "gone without it",
    UNPROVEN: "without a verdict without it",
    SAMPLED: "not run without it",
}
FAILURES_SHOWN = 5
FAILURES_LISTED = 20
DIFFERING_SHOWN = 3


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
        counts = (
            f"{count:,} {_PROOFS.get(name, name)}"
            for name, count in sorted(self.verdicts.items())
            if name
        )
        return ", ".join(counts) or "not held against a run without it"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """One metric over all runs that report it."""

    name: str
    runs: int
    mean: float
    median: Median
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
    leapt_ms: int
    both_ways: int  # runs that were made step by step as well as with leaps
    differing: tuple[tuple[int, str], ...]  # seeds of those that differ, and in what
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
        options = self.plan.base.options_with(self.plan.plugins)
        return f"rebalance-sim run {options} --seed {seed}{' --leap' if self.plan.leap else ''}"

    @property
    def leaps_in_words(self) -> Iterator[str]:
        """What was left out, and what is known of the runs that go step by step."""
        if not self.leapt_ms:
            return
        share = self.leapt_ms / self.simulated_ms
        yield (
            f"{share:.0%} of that was left out, at rest; of {self.both_ways:,} runs that were made "
            f"step by step as well, {len(self.differing):,} differ"
        )
        for seed, difference in self.differing[:DIFFERING_SHOWN]:
            yield f"seed {seed} with leaps: {difference} step by step"

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self.outcomes.items())
        return f"<SweepSummary of {self.plan.base}, seeds {self.plan.seeds}: {counts}>"

    def _repr_html_(self) -> str:
        """What a notebook shows; the whole is in the report."""
        parts: list[Part] = [Table(outcome_rows(self))]
        if self.failures:
            parts.append(Table([row[:-1] for row in failure_rows(self)[: FAILURES_SHOWN + 1]]))
        parts.append(Fold(f"{len(self.metrics)} metrics", [Table(metric_rows(self.metrics))]))
        parts.append(f"report: `{shown(self.report)}`")
        title = f"Sweep of `{self.plan.base}`, seeds {self.plan.seeds}"
        return html_fragment(Document(title, parts))

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
    coverage = tuple(_findings(total.coverage))
    return SweepSummary(
        plan=plan,
        report=store.location(REPORT_FILE),
        runs=total.rows,
        stopped=stopped,
        outcomes={name: total.outcomes[name] for name in OUTCOMES if total.outcomes[name]},
        violations=tuple(_findings(total.violations)),
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
        leapt_ms=total.leapt_ms,
        both_ways=total.both_ways,
        differing=tuple(total.differing),
        throughput=Throughput(
            run_ms_mean=total.wall_ms.mean if total.rows else 0.0,
            run_ms_p99=total.wall_ms.quantile(0.99) if total.rows else 0.0,
            seeds_run=seeds_run,
            elapsed_s=elapsed_s,
        ),
    )


def _findings(found: Mapping[str, Sighting]) -> Iterator[Finding]:
    for name, one in sorted(found.items()):
        yield Finding(
            name=name,
            sentence=getattr(one, "sentence", ""),
            runs=one.runs,
            count=one.count,
            first_seed=one.first_seed,
        )


def _known(total: Summary) -> Iterator[KnownFinding]:
    for finding in _findings(total.known):
        issue = total.known[finding.name]
        first = {k: v for k, v in issue.first.items() if k in ("page", "step", "subject", "detail")}
        first |= {"sentence": issue.first.get("title", ""), "verdicts": dict(issue.verdicts)}
        yield KnownFinding(**{**asdict(finding), **first})


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
            median=median_of_counts(values.counts),
            p95=values.quantile(0.95),
            p99=values.quantile(0.99),
            max=values.max,
        )


def outcome_rows(summary: SweepSummary) -> list[list[str]]:
    """One row for each outcome that occurred."""
    total = summary.runs or 1
    rows = [["outcome", "runs", "share", "meaning"]]
    for name, count in summary.outcomes.items():
        rows.append([name, f"{count:,}", f"{count / total:.2%}", OUTCOMES[name]])
    return rows


def failure_rows(summary: SweepSummary) -> list[list[str]]:
    """One row for each run that did not pass, those with a trace first."""
    rows = [["seed", "outcome", "reason", "see it", "every step"]]
    traced_first = sorted(summary.failures, key=lambda failure: failure[0] not in summary.traces)
    for seed, outcome, reason in sorted(traced_first[:FAILURES_LISTED]):
        trace = ""
        if seed in summary.traces:
            file = "/".join(str(summary.traces[seed]).rsplit("/", 2)[1:])
            trace = f"[{file}]({file}): `rebalance-sim replay {file}`"
        rows.append([str(seed), outcome, reason, f"`{summary.replay_command(seed)}`", trace])
    left = summary.failed - FAILURES_LISTED
    if left > 0:
        rows.append(["...", "", f"{left:,} more in `runs/`", "", ""])
    return rows


def in_order(metrics: Sequence[MetricSummary]) -> list[MetricSummary]:
    """What rebalances cost first, time without an owner before all; then the others by name."""
    names = compared(metric.name for metric in metrics)
    places = {name: place for place, name in enumerate(names)}
    return sorted(metrics, key=lambda metric: places.get(metric.name, len(places)))


def metric_rows(metrics: Sequence[MetricSummary]) -> list[list[str]]:
    """One row for each metric."""
    rows = [["metric", "runs", "median [95 %]", "p95", "p99", "max", "mean"]]
    for one in in_order(metrics):
        middle, interval = in_unit(one.name, one.median)
        if math.isnan(one.median.low):
            interval = ""
        values = (one.p95, one.p99, one.max, one.mean)
        shown = [shown_in_unit(one.name, value) for value in values]
        rows.append([explained(one.name), f"{one.runs:,}", f"{middle} {interval}".rstrip(), *shown])
    return rows


def client_line(summary: SweepSummary) -> str:
    """In how many runs clients ended fatal, never were stable or were idle, and for how long
    partitions had no owner; empty if no run has measured it."""
    metrics = {metric.name: metric for metric in summary.metrics}
    if not metrics.keys() >= set(LIMITED):
        return ""
    counts = []
    for name, words in zip(LIMITED[:3], ("ended fatal", "never stable", "idle"), strict=True):
        some = sum(count for value, count in summary.distributions[name].items() if value)
        counts.append(f"{words} in {some:,}")
    longest = metrics[LIMITED[-1]]
    ends = [f"{shown_in_unit(longest.name, end)} s" for end in (longest.median.value, longest.max)]
    return (
        f"clients: {', '.join(counts)} of {metrics[LIMITED[0]].runs:,} runs; longest time of a "
        f"partition without an owner: median {ends[0]}, at most {ends[1]}"
    )


def limit_objections(
    out: Location, summary: SweepSummary, limits: Iterable[MetricLimit]
) -> Iterator[str]:
    """A line for each limit that runs of the sweep in ``out`` exceed, with the first of them.

    Rows are read only if there is such a run. Raises SweepError.
    """
    longest = {metric.name: metric.max for metric in summary.metrics}
    for limit in limits:
        failed = f"failed on {limit_word(limit.metric)}"
        if limit.metric not in longest:
            yield f"{failed}: no run has this metric"
        elif limit.is_exceeded_by(longest[limit.metric]):
            rows = read_table(out, "runs").select(["seed", "metrics"]).to_pylist()
            values = {row["seed"]: dict(row["metrics"]).get(limit.metric, 0) for row in rows}
            over = [seed for seed, value in values.items() if limit.is_exceeded_by(value)]
            yield (
                f"{failed}: more than {limit.most:,g} in {len(over):,} of {len(rows):,} runs, "
                f"the first is {summary.replay_command(over[0])}"
            )
