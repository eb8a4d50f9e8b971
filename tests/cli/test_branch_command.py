"""``branch``: a run up to a moment, and other draws from there."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Outcome

from rebalance_sim.scenarios.branching import Question, question_about, run_branch
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import load_scenario
from rebalance_sim.sim.streams import Branch, Streams
from rebalance_sim.sim.trace import FullTrace

Call = Callable[..., Outcome]

CHANCE = Path("docs/failures/KAFKA-16185.toml")
"""What it violates comes of some draws, and not of others."""


def steps(profile: str, seed: int, branch: Branch | None) -> list[dict[str, Any]]:
    trace = FullTrace()
    run(generate(profile, seed), trace=trace, branch=branch, prove=Prove.NONE)
    return [json.loads(line) for line in trace.lines]


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("profile", ("faulty", "classic", "groups", "whole"))
@pytest.mark.parametrize("seed", (40, 41))
def test_a_branch_goes_the_same_way_until_its_moment_and_another_way_from_there(
    profile: str, seed: int
) -> None:
    at_ms = generate(profile, seed).world.duration_ms // 2
    own, one, other = (steps(profile, seed, b) for b in (None, Branch(at_ms, 0), Branch(at_ms, 1)))
    before = [step for step in own if step["at_ms"] < at_ms]
    for branch in (one, other):
        assert [step for step in branch if step["at_ms"] < at_ms] == before
    behind = [[s for s in found if s["at_ms"] >= at_ms] for found in (own, one, other)]
    assert behind[0] != behind[1] != behind[2] != behind[0]
    assert steps(profile, seed, Branch(at_ms, 1)) == other


@pytest.mark.parametrize("seed", (40, 41, 64))
def test_the_run_itself_is_the_run_that_it_is(seed: int) -> None:
    scenario = generate("faulty", seed)
    assert run_branch(scenario, None).digest == run(scenario).digest


def test_a_stream_that_somebody_keeps_draws_otherwise_from_the_branch_on() -> None:
    streams, others = Streams(7), Streams(7)
    draws = [one.get("latency/a").random for one in (streams, others)]
    assert draws[0]() == draws[1]()
    streams.branch(0)
    late, late_other = streams.get("latency/b").random(), others.get("latency/b").random()
    assert draws[0]() != draws[1]()
    assert late != late_other
    again = Streams(7)
    again.branch(0)
    assert again.get("latency/b").random() == late


def wilson(count: int, runs: int) -> tuple[float, float]:
    """The two shares of which the observed one is 1.96 standard errors away."""
    z, p = 1.959964, count / runs
    root = z * math.sqrt(p * (1 - p) / runs + z * z / (4 * runs * runs))
    return (
        (p + z * z / (2 * runs) - root) / (1 + z * z / runs),
        (p + z * z / (2 * runs) + root) / (1 + z * z / runs),
    )


def test_shares_are_those_of_the_branches_one_by_one(call: Call) -> None:
    scenario = load_scenario(CHANCE)
    code, out, _ = call(
        "branch", CHANCE, "--at", "0s:12s:6s", "--at", "6s", "--seeds", "3:23", "--json"
    )
    assert code == 0
    found = json.loads(out)
    assert found["question"] == "violates client.stable.means_equal"
    assert found["digest"] == json.loads(call("run", CHANCE, "--json").out)["digest"]
    assert [row["at_ms"] for row in found["moments"]] == [0, 6_000, 12_000]
    for row in found["moments"]:
        results = [run_branch(scenario, Branch(row["at_ms"], seed)) for seed in range(3, 23)]
        count = sum(
            any(v.property == "client.stable.means_equal" for v in one.violations)
            for one in results
        )
        assert 0 < count < 20
        assert (row["count"], row["runs"]) == (count, 20)
        assert sum(row["outcomes"].values()) == 20
        assert row["share"]["value"] == count / 20
        ends = (row["share"]["low"], row["share"]["high"])
        assert ends == pytest.approx(wilson(count, 20), abs=1e-5)


def test_what_has_happened_before_is_in_every_branch(call: Call) -> None:
    early = "scenarios/defects/mut-early-grant.toml"
    [violation, *_] = json.loads(call("run", early, "--json").out)["violations"]
    after_ms = violation["at_ms"] + 1
    out = call("branch", early, "--at", f"{after_ms}ms", "--seeds", "0:6").out
    lines = out.splitlines()
    assert (
        lines[0]
        == f"violates {violation['property']}: so does the run itself, which ends violation"
    )
    assert lines[3].split() == [
        f"{after_ms / 1000:,.3f}", "s", "6", "6", "100.0%", "61.0%", "to", "100.0%",
    ]  # fmt: skip
    assert lines[4] == f"from {after_ms / 1000:,.3f} s on in every run"


def test_a_bound_on_a_metric_may_be_asked_about(call: Call) -> None:
    deploy = "experiments/scenarios/deploy.toml"
    own = run(load_scenario(deploy))
    unowned_ms = own.metrics["deploy.unowned_partition_ms"]
    shares = []
    for sign in (">", "<="):
        where = f"deploy.unowned_partition_ms {sign} {unowned_ms:.0f}"
        out = call(
            "branch", deploy, "--at", "60s", "--seeds", "0:2", "--where", where, "--json"
        ).out
        found = json.loads(out)
        assert found["question"].startswith(f"has deploy.unowned_partition_ms {sign} ")
        assert found["is_so"] is (sign == "<=")
        [row] = found["moments"]
        shares.append(row["count"])
    assert sum(shares) == 2


def test_the_shares_are_drawn(call: Call, tmp_path: Path) -> None:
    for name, start in (("shares.svg", b"<?xml"), ("shares.png", b"\x89PNG")):
        file = tmp_path / name
        code, _, err = call("branch", CHANCE, "--at", "0s:2s:1s", "--seeds", "0:4", "--plot", file)
        assert (code, err) == (0, "")
        assert file.read_bytes().startswith(start)


def test_the_plot_of_shares_says_of_how_many_runs(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = []
    monkeypatch.setattr(
        "matplotlib.axes.Axes.set_title", lambda _, title, **__: titles.append(title)
    )
    call("branch", CHANCE, "--at", "0s:2s:1s", "--seeds", "0:4", "--plot", tmp_path / "shares.svg")
    assert titles[0].endswith(", n = 4 runs a moment, with 95 % intervals")


@pytest.mark.parametrize(
    ("where", "value", "is_so"),
    [
        ("fences > 1", 1, False), ("fences>=1", 1, True), ("fences < 1", 1, False),
        ("fences <= 1.5", 1, True), ("deploy.fences > 1_000", 1, False),
    ],
)  # fmt: skip
def test_a_bound_is_read_as_it_is_written(where: str, value: float, is_so: bool) -> None:
    question = Question.parse(where)
    result = run(generate("calm", 1))
    object.__setattr__(result, "metrics", {question.metric: value})
    assert question.is_in(result) is is_so
    object.__setattr__(result, "metrics", {})
    assert question.is_in(result) is False


def test_without_a_question_it_is_about_what_the_run_came_to() -> None:
    nothing: Any = {"property_id": None, "issue": None, "where": None}
    known = run_branch(generate("faulty", 64), None)
    assert str(question_about(known, **nothing)) == "shows PR-23542"
    passed = run_branch(generate("calm", 1), None)
    question = question_about(passed, **nothing)
    assert (str(question), question.is_in(passed)) == ("does not pass", False)


def test_the_trace_of_a_run_is_branched_as_its_scenario_is(call: Call, tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    call("run", CHANCE, "--trace", trace)
    asked = ("--at", "6s", "--seeds", "3:13", "--json")
    assert call("branch", trace, *asked).out == call("branch", CHANCE, *asked).out
