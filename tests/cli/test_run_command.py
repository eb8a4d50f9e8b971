"""What ``run``, ``generate`` and ``profiles`` print, and the first screen of a failure."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome

import rebalance_sim
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.failure_screen import describe
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.scenarios.result import RunResult, ViolationRow
from rebalance_sim.scenarios.scenario import dump_scenario

Call = Callable[..., Outcome]

SEED = ("--profile", "calm", "--seed", 1)


def test_the_version_is_that_of_the_package(call: Call) -> None:
    assert call("--version").out == f"rebalance-sim {rebalance_sim.__version__}\n"


def test_profiles_are_listed_with_what_they_are(call: Call) -> None:
    code, out, _ = call("profiles")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(PROFILES)
    assert all(len(line.split()) > 3 for line in out.splitlines())


def test_a_run_that_keeps_its_properties_says_what_happened(call: Call) -> None:
    code, out, err = call("run", *SEED)
    assert (code, err) == (0, "")
    first, *rest = out.splitlines()
    assert first.startswith("ok: seed 1, profile calm: ")
    assert 6 <= len(rest) <= 13
    assert [line.split()[0] for line in rest if line[2] != " "] == [
        *("rebalances", "unowned", "standstill", "moved"),
        *(("records", "lag") if "records" in out else ()),
        *("removed", "settled"),
    ]


def test_of_several_runs_each_is_one_line(call: Call, three_files: list[Path]) -> None:
    passing = call("run", *three_files).out.splitlines()
    assert not [line for line in passing if line.startswith("  rebalances")]


def test_a_generated_scenario_file_is_the_same_run_as_its_seed(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(call("generate", *SEED).out)
    assert call("run", file).out == call("run", *SEED).out


def test_another_version_plays_the_same_scenario(call: Call) -> None:
    own = call("generate", *SEED).out
    other = call("generate", *SEED, "--semantics", "kafka-4.1").out
    changed = [line for line in other.splitlines() if line not in own.splitlines()]
    assert changed == [
        'name = "calm@kafka-4.1-1"',
        'profile = "calm@kafka-4.1"',
        'semantics = "kafka-4.1"',
    ]
    named = call("run", "--profile", "calm@kafka-4.1", "--seed", 1)
    assert named.out == call("run", *SEED, "--semantics", "kafka-4.1").out
    assert named.out.startswith(("ok: seed 1, profile calm@kafka-4.1: ", "known: seed 1, "))


def test_an_unknown_version_is_refused_with_the_nearest_name(call: Call) -> None:
    code, _, err = call("run", *SEED, "--semantics", "kafka-4.2")
    assert code == 2
    assert err.count("\n") == 1 and "no semantics 'kafka-4.2'; did you mean 'kafka-4." in err


def test_a_scenario_file_keeps_its_own_version(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(call("generate", *SEED).out)
    code, _, err = call("run", file, "--semantics", "kip-848")
    assert code == 2
    assert "--semantics goes with --profile" in err


def test_json_has_the_whole_result(call: Call) -> None:
    result = json.loads(call("run", *SEED, "--json").out)
    assert (result["seed"], result["profile"], result["outcome"]) == (1, "calm", "ok")
    assert result["digest"] in call("run", *SEED).out
    assert result["steps"] > 0 and result["coverage"] and result["metrics"]


def test_a_trace_has_every_step_and_can_be_read_along(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    result = json.loads(call("run", *SEED, "--json", "--trace", file).out)
    *steps, verdict = file.read_text().splitlines()
    assert len(steps) == result["steps"]
    assert json.loads(verdict)["digest"] == result["digest"]
    code, out, _ = call("replay", file)
    assert code == 0
    numbers = [int(number) for number in re.findall(r"^ *(\d+) +[\d.]+ s  ", out, re.M)]
    assert numbers == sorted(numbers) and len(numbers) == result["steps"]


def test_metrics_are_a_table_and_the_run_stays_what_it_was(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "metrics.csv"
    plain = call("run", *SEED).out
    sampled = call("run", *SEED, "--metrics", file, "--metrics-interval-ms", 5_000).out
    assert sampled == plain
    rows = list(csv.DictReader(file.read_text().splitlines()))
    assert {int(row["at_ms"]) % 5_000 for row in rows} == {0}
    [members] = [r for r in rows if (r["at_ms"], r["metric"]) == ("10000", "members")]
    assert (members["node_id"], members["tags"]) == ("", "group=group")
    assert float(members["value"]) > 0
    active = [r for r in rows if r["tags"] == "state=active" and r["at_ms"] == "10000"]
    assert {r["node_id"] for r in active} >= {"0"}


def test_a_planted_defect_violates_a_property_and_is_exit_code_1(
    call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "defect.toml"
    file.write_text(dump_scenario(defect_scenario("mut-early-grant")))
    code, out, _ = call("run", file)
    assert code == 1
    assert out.startswith("VIOLATION: ")
    assert f"  replay    rebalance-sim run {file} --trace trace.jsonl" in out


@pytest.fixture
def three_files(call: Call, tmp_path: Path) -> list[Path]:
    """Two scenarios that pass, and one in between that does not."""
    good = call("generate", *SEED).out
    texts = (good, dump_scenario(defect_scenario("mut-early-grant")), good)
    files = [tmp_path / f"{number}.toml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return files


def test_several_files_are_run_one_by_one(call: Call, three_files: list[Path]) -> None:
    code, out, err = call("run", *three_files)
    assert (code, err) == (1, "")
    heads = [line for line in out.splitlines() if line.startswith(str(three_files[0].parent))]
    assert [line.split(": ")[1] for line in heads] == ["ok", "VIOLATION", "ok"]
    assert call("run", three_files[0], three_files[2]).code == 0


def test_several_results_are_a_list_in_json(call: Call, three_files: list[Path]) -> None:
    code, out, _ = call("run", *three_files, "--json")
    assert code == 1
    assert [result["outcome"] for result in json.loads(out)] == ["ok", "violation", "ok"]


def test_a_quiet_run_prints_what_it_found_and_nothing_else(
    call: Call, three_files: list[Path]
) -> None:
    assert call("run", *SEED, "--quiet") == (0, "", "")
    code, out, _ = call("run", *three_files, "-q")
    assert code == 1
    assert out.startswith(f"{three_files[1]}: VIOLATION: ")
    assert f"{three_files[2]}: " not in out


def test_one_bad_file_of_several_is_found_before_any_runs(
    call: Call, three_files: list[Path]
) -> None:
    three_files[2].write_text("[world\n")
    code, out, err = call("run", *three_files)
    assert (code, out) == (2, "")
    assert str(three_files[2]) in err


def test_a_run_is_drawn(call: Call, tmp_path: Path) -> None:
    plain = call("run", *SEED).out
    for name, words in (
        ("run.svg", "shows who owned what"),
        ("run.html", "tells the run: verdict, figures, owners, series, and every step"),
    ):
        drawn = call("run", *SEED, "--plot", tmp_path / name).out
        assert drawn == f"{plain}  {tmp_path / name} {words}\n"
    assert (tmp_path / "run.svg").read_text().startswith("<?xml")
    page = (tmp_path / "run.html").read_text()
    assert "<h1>calm-1</h1>" in page and "Plotly.newPlot" in page
    assert "ok: every property held" in page


def test_files_of_a_run_are_of_one_run(call: Call, three_files: list[Path], tmp_path: Path) -> None:
    code, _, err = call("run", *three_files, "--plot", tmp_path / "a.svg")
    assert code == 2
    assert "give one scenario" in err


def test_a_closed_pipe_is_no_finding(tmp_path: Path) -> None:
    script = Path(sys.executable).parent / "rebalance-sim"
    line = f"{script} run --profile calm --seed 1 --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


def test_a_run_in_which_time_stands_still_is_exit_code_1_in_a_few_lines(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rebalance_sim.sim.clock.EVENTS_AT_ONE_INSTANT", 0)
    file = tmp_path / "ties.toml"
    file.write_text(call("generate", *SEED).out)
    code, out, err = call("run", file)
    assert (code, err) == (1, "")
    assert out.startswith("BUDGET: stopped at ")
    assert "time did not pass any more: 2 events there" in out


@pytest.fixture
def failure() -> RunResult:
    rows = [
        ViolationRow(
            property=f"member.property_{index}",
            sentence=f"Property {index} in words.",
            step=100 + index,
            at_ms=12_345 + index,
            detail=f"what was seen {index}",
            group_id="payments",
        )
        for index in range(7)
    ]
    return RunResult(
        seed=7,
        profile="faulty",
        scenario_hash="5ce9a210",
        code_version="c0de",
        outcome="violation",
        steps=1_234,
        simulated_ms=61_000,
        digest="d19e57",
        violations=tuple(rows),
        reason="member.property_0 at step 100",
    )


def test_the_first_screen_says_what_broke_where_and_how_to_see_it_again(
    failure: RunResult,
) -> None:
    screen = "\n".join(describe(failure, replay_command="rebalance-sim run --seed 7"))
    for said in (
        "VIOLATION: member.property_0 at step 100",
        "property  member.property_0\n            Property 0 in words.",
        "violated  at step 100, after 12.345 s simulated, in group payments",
        "seen      what was seen 0",
        "seed 7, profile faulty, 1,234 steps, 61.0 s simulated",
        "scenario  5ce9a210",
        "code      c0de",
        "digest    d19e57",
        "replay    rebalance-sim run --seed 7",
        "and 2 more",
    ):
        assert said in screen
    assert "property_5" not in screen  # a screen, not a log


def test_a_known_issue_is_named_and_is_no_failure() -> None:
    result = RunResult(
        seed=3,
        profile="faulty",
        scenario_hash="5ce9a210",
        code_version="c0de",
        outcome="known",
        known={"KAFKA-16147": 2},
    )
    [line] = describe(result, replay_command="")
    assert line.startswith("known: seed 3") and line.endswith("known issues: KAFKA-16147 x 2")


def test_json_says_when_each_phase_was_and_what_it_has_measured(call: Call) -> None:
    deploy = "experiments/scenarios/deploy.toml"
    found = json.loads(call("run", deploy, "--json", "--set", "phases.deploy.until=none").out)
    [phase] = found["phases"]
    ends_ms = found["simulated_ms"]
    assert phase == {"name": "deploy", "from_ms": 60_000, "until_ms": ends_ms, "at_rest": None}
    assert found["metrics"]["deploy.duration_ms"] == ends_ms - 60_000
    assert "deploy.at_rest" not in found["metrics"]
