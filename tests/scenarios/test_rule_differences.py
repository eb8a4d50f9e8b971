"""A reference in lock-step: silent where the rules are the same, and exact where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_sim.invariants.reference.lock_step import LockStep
from rebalance_sim.invariants.reference.tree import Tree, frozen_tree
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.quiet import quiet_period_ms
from rebalance_sim.scenarios.rule_differences import Rules, diff_rules, watched_by
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.world import World

PROTOCOL = Path(__file__).parents[2] / "protocol"
PROFILES = ("faulty", "whole", "classic", "migration", "transactions")


@pytest.fixture(scope="module")
def frozen() -> Tree:
    return frozen_tree(PROTOCOL)


@pytest.mark.quick_one_of(2)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_frozen_copy_decides_the_same_and_leaves_the_run_as_it_is(
    profile: str, frozen: Tree
) -> None:
    for seed in (0, 1):
        scenario = generate(profile, seed)
        lock_step = LockStep(lambda semantics: frozen.simulated(semantics.name), frozen)
        assert _run(scenario, lock_step) == _run(scenario, None)
        assert lock_step.differences == []
        assert lock_step.decisions_compared > 500


def test_what_classic_members_send_each_other_is_of_one_class_in_both_trees(frozen: Tree) -> None:
    """A leader of either tree reads what members of the other have said."""
    for kind in frozen.kinds.values():
        for assignor in kind.assignors.values():
            said = assignor.user_data(last_assigned=(), last_generation_id=1)
            assert frozen.package not in type(said).__module__, (kind.name, assignor.name)


def _run(scenario: Scenario, lock_step: LockStep | None) -> str:
    """The digest of a run."""
    return (
        World(
            scenario.world,
            make_checker=None if lock_step is None else lambda view: lock_step,
            machines=lock_step,
            max_steps=scenario.max_steps,
            quiet_period_ms=quiet_period_ms(scenario.world),
        )
        .run()
        .digest
    )


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_rules_do_not_differ_from_themselves(profile: str) -> None:
    version = generate(profile, 0).world.semantics
    found = diff_rules(version, version, profile=profile, seeds=range(25))
    assert (found.count, found.runs) == (0, 25)


OUT_OF_SIGHT = {name for name, one in DEFECTS.items() if one.component == "broker"} | {
    name for name in DEFECTS if name.startswith("mut-streams-")
}
"""What a reference of coordinators and members cannot see: how a broker hosts them, and what
assignors that a client runs by itself compute."""

IN_SIGHT = {name for name in DEFECTS if DEFECTS[name].has_scenario} - OUT_OF_SIGHT


@pytest.mark.quick_one_of(8)
@pytest.mark.parametrize("name", sorted(IN_SIGHT))
def test_the_rules_without_a_defect_decide_differently_in_its_scenario(name: str) -> None:
    scenario = defect_scenario(name, with_defect=True)
    assert watched_by(scenario, _without(scenario.world.semantics, name)).count


def _without(version: str, defect: str) -> Rules:
    try:
        return Rules.of(f"{version}~{defect}")
    except ScenarioError:  # it was not shipped with the version
        return Rules(version)


def test_a_coordinator_is_compared_from_its_present_state_on_after_a_difference() -> None:
    """4.4 writes a record that 4.3 does not, in one heartbeat and in the last leave: what either
    decides in between, from the same state, is the same."""
    found = diff_rules("kafka-4.3", "kafka-4.4", profile="faulty", seeds=[6])
    assert {("ConsumerGroupHeartbeat", "records"), ("LeaveGroup", "records")} <= {
        (one.given, one.what) for one in found.decisions
    }
    assert 1 < found.count < found.compared / 100


def test_a_decision_is_counted_where_it_is_taken_and_nowhere_else() -> None:
    """Kafka 4.1 stores no topic id with an offset: each commit that is accepted differs, and
    nothing that follows from one does."""
    found = diff_rules("kafka-4.4", "kafka-4.1", profile="migration", seeds=[0])
    (commit,) = [one for one in found.decisions if one.what == "OffsetCommit.value.topic_id"]
    assert (commit.machine, commit.given) == ("coordinator", "OffsetCommit")
    assert commit.example.reference == "none"
    assert commit.count == found.count > 100


def test_rules_are_written_as_a_version_with_what_is_repaired_and_switched_on() -> None:
    rules = Rules.of("kafka-4.3~D12+mut-early-grant~D13")
    assert rules == Rules("kafka-4.3", ("mut-early-grant",), ("D12", "D13"))
    assert str(rules) == "kafka-4.3~D12~D13+mut-early-grant"


@pytest.mark.parametrize("text", ["kafka-9", "kafka-4.4~nothing", "kafka-4.4+nothing", "", "~D12"])
def test_rules_that_there_are_not_are_refused(text: str) -> None:
    with pytest.raises(ScenarioError):
        Rules.of(text)


def test_a_folder_without_a_protocol_is_no_reference(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"runtime/coordinator\.py is missing"):
        diff_rules("kafka-4.4", "kafka-4.4", profile="faulty", seeds=[0], tree=tmp_path)


@pytest.mark.slow
def test_another_checkout_shows_what_was_changed_in_it(tmp_path: Path) -> None:
    tree = tmp_path / "protocol"
    for path in PROTOCOL.rglob("*.py"):
        copy = tree / path.relative_to(PROTOCOL)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    errors = tree / "runtime" / "offsets.py"
    there = "errors[partition] = _unknown_topic(request.api_version)"
    assert there in errors.read_text()
    errors.write_text(errors.read_text().replace(there, "errors[partition] = ErrorCode.NONE"))
    found = diff_rules("kafka-4.4", "kafka-4.4", profile="faulty", seeds=range(12), tree=tree)
    assert {(one.given, one.what) for one in found.decisions} == {
        ("OffsetCommit", "response.errors")
    }
