"""The wall clock of a host is set: brokers time sessions by another one, Java clients nothing."""

from __future__ import annotations

import pytest
from worlds import SESSION_TIMEOUT_MS, Watched, client, spec

from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, JAVA_KINDS, LIBRDKAFKA
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.records import ConsumerGroupTargetAssignmentMetadata, OffsetCommit
from rebalance_sim.sim.faults.brokers import ClockStep
from rebalance_sim.sim.faults.clients import ClientClose, ClientPause
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import TopicSpec

ALL = set(range(6))
_HOUR_MS = 3_600_000
_MAX_POLL_MS = 30_000


def started(*faults: Fault, kind: str = JAVA, **settings: object) -> Watched:
    """Two clients that share six partitions since long."""
    of_client = {"kind": kind, "max_poll_interval_ms": _MAX_POLL_MS}
    watched = Watched(
        spec(client("a", **of_client), client("b", **of_client), faults=faults, **settings)
    )
    watched.advance_to(19_999)
    assert watched.fetchable("a") | watched.fetchable("b") == ALL
    assert len(watched.fetchable("a")) == 3
    return watched


def heartbeats(watched: Watched, name: str, since_ms: int) -> list[int]:
    """When a client's heartbeats have reached the coordinator."""
    member_id = watched.world.clients()[name].member.member_id
    return [
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["at_ms"] >= since_ms and step["request"].get("member_id") == member_id
    ]


@pytest.mark.parametrize("step_ms", [_HOUR_MS, -10_000])
def test_sessions_do_not_go_by_the_wall_clock_of_the_broker(step_ms: int) -> None:
    paused = ClientPause(at_ms=20_001, duration_ms=SESSION_TIMEOUT_MS - 10_000, client="a")
    watched = started(ClockStep(at_ms=20_000, step_ms=step_ms), paused)
    assert watched.run().metrics["fences"] == 0
    assert len(watched.fetchable("a")) == 3


def test_records_have_wall_time_which_the_next_coordinator_compares_with_its_own() -> None:
    """A newcomer waits for its target until the clock of the new coordinator has passed the time of
    the last one, and the assignment interval."""
    faults = (
        ClockStep(at_ms=20_000, step_ms=9_000, broker=0),
        ClientClose(at_ms=21_000, client="b", down_ms=9_000),
        CoordinatorMove(at_ms=28_000, to_broker=1),
    )
    config = CoordinatorConfig(group_consumer_assignment_interval_ms=1_000)
    watched = started(*faults, config=config)
    watched.advance_to(27_999)
    records = watched.world.brokers[0].replicas[0].log.records
    times = [
        record.value.assignment_timestamp
        for record in records
        if isinstance(record, ConsumerGroupTargetAssignmentMetadata) and record.value is not None
    ]
    last_ms = times[-1]
    assert last_ms is not None and 32_000 <= last_ms < 36_000
    watched.advance_to(last_ms + 1_000)
    assert (watched.state("b"), watched.fetchable("a")) == ("STABLE", ALL)
    watched.advance_to(last_ms + 1_000 + 15_000)
    assert len(watched.fetchable("b")) == 3


def test_offsets_expire_too_early_after_a_step_forward() -> None:
    config = CoordinatorConfig(
        group_consumer_assignment_interval_ms=0,
        offsets_retention_minutes=10,
        offsets_retention_check_interval_ms=5_000,
    )
    faults = (
        *(ClientClose(at_ms=22_000, client=name) for name in "ab"),
        ClockStep(at_ms=30_000, step_ms=_HOUR_MS),
    )
    of_client = {"enable_auto_commit": True, "auto_commit_interval_ms": 1_000}
    topic = TopicSpec(name="orders", partition_count=6, records_per_second=10)
    clients = (client("a", **of_client), client("b", **of_client))
    watched = Watched(
        spec(*clients, faults=faults, config=config, topics=(topic,), data_plane=True)
    )
    watched.advance_to(29_999)
    shard = watched.world.acting_shard()
    assert shard is not None and shard.coordinator.offsets.of_group("group")
    commits = [record for record in shard.log_records() if isinstance(record, OffsetCommit)]
    assert all(record.value is not None for record in commits)
    watched.advance_to(36_000)
    assert not shard.coordinator.offsets.of_group("group")


@pytest.mark.parametrize("kind", JAVA_KINDS)
def test_a_java_client_leaves_after_a_step_beyond_its_poll_interval(kind: str) -> None:
    """Unless its application comes to poll first. It is back soon."""
    leaves = set()
    for seed in range(12):
        fault = ClockStep(at_ms=20_000, step_ms=_MAX_POLL_MS + 5_000, client="a")
        watched = started(fault, kind=kind, seed=seed)
        watched.advance_to(20_050)
        steps = watched.steps(StepKind.COORDINATOR_REQUEST)
        requests = [step["request"] for step in steps if step["at_ms"] >= 20_000]
        left = [
            request
            for request in requests
            if request["type"] == "LeaveGroupRequest" or request.get("member_epoch") == -1
        ]
        leaves.add(len(left))
        watched.run()
        assert watched.fetchable("a") | watched.fetchable("b") == ALL
        assert len(watched.fetchable("a")) == 3
    assert leaves == {0, 1}


