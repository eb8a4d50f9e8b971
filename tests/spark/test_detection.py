"""Which defects the mix of profiles notices."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, SEMANTICS
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.rule_differences import Rules, first_differences, watched_by
from rebalance_sim.scenarios.runner import run
from rebalance_sim.spark.detection import measure
from rebalance_sim.spark.detection.figures import figures_of, is_noticed
from rebalance_sim.spark.detection.measure import MeasureOptions, measure_defects
from rebalance_sim.spark.detection.mix import MIX, is_shipped, profile_of, scenario_of
from rebalance_sim.spark.detection.oracles import DIFFERS, Oracle, by_laws
from rebalance_sim.spark.detection.rows import MeasuredRun, RunStore
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.reports.intervals import share_of

DENSE = "mut-early-grant"
CLASSIC = MIX.index("classic")
LAWS = (Oracle.LAWS,)
SHORT = MeasureOptions(seeds=3, enough=1, processes=1)


def a_run(
    index: int,
    outcome: str,
    *,
    digest: str = "a",
    defect: str = DENSE,
    oracle: Oracle = Oracle.LAWS,
) -> MeasuredRun:
    return MeasuredRun(
        defect=defect, index=index, oracle=oracle, outcome=outcome, digest=digest, what=outcome
    )


def test_every_profile_of_the_mix_takes_its_turn() -> None:
    assert [profile_of(index) for index in range(1, len(MIX) + 1)] == [*MIX[1:], MIX[0]]
    scenario = scenario_of(1, defect_id=DENSE)
    assert (scenario.profile, scenario.seed) == (MIX[1], 1)
    assert scenario.world.defects == (DENSE,)
    assert scenario_of(1).world.defects == ()


def test_defects_are_measured_in_versions_without_known_issues() -> None:
    shipped = DEFAULT_SEMANTICS.shipped_defects[0]
    assert is_shipped(shipped) and not is_shipped(DENSE)
    for index in range(2 * len(MIX)):
        world = scenario_of(index, defect_id=DENSE).world
        assert SEMANTICS[world.semantics].shipped_defects == ()


@pytest.mark.parametrize(
    ("base", "outcome", "expected"),
    [
        ("ok", "violation", True),
        ("ok", "stuck", True),
        ("known", "error", True),
        ("ok", "known", False),
        ("ok", "ok", False),
        ("stuck", "violation", False),
        ("ok", "timeout", False),
    ],
)
def test_noticed_is_what_is_wrong_only_with_the_defect(
    base: str, outcome: str, expected: bool
) -> None:
    assert is_noticed(a_run(0, base, defect=""), a_run(0, outcome)) is expected


def test_a_decision_that_differs_is_noticed_whatever_is_wrong_without_the_defect() -> None:
    differs = a_run(0, DIFFERS, oracle=Oracle.REFERENCE)
    assert is_noticed(a_run(0, "violation", defect=""), differs)
    assert not is_noticed(a_run(0, "ok", defect=""), a_run(0, "ok", oracle=Oracle.REFERENCE))


def test_figures_name_the_first_run_and_count_properties() -> None:
    pairs = [
        (a_run(0, "ok"), a_run(0, "ok")),
        (a_run(1, "ok"), a_run(1, "ok", digest="b")),
        (a_run(2, "ok"), a_run(2, "stuck", digest="b")),
        (a_run(3, "ok"), a_run(3, "violation", digest="b")),
    ]
    figures = figures_of(pairs)
    assert (figures.runs, figures.reached, figures.noticed) == (4, 3, 2)
    assert (figures.first, figures.by) == (2, "stuck")
    assert figures.first_run == f"{MIX[2]} 2"
    assert figures.counts == {"stuck": 1, "violation": 1}


def test_either_oracle_has_runs_of_its_own_and_says_what_it_found(tmp_path: Path) -> None:
    """What KAFKA-7824 refuses, a law knows; how KAFKA-13214 keeps an id, only a machine without it
    (``tests/scenarios/test_defects.py``)."""
    ids = ["KAFKA-7824", "KAFKA-13214"]
    options = MeasureOptions(seeds=CLASSIC + 1, enough=0, profiles=("classic",), processes=1)
    figures = measure_defects(ids, out=tmp_path, options=options)
    noticed = {one.defect: [bool(found.noticed) for found in one.by_oracle.values()]
               for one in figures}  # fmt: skip
    assert noticed == {"KAFKA-7824": [True, True], "KAFKA-13214": [False, True]}
    by_laws, by_reference = (
        figures[0].by_oracle[Oracle.LAWS],
        figures[0].by_oracle[Oracle.REFERENCE],
    )
    assert by_laws.by == "classic.refusal_cause"
    assert by_reference.by.startswith("coordinator, JoinGroup: ")
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert {(row["oracle"], row["outcome"]) for row in rows if row["defect"] == ids[0]} >= {
        ("laws", "violation"), ("reference", "differs")
    }  # fmt: skip
    [of_laws, _] = measure_defects(ids, options=replace(options, oracles=LAWS))
    assert of_laws.by_oracle == {Oracle.LAWS: by_laws}


def test_a_run_ends_where_its_oracle_has_found_something() -> None:
    scenario = scenario_of(CLASSIC, defect_id="KAFKA-7824")
    whole, ended = (run(scenario, ends_at_violation=ends) for ends in (False, True))
    assert ended.violations == whole.violations
    assert ended.steps == whole.violations[0].step < whole.steps / 2


def test_one_run_finds_the_first_difference_of_each_defect() -> None:
    """As a run with the defect and a reference without it does."""
    ids = ("KAFKA-7824", "KAFKA-13214", "librdkafka-4783", "mut-reply-before-commit", DENSE)
    found = first_differences(scenario_of(CLASSIC), ids)
    for defect_id in ids:
        scenario = scenario_of(CLASSIC, defect_id=defect_id)
        one_by_one = watched_by(scenario, Rules(scenario.world.semantics)).differences
        place, step = (None, None) if not one_by_one else (
            (one_by_one[0].machine, one_by_one[0].given), one_by_one[0].step_index
        )  # fmt: skip
        first = found[defect_id]
        assert place == (None if first is None else (first.machine, first.given)), defect_id
        assert step == (None if first is None else first.step_index)
    assert found["KAFKA-7824"] is not None and found["mut-reply-before-commit"] is None


def test_a_world_that_cannot_have_the_defect_notices_nothing(tmp_path: Path) -> None:
    """In runs 2 and 3 appends linger, and this defect forgets what is committed."""
    options = MeasureOptions(seeds=4, enough=0, oracles=LAWS, processes=1)
    measure_defects(["mut-reads-uncommitted"], out=tmp_path, options=options)
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    refused = [row for row in rows if row["outcome"] == "refused"]
    assert refused and all("append_linger_ms" in row["what"] for row in refused)
    figures = figures_of([(a_run(0, "ok"), a_run(0, "refused", digest=""))])
    assert (figures.reached, figures.noticed) == (0, 0)


def test_shares_have_wilsons_interval() -> None:
    share = share_of(5, 50)
    assert share.value == 0.1
    assert share.low == pytest.approx(0.0435, abs=1e-4)
    assert share.high == pytest.approx(0.2136, abs=1e-4)
    assert share_of(0, 10).low == 0.0
    assert share_of(10, 10).high == 1.0
    with pytest.raises(ValueError, match="3 of 2"):
        share_of(3, 2)


def test_a_measurement_goes_on_and_runs_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [figures] = measure_defects([DENSE], out=tmp_path, options=SHORT)
    assert [(one.runs, one.noticed > 0) for one in figures.by_oracle.values()] == [(3, True)] * 2
    runs = tmp_path / "runs.jsonl"
    lines = runs.read_text().splitlines()
    assert len(lines) == 9  # three with the defect for each oracle, three without
    runs.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])  # killed while it wrote
    assert measure_defects([DENSE], out=tmp_path, options=SHORT) == (figures,)
    assert len(runs.read_text().splitlines()) == 9

    def refuse(*_arguments: object) -> None:
        raise AssertionError("all runs are there")

    monkeypatch.setattr(measure, "by_laws", refuse)
    monkeypatch.setattr(measure, "by_reference", refuse)
    assert measure_defects([DENSE], out=tmp_path, options=SHORT) == (figures,)


def test_a_run_that_a_limit_of_the_machine_ended_is_made_again(tmp_path: Path) -> None:
    ended = [a_run(index, outcome) for index, outcome in enumerate(("timeout", "hang", "budget"))]
    RunStore(tmp_path, {}).add(ended)
    kept = RunStore(tmp_path, {})
    assert [one.key in kept for one in ended] == [False, False, True]


def test_a_defect_whose_rules_no_run_asks_for_is_not_run(tmp_path: Path) -> None:
    options = MeasureOptions(seeds=CLASSIC + 1, enough=0, oracles=LAWS, processes=1)
    [figures] = measure_defects([DENSE], out=tmp_path, options=options)
    assert figures.by_oracle[Oracle.LAWS].runs == CLASSIC + 1
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    base, with_defect = (
        row
        for row in rows
        if row["index"] == CLASSIC and (not row["defect"] or row["oracle"] == "laws")
    )
    assert "KAFKA-12890" in base["asked"]  # has_sync_deadline, of classic groups
    assert DENSE not in base["asked"]  # is_free, of consumer groups
    plain, changed = (by_laws(scenario_of(CLASSIC, defect_id=one)) for one in ("", DENSE))
    assert base["digest"] == with_defect["digest"] == plain.digest == changed.digest


def test_only_the_runs_of_some_profiles_are_made_where_they_stand_in_the_mix(
    tmp_path: Path,
) -> None:
    options = MeasureOptions(seeds=len(MIX) + 2, enough=0, profiles=(MIX[1],), processes=1)
    [figures] = measure_defects([DENSE], out=tmp_path, options=options)
    rows = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert {row["index"] for row in rows} == {1, len(MIX) + 1}
    assert [one.runs for one in figures.by_oracle.values()] == [2, 2]
    with pytest.raises(SweepError, match="did you mean 'faulty'"):
        MeasureOptions(profiles=("fault",))


def test_a_folder_of_other_code_is_refused(tmp_path: Path) -> None:
    RunStore(tmp_path, {"code": "abc"})
    with pytest.raises(SweepError, match=r"another code \(abc, not def\)"):
        RunStore(tmp_path, {"code": "def"})


def test_an_unknown_defect_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="did you mean 'mut-early-grant'"):
        measure_defects(["mut-early-grants"], out=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_mix_notices_defects_of_every_component() -> None:
    """A guard against profiles or properties that lose their sight: one dense defect of each part
    but assignors. What KAFKA-18688 moves without need, the reference alone notices
    (``tests/scenarios/test_defects.py``)."""
    ids = (
        DENSE,
        "KAFKA-16555",
        "KAFKA-12890",
        "KAFKA-20254",
        "mut-reply-before-commit",
    )
    figures = measure_defects(ids, options=MeasureOptions(seeds=440, enough=1, oracles=LAWS))
    assert {one.defect for one in figures if not one.is_noticed} == set()
