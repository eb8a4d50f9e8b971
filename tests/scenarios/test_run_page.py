"""The page of a run: what it says first, its series, and its steps, held against the trace."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import rebalance_sim as rs
from rebalance_sim.scenarios.documents.document import Verdict
from rebalance_sim.scenarios.documents.html_page import html_fragment, html_page
from rebalance_sim.scenarios.pages.run_page import run_page
from rebalance_sim.scenarios.pages.steps import MOST_ENTRIES, step_rows
from rebalance_sim.scenarios.result import OUTCOMES, headlines, verdict_of
from rebalance_sim.scenarios.scenario import parse_scenario
from rebalance_sim.scenarios.traces.run_trace import RunTrace, run_trace_of
from rebalance_sim.sim.trace import FullTrace

pytest.importorskip("plotly", reason="the extra [report] is not installed")


def traced(profile: str, seed: int) -> tuple[rs.RunResult, RunTrace]:
    trace = FullTrace()
    result = rs.run(rs.generate(profile, seed), trace=trace)
    return result, run_trace_of(trace, result)


def state_at_end(rows: Any, name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for _, changed in rows["states"].get(name, ()):
        found |= {field: rows["texts"][text] for field, text in changed.items()}
    return found


def test_a_page_says_verdict_figures_causes_owners_series_and_steps_in_this_order() -> None:
    page = html_page(run_page(rs.defect_scenario("mut-early-grant"), command="rebalance-sim run x"))
    said = ("class='verdict bad'>violation: ", "class='tiles'", "violated property",
            "What led to it", "What happened", "Who owned what", "Over time", "Step by step",
            "rebalance-sim run x")  # fmt: skip
    places = [page.find(words) for words in said]
    assert -1 not in places
    assert places == sorted(places)
    assert len(page) <= 1_500_000


@pytest.mark.parametrize("outcome", sorted(OUTCOMES))
def test_only_what_was_judged_and_held_is_green(outcome: str) -> None:
    result = replace(rs.run(rs.generate("calm", 1)), outcome=outcome, reason="so", not_judged="")
    verdict = verdict_of(result)
    assert isinstance(verdict, Verdict) and verdict.text.startswith(f"{outcome}: ")
    assert (verdict.kind == "good") is (outcome == "ok")
    assert ("(so)" in verdict.text) is (outcome not in ("ok", "known"))


def test_an_ok_run_whose_liveness_was_not_judged_says_so() -> None:
    result = replace(rs.run(rs.generate("calm", 1)), not_judged="the quiet period ended first")
    assert "(the quiet period ended first)" in verdict_of(result).text


def test_a_known_run_names_the_properties_that_a_rule_replaces() -> None:
    replaced = "target.current is not judged where rule r acted"
    result = replace(rs.run(rs.generate("calm", 1)), outcome="known", replaced=(replaced,))
    assert f"({replaced})" in verdict_of(result).text
    result = replace(result, outcome="partly-judged", reason=replaced)
    assert verdict_of(result).text.count(replaced) == 1


def test_figures_on_top_are_the_metrics_in_their_units() -> None:
    result = replace(
        rs.run(rs.generate("calm", 1)),
        metrics={
            "unowned_partition_ms": 12_500.0,
            "rebalance_ms_max": 1_500.0,
            "records_lost": 3.0,
            "fatal_clients": 0.0,
        },
    )
    assert list(headlines(result)) == [
        ("12.5", "partition-seconds without an owner", ""),
        ("1.5 s", "longest rebalance", ""),
        ("3", "records lost", "bad"),
        ("0", "clients that ended with an error", ""),
    ]


@pytest.mark.parametrize(("profile", "seed"), [("faulty", 7), ("classic", 3), ("migration", 2)])
def test_the_last_step_shows_each_member_as_the_trace_ends(profile: str, seed: int) -> None:
    _, trace = traced(profile, seed)
    rows = step_rows(trace)
    last = {step["client"]: step for step in trace.steps if "client" in step and "state" in step}
    assert sorted(last) == rows["clients"]
    for name, step in last.items():
        found = state_at_end(rows, f"client {name}")
        is_gone = step["kind"] == "client.crashed"
        assert found["state"] == ("crashed" if is_gone else step["state"])
        owned = sorted(step["assigned"]) if not is_gone else []
        assert len(re.findall(r"\d+(?=,|$| )", found.get("owns", ""))) == len(owned)


def test_group_and_target_epoch_are_those_of_the_last_records() -> None:
    _, trace = traced("faulty", 7)
    written = [record for step in trace.steps for record in step.get("records", ())]
    epochs = [r["value"]["epoch"] for r in written if r["type"] == "ConsumerGroupMetadata"]
    rows = step_rows(trace)
    [group] = rows["groups"]
    found = state_at_end(rows, f"group {group}")
    assert found["epoch"] == str(epochs[-1])
    assert len({e for e, *_, raises in rows["entries"] if raises}) <= len(epochs)


def test_a_message_is_on_its_way_from_its_step_to_its_arrival() -> None:
    _, trace = traced("faulty", 7)
    rows = step_rows(trace)
    times = {step["step"]: step["at_ms"] for step in trace.steps}
    messages = [e for e in rows["entries"] if rows["texts"][e[2]] == "message"]
    assert messages
    assert all(at_ms == times[step] for step, at_ms, *_ in messages)
    assert all(e[6] is None or e[6] >= e[1] for e in messages)
    assert any(e[6] is None for e in messages) and any(e[6] is not None for e in messages)


def test_of_a_long_run_the_entries_before_the_violation_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = FullTrace()
    result = rs.run(rs.defect_scenario("mut-early-grant"), trace=trace)
    run_trace = run_trace_of(trace, result)
    whole = step_rows(run_trace)
    assert whole["left_out"] == 0 and len(whole["entries"]) < MOST_ENTRIES
    monkeypatch.setattr("rebalance_sim.scenarios.pages.steps.MOST_ENTRIES", 10)
    rows = step_rows(run_trace)
    assert len(rows["entries"]) == 10
    assert rows["left_out"] == len(whole["entries"]) - 10
    assert rows["texts"][rows["entries"][-1][2]] == "violation"
    # What was before the first entry is there as one change, and what comes after the last is not.
    first, last = rows["entries"][0][0], rows["entries"][-1][0]
    steps = [step for changes in rows["states"].values() for step, _ in changes]
    assert all(first <= step <= last for step in steps)
    at_last = {
        name: {
            field: whole["texts"][text]
            for step, changed in changes
            if step <= last
            for field, text in changed.items()
        }
        for name, changes in whole["states"].items()
    }
    assert {name: state_at_end(rows, name) for name in rows["states"]} == {
        name: fields for name, fields in at_last.items() if fields
    }


def test_what_a_run_says_cannot_end_the_script_that_holds_it() -> None:
    trace = RunTrace(
        steps=[{"step": 1, "at_ms": 5, "kind": "fault", "detail": "</script><b>x</b>"}],
        outcome="ok",
    )
    from rebalance_sim.scenarios.documents.document import Document, Stepper

    page = html_fragment(Document("a run", [Stepper(step_rows(trace))]))
    assert "</script><b>" not in page
    [data] = re.findall(r"<script type='application/json'>(.*?)</script>", page)
    assert "</script><b>x</b>" in json.loads(data)["texts"]


def test_a_notebook_shows_the_page_and_a_file_has_it(tmp_path: Path) -> None:
    page = rs.run_page(rs.generate("calm", 3))
    shown = page._repr_html_()
    assert "Step by step" in shown
    # A notebook has no Plotly of its own: what it shows is the whole page, in a frame.
    [framed] = re.findall(r'<iframe srcdoc="([^"]*)"', shown)
    assert html.unescape(framed) == html_page(page)
    page.save(tmp_path / "run.html")
    assert (tmp_path / "run.html").read_text() == html_page(page)
    with pytest.raises(rs.ScenarioError, match="give another file"):
        page.save(tmp_path / "nowhere" / "run.html")


def test_equal_runs_have_equal_pages() -> None:
    scenario = rs.generate("calm", 3)
    assert html_page(run_page(scenario)) == html_page(run_page(scenario))


def test_lag_that_grows_after_the_last_change_of_an_owner_is_drawn_to_the_end() -> None:
    text = """
name = "slow"
[world]
seed = 1
duration_ms = 60_000
data_plane = true
topics = [{ name = "orders", partition_count = 2, records_per_second = 20 }]
clients = [{ name = "slow", topics = ["orders"], processing_records_per_second = 10 }]
"""
    page = html_page(run_page(parse_scenario(text)))
    result = rs.run(parse_scenario(text))
    assert re.search(rf"Drawn are [\d.]+ s of {result.simulated_ms / 1_000:,.1f} s", page)
    drawn = [float(end) for end in re.findall(r'"range":\[0,([\d.]+)\]', page)]
    assert max(drawn) > 0.9 * result.simulated_ms / 1_000
    assert min(drawn) < 0.5 * result.simulated_ms / 1_000, "owners, and what rests, are cut"
