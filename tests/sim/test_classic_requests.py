"""Requests of classic clients that are not answered, or late: stories.

Source: classic §2.8, §4.3, §4.4.
"""

from __future__ import annotations

from typing import Any

from test_classic_clients import classic, story
from worlds import Watched

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.sim.faults.administrators import MembersRemove
from rebalance_sim.sim.faults.connections import ConnectionLoss, RequestQuota
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec


def events(watched: Watched, kind: str) -> list[dict[str, Any]]:
    """The steps in which the only client took an event of this type."""
    return [s for s in watched.steps(StepKind.CLIENT_EVENT) if s["event"]["type"] == kind]


def test_the_sync_group_of_a_member_that_is_made_to_leave_is_never_answered() -> None:
    """It waits for the write of the assignment, and is forgotten with its member."""
    brokers = BrokerSpec(
        replication=DelaySpec(min_ms=500), load=DelaySpec(min_ms=20), metadata=DelaySpec(min_ms=5)
    )
    fault = MembersRemove(at_ms=3_300, clients=("a",))
    one = classic("a", request_timeout_ms=5_000, max_poll_interval_ms=8_000)
    watched = story(one, delay_ms=3_000, brokers=brokers, faults=(fault,))
    watched.advance_to(8_100)
    (sync,) = (
        step
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"]["type"] == "SyncGroupRequest"
    )
    assert 3_000 < sync["at_ms"] < 3_300 < sync["at_ms"] + 500
    assert not events(watched, "SyncGroupAnswered")
    watched.run()
    assert len(events(watched, "SyncGroupAnswered")) == 1
    assert watched.fetchable("a") == set(range(6))


def test_an_answer_to_the_first_of_two_heartbeats_leaves_the_second_in_flight() -> None:
    """Both that are lost later count, and the backoff is that after the second."""
    faults = (
        RequestQuota(at_ms=20_000, duration_ms=30_000, throttle_ms=4_000),
        ConnectionLoss(at_ms=43_000, client="a"),
    )
    watched = story(classic("a"), faults=faults)
    watched.advance_to(43_001)
    (loss,) = events(watched, "Disconnected")
    assert len(loss["event"]["correlation_ids"]) >= 2
    first = min(loss["event"]["correlation_ids"])
    assert events(watched, "ClassicHeartbeatAnswered")[-1]["event"]["correlation_id"] == first - 1
    watched.run()
    assert watched.fetchable("a") == set(range(6))
