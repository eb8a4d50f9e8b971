"""A whole comparison: the same seeds under several protocols, in tables and on a page."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from math import isnan
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from sample_plans import with_options

import rebalance_sim
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.units import COMPARED
from rebalance_sim.spark import (
    ComparisonSummary,
    SweepError,
    compare,
    read_comparison,
    read_plan,
    read_table,
    sweep,
)
from rebalance_sim.spark.reports.comparison import summarise_comparison
from rebalance_sim.spark.reports.comparison_report import (
    answer_of,
    difference_rows,
    headline_rows,
)
from rebalance_sim.spark.store.results import ResultFolder
from rebalance_sim.spark.store.tables import COMPARISON

PROTOCOLS = ("consumer-uniform", "consumer-range")


def a_comparison(out: Path, backend: str = "pool", **options: object) -> ComparisonSummary:
    values = {"profile": "calm", "seeds": "0:8", "batch_size": 3, "protocols": PROTOCOLS}
    return compare(**with_options(out=out, backend=backend, **{**values, **options}))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ComparisonSummary]:
    out = tmp_path_factory.mktemp("comparison") / "out"
    return out, a_comparison(out)


@pytest.fixture
def copy(finished: tuple[Path, ComparisonSummary], tmp_path: Path) -> Path:
    """The same, to be changed by a test."""
    return Path(shutil.copytree(finished[0], tmp_path / "copy"))


def test_each_seed_has_a_row_for_each_protocol(
    finished: tuple[Path, ComparisonSummary],
) -> None:
    out, summary = finished
    for table in ("runs", "timing"):
        rows = read_table(out, table).to_pylist()
        pairs = [(row["seed"], row["protocol"]) for row in rows]
        assert pairs == [(seed, name) for seed in range(8) for name in PROTOCOLS]
    assert summary.outcomes == {name: {"ok": 8} for name in PROTOCOLS}
    assert summary.seeds_compared == 8
    assert summary.passed


def test_figures_are_those_of_the_runs_themselves(
    finished: tuple[Path, ComparisonSummary],
) -> None:
    _, summary = finished
    own = {
        name: [run(generate(f"calm+{name}", seed)).metrics["partition_moves"] for seed in range(8)]
        for name in PROTOCOLS
    }
    differences = sorted(
        other - base for base, other in zip(*(own[name] for name in PROTOCOLS), strict=True)
    )
    [estimate] = [
        e
        for e in summary.estimates
        if (e.metric, e.protocol) == ("partition_moves", "consumer-range")
    ]
    assert estimate.seeds == 8
    assert estimate.median == sum(sorted(own["consumer-range"])[3:5]) / 2
    assert estimate.difference == (differences[3] + differences[4]) / 2
    assert (estimate.difference_low, estimate.difference_high) == (differences[0], differences[-1])
    assert estimate.won == sum(value < 0 for value in differences)
    assert estimate.tied == differences.count(0)
    assert estimate.lost == sum(value > 0 for value in differences)
    assert summary.values["consumer-range"]["partition_moves"].tolist() == own["consumer-range"]


def test_a_protocol_does_not_differ_from_itself(
    finished: tuple[Path, ComparisonSummary],
) -> None:
    for estimate in finished[1].estimates:
        if estimate.protocol == "consumer-uniform":
            assert (estimate.won, estimate.tied, estimate.lost) == (0, estimate.seeds, 0)
            assert estimate.difference == 0


def test_the_table_is_typed_and_comes_back_as_a_frame(
    finished: tuple[Path, ComparisonSummary],
) -> None:
    out, summary = finished
    assert pq.read_schema(out / "comparison.parquet").equals(COMPARISON)
    frame = read_comparison(out)
    assert list(frame.columns) == COMPARISON.names
    assert frame.equals(summary.frame())
    assert set(frame.metric) <= set(COMPARED)


def test_the_page_names_what_was_left_out_and_how_to_see_a_run(
    finished: tuple[Path, ComparisonSummary],
) -> None:
    out, summary = finished
    text = summary.report.read_text()
    assert "8 of 8 seeds of calm passed under all" in text
    assert "`consumer-range` against `consumer-uniform`" in text
    assert re.search(r"rebalance-sim run --profile calm\+consumer-range --seed \d", text)
    plots = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(plots) == 2
    for plot in plots:
        assert (out / plot).exists()


def test_a_protocol_in_which_a_run_failed_has_no_figures(copy: Path) -> None:
    folder = ResultFolder(copy)
    first = folder.rows("b000000.parquet")
    first[1] |= {"outcome": "violation", "reason": "a property was violated"}
    first[4] |= {"outcome": "known"}
    folder.write_batch(read_plan(copy), 0, first)
    summary = summarise_comparison(copy)
    assert summary.outcomes["consumer-uniform"] == {"ok": 7, "known": 1}
    assert summary.outcomes["consumer-range"] == {"ok": 7, "violation": 1}
    assert summary.failed == {"consumer-range": "1 of 8 violated"}
    assert {(e.protocol, e.seeds) for e in summary.estimates} == {("consumer-uniform", 8)}
    rows = headline_rows(summary)
    assert rows[0] == ["metric", "seeds", "consumer-uniform", "consumer-range"]
    assert {(row[1], row[3]) for row in rows[1:]} == {("8", "1 of 8 violated")}
    assert difference_rows(summary, "consumer-range")[1][:3] == ["all", "0", "1 of 8 violated"]
    assert summary.failures == ((0, "consumer-range", "violation", "a property was violated"),)
    assert not summary.passed


def test_against_a_base_in_which_a_run_failed_nothing_is_held(copy: Path) -> None:
    folder = ResultFolder(copy)
    first = folder.rows("b000000.parquet")
    first[0] |= {"outcome": "budget", "reason": "stopped after max_steps (9)"}
    folder.write_batch(read_plan(copy), 0, first)
    summary = a_comparison(copy)
    assert {(e.protocol, e.seeds) for e in summary.estimates} == {("consumer-range", 8)}
    assert all(isnan(e.difference) and not e.won + e.tied + e.lost for e in summary.estimates)
    assert "| consumer-uniform: 1 of 8 cut off |" in summary.report.read_text()


def test_a_seed_whose_clients_all_failed_under_one_protocol_counts_under_none(copy: Path) -> None:
    folder = ResultFolder(copy)
    first = folder.rows("b000000.parquet")
    first[1] |= {"outcome": "vacuous"}
    folder.write_batch(read_plan(copy), 0, first)
    summary = summarise_comparison(copy)
    assert summary.seeds == tuple(range(1, 8))
    moves = {(e.protocol, e.seeds) for e in summary.estimates if e.metric == "partition_moves"}
    assert moves == {(name, 7) for name in PROTOCOLS}


def test_a_comparison_in_which_nothing_passed_says_so(tmp_path: Path) -> None:
    a_comparison(tmp_path / "out", seeds="0:3")
    folder = ResultFolder(tmp_path / "out")
    rows = folder.rows("b000000.parquet")
    for row in rows:
        row |= {"outcome": "stuck", "reason": "nothing continues"}
    folder.write_batch(read_plan(tmp_path / "out"), 0, rows)
    summary = a_comparison(tmp_path / "out", seeds="0:3")
    assert summary.seeds_compared == 0
    assert summary.estimates == ()
    assert read_comparison(tmp_path / "out").empty
    text = summary.report.read_text()
    assert "0 of 3 seeds of calm passed under 0 protocols; no figures of" in text
    assert "consumer-range (3 of 3 stuck)" in text
    assert "nothing continues" in text
    assert "![" not in text
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<div class='tile '><b>0</b>seeds are compared" in page


def test_a_verdict_that_may_be_chance_is_not_green_and_seeds_without_a_verdict_are_named(
    tmp_path: Path,
) -> None:
    a_comparison(tmp_path / "out", seeds="0:4")
    folder = ResultFolder(tmp_path / "out")
    rows = folder.rows("b000000.parquet")
    rows[0] |= {"outcome": "not-judged", "reason": "too short"}
    folder.write_batch(read_plan(tmp_path / "out"), 0, rows)
    text = a_comparison(tmp_path / "out", seeds="0:4").report.read_text()
    assert "3 of 4 seeds of calm passed under all" in text
    assert "are compared; 1 not judged under all of them" in text
    assert "verdict good" not in (tmp_path / "out" / "report.html").read_text()


def with_unowned_s(summary: ComparisonSummary, **seconds: list[float]) -> ComparisonSummary:
    """The same comparison, in which partitions had no owner for so long, by protocol and seed."""
    metrics = {name: pd.DataFrame({"unowned_partition_ms": ms}) for name, ms in seconds.items()}
    return replace(summary, values={name: frame * 1_000 for name, frame in metrics.items()})


HARD_SEEDS = [10.0, 20.0, 30.0, 40.0, 90.0, 100.0, 110.0, 120.0]


def test_the_verdict_of_a_comparison_follows_the_pairs_and_not_the_medians(
    finished: tuple[Path, ComparisonSummary],
) -> None:
    less = [one - 1 for one in HARD_SEEDS[:3]] + [80.0] + [one - 1 for one in HARD_SEEDS[4:]]
    summary = with_unowned_s(finished[1], eager=HARD_SEEDS, cooperative=less)
    assert sorted(less)[3:5] > sorted(HARD_SEEDS)[3:5], "the median is higher"
    assert answer_of(summary).text == (
        "No protocol has less time without an owner, summed over partitions than all others by "
        "more than chance: cooperative has -1 partition-seconds [-1, 40] against eager, which may "
        "be chance; over 8 seeds."
    )


def test_the_verdict_says_against_whom_the_least_may_be_chance(
    finished: tuple[Path, ComparisonSummary],
) -> None:
    less = [one - 5 for one in HARD_SEEDS]
    about = [one + (-1) ** place for place, one in enumerate(less)]
    found = answer_of(with_unowned_s(finished[1], eager=HARD_SEEDS, cooperative=less, new=about))
    assert "-5 partition-seconds [-5, -5] against eager;" in found.text
    assert "against new, which may be chance" in found.text
    assert found.kind == ""
    sure = answer_of(with_unowned_s(finished[1], eager=HARD_SEEDS, cooperative=less))
    assert sure.text.startswith("cooperative has the least") and sure.kind == "good"


def test_a_seed_can_be_chosen_to_be_drawn(copy: Path) -> None:
    summary = a_comparison(copy, timeline_seed=5)
    assert "## Who could fetch what, in seed 5" in summary.report.read_text()


def test_a_finished_comparison_is_read_again_and_can_have_another_base(
    finished: tuple[Path, ComparisonSummary],
) -> None:
    out, summary = finished
    files = {file: file.stat().st_mtime_ns for file in (out / "runs").iterdir()}
    again = a_comparison(out, base="consumer-range")
    assert {file: file.stat().st_mtime_ns for file in (out / "runs").iterdir()} == files
    assert again.throughput.seeds_run == 0
    forth = {e.metric: e for e in summary.estimates if e.protocol == "consumer-range"}
    back = {e.metric: e for e in again.estimates if e.protocol == "consumer-uniform"}
    for metric, estimate in forth.items():
        assert estimate.difference == -back[metric].difference
        assert (estimate.won, estimate.lost) == (back[metric].lost, back[metric].won)
    a_comparison(out)


def test_a_missing_batch_is_run_again_to_the_same_rows(copy: Path) -> None:
    file = copy / "runs" / "b000001.parquet"
    before = [read_table(copy, kind) for kind in ("runs", "metrics")]
    file.unlink()
    summary = a_comparison(copy)
    assert summary.throughput.seeds_run == 3
    assert file.exists()
    for kind, table in zip(("runs", "metrics"), before, strict=True):
        assert read_table(copy, kind).equals(table)


def test_a_comparison_and_a_sweep_do_not_share_a_folder(
    finished: tuple[Path, ComparisonSummary], tmp_path: Path
) -> None:
    with pytest.raises(SweepError, match=r"another sweep.*variants"):
        sweep(
            **with_options(
                profile="calm", seeds="0:8", batch_size=3, out=finished[0], backend="pool"
            )
        )
    sweep(
        **with_options(
            profile="calm", seeds="0:2", batch_size=3, out=tmp_path / "out", backend="pool"
        )
    )
    with pytest.raises(SweepError, match="nothing is compared"):
        summarise_comparison(tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"protocols": ("consumer-range",)}, SweepError, "needs two or more"),
        ({"protocols": ()}, SweepError, "needs two or more"),
        ({"protocols": ("consumer-range", "eagre")}, ScenarioError, "no protocol 'eagre'"),
        ({"base": "cooperative"}, SweepError, "choose one of the compared"),
        ({"profile": "fauly"}, ScenarioError, "no profile 'fauly'"),
        ({"timeline_seed": 8}, SweepError, "give one of the seeds 0:8"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_is_written(
    tmp_path: Path, options: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        a_comparison(tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_the_facade_gives_the_table_as_a_frame(tmp_path: Path) -> None:
    frame = rebalance_sim.compare(
        profile="calm",
        seeds="0:2",
        out=tmp_path / "out",
        protocols=PROTOCOLS,
        options=rebalance_sim.SweepOptions(backend="pool"),
    )
    assert list(frame.columns) == COMPARISON.names
    assert frame.equals(rebalance_sim.read_comparison(tmp_path / "out"))
    assert set(frame.seeds) <= {1, 2}
