"""What a runner gives that no table can hold costs one run, and not the sweep."""

from __future__ import annotations

from typing import Any

import fake_scenarios
import pytest

import rebalance_sim as rs
from rebalance_sim.spark import read_table

RUNNER = "fake_scenarios:run_seed"
SAID = {
    0: "reason is ",
    1: "metric 'speed' is 'fast'",
    2: "metric 'speed' is nan",
    3: "metric 'speed' is -inf",
    4: "steps is 9223372036854775808",
    5: "outcome 'splendid' is not known: give one of ok, ",
    6: "digest is 17",
    7: "coverage is ",
    8: "reason is None",
    9: "metric 'speed' is 1000",
}
"""Seed -> the column and the value that its reason names."""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The runs of a sweep with every such result, which is resumed once."""
    out = tmp_path_factory.mktemp("sweeps") / "out"
    options = rs.SweepOptions(backend="pool", runner=RUNNER, metrics_seeds=0, batch_size=4)
    for _ in range(2):
        rs.sweep(profile="unwritable", seeds="0:14", out=out, options=options)
    found: list[dict[str, Any]] = read_table(out, "runs").to_pylist()
    return found


def test_a_sweep_goes_on_past_results_that_no_table_can_hold(rows: list[dict[str, Any]]) -> None:
    assert [row["seed"] for row in rows] == list(range(14))
    assert [row["outcome"] for row in rows] == ["error"] * 11 + ["ok"] * 3
    assert set(SAID) == set(fake_scenarios.UNWRITABLE)


@pytest.mark.parametrize("seed", SAID)
def test_an_unwritable_result_is_an_error_that_names_runner_and_value(
    rows: list[dict[str, Any]], seed: int
) -> None:
    reason = rows[seed]["reason"]
    assert reason.startswith(f"runner {RUNNER}: {SAID[seed]}")
    assert len(reason) < 1_000


def test_an_exception_whose_message_is_no_text_is_an_error_of_its_run(
    rows: list[dict[str, Any]],
) -> None:
    reason = rows[fake_scenarios.RAISES]["reason"]
    assert reason.startswith("ValueError: lone \\ud800 surrogate")
