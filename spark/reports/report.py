"""What a sweep found: a summary value, and a page for people. Needs no Spark."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_sim.invariants.engine.discovery import unmet_goals
from rebalance_sim.scenarios.result import UNPROVEN
from rebalance_sim.spark.plan import SweepPlan
from rebalance_sim.spark.reports.markdown import section
from rebalance_sim.spark.reports.plots import SERIES, draw_plots
from rebalance_sim.spark.runner import DEFAULT_RUNNER
from rebalance_sim.spark.store.results import read_metrics, read_plan, read_table
from rebalance_sim.spark.store.tables import NO_VERDICT, OUTCOMES, PASSING
from rebalance_sim.spark.traces import traces_in

REPORT_FILE = "report.md"
NORMAL_95 = 1.96
FAILURES_LISTED = 20


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
    """The findings of a finished sweep. ``outcomes`` has every outcome that occurred."""

    plan: SweepPlan
    report: Path
    outcomes: dict[str, int]
    violations: tuple[Finding, ...]
    known: tuple[KnownFinding, ...]
    coverage: tuple[Finding, ...]
    missed: tuple[tuple[str, str], ...]  # id and sentence of what never happened and should have
    metrics: tuple[MetricSummary, ...]
    failures: tuple[tuple[int, str, str], ...]  # seed, outcome, reason
    traces: dict[int, Path]  # seed -> every step of its run; only of some that failed
    steps: int
    simulated_ms: int
    throughput: Throughput

    @property
    def passed(self) -> bool:
        """Whether every run gave a verdict and no run found anything new."""
        return set(self.outcomes) <= PASSING

    @property
    def unproven(self) -> tuple[str, ...]:
        """Known issues that some run showed, and no run without them has proven."""
        return tuple(issue.name for issue in self.known if issue.verdicts.get(UNPROVEN))

    def replay_command(self, seed: int) -> str:
        """What to type to see that seed again."""
        if self.plan.runner != DEFAULT_RUNNER:
            return f"seed {seed} of {self.plan.runner}"
        return f"rebalance-sim run {self.plan.base.options} --seed {seed}"

    def trace_command(self, seed: int) -> str | None:
        """What to type to read its trace along; None if there is none."""
        file = self.traces.get(seed)
        return None if file is None else f"rebalance-sim replay {os.path.relpath(file)}"


def summarise(path: Path, *, seeds_run: int = 0, elapsed_s: float = 0.0) -> SweepSummary:
    """Read the tables in ``path``. The arguments describe the call that completed them."""
    plan, runs = read_plan(path), read_table(path, "runs")
    wall = read_table(path, "timing").column("wall_ms")
    coverage = tuple(_findings(runs, "coverage"))
    return SweepSummary(
        plan=plan,
        report=path / REPORT_FILE,
        outcomes=_outcomes(runs),
        violations=tuple(_violations(read_table(path, "violations"))),
        known=tuple(_known(runs, read_table(path, "known_issues"))),
        coverage=coverage,
        missed=_missed(coverage) if plan.runner == DEFAULT_RUNNER else (),
        metrics=tuple(_metrics(runs)),
        failures=_failures(runs),
        traces=traces_in(path),
        steps=pc.sum(runs.column("steps")).as_py() or 0,
        simulated_ms=pc.sum(runs.column("simulated_ms")).as_py() or 0,
        throughput=Throughput(
            run_ms_mean=pc.mean(wall).as_py() or 0.0,
            run_ms_p99=pc.quantile(wall, 0.99)[0].as_py() or 0.0,
            seeds_run=seeds_run,
            elapsed_s=elapsed_s,
        ),
    )


def write_report(path: Path, summary: SweepSummary) -> None:
    """Write ``report.md`` and its plots into ``path``."""
    runs = read_table(path, "runs")
    plots = draw_plots(
        path,
        outcomes=summary.outcomes,
        metrics=entries(runs, "metrics"),
        coverage=entries(runs, "coverage"),
        series=read_metrics(path, SERIES),
    )
    text = "\n".join(_page(summary, plots))
    summary.report.write_text(text + "\n", encoding="utf-8")


def _outcomes(runs: pa.Table) -> dict[str, int]:
    counts = dict(zip(*_value_counts(runs.column("outcome")), strict=True))
    return {name: counts[name] for name in OUTCOMES if name in counts}


def _value_counts(column: pa.ChunkedArray) -> tuple[list[str], list[int]]:
    counted = pc.value_counts(column)
    return counted.field("values").to_pylist(), counted.field("counts").to_pylist()


def _violations(violations: pa.Table) -> Iterator[Finding]:
    frame = violations.to_pandas()
    for property_id, rows in frame.groupby("property", sort=True):
        yield Finding(
            name=str(property_id),
            sentence=rows["sentence"].iloc[0],
            runs=rows["seed"].nunique(),
            count=len(rows),
            first_seed=int(rows["seed"].min()),
        )


def _findings(runs: pa.Table, column: str) -> Iterator[Finding]:
    frame = entries(runs, column)
    for name, rows in frame[frame["value"] > 0].groupby("name", sort=True):
        yield Finding(
            name=str(name),
            sentence="",
            runs=len(rows),
            count=int(rows["value"].sum()),
            first_seed=int(rows["seed"].min()),
        )


def _known(runs: pa.Table, known_issues: pa.Table) -> Iterator[KnownFinding]:
    rows = known_issues.to_pandas()
    for finding in _findings(runs, "known"):
        mine = rows[rows["issue"] == finding.name].sort_values(["seed", "step"], kind="stable")
        found = asdict(finding)
        if len(mine):
            first = mine.iloc[0]
            found |= {
                "sentence": first["title"],
                "page": first["page"],
                "step": int(first["step"]),
                "subject": first["subject"],
                "detail": first["detail"],
                "verdicts": {str(k): int(n) for k, n in mine["verdict"].value_counts().items()},
            }
        yield KnownFinding(**found)


def _missed(coverage: tuple[Finding, ...]) -> tuple[tuple[str, str], ...]:
    """What a sweep has to have visited, or its silence proves little
    (rebalance_sim.invariants.engine.discovery)."""
    counts = {visited.name: visited.count for visited in coverage}
    return tuple((item.id, item.sentence) for item in unmet_goals(counts))


def _metrics(runs: pa.Table) -> Iterator[MetricSummary]:
    for name, rows in entries(runs, "metrics").groupby("name", sort=True):
        values = rows["value"].sort_values()
        # fsum, so that the order of the rows does not show in the last digit.
        mean = math.fsum(values) / len(values)
        deviation = values.std() if len(values) > 1 else 0.0
        p50, p95, p99 = values.quantile([0.5, 0.95, 0.99])
        yield MetricSummary(
            name=str(name),
            runs=len(values),
            mean=mean,
            ci95=NORMAL_95 * deviation / math.sqrt(len(values)),
            p50=p50,
            p95=p95,
            p99=p99,
            max=values.iloc[-1],
        )


def entries(runs: pa.Table, column: str) -> pd.DataFrame:
    """A map column of ``runs`` in long form: seed, name, value."""
    chunks = runs.select(["seed", column]).to_batches()
    parts = [
        pa.table(
            {
                "seed": chunk["seed"].take(pc.list_parent_indices(_as_list(chunk[column]))),
                "name": chunk[column].keys,
                "value": chunk[column].items,
            }
        )
        for chunk in chunks
    ]
    kind = runs.schema.field(column).type
    empty = pa.schema({"seed": pa.int64(), "name": kind.key_type, "value": kind.item_type})
    return pa.concat_tables([empty.empty_table(), *parts]).to_pandas()


def _as_list(array: pa.MapArray) -> pa.ListArray:
    return pa.ListArray.from_arrays(array.offsets, array.keys)


def _failures(runs: pa.Table) -> tuple[tuple[int, str, str], ...]:
    failed = runs.filter(pc.invert(pc.is_in(runs.column("outcome"), pa.array(sorted(PASSING)))))
    columns = (failed.column(name).to_pylist() for name in ("seed", "outcome", "reason"))
    return tuple(zip(*columns, strict=True))


def _page(summary: SweepSummary, plots: dict[str, str]) -> Iterator[str]:
    plan, throughput = summary.plan, summary.throughput
    yield f"# Sweep of `{plan.base}`, seeds {plan.seeds}"
    yield ""
    yield (
        f"Sweep `{plan.sweep_id}`, code `{plan.code_digest}`, Python {plan.python}, "
        f"{plan.batch_count} batches of {plan.batch_size}."
    )
    yield (
        f"{summary.steps:,} steps in {summary.simulated_ms / 3_600_000:,.1f} simulated hours; "
        f"a run took {throughput.run_ms_mean:.1f} ms on average, "
        f"{throughput.run_ms_p99:.1f} ms at the 99th percentile."
    )
    if throughput.seeds_run:
        yield (
            f"The last call ran {throughput.seeds_run:,} seeds in {throughput.elapsed_s:.1f} s: "
            f"{throughput.seeds_per_s:,.1f} seeds/s, start-up included."
        )
    yield from section("Outcomes", _outcome_rows(summary), plots.get("outcomes"))
    yield from section("Violated properties", _finding_rows(summary, summary.violations))
    yield from section("Known issues", _known_rows(summary))
    yield from section("Runs to look at", _failure_rows(summary))
    yield from section("Metrics", _metric_rows(summary), plots.get("metrics"))
    if "series" in plots:
        yield from _series(summary, plots["series"])
    missed = [["situation", "in words"], *(list(row) for row in summary.missed)]
    yield from section("Never happened, and should in a sweep", missed)
    yield from section("Coverage", _coverage_rows(summary), plots.get("coverage"))


def _series(summary: SweepSummary, plot: str) -> Iterator[str]:
    yield ""
    yield "## Over time"
    yield ""
    yield (
        f"Of up to {summary.plan.metrics_seeds:,} seeds, evenly spread, sampled every "
        f"{summary.plan.metrics_interval_ms:,} ms of simulated time: the mean of the runs that "
        "still go on, and the middle 80 % of them. The whole series are in `metrics/`."
    )
    yield ""
    yield f"![Over time]({plot})"


def _outcome_rows(summary: SweepSummary) -> list[list[str]]:
    total = len(summary.plan.seeds)
    rows = [["outcome", "runs", "share", "meaning"]]
    for name, count in summary.outcomes.items():
        rows.append([name, f"{count:,}", f"{count / total:.2%}", OUTCOMES[name]])
    return rows


def _finding_rows(summary: SweepSummary, findings: tuple[Finding, ...]) -> list[list[str]]:
    rows = [["name", "runs", "times", "see it"]]
    for finding in findings:
        name = f"`{finding.name}` {finding.sentence}".strip()
        command = f"`{summary.replay_command(finding.first_seed)}`"
        rows.append([name, f"{finding.runs:,}", f"{finding.count:,}", command])
    return rows


def _known_rows(summary: SweepSummary) -> list[list[str]]:
    header = ["name", "runs", "times", "held against runs without it", "first seen", "see it"]
    rows = [header]
    for issue in summary.known:
        first = f"step {issue.step}, {issue.subject}: {issue.detail}" if issue.page else ""
        name = f"`{issue.name}` {issue.sentence}".strip()
        rows.append(
            [
                f"{name} (`{issue.page}`)" if issue.page else name,
                f"{issue.runs:,}",
                f"{issue.count:,}",
                issue.proof,
                first,
                f"`{summary.replay_command(issue.first_seed)}`",
            ]
        )
    return rows


def _failure_rows(summary: SweepSummary) -> list[list[str]]:
    rows = [["seed", "outcome", "reason", "see it", "every step"]]
    folder = summary.report.parent
    traced_first = sorted(summary.failures, key=lambda failure: failure[0] not in summary.traces)
    for seed, outcome, reason in sorted(traced_first[:FAILURES_LISTED]):
        trace = ""
        if seed in summary.traces:
            file = summary.traces[seed].relative_to(folder).as_posix()
            trace = f"[{file}]({file}): `rebalance-sim replay {file}`"
        rows.append([str(seed), outcome, reason, f"`{summary.replay_command(seed)}`", trace])
    left = len(summary.failures) - FAILURES_LISTED
    if left > 0:
        rows.append(["...", "", f"{left:,} more in `runs/`", "", ""])
    return rows


def _metric_rows(summary: SweepSummary) -> list[list[str]]:
    rows = [["metric", "runs", "mean", "± 95 %", "p50", "p95", "p99", "max"]]
    for metric in summary.metrics:
        numbers = (metric.mean, metric.ci95, metric.p50, metric.p95, metric.p99, metric.max)
        rows.append([metric.name, f"{metric.runs:,}", *map(_number, numbers)])
    return rows


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _coverage_rows(summary: SweepSummary) -> list[list[str]]:
    judged = sum(n for name, n in summary.outcomes.items() if name not in NO_VERDICT) or 1
    rows = [["situation", "runs", "share", "times"]]
    for visited in sorted(summary.coverage, key=lambda visited: (visited.runs, visited.name)):
        share = f"{visited.runs / judged:.1%}"
        rows.append([visited.name, f"{visited.runs:,}", share, f"{visited.count:,}"])
    return rows
