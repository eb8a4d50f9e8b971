"""``compare`` end to end."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from command_line import POOL, Outcome

Call = Callable[..., Outcome]

WHAT = ("--profile", "calm", "--seeds", "0:6", "--protocols", "consumer-uniform,consumer-range")


def test_a_comparison_prints_figures_differences_and_the_report_path(
    call: Call, tmp_path: Path
) -> None:
    code, out, err = call("compare", *WHAT, "--out", tmp_path / "out", *POOL)
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0] == "6 of 6 seeds of calm passed under all 2 protocols and are compared"
    assert lines[1:3] == ["  consumer-uniform: 6 ok", "  consumer-range: 6 ok"]
    assert re.search(
        r"unowned_partition_ms \(partition-seconds\) +[1-6] +[\d,.]+ \[[\d,.]+, [\d,.]+\]", out
    )
    assert re.search(r"partition_moves +[1-6] +-?[\d.]+ +\[-?[\d.]+, -?[\d.]+\] +[\d.]+%", out)
    assert lines[-1].startswith("report: ") and lines[-1].endswith("out/report.md")
    assert "batches to run" in err


def test_a_compared_run_is_seen_again_under_the_name_of_its_profile(call: Call) -> None:
    code, out, _ = call("run", "--profile", "calm+consumer-range", "--seed", 3)
    assert code == 0
    assert "profile calm+consumer-range" in out
    code, out, _ = call(
        "generate", "--profile", "calm+consumer-range", "--seed", 3, "--semantics", "kafka-4.1"
    )
    assert code == 0
    assert 'profile = "calm@kafka-4.1+consumer-range"' in out


def test_an_unknown_protocol_is_one_line(call: Call, tmp_path: Path) -> None:
    code, _, err = call(
        "compare", "--profile", "calm", "--seeds", "0:6", "--protocols", "consumer-uniform,eagr",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert code == 2
    assert re.fullmatch(r"rebalance-sim: error: no protocol 'eagr'; .*\n", err)
