"""Phases of a scenario in what many runs are put into: sweeps, comparisons, experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

import rebalance_sim as rs
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.spark import SweepOptions

PHASED = """
name = "three consumers, restarted one after the other"
phases = [{ name = "start", until = "rest" }, { name = "deploy", from_ms = 60_000, until = "rest" }]

[world]
seed = 1
duration_ms = 120_000
topics = [{ name = "orders", partition_count = 6 }]
clients = [{ name = "app", count = 3, topics = ["orders"] }]
faults = [{ kind = "client_bounce", at_ms = 60_000, down_ms = 5_000, gap_ms = 3_000 }]
"""
METRIC = "deploy.unowned_partition_ms"
PROTOCOLS = ["eager", "consumer-uniform"]
OPTIONS = SweepOptions(backend="pool", batch_size=6)


@pytest.fixture
def base(tmp_path: Path) -> str:
    file = tmp_path / "phased.toml"
    file.write_text(PHASED)
    return str(file)


def test_an_experiment_has_a_column_for_each_metric_of_a_phase(base: str, tmp_path: Path) -> None:
    frame = rs.experiment(
        base=base,
        vary={"down_ms": {"path": "world.faults.client_bounce.down_ms", "values": [2_000, 9_000]}},
        protocols=PROTOCOLS,
        seeds=3,
        metrics=[METRIC, "deploy.duration_ms"],
        out=tmp_path / "out",
        options=OPTIONS,
    )
    assert len(frame) == 12
    for row in frame.to_dict("records"):
        variant = Variant.of(f"{base}+{row['protocol']}").setting(
            [Setting.of("world.faults.client_bounce.down_ms", row["down_ms"])]
        )
        result = run(generate(variant, row["seed"]), leaps=True)
        assert row[METRIC] == result.metrics[METRIC]
        assert row["deploy.at_rest"] == 1
        [_, deploy] = result.phases
        assert row["deploy.duration_ms"] == deploy.until_ms - deploy.from_ms
    report = (tmp_path / "out" / "report.md").read_text()
    assert "In phase deploy: time without an owner, summed over partitions" in report


def test_a_comparison_holds_metrics_of_phases_side_by_side(base: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    rs.compare(profile=base, seeds="0:6", protocols=PROTOCOLS, out=out, options=OPTIONS)
    table = rs.read_comparison(out)
    of_deploy = table[table["metric"] == METRIC].set_index("protocol")
    runs = [run(generate(f"{base}+eager", seed), leaps=True).metrics[METRIC] for seed in range(6)]
    assert of_deploy.loc["eager", "mean"] == pytest.approx(sum(runs) / 6)
    assert list(table["metric"]).index("unowned_partition_ms") < list(table["metric"]).index(METRIC)


def test_a_metric_of_a_phase_that_is_not_there_is_refused_with_a_remedy(
    base: str, tmp_path: Path
) -> None:
    for metric, remedy in (
        ("deplyo.unowned_partition_ms", "did you mean 'deploy.unowned_partition_ms'"),
        ("deploy.unowned_partition", "did you mean 'deploy.unowned_partition_ms"),
        ("deploy.idle_clients", "no metric 'deploy.idle_clients'"),
    ):
        with pytest.raises(ScenarioError, match=remedy):
            rs.experiment(
                base=base, vary={}, protocols=PROTOCOLS, seeds=1, metrics=[metric],
                out=tmp_path / "none", options=OPTIONS,
            )  # fmt: skip
