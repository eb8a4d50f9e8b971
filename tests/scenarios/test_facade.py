"""``rebalance_sim`` is the one import that researchers need."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rebalance_sim


def test_every_name_of_the_facade_is_there() -> None:
    for name in rebalance_sim.__all__:
        assert getattr(rebalance_sim, name) is not None


def test_a_seed_is_run_in_one_line() -> None:
    result = rebalance_sim.run(rebalance_sim.generate("calm", seed=3))
    assert result.outcome == "ok"
    assert result.profile == "calm"


def test_the_series_of_a_run_are_a_frame_with_a_column_for_each_tag() -> None:
    scenario = rebalance_sim.generate("calm", seed=3)
    frame = rebalance_sim.metrics_frame(
        rebalance_sim.run(scenario, metrics_interval_ms=1_000).samples
    )
    columns = ["at_ms", "node_id", "metric", "value", "group", "protocol", "state"]
    assert list(frame.columns) == columns
    members = frame[frame.metric == "members"]
    assert 0 < members.value.max() <= len(scenario.world.clients)
    assert set(members.group) == {"group"}
    assert members.node_id.isna().all()
    counts = frame[frame.metric == "consumer_group_count"].groupby("at_ms")["value"].sum()
    assert counts.max() == 1
    assert rebalance_sim.metrics_frame(()).empty


def test_an_interval_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="metrics_interval_ms must be a whole number >= 1, got 0"):
        rebalance_sim.run(rebalance_sim.generate("calm", seed=3), metrics_interval_ms=0)


def test_spark_is_imported_when_a_sweep_is_asked_for() -> None:
    code = (
        "import sys, rebalance_sim\n"
        "assert 'rebalance_sim.spark' not in sys.modules and 'pyspark' not in sys.modules\n"
        "assert callable(rebalance_sim.sweep) and 'rebalance_sim.spark' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_workers_of_a_sweep_draw_nothing() -> None:
    code = "import sys, rebalance_sim.scenarios; assert 'matplotlib' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'sweeep'"):
        _ = rebalance_sim.sweeep
