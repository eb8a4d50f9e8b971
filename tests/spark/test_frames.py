"""Sweeps from Python: seeds as a person writes them, tables as frames."""

from __future__ import annotations

from pathlib import Path

import pytest

import rebalance_sim as rs
from rebalance_sim.spark import SeedRange, SweepError


def test_a_table_is_a_frame_with_a_column_for_each_metric(tmp_path: Path) -> None:
    options = rs.SweepOptions(backend="pool", runner="fake_scenarios:run_seed", metrics_seeds=0)
    rs.sweep(profile="mixed", seeds=range(4), out=tmp_path / "out", options=options)
    runs = rs.read_table(tmp_path / "out", "runs")
    assert list(runs["seed"]) == [0, 1, 2, 3]
    assert list(runs["unowned_ms"]) == [0.0, 1.0, 2.0, 3.0]
    assert runs["coverage"][1] == {"fenced": 1, "joined": 3}
    assert "metrics" not in runs
    violations = rs.read_table(str(tmp_path / "out"), "violations")
    assert set(violations["seed"]) == {3}
    with pytest.raises(SweepError, match="did you mean 'runs'"):
        rs.read_table(tmp_path / "out", "run")
    with pytest.raises(SweepError, match="is it a sweep"):
        rs.read_table(tmp_path, "runs")


@pytest.mark.parametrize("seeds", [range(2, 5), (2, 5), "2:5", SeedRange(2, 5)])
def test_seeds_are_taken_as_a_person_writes_them(seeds: object) -> None:
    assert SeedRange.of(seeds) == SeedRange(2, 5)  # type: ignore[arg-type]
    assert SeedRange.of(5) == SeedRange(0, 5)


@pytest.mark.parametrize("seeds", [range(0, 9, 2), [1, 2, 3], None, 1.5, True, 0, range(5, 2)])
def test_other_seeds_are_one_clear_error(seeds: object) -> None:
    with pytest.raises(SweepError, match="seed"):
        SeedRange.of(seeds)  # type: ignore[arg-type]
