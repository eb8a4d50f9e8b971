"""What a sweep must have visited."""

from __future__ import annotations

from client_world import ClientWorld

from rebalance_sim.invariants.engine.discovery import GOALS, unmet_goals
from rebalance_sim.invariants.laws.goals import CLASSIC_JOIN, COMPUTATION_NOTIFIED
from rebalance_sim.protocol.consumer.reconciliation import TRANSITIONS
from rebalance_sim.protocol.wire.records import MemberState


def test_nothing_is_met_by_a_sweep_that_saw_nothing():
    """Its silence proves nothing."""
    assert unmet_goals({}) == [item for item in GOALS if item.only_with is None]


def test_a_sweep_in_which_no_one_computes_need_not_see_what_becomes_of_computations():
    """But one in which a member was asked to compute a target must; likewise for classic groups."""
    reported = {COMPUTATION_NOTIFIED: 1}
    unmet = [item for item in GOALS if item.only_with != CLASSIC_JOIN]
    assert unmet_goals(reported) == unmet
    assert unmet_goals({**reported, CLASSIC_JOIN: 1}) == list(GOALS)
    assert {item.id for item in GOALS if item.only_with == COMPUTATION_NOTIFIED} >= {
        "sometimes.computation.installed",
        "sometimes.computation.replaced",
        "sometimes.computation.failover",
    }


def test_everything_is_met_when_every_counter_is_above_zero():
    """Each item has a counter that can meet it."""
    assert unmet_goals({name: 1 for item in GOALS for name in item.counters}) == []


def test_a_counter_at_zero_meets_nothing():
    """It was named, not visited."""
    zeros = {name: 0 for item in GOALS for name in item.counters}
    begun = {COMPUTATION_NOTIFIED: 1, CLASSIC_JOIN: 1}
    assert unmet_goals({**zeros, **begun}) == list(GOALS)


def test_every_row_of_the_reconciliation_table_must_be_visited():
    """But for the state of newer software, which no one writes here."""
    rows = {(s, w) for s, w in TRANSITIONS if s is not MemberState.UNKNOWN}
    counters = {f"reconciliation.{s.name}.{w.name}" for s, w in rows}
    assert counters == {
        name for item in GOALS for name in item.counters if name.startswith("reconciliation.")
    }


def test_what_happens_in_a_small_world_is_counted():
    """Two clients share a topic, one leaves for good."""
    world = ClientWorld("a", "b")
    met = {item.id for item in GOALS} - {i.id for i in unmet_goals(world.checker.coverage())}
    assert {
        "sometimes.reconciliation.stable.can_complete",
        "sometimes.reconciliation.stable.must_revoke",
        "sometimes.reconciliation.stable.must_wait",
        "sometimes.reconciliation.unrevoked_partitions.can_complete",
        "sometimes.reconciliation.unreleased_partitions.can_complete",
        "sometimes.situation.new_target",
        "sometimes.situation.load",
    } <= met
    assert "sometimes.situation.leave" not in met
    world.heartbeat("id-a", -1)
    assert "sometimes.situation.leave" not in {i.id for i in unmet_goals(world.checker.coverage())}
