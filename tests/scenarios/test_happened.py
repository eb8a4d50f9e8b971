"""What ``run`` prints of a run, held against the steps of the same run."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.happened import what_happened
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import load_scenario
from rebalance_sim.sim.trace import FullTrace


@pytest.fixture(scope="module")
def traced() -> tuple[RunResult, list[dict[str, object]]]:
    trace = FullTrace()
    result = run(generate("faulty", 5), trace=trace)
    return result, [json.loads(line) for line in trace.lines]


def _numbers(lines: list[str], name: str) -> list[float]:
    [line] = [one for one in lines if one.startswith(f"  {name} ")]
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*\.?\d*", line)]


def test_rebalances_are_those_of_its_rows(traced: tuple[RunResult, object]) -> None:
    result, _ = traced
    lines = what_happened(result)
    count, in_all, *causes = _numbers(lines, "rebalances")
    assert count == len(result.rebalances) == sum(causes)
    assert in_all == pytest.approx(sum(one.duration_ms for one in result.rebalances) / 1000)
    longest = max(one.duration_ms for one in result.rebalances) / 1000
    assert lines[1].split()[0] == f"{longest:,.3f}"


def test_removed_members_are_those_of_the_trace(traced: tuple[RunResult, list[dict]]) -> None:
    result, steps = traced
    fenced = sum(
        effect.get("type") == "StateChanged" and effect.get("to_state") == "FENCED"
        for step in steps
        for effect in step.get("effects") or ()
    )
    session, _, fences = _numbers(what_happened(result), "removed")
    assert fences == fenced > 0
    timers = [step for step in steps if step["kind"] == "coordinator.timer" and step.get("records")]
    assert 0 < session <= len(timers)


def test_a_run_that_failed_has_another_story() -> None:
    result = run(generate("faulty", 5))
    assert what_happened(replace(result, outcome="violation")) == []


def test_a_group_that_is_not_stable_at_the_end_is_said_to_be_so() -> None:
    result = run(generate("faulty", 5))
    unsettled = replace(result, metrics={**result.metrics, "settling_ms": -1})
    assert what_happened(unsettled)[-1].endswith("not stable at the end")


def test_a_phase_has_its_own_lines_with_its_own_figures() -> None:
    scenario = load_scenario("experiments/scenarios/deploy.toml")
    result = run(scenario)
    lines = what_happened(result)
    first = next(index for index, line in enumerate(lines) if line.startswith("  phase "))
    [span] = result.phases
    assert f"deploy, 60.000 s to {span.until_ms / 1000:,.3f} s, at rest: " in lines[first]
    metrics = result.metrics
    unowned_ms = metrics["deploy.unowned_partition_ms"]
    assert 0 < unowned_ms < metrics["unowned_partition_ms"]
    assert f"unowned {unowned_ms / 1000:,.3f} partition-seconds" in lines[first + 1]
    assert f"lag at most {metrics['deploy.lag_records_max']:,.0f} in one" in lines[first + 2]
    assert len(lines) == first + 3


def test_a_run_without_faults_settles_after_its_start() -> None:
    """So does one with faults, after the last of them."""
    scenario = load_scenario("experiments/scenarios/deploy.toml")
    assert what_happened(run(scenario))[-4].endswith(" s after the last fault began or ended")
    without = replace(scenario, phases=(), world=replace(scenario.world, faults=()))
    assert what_happened(run(without))[-1].endswith(" s after the start, without any fault")


def test_more_rebalances_than_are_listed_are_said_to_be_the_longest() -> None:
    result = run(load_scenario("experiments/scenarios/deploy.toml"))
    assert len(result.rebalances) > 3
    assert what_happened(result)[0].endswith("; the three longest")


def test_records_that_workers_process_again_are_said() -> None:
    """Handed out once to each, and processed by both: the new owner began behind a commit."""
    result = run(load_scenario("experiments/scenarios/deploy.toml"))
    again = replace(result, metrics={**result.metrics, "records_reprocessed": 4_157.0})
    [line] = [one for one in what_happened(again) if one.startswith("  records ")]
    assert "4,157 processed again" in line
