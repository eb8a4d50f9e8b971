"""A run that only shows known issues is held against the same run without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rebalance_sim.invariants.known import known_issues
from rebalance_sim.invariants.properties.client.client_reconcile import DeliverOwned
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.scenarios.counterfactual import prove_known
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.result import (
    NOT_REPAIRED,
    REPAIRED,
    UNPROVEN,
    KnownRow,
    RunResult,
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
    assert first.cause_step <= first.step
    assert first.detail and first.cause


class BlamesAnybody(DeliverOwned):
    """Finds something at every step of a client, and has evidence of KAFKA-20332 for it."""

    id = "client.deliver.owned"

    def on_moved(self, step, entry):  # type: ignore[no-untyped-def]
        """Always wrong."""
        return Finding("moved", {"client": entry.name, "is_being_revoked": True})


def test_what_shows_without_the_issue_too_is_a_violation() -> None:
    """The evidence is that of the defect; the reason is another one."""
    properties: tuple[type[Property], ...] = (BlamesAnybody,)
    unproven = run(shipped(), properties=properties, proves_known=False)
    assert (unproven.outcome, unproven.violations, unproven.repaired) == ("known", (), None)
    result = run(shipped(), properties=properties)
    assert result.outcome == "violation"
    assert result.violations[0].property == "client.deliver.owned"
    assert "looks like KAFKA-20332, but is not repaired by KAFKA-20332" in result.reason
    assert result.digest == unproven.digest
    assert NOT_REPAIRED in {row.verdict for row in result.known_issues}
    assert result.repaired is not None and result.repaired.outcome == "violation"


# -- the judgement, with results made by hand ------------------------------------------------------


def row(issue: str = "KAFKA-20332", subject: str = "client a", **fields: object) -> KnownRow:
    """One known issue of a run."""
    values: dict[str, object] = {
        "issue": issue, "title": "title", "page": "page", "property": "some.property",
        "sentence": "it holds", "subject": subject, "step": 5, "at_ms": 50, "detail": "it broke",
        "cause": "cause", "cause_step": 4, "cause_at_ms": 40, **fields,
    }  # fmt: skip
    return KnownRow(**values)  # type: ignore[arg-type]


def result(outcome: str, *rows: KnownRow, **fields: object) -> RunResult:
    """A run with this outcome."""
    values: dict[str, object] = {
        "seed": 1, "profile": "", "scenario_hash": "h", "code_version": "c", "outcome": outcome,
        "known": {one.issue: 1 for one in rows}, "known_issues": rows, **fields,
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
    ("twin", "outcome", "verdict"),
    [
        (result("ok"), "known", REPAIRED),
        (result("known", row("no-repair", property="another.one")), "known", REPAIRED),
        (result("known", row("no-repair", "client b")), "known", REPAIRED),
        (result("known", row("no-repair")), "known", UNPROVEN),
        (result("known", row("no-repair", "the group")), "known", UNPROVEN),
        (result("budget"), "known", UNPROVEN),
        (result("violation", violations=violated("some.property")), "violation", NOT_REPAIRED),
        (result("violation", violations=violated("another.one")), "violation", UNPROVEN),
        (result("error", reason="KeyError"), "error", NOT_REPAIRED),
    ],
)
def test_verdicts(twin: RunResult, outcome: str, verdict: str) -> None:
    run_once, asked = runs(twin)
    judged = prove_known(shipped(), result("known", row()), run_once)
    assert (judged.outcome, judged.known_issues[0].verdict) == (outcome, verdict)
    assert asked == [("KAFKA-20332",)]
    assert judged.repaired is not None and judged.repaired.outcome == twin.outcome


def test_what_is_late_and_not_repaired_is_stuck() -> None:
    run_once, _ = runs(result("stuck", violations=violated("some.property")))
    judged = prove_known(shipped(), result("known", row(is_late=True)), run_once)
    assert judged.outcome == "stuck"


def test_another_issue_that_takes_its_place_is_repaired_as_well() -> None:
    run_once, asked = runs(result("known", row("KAFKA-20066")), result("ok"))
    judged = prove_known(shipped(), result("known", row()), run_once)
    assert asked == [("KAFKA-20332",), ("KAFKA-20066", "KAFKA-20332")]
    assert (judged.outcome, judged.known_issues[0].verdict) == ("known", REPAIRED)


def test_an_issue_without_a_repair_is_unproven_and_says_so() -> None:
    run_once, asked = runs()
    judged = prove_known(shipped(), result("known", row("no-repair")), run_once)
    assert (judged.outcome, judged.unproven, asked) == ("known", ("no-repair",), [])


@pytest.mark.parametrize("outcome", ["ok", "violation", "stuck", "error", "budget"])
def test_other_runs_cost_nothing(outcome: str) -> None:
    run_once, asked = runs()
    before = result(outcome, row())
    assert prove_known(shipped(), before, run_once) is before
    assert asked == []


def test_an_issue_of_the_run_is_not_proven_where_it_is_switched_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever switches a defect on wants to find it."""
    scenario = defect_scenario("KAFKA-20332")
    assert run(scenario).outcome == "violation"
    monkeypatch.setattr(known_issues, "KNOWN_ISSUES", ())
    assert run(shipped()).outcome == "violation"
