"""A run that violates what known issues may violate is held against the same run without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.laws.commits import DeliverOwned
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.counterfactual import Prove, prove_known
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.result import (
    REPAIRED,
    SAMPLED,
    UNPROVEN,
    RunResult,
    Suspected,
    ViolationRow,
)
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario


def shipped(issue: str = "KAFKA-20332") -> Scenario:
    """A scenario that shows what the client of 4.1 does."""
    scenario = defect_scenario(issue, with_defect=False)
    return replace(scenario, world=replace(scenario.world, semantics="kafka-4.1"))


def test_what_the_repair_takes_away_is_known() -> None:
    result = run(shipped())
    assert (result.outcome, set(result.known)) == ("known", {"KAFKA-20332"})
    assert {row.verdict for row in result.known_issues} == {REPAIRED}
    assert result.unproven == ()
    assert result.repaired is not None
    repaired = run(shipped().without("KAFKA-20332"))
    assert result.repaired.repairs == ("KAFKA-20332",)
    assert (result.repaired.outcome, result.repaired.digest) == ("ok", repaired.digest)
    assert result.repaired.scenario_hash == repaired.scenario_hash


def test_a_known_issue_says_what_was_seen_of_whom_and_where_to_read_about_it() -> None:
    [first, *_] = run(shipped()).known_issues
    assert (first.issue, first.title) == (
        "KAFKA-20332",
        "Records delivered for a partition under revocation",
    )
    assert first.page.startswith("docs/reference/defects.md#kafka-20332-")
    assert first.subject.startswith("client a, partition ")
    assert first.property == "client.deliver.owned"
    assert first.cause is not None
    assert first.cause.step < first.step
    assert first.cause.what.startswith("a, given Poll: deliverable is [")
    assert first.detail


class BlamesAnybody(DeliverOwned):
    """Finds something at every step of a client."""

    id = "client.deliver.owned"

    def on_moved(self, step, entry):  # type: ignore[no-untyped-def]
        """Always wrong."""
        return Finding("moved", client=entry.name)


def test_what_shows_without_the_issue_too_is_a_violation() -> None:
    """The property is one that the defect violates; the reason is another one."""
    properties: tuple[type[Property], ...] = (BlamesAnybody,)
    unproven = run(shipped(), properties=properties, prove=Prove.NONE)
    assert (unproven.outcome, unproven.violations, unproven.repaired) == ("known", (), None)
    assert unproven.known == {} and unproven.suspected
    result = run(shipped(), properties=properties)
    assert (result.outcome, result.known_issues) == ("violation", ())
    assert result.violations[0].property == "client.deliver.owned"
    assert result.violations[0].detail == unproven.suspected[0].row.detail
    assert result.digest == unproven.digest
    assert result.repaired is not None and result.repaired.outcome == "violation"


def test_of_several_issues_the_one_that_decided_last_is_tried_first() -> None:
    """A client of 4.1 may back off wildly, too; it does not do so here."""
    before = run(shipped(), prove=Prove.NONE)
    both = ("KAFKA-19813", "KAFKA-20332")
    doubtful = replace(
        before, suspected=tuple(replace(one, issues=both) for one in before.suspected)
    )
    run_once, asked = runs(result("ok"), result("ok"))
    judged = prove_known(shipped(), doubtful, run_once)
    assert asked == [both, ("KAFKA-20332",)]
    assert set(judged.known) == {"KAFKA-20332"}
    assert judged.known["KAFKA-20332"] == sum(one.times for one in before.suspected)


@pytest.mark.parametrize("issue", ["D14", "sim-overtaken-heartbeat"])
def test_an_issue_of_hosts_says_where_the_run_without_it_goes_another_way(issue: str) -> None:
    """No machine decides otherwise: what a broker does around them is the reason."""
    scenario = defect_scenario(issue, with_defect=False)
    semantics = next(
        name
        for name in (scenario.world.semantics, "kafka-4.3")
        if issue in SEMANTICS[name].shipped_defects
    )
    judged = run(replace(scenario, world=replace(scenario.world, semantics=semantics)))
    assert set(judged.known) == {issue}
    late = [one for one in judged.known_issues if one.is_late]
    assert late
    for one in late:
        assert one.cause is not None
        assert 0 < one.cause.step <= one.step and one.cause.at_ms < one.at_ms
        assert one.cause.what.endswith("without it")


def test_where_one_issue_alone_may_be_the_reason_a_sample_is_proven() -> None:
    """The others are taken for it, and say so."""
    result = run(shipped(), prove=Prove.DOUBTFUL)
    assert (result.outcome, set(result.known)) == ("known", {"KAFKA-20332"})
    assert {(row.verdict, row.cause) for row in result.known_issues} == {(SAMPLED, None)}
    assert result.repaired is None
    assert (result.unproven, result.suspected) == ((), ())


def test_where_several_may_be_the_reason_each_is_tried_alone() -> None:
    """Without looking for the step that decided."""
    before = run(shipped(), prove=Prove.NONE)
    both = ("KAFKA-19813", "KAFKA-20332")
    doubtful = replace(
        before, suspected=tuple(replace(one, issues=both) for one in before.suspected)
    )
    run_once, asked = runs(result("ok", *doubtful.suspected), result("ok"))
    judged = prove_known(shipped(), doubtful, run_once, Prove.DOUBTFUL)
    assert asked == [("KAFKA-19813",), ("KAFKA-20332",)]
    assert set(judged.known) == {"KAFKA-20332"}
    assert {(row.verdict, row.cause) for row in judged.known_issues} == {(REPAIRED, None)}


@pytest.mark.parametrize("shown", ["KAFKA-19813", "KAFKA-20332"])
def test_what_the_run_shows_anyway_is_tried_first_and_rules_of_no_client_in_it_last(
    shown: str,
) -> None:
    """``classic-unwatched-join`` is about groups that had classic members, and there is none."""
    several = ("KAFKA-19813", "KAFKA-20332", "classic-unwatched-join")
    [first, *_] = run(shipped(), prove=Prove.NONE).suspected
    alone = replace(first, issues=(shown,))
    doubtful = result("known", alone, replace(first, issues=several))
    run_once, asked = runs(result("ok", first), result("ok", first), result("ok"))
    prove_known(shipped(), doubtful, run_once, Prove.DOUBTFUL)
    (other,) = {"KAFKA-19813", "KAFKA-20332"} - {shown}
    assert asked == [(shown,), (other,), ("classic-unwatched-join",)]


@pytest.mark.parametrize("prove", [Prove.ALL, Prove.DOUBTFUL])
def test_what_no_repair_takes_away_is_a_violation_at_any_cost(prove: Prove) -> None:
    before = run(shipped(), prove=Prove.NONE)
    both = ("KAFKA-19813", "KAFKA-20332")
    doubtful = replace(
        before, suspected=tuple(replace(one, issues=both) for one in before.suspected)
    )
    rows = tuple(one.row for one in before.suspected)
    bad = result("violation", violations=rows)
    run_once, asked = runs(bad, bad, bad)
    judged = prove_known(shipped(), doubtful, run_once, prove)
    assert asked == [("KAFKA-19813",), ("KAFKA-20332",), both]
    assert (judged.outcome, judged.known_issues) == ("violation", ())


# -- the judgement, with results made by hand ------------------------------------------------------


def suspected(
    *issues: str, property_id: str = "some.property", subject: str = "client a", **fields: object
) -> Suspected:
    """One violation of a run that known issues may be the reason of."""
    row = ViolationRow(
        property=property_id, sentence="it holds", step=5, at_ms=50, detail="it broke"
    )
    return Suspected(row=row, subject=subject, issues=issues or ("KAFKA-20332",), **fields)  # type: ignore[arg-type]


def result(outcome: str, *rows: Suspected, **fields: object) -> RunResult:
    """A run with this outcome."""
    values: dict[str, object] = {
        "seed": 1, "profile": "", "scenario_hash": "h", "code_version": "c", "outcome": outcome,
        "suspected": rows, **fields,
    }  # fmt: skip
    return RunResult(**values)  # type: ignore[arg-type]


def runs(*results: RunResult) -> tuple[Callable[[Scenario], RunResult], list[tuple[str, ...]]]:
    """Gives these results one after the other; and which repairs were asked for."""
    asked: list[tuple[str, ...]] = []
    left = list(results)

    def run_once(scenario: Scenario) -> RunResult:
        asked.append(scenario.repairs)
        return left.pop(0)

    return run_once, asked


def violated(property_id: str) -> tuple[ViolationRow, ...]:
    return (ViolationRow(property=property_id, sentence="", step=3, at_ms=30, detail="seen"),)


@pytest.mark.parametrize(
    ("repaired_run", "outcome", "verdict"),
    [
        (result("ok"), "known", REPAIRED),
        (result("known", suspected("D12", property_id="another.one")), "known", REPAIRED),
        (result("budget"), "known", UNPROVEN),
        (result("violation", violations=violated("some.property")), "violation", None),
        (result("violation", violations=violated("another.one")), "violation", None),
        (result("error", reason="KeyError"), "error", None),
    ],
)
def test_verdicts(repaired_run: RunResult, outcome: str, verdict: str | None) -> None:
    run_once, asked = runs(repaired_run)
    judged = prove_known(shipped(), result("known", suspected()), run_once)
    assert judged.outcome == outcome
    assert [row.verdict for row in judged.known_issues] == ([verdict] if verdict else [])
    assert asked == [("KAFKA-20332",)]
    assert judged.repaired is not None and judged.repaired.outcome == repaired_run.outcome
    assert bool(judged.violations) is (outcome == "violation")


def test_what_is_late_and_not_repaired_is_stuck() -> None:
    run_once, _ = runs(result("stuck", violations=violated("some.property")))
    judged = prove_known(shipped(), result("known", suspected(is_late=True)), run_once)
    assert judged.outcome == "stuck"


def test_what_the_repaired_run_says_nothing_about_stays_suspected() -> None:
    other = suspected("D12", property_id="another.one")
    run_once, asked = runs(result("violation", violations=violated("some.property")))
    judged = prove_known(shipped(), result("known", suspected(), other), run_once)
    assert asked == [("D12", "KAFKA-20332")]
    assert [row.property for row in judged.violations] == ["some.property"]
    assert judged.suspected == (other,)


BOTH = ("KAFKA-19813", "KAFKA-20332")


def test_an_issue_is_the_reason_if_its_repair_alone_takes_the_violation_away() -> None:
    run_once, asked = runs(result("ok"), result("known", suspected(*BOTH)), result("ok"))
    judged = prove_known(shipped(), result("known", suspected(*BOTH)), run_once)
    assert asked == [BOTH, BOTH[:1], BOTH[1:]]
    assert [(row.issue, row.verdict) for row in judged.known_issues] == [(BOTH[1], REPAIRED)]
    assert judged.repaired is not None and judged.repaired.repairs == BOTH[1:]


def test_what_takes_two_repairs_is_known_as_the_first_of_them() -> None:
    shown = result("known", suspected(*BOTH))
    run_once, asked = runs(result("ok"), shown, shown)
    judged = prove_known(shipped(), shown, run_once)
    assert asked == [BOTH, BOTH[:1], BOTH[1:]]
    assert [(row.issue, row.verdict) for row in judged.known_issues] == [(BOTH[0], REPAIRED)]
    assert judged.repaired is not None and judged.repaired.repairs == BOTH


def test_an_issue_excuses_no_property_that_it_is_not_known_to_violate() -> None:
    """Without both nothing shows; without its own, the second still does."""
    first, second = suspected("KAFKA-19813"), suspected(property_id="another.one")
    left = result("violation", violations=violated("another.one"))
    run_once, asked = runs(result("ok"), result("known", second), left)
    judged = prove_known(shipped(), result("known", first, second), run_once)
    assert asked == [BOTH, BOTH[:1], BOTH[1:]]
    assert (judged.outcome, judged.suspected) == ("violation", (first,))
    assert [row.property for row in judged.violations] == ["another.one"]


def test_two_subjects_may_have_two_reasons() -> None:
    first, second = suspected(*BOTH, subject="client a"), suspected(*BOTH, subject="client b")
    run_once, asked = runs(
        result("ok"), result("known", second), result("known", first), result("ok")
    )
    judged = prove_known(shipped(), result("known", first, second), run_once)
    assert [row.issue for row in judged.known_issues] == list(BOTH)
    assert asked == [BOTH, BOTH[:1], BOTH[1:]]
    assert judged.known == dict.fromkeys(BOTH, 1)


@pytest.mark.parametrize("outcome", ["violation", "stuck"])
def test_other_runs_cost_nothing(outcome: str) -> None:
    run_once, asked = runs()
    before = result(outcome, suspected())
    assert prove_known(shipped(), before, run_once) is before
    assert asked == []
    nothing = result("ok")
    assert prove_known(shipped(), nothing, run_once) is nothing


@pytest.mark.parametrize("outcome", ["error", "budget"])
def test_a_run_that_ends_early_may_have_violated_something_before(outcome: str) -> None:
    before = result(outcome, suspected(), reason="stopped")
    run_once, _ = runs(result("violation", violations=violated("some.property")))
    assert prove_known(shipped(), before, run_once).outcome == "violation"
    run_once, _ = runs(result("ok"))
    judged = prove_known(shipped(), before, run_once)
    assert (judged.outcome, judged.reason, set(judged.known)) == (
        outcome,
        "stopped",
        {"KAFKA-20332"},
    )


def test_an_issue_of_the_run_is_not_suspected_where_it_is_switched_on() -> None:
    """Who switches a defect on wants to find it."""
    assert run(defect_scenario("KAFKA-20332")).outcome == "violation"
    unknown = run(shipped(), make_watcher=lambda view: Checker(view, known_issues={}))
    assert unknown.outcome == "violation"
