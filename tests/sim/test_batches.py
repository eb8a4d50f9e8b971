"""Batches of several operations: what goes together, what fails together (coordinator §9.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from worlds import SESSION_TIMEOUT_MS, Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.administrators import OffsetsList
from rebalance_sim.sim.faults.brokers import AppendFailure, ReplicationSlowdown
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault

LINGER_MS = 10
SETTLED_MS = 10_000


def story(*planned: Fault, linger_ms: int = LINGER_MS, **settings: Any) -> Watched:
    """Two clients that commit, and a broker that gathers what it writes."""
    clients = [client(name, enable_auto_commit=True) for name in ("a", "b")]
    config = CoordinatorConfig(
        group_consumer_assignment_interval_ms=0,
        group_coordinator_append_linger_ms=linger_ms,
        **settings,
    )
    return Watched(spec(*clients, faults=planned, config=config))


def story_of_a_join(*planned: Fault, linger_ms: int) -> Watched:
    """The same, and c joins with what arrives at 20014 ms."""
    watched = story(*planned, linger_ms=linger_ms).world.spec
    return Watched(replace(watched, clients=(*watched.clients, client("c", start_ms=20_000))))


def codes(watched: Watched, request: str) -> Sequence[str]:
    """The errors of all answers to requests of a type, once the group has settled."""
    found = []
    for step in watched.steps(StepKind.RESPONSE_RELEASED):
        if step["request"]["type"] == request and step["at_ms"] > SETTLED_MS:
            response = step["response"]
            found += list(response.get("errors", {}).values()) or [response.get("error_code")]
    return [code for code in found if code not in (None, "NONE")]


@pytest.mark.parametrize("linger_ms", [-1, 5, 50])
def test_a_group_lives_as_well_with_batches(linger_ms: int) -> None:
    watched = story(linger_ms=linger_ms)
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_operations_of_one_window_are_committed_together() -> None:
    together = story(linger_ms=50)
    alone = story(linger_ms=0)
    for watched in (together, alone):
        watched.advance_to(2_000)
    ends = [s["high_watermark"] for s in together.steps(StepKind.LOG_COMMITTED)]
    assert ends[-1] == alone.steps(StepKind.LOG_COMMITTED)[-1]["high_watermark"]
    assert len(set(ends)) < len({s["high_watermark"] for s in alone.steps(StepKind.LOG_COMMITTED)})
    joins = [s for s in together.steps(StepKind.COORDINATOR_REQUEST) if s.get("records")]
    first = joins[0]
    assert first["log_end_offset"] == len(first["records"])
    [answer] = together.steps(StepKind.RESPONSE_RELEASED, operation=first["operation"])
    assert answer["at_ms"] > first["at_ms"] + 50


@pytest.mark.parametrize("linger_ms", [-1, 0, 50])
def test_no_one_is_answered_before_the_high_watermark_has_passed_what_was_decided(
    linger_ms: int,
) -> None:
    """Nor who wrote nothing, while a batch is open or a replica slow."""
    slow = ReplicationSlowdown(at_ms=4_000, duration_ms=9_000, factor=200)
    watched = story(slow, linger_ms=linger_ms)
    watched.advance_to(30_000)
    handled = {s["operation"]: s for s in watched.steps(StepKind.COORDINATOR_REQUEST)}
    waits = set()
    for step in watched.steps(StepKind.RESPONSE_RELEASED):
        request = handled.get(step.get("operation"))
        if request is not None:
            assert step["high_watermark"] >= request["log_end_offset"]
            waits.add(step["at_ms"] - request["at_ms"])
    assert min(waits) == 0
    assert max(waits) >= 400 + max(linger_ms, 0), "two milliseconds, two hundred times"


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WriteError.STORAGE, "NOT_COORDINATOR"),
        (WriteError.NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_a_broker_that_cannot_write_says_so_and_loses_nothing(
    linger_ms: int, error: WriteError, code: str
) -> None:
    failure = AppendFailure(at_ms=11_000, duration_ms=8_000, error=error)
    watched = story(failure, linger_ms=linger_ms)
    watched.advance_to(11_000)
    leader = watched.world.acting_shard()
    assert leader is not None
    end = leader.log_end_offset
    watched.advance_to(18_999)
    assert leader.log_end_offset == end
    assert set(codes(watched, "OffsetCommitRequest")) == {code}
    assert codes(watched, "ConsumerGroupHeartbeatRequest") == [], (
        "a steady heartbeat writes nothing"
    )
    watched.run()
    assert leader.log_end_offset > end


def test_a_batch_that_fails_fails_for_everybody_who_waits_for_it() -> None:
    """Also for who wrote nothing, but may not be told anything before the batch is committed."""
    watched = story_of_a_join(
        OffsetsList(at_ms=20_100, require_stable=True),
        AppendFailure(at_ms=20_200, duration_ms=200),
        linger_ms=200,
    )
    watched.advance_to(20_220)
    [failed] = watched.steps(StepKind.LOG_TRUNCATED)
    handled = watched.steps(StepKind.COORDINATOR_REQUEST)
    waiting = [s for s in handled if 20_000 <= s["at_ms"] < failed["at_ms"]]
    assert [len(s.get("records", ())) > 0 for s in waiting] == [True, False]
    for step in waiting:
        [answer] = watched.steps(StepKind.RESPONSE_RELEASED, operation=step["operation"])
        assert answer["at_ms"] == failed["at_ms"]
        assert "NOT_COORDINATOR" in str(answer["response"])
    assert len(watched.group().members) == 2
    watched.run()
    assert len(watched.group().members) == 3


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_a_timer_whose_records_could_not_be_written_fires_again(linger_ms: int) -> None:
    crash = ClientCrash(at_ms=10_000, client="b")
    failure = AppendFailure(at_ms=40_000, duration_ms=16_000)
    watched = story(crash, failure, linger_ms=linger_ms)
    watched.advance_to(55_999)
    assert len(watched.group().members) == 2
    assert 10_000 + SESSION_TIMEOUT_MS < 55_500
    watched.advance_to(57_000)
    assert len(watched.group().members) == 1
    watched.run()


def story_of_a_leave(*planned: Fault) -> Watched:
    """b leaves at a time when nothing can be written: a leave is not repeated."""
    watched = story(
        ClientClose(at_ms=20_500, client="b"),
        AppendFailure(at_ms=20_000, duration_ms=2_000),
        *planned,
    ).world.spec
    return Watched(replace(watched, clients=(client("a"), client("b"))))


def test_a_timer_that_went_with_a_failed_batch_is_a_known_issue() -> None:
    """coordinator D14: no one looks after the session of b any more."""
    watched = story_of_a_leave()
    watched.world.run()
    assert not watched.violated()
    assert {one.property.id for one in watched.suspected()} == {"coordinator.timers_armed"}
    assert watched.violated_by("D14") >= {
        "coordinator.timers_armed",
        "liveness.stale_members_removed",
    }
    assert watched.without("D14").late() == {}
    assert len(watched.group().members) == 2


def test_a_load_gives_such_a_member_its_timer_back() -> None:
    watched = story_of_a_leave(CoordinatorMove(at_ms=25_000))
    watched.world.run()
    assert watched.late() == {}
    assert len(watched.group().members) == 1


def test_a_leader_that_resigns_takes_its_open_batch_with_it() -> None:
    """The answer is an error, and the member joins again where it finds a coordinator."""
    watched = story_of_a_join(CoordinatorMove(at_ms=20_100), linger_ms=500)
    watched.run()
    [lost] = watched.steps(StepKind.LOG_TRUNCATED)
    assert lost["shard"] == "broker-0"
    assert lost["at_ms"] < 20_200
    assert len(watched.group().members) == 3


@pytest.mark.parametrize("linger_ms", [0, LINGER_MS])
def test_a_join_that_fits_no_batch_fails_for_good(linger_ms: int) -> None:
    watched = story(linger_ms=linger_ms, message_max_bytes=300)
    watched.advance_to(15_000)
    assert watched.state("a") == watched.state("b") == "FATAL"
    leader = watched.world.acting_shard()
    assert leader is not None
    assert leader.log_end_offset == 0
    assert any("UNKNOWN_SERVER_ERROR" in line for line in watched.trace.lines)