def test_a_classic_client_looks_for_its_coordinator_after_a_step_beyond_its_session() -> None:
    """Its session timer comes before the poll timer."""
    fault = ClockStep(at_ms=20_000, step_ms=SESSION_TIMEOUT_MS + 5_000, client="a")
    watched = started(fault, kind=CLASSIC)
    watched.advance_to(20_001)
    assert watched.world.clients()["a"].member.coordinator_id is None
    assert watched.run().metrics["fences"] == 0
    assert len(watched.fetchable("a")) == 3


def test_after_a_step_forward_the_next_heartbeat_is_due() -> None:
    watched = started(ClockStep(at_ms=21_500, step_ms=6_000, client="a"))
    watched.advance_to(22_000)
    assert len(heartbeats(watched, "a", 21_500)) == 1
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == ALL


@pytest.mark.parametrize("kind", JAVA_KINDS)
def test_a_java_client_sends_nothing_until_its_clock_is_where_it_was(kind: str) -> None:
    """That may take longer than its session lasts."""
    watched = started(ClockStep(at_ms=20_000, step_ms=-19_000, client="a"), kind=kind)
    watched.advance_to(39_000)
    assert heartbeats(watched, "a", 20_010) == []
    result = watched.run()
    assert result.metrics["fences"] == 0
    assert len(watched.fetchable("a")) == 3


def test_a_step_back_by_more_than_a_session_ends_the_membership() -> None:
    fault = ClockStep(at_ms=90_000, step_ms=-80_000, client="a")
    watched = started(fault, duration_ms=100_000, quiet_period_ms=300_000)
    watched.advance_to(90_000 + SESSION_TIMEOUT_MS + 10_000)
    assert watched.fetchable("b") == ALL
    watched.run()
    assert len(watched.fetchable("a")) == 3


@pytest.mark.parametrize("step_ms", [_HOUR_MS, -15_000])
def test_librdkafka_notices_nothing(step_ms: int) -> None:
    plain = started(kind=LIBRDKAFKA)
    stepped = started(ClockStep(at_ms=20_000, step_ms=step_ms, client="a"), kind=LIBRDKAFKA)
    plain.run(), stepped.run()
    assert heartbeats(stepped, "a", 0) == heartbeats(plain, "a", 0)


def test_the_next_process_starts_by_the_clock_as_it_was_set() -> None:
    faults = (
        ClockStep(at_ms=20_000, step_ms=7_000, client="a"),
        ClientClose(at_ms=25_000, client="a", down_ms=100),
    )
    watched = started(*faults)
    watched.run()
    process = watched.world.clients()["a"]
    assert process.incarnation == 2 and process.clock_was_set
    assert process.member.now_ms > watched.world.now_ms
    assert len(watched.fetchable("a")) == 3


def test_no_clock_is_set_to_a_time_before_the_world_began() -> None:
    faults = (
        ClockStep(at_ms=20_000, step_ms=-_HOUR_MS),
        ClockStep(at_ms=20_000, step_ms=-_HOUR_MS, client="a"),
    )
    watched = started(*faults)
    watched.advance_to(20_001)
    assert watched.world.brokers[0].clock_ahead_ms == -20_000
    assert watched.world.client_processes.conditions["a"].clock_ahead_ms == -20_000


def test_a_process_that_stands_still_finds_its_clock_set_when_it_goes_on() -> None:
    faults = (
        ClientPause(at_ms=20_000, duration_ms=5_000, client="a"),
        ClockStep(at_ms=21_000, step_ms=10_000, client="a"),
    )
    watched = started(*faults)
    watched.advance_to(24_999)
    assert heartbeats(watched, "a", 20_100) == []
    watched.run()
    assert len(watched.fetchable("a")) == 3


def test_a_step_is_by_something_and_of_one_host() -> None:
    with pytest.raises(ValueError, match="step_ms must not be 0"):
        ClockStep(at_ms=1, step_ms=0)
    with pytest.raises(ValueError, match="exclude each other"):
        ClockStep(at_ms=1, step_ms=1, client="a", broker=0)
    step = ClockStep(at_ms=1, step_ms=-4_000, offsets_partition=1)
    assert step.changed(offsets_partition=None) in step.simpler(())
    assert step.changed(step_ms=-2_000) in step.simpler(())
    assert ClockStep(at_ms=1, step_ms=4_000, client="a").without(clients=("a",)) is None
    assert step.without(clients=("a",)) == step


def test_what_measures_clients_by_the_clock_of_the_world_is_not_judged_then() -> None:
    names = {known.id for known in PROPERTIES if not known.outlives_clock_steps}
    assert names == {"client.hb.pace", "client.revocation.committed"}
