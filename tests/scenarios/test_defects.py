"""Every defect shows in its scenario, and nothing shows there without it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rebalance_sim.invariants.engine.discovery import INVARIANTS, LIVENESS
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.defects import defect_scenario, scenario_files, shows_in
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.runner import JUDGED, run

BY_ID = {spec.id: spec for spec in (*INVARIANTS, *LIVENESS)}
WITH_SCENARIO = [defect.id for defect in DEFECTS.values() if defect.has_scenario]
MEASURED = [defect.id for defect in DEFECTS.values() if defect.measured]
BY_REFERENCE = frozenset(
    (
        "aiokafka-118", "franz-go-1326", "KAFKA-13214", "KAFKA-14009", "KAFKA-14016",
        "KAFKA-14196", "KAFKA-15456", "KAFKA-16004", "KAFKA-16133", "KAFKA-16224",
        "KAFKA-16249-timer", "KAFKA-16944", "KAFKA-17293", "KAFKA-18688", "KAFKA-19720",
        "librdkafka-4908", "mut-asks-everybody", "mut-classic-static-leaves",
        "mut-client-hears-every-answer", "mut-client-installs-again",
        "mut-client-keeps-sent-fields", "mut-config-at-load", "mut-install-at-present-epoch",
        "mut-install-from-anybody", "mut-metadata-ahead", "mut-no-bump-on-reason",
        "mut-silent-leader", "PR-16290", "PR-451", "sarama-2110",
    )
)  # fmt: skip
"""How one machine steps, which no law is about; ``test_rule_differences.py`` has each noticed."""
PINNED = Path(__file__).parents[1] / "pinned" / "pinned.json"
PINS = json.loads(PINNED.read_text(encoding="utf-8"))
"""What the run of each scenario was, and is: ``tests/pinned`` makes them."""

BREAKING = [id_ for id_ in WITH_SCENARIO if id_ not in {*MEASURED, *BY_REFERENCE}]


def test_there_is_a_file_for_each_defect_that_shows() -> None:
    assert set(scenario_files()) == set(WITH_SCENARIO)


NEVER_AT_REST = frozenset(
    {"KAFKA-14639", "PR-16145", "classic-forgotten-assignor", "classic-vanished-partition"}
)
"""Not all is judged there: a client is too slow for its group to come to rest, or fails for good
and is started again until the end (``classic-vanished-partition``)."""


@pytest.mark.parametrize("defect_id", BREAKING)
def test_a_defect_violates_a_property_that_it_is_known_to_break(defect_id: str) -> None:
    ran = PINS[f"defect/{defect_id}"]
    assert ran["outcome"] in ("violation", "stuck")
    assert any(shows_in(BY_ID[violated], DEFECTS[defect_id]) for violated in ran["violated"])


@pytest.mark.parametrize("defect_id", sorted(BY_REFERENCE))
def test_what_a_law_notices_is_not_left_to_the_reference(defect_id: str) -> None:
    assert PINS[f"defect/{defect_id}"]["outcome"] in ("ok", "known")


@pytest.mark.quick_one_of(4)
@pytest.mark.parametrize("defect_id", WITH_SCENARIO)
def test_without_the_defect_every_property_holds(defect_id: str) -> None:
    result = run(defect_scenario(defect_id, with_defect=False), prove=Prove.ALL)
    # A version that was shipped with the defect still shows it, as a known one.
    passed = "not-judged" if defect_id in NEVER_AT_REST else "ok"
    assert result.outcome == passed or set(result.known) == {defect_id}, result.reason
    assert (JUDGED in result.coverage) is (defect_id not in NEVER_AT_REST)


@pytest.mark.parametrize("defect_id", MEASURED)
def test_a_defect_that_breaks_no_property_costs_something(defect_id: str) -> None:
    metric = DEFECTS[defect_id].measured
    with_defect = run(defect_scenario(defect_id)).metrics[metric]
    assert with_defect > run(defect_scenario(defect_id, with_defect=False)).metrics[metric]


@pytest.mark.parametrize("defect_id", WITH_SCENARIO)
def test_a_file_holds_the_scenario_with_its_own_defect_on(defect_id: str) -> None:
    scenario = defect_scenario(defect_id)
    text = scenario_files()[defect_id].read_text(encoding="utf-8")
    assert scenario.name == defect_id
    is_known_issue = defect_id.startswith("classic-") and defect_id not in MEASURED
    assert (f'defects = ["{defect_id}"]' in text) is not is_known_issue
    assert text.startswith("# ")


def test_an_unknown_defect_is_refused_with_the_nearest_id() -> None:
    with pytest.raises(ScenarioError, match=r"did you mean 'mut-early-grant'\?"):
        defect_scenario("mut-early-grnat")


def test_a_defect_that_does_not_show_is_refused_with_the_reason() -> None:
    with pytest.raises(ScenarioError, match="sim-kept-timers has no scenario: no client changes"):
        defect_scenario("sim-kept-timers")
