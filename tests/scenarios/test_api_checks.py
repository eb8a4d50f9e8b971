"""What makes no sense is one clear error from Python, too; what a person would write, works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rebalance_sim as rs
from rebalance_sim.spark import SweepError

POOL = rs.SweepOptions(backend="pool", processes=1)
BadCall = Callable[[], Any]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "good.toml").write_text(rs.dump_scenario(rs.generate("calm", 1)))
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)


REFUSED: list[tuple[BadCall, str]] = [
    (lambda: rs.generate("faulty", seed="x"), "seed 'x': give a whole number from 0 on"),
    (lambda: rs.generate("faulty", seed=-1), "seed -1: give a whole number from 0 on"),
    (lambda: rs.generate("faulty", seed=1.5), "seed 1.5: give a whole number"),
    (lambda: rs.generate("faulty", seed=None), "seed None: give a whole number"),
    (lambda: rs.generate("fualty", 1), "did you mean 'faulty'?"),
    (lambda: rs.generate(3, 1), "3 names no profile: give its name, or a file"),
    (lambda: rs.generate(Path("no.toml"), 1), "no.toml: cannot be read"),
    (lambda: rs.run("x.toml"), "x.toml: cannot be read"),
    (lambda: rs.run("folder"), "folder: cannot be read: Is a directory; give a TOML file"),
    (lambda: rs.run(3), "3 is no scenario: give one, or a file of one"),
    (lambda: rs.timeline_of("x.toml"), "x.toml: cannot be read"),
    (lambda: rs.timeline_of(None), "None is no scenario"),
    (lambda: rs.load_scenario(3), "3 is no file: give its path"),
    (lambda: rs.parse_scenario(None), "None is no TOML: give text"),
    (lambda: rs.parse_scenario("[world"), "is not valid TOML"),
    (lambda: rs.dump_scenario(3), "3 is no scenario"),
    (lambda: rs.shrink("good.toml"), "only a failing one can be shrunk"),
    (lambda: rs.load_case_study("basics"), "did you mean 'basic'?"),
    (lambda: rs.plot_case_study("basics"), "did you mean 'basic'?"),
    (lambda: list(rs.replay_case_study("basics")), "did you mean 'basic'?"),
    (lambda: rs.defect_scenario("KAFKA-0"), "no defect 'KAFKA-0'; did you mean"),
    (lambda: rs.with_protocol(rs.generate("calm", 1), "lazy"), "no protocol 'lazy'; known:"),
    (lambda: rs.load_plugins("nowhere"), "plug-in 'nowhere' cannot be imported"),
    (lambda: rs.read_table("folder", "runs"), "folder/plan.json"),
    (lambda: rs.read_table("missing", "runs"), "is it a sweep?"),
    (lambda: rs.read_table("good.toml", "runs"), "is it a sweep?"),
    (lambda: rs.read_table("folder", "rnus"), "no table 'rnus'; did you mean 'runs'?"),
    (lambda: rs.read_table("folder", 3), "no table 3"),
    (lambda: rs.read_comparison("folder"), "is it a comparison, and complete?"),
    (lambda: rs.read_experiment("folder"), "is it an experiment, and complete?"),
    (lambda: rs.sweep(profile="calm", seeds="x", out="s", options=POOL), "as in 0:2000"),
    (lambda: rs.sweep(profile="calm", seeds=None, out="s", options=POOL), "give range(4), a pair"),
    (lambda: rs.sweep(profile="calm", seeds=range(0), out="s", options=POOL), "below the end"),
    (lambda: rs.sweep(profile="calm", seeds=range(0, 4, 2), out="s", options=POOL), "step of 1"),
    (lambda: rs.sweep(profile="clam", seeds=2, out="s", options=POOL), "did you mean 'calm'?"),
    (lambda: rs.sweep(profile="calm", seeds=2, out=None, options=POOL), "None is no folder"),
    (lambda: rs.sweep(profile="calm", seeds=2, out="good.toml", options=POOL), "give a folder"),
    (lambda: rs.load_plugins(5), "plug-in 5: give the names of modules"),
    (lambda: rs.load_case_study(5), "no case study 5; known: basic"),
    (lambda: rs.each_scenario(profile="calm", seeds=[]), "no seed: a test of none would pass"),
    (lambda: rs.each_scenario(profile="calm", seeds="0:5"), "seeds '0:5': give numbers"),
    (lambda: rs.scenarios_from("clam"), "did you mean 'calm'?"),
    (lambda: rs.sweep(profile="calm", seeds=[3, 7], out="s", options=POOL), "names single ones"),
    (lambda: rs.sweep(profile="calm", seeds=2, out="s3:x", options=POOL), "with two slashes"),
    (lambda: rs.SweepOptions(batch_size="x"), "batch_size 'x': give a whole number"),
    (lambda: rs.SweepOptions(metrics_seeds=0.5), "metrics_seeds 0.5: give a whole number"),
    (lambda: rs.compare(profile="calm", seeds=2, out="c", protocols="eager", options=POOL),
     "protocols eager: a comparison needs two or more"),
    (lambda: rs.compare(profile="calm", seeds=2, out="c", protocols=[5, 6], options=POOL),
     "no protocol 5; known: consumer-range"),
    (lambda: rs.SweepOptions(backend="dask"), "choose one of spark, pool"),
    (lambda: rs.SweepOptions(backend="pool", master="local"), "leave one of the two out"),
    (lambda: rs.SweepOptions(processes=0), "processes 0: give 1 or more"),
    (lambda: rs.SweepOptions(runner="os"), "write module:function"),
    (lambda: rs.experiment(bsae="calm", out="e", options=POOL), "did you mean 'base'?"),
    (lambda: rs.experiment(base="calm", vary=3, out="e", options=POOL), "vary: has a value of"),
    (lambda: rs.compare(profile="calm", seeds=2, out="c", protocols=["eager"], options=POOL),
     "a comparison needs two or more of"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_it_is_refused_in_one_line(call: BadCall, said: str) -> None:
    before = sorted(Path().rglob("*"))
    with pytest.raises((rs.ScenarioError, SweepError)) as refused:
        call()
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert sorted(Path().rglob("*")) == before


def test_what_is_missing_is_named() -> None:
    with pytest.raises(TypeError, match="'profile' and 'out'"):
        rs.sweep(seeds=range(4))  # type: ignore[call-arg]


def test_numbers_names_and_files_are_taken_as_they_are_written() -> None:
    assert rs.generate("calm", "7") == rs.generate("calm", 7)
    assert rs.run("good.toml").digest == rs.run(rs.generate("calm", 1)).digest
    assert rs.sweep(profile="calm", seeds=range(2), out="s", options=POOL).outcomes == {"ok": 2}
    assert len(list(rs.replay_case_study("basic"))) == len(rs.load_case_study("basic").steps)
