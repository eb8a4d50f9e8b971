"""Pages of HTML with plots: what they say, in which order, and that they need nothing else."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from sample_plans import with_options

from rebalance_sim.cli.main import invoke
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.documents.document import Document, Fold, Table, Verdict
from rebalance_sim.scenarios.documents.figures import whole_axis
from rebalance_sim.scenarios.documents.html_page import asset, html_page
from rebalance_sim.scenarios.hunt.hunt import Corpus
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.scenarios.units import shown_in_unit, title_of
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import Limits, SweepSummary, compare, summarise, sweep, write_report
from rebalance_sim.spark.detection.figures import DefectFigures, OracleFigures
from rebalance_sim.spark.detection.mix import command_of, scenario_of
from rebalance_sim.spark.detection.oracles import Oracle
from rebalance_sim.spark.detection.page import defects_document
from rebalance_sim.spark.hunt.carry_out import Hunted
from rebalance_sim.spark.hunt.page import hunt_document
from rebalance_sim.spark.reports.intervals import share_of
from rebalance_sim.spark.reports.page_plots import colour_of, histogram

pytestmark = pytest.mark.plots

POOL = {"backend": "pool", "processes": 1, "limits": Limits(soft_s=30, hard_s=60)}


MOST_BYTES = 1_500_000


def own_part(page: str) -> str:
    """A page without the library that draws its plots, and without the heads of columns that
    phones show in each cell."""
    own = page.replace(asset("plotly-basic.min.js"), "")
    assert len(page) <= MOST_BYTES
    assert (len(own) < len(page)) is ("<div class=plot" in page)
    return re.sub(r' data-head="[^"]*"', "", own)


def places(page: str, *said: str) -> list[int]:
    found = [page.find(words) for words in said]
    assert -1 not in found, [words for words, place in zip(said, found, strict=True) if place < 0]
    return found


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepSummary, str]:
    """A sweep in which a defect shows, and its page."""
    out = tmp_path_factory.mktemp("failing") / "out"
    variant = Variant.of("calm").setting([Setting.parse('world.defects=["mut-early-grant"]')])
    options = {**POOL, "batch_size": 4, "metrics_seeds": 2, "traces": 2}
    summary = sweep(**with_options(profile=variant, seeds="0:4", out=out, **options))
    return summary, own_part((out / "report.html").read_text())


def test_first_what_was_asked_and_what_came_out_then_failures_then_costs(
    failing: tuple[SweepSummary, str],
) -> None:
    _, page = failing
    order = places(
        page, "No: ", "Asked: does every property hold in 4 scenarios",
        "Violated properties", "Runs to look at", "What rebalances cost", "Over time",
        "<summary>Coverage: ", "<summary>How it was run",
    )  # fmt: skip
    assert order == sorted(order)


def test_each_failing_seed_has_its_command_and_the_first_their_story_and_timeline(
    failing: tuple[SweepSummary, str],
) -> None:
    summary, page = failing
    assert summary.failed >= 2
    for seed, *_ in summary.failures:
        assert summary.replay_command(seed) in page
    stories = re.findall("<summary>Seed ([0-9]+): what led to", page)
    assert stories == [str(seed) for seed in summary.traces]
    assert "VIOLATED  coordinator.exclusive_ownership" in page
    assert "has no owner" in page or "owns orders" in page


def test_time_without_an_owner_comes_before_all_other_metrics(
    failing: tuple[SweepSummary, str],
) -> None:
    summary, page = failing
    rows = re.findall(r"<tr><td>[^<]*<small><code>(\w+)", page)
    metrics = [row for row in rows if row in {metric.name for metric in summary.metrics}]
    assert metrics[0] == "unowned_partition_ms"
    assert len(metrics) == len(summary.metrics)


def test_a_page_needs_nothing_from_elsewhere(failing: tuple[SweepSummary, str]) -> None:
    _, page = failing
    assert "src=" not in page and "http" not in page
    assert 'name="viewport"' in page


def drawn_beside(report: Path) -> set[str]:
    """The names of the plots that a short page shows, each of which is one."""
    files = [report.parent / name for name in re.findall(r"!\[.*?\]\((.*?)\)", report.read_text())]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)
    return {file.stem for file in files}


def test_the_short_page_has_a_drawn_plot_of_each_part(
    failing: tuple[SweepSummary, str],
) -> None:
    summary, _ = failing
    assert drawn_beside(summary.report) == {"outcomes", "metrics", "series", "coverage"}


def test_equal_sweeps_have_equal_pages(failing: tuple[SweepSummary, str], tmp_path: Path) -> None:
    summary, _ = failing
    out = summary.report.parent
    before = (out / "report.html").read_bytes()
    for name in ("report.html", "report.md"):
        (out / name).unlink()
    write_report(out, summarise(out))
    assert (out / "report.html").read_bytes() == before
    short = (out / "report.md").read_text()
    assert all(summary.replay_command(seed) in short for seed, *_ in summary.failures)


def test_a_sweep_with_a_runner_of_ones_own_has_a_page(tmp_path: Path) -> None:
    options = {**POOL, "batch_size": 30, "runner": "fake_scenarios:run_seed", "traces": 0}
    sweep(**with_options(profile="mixed", seeds="0:30", out=tmp_path / "out", **options))
    assert "Runs to look at" in (tmp_path / "out" / "report.html").read_text()


def test_the_page_of_a_comparison_has_distributions_and_a_timeline_for_each_protocol(
    tmp_path: Path,
) -> None:
    protocols = ("eager", "consumer-uniform")
    options = {**POOL, "batch_size": 2}
    summary = compare(
        **with_options(
            profile="calm", seeds="0:2", out=tmp_path / "out", protocols=protocols, **options
        )
    )
    page = own_part((tmp_path / "out" / "report.html").read_text())
    order = places(page, "Asked: what do 2 rebalance protocols cost", "What rebalances cost",
                   "Medians over seeds", "Who could fetch what", "<h2>Outcomes")  # fmt: skip
    assert order == sorted(order)
    assert sum(page.count(f"calm+{name}") for name in protocols) >= 2
    assert page.count("<div class=plot ") == 9 + len(protocols) + 1
    assert summary.seeds_compared == 2
    assert drawn_beside(summary.report) == {"distributions", "timeline"}


def test_a_notebook_shows_what_a_sweep_and_a_run_came_to(
    failing: tuple[SweepSummary, str],
) -> None:
    summary, _ = failing
    shown = summary._repr_html_()
    assert summary.replay_command(summary.failures[0][0]) in shown
    assert "time without an owner, summed over partitions (partition-seconds)" in shown
    result = run(defect_scenario("mut-early-grant"))
    shown = result._repr_html_()
    assert shown.startswith("<h1>violation: seed ")
    assert f"<td><code>{result.violations[0].property}</code><small>" in shown
    assert result.digest in shown


# --- defects --------------------------------------------------------------------------------------


def figures(defect: str, **noticed: int) -> DefectFigures:
    by_oracle = {
        Oracle(oracle): OracleFigures(
            runs=20, reached=5, noticed=count, first=0 if count else None, first_run="",
            density=share_of(count, 20), by=f"found by {oracle}" if count else "",
        )
        for oracle, count in noticed.items()
    }  # fmt: skip
    return DefectFigures(defect=defect, by_oracle=by_oracle)


def test_the_page_of_defects_has_those_first_that_are_not_noticed() -> None:
    rows = [figures("mut-early-grant", laws=0, reference=4),
            figures("KAFKA-16147", laws=0, reference=0)]  # fmt: skip
    page = own_part(html_page(defects_document(rows, seeds=20, enough=4)))
    assert "<h1>Which defects a sweep notices</h1>" in page
    order = places(page, "1 of 2 defects noticed", "Not noticed", "KAFKA-16147",
                   "How often: reference", "found by reference",
                   "--profile dense --seed 0")  # fmt: skip
    assert order == sorted(order)
    assert "How often: laws" not in page


@pytest.mark.parametrize("defect", ["mut-early-grant", "KAFKA-16147"])
def test_the_command_of_a_defect_is_its_run(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Scenario] = []

    def keep(scenario: Scenario, *_: object, **__: object) -> None:
        seen.append(scenario)
        raise KeyboardInterrupt

    monkeypatch.setattr("rebalance_sim.scenarios.runner.run", keep)
    invoke(shlex.split(command_of(6, defect))[1:])
    expected = scenario_of(6, defect_id=defect)
    assert [one.hash for one in seen] == [expected.hash]


# --- parts ----------------------------------------------------------------------------------------


def test_known_is_not_as_green_as_ok() -> None:
    colours = [colour_of(name) for name in ("ok", "known", "violation", "budget")]
    assert len(set(colours)) == 4
    assert colour_of("stuck") == colour_of("violation")


def test_numbers_are_in_units_for_people() -> None:
    assert title_of("rebalance_ms_max") == "longest rebalance (s)"
    assert title_of("unowned_partition_ms").endswith("summed over partitions (partition-seconds)")
    assert (
        title_of("unowned_partition_ms_max") == "longest time without an owner of one partition (s)"
    )
    assert title_of("epoch_delay_ms_max") == "epoch delay max (s)"
    assert title_of("fences") == "times a client found itself fenced"
    assert shown_in_unit("unowned_partition_ms", 150_000) == "150"
    assert shown_in_unit("partition_moves", 1_500) == "1,500"


def test_an_axis_of_counts_has_no_line_between_whole_numbers() -> None:
    assert whole_axis(2)["dtick"] == 1
    assert "dtick" not in whole_axis(40)
    few = histogram("settling_ms", {1_000.0: 1, 9_000.0: 2}, 9_000.0)
    assert few.layout.yaxis.dtick == 1


def test_a_figure_without_words_for_what_it_counts_has_a_unit() -> None:
    assert title_of("lag_records_max") == "the highest lag of a partition (records)"
    assert title_of("deploy.lag_record_seconds").endswith("(record-seconds)")
    assert title_of("rebalances") == "rises of the epoch of a consumer group"


def test_a_histogram_counts_every_run() -> None:
    figure = histogram("settling_ms", {1_000.0: 3, 9_000.0: 4}, 9_000.0)
    assert sum(figure.data[0].y) == 7
    assert max(figure.data[0].x) < 10


def test_text_is_no_html_and_folds_close() -> None:
    table = Table([["a", "n"], ["<i>", "1,000"], ["[file](traces/a.gz)", "20"]])
    text = own_part(html_page(Document("<b> & `code`", [Fold("more", [table])])))
    assert "<h1>&lt;b&gt; &amp; <code>code</code></h1>" in text
    assert "<td>&lt;i&gt;</td><td class=n>1,000</td>" in text
    assert "<a href='traces/a.gz'>file</a>" in text
    assert text.count("<details>") == text.count("</details>") == 1


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ({"ok": 5}, Verdict("No failure in 5 runs.", "good")),
        (
            {"ok": 1, "known": 4},
            Verdict(
                "Nothing but known issues: 4 of 5 runs show some, none fails otherwise.", "known"
            ),
        ),
        (
            {"ok": 3, "not-judged": 1, "vacuous": 1},
            Verdict("No failure in 5 runs; 2 were not judged.", "good"),
        ),
        ({"not-judged": 5}, Verdict("Not known: none of 5 runs could be judged.", "")),
        ({}, Verdict("No failure in 0 runs.", "")),
    ],
)
def test_a_hunt_that_found_known_issues_does_not_look_as_if_it_found_nothing(
    outcomes: dict[str, int], verdict: Verdict
) -> None:
    corpus = Corpus(runs=sum(outcomes.values()), outcomes=Counter(outcomes))
    parts = hunt_document(Hunted(corpus=corpus, rows=(), files={}), "faulty").parts
    assert [part for part in parts if isinstance(part, Verdict)] == [verdict]
