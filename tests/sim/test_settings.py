"""Settings that are altered while a group runs (coordinator §10.2)."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.brokers import BrokerCrash
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.settings import BrokerConfigChange, GroupConfigChange
from rebalance_sim.sim.spec import WorldSpec

CONFIG = CoordinatorConfig(
    group_consumer_session_timeout_ms=10_000,
    group_consumer_min_session_timeout_ms=6_000,
    group_consumer_max_session_timeout_ms=20_000,
    group_consumer_heartbeat_interval_ms=2_000,
    group_consumer_min_heartbeat_interval_ms=1_000,
    group_consumer_assignment_interval_ms=0,
)


def world(*faults: Fault, **settings: Any) -> WorldSpec:
    return spec(client("a"), client("b"), faults=faults, config=CONFIG, **settings)


def intervals(watched: Watched, name: str, since_ms: int) -> set[int]:
    """Heartbeat intervals that a client was told from a time on."""
    return {
        step["event"]["response"]["heartbeat_interval_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT, client=name)
        if step["at_ms"] >= since_ms
        and step["event"]["type"] == "HeartbeatAnswered"
        and step["event"]["response"]["error_code"] == "NONE"
    }


def test_members_hear_of_another_interval_with_their_next_heartbeat() -> None:
    change = GroupConfigChange(at_ms=20_000, consumer_heartbeat_interval_ms=5_000)
    watched = Watched(world(change))
    watched.run()
    assert intervals(watched, "a", 0) == {2_000, 5_000}
    # One interval, one broker's delay, one answer.
    assert intervals(watched, "a", 22_100) == {5_000}
    assert intervals(watched, "b", 22_100) == {5_000}


def test_a_running_session_is_left_alone_and_the_next_one_has_the_new_length() -> None:
    change = GroupConfigChange(at_ms=20_000, consumer_session_timeout_ms=20_000)
    watched = Watched(world(change))
    watched.advance_to(20_050)
    shard = watched.world.acting_shard()
    assert shard is not None
    before = {key: timer.at_ms for key, timer in shard.armed_timers.items()}
    assert max(at_ms for key, at_ms in before.items() if key.kind == "session") < 31_000
    watched.advance_to(22_100)
    after = {key: timer.at_ms for key, timer in shard.armed_timers.items()}
    assert min(at_ms for key, at_ms in after.items() if key.kind == "session") > 39_000


def test_a_deleted_setting_brings_the_value_of_the_broker_back() -> None:
    watched = Watched(
        world(
            GroupConfigChange(at_ms=10_000, consumer_heartbeat_interval_ms=5_000),
            GroupConfigChange(at_ms=30_000, deletes=("consumer.heartbeat.interval.ms",)),
        )
    )
    watched.run()
    assert intervals(watched, "a", 12_100) == {2_000, 5_000}
    assert intervals(watched, "a", 35_100) == {2_000}


def test_targets_wait_for_the_interval_that_was_altered_last() -> None:
    planned = (
        BrokerConfigChange(at_ms=10_000, group_consumer_assignment_interval_ms=10_000),
        BrokerConfigChange(at_ms=40_000, group_consumer_assignment_interval_ms=None),
    )
    joins = [client(name, start_ms=at_ms) for name, at_ms in (("c", 20_000), ("d", 22_000))]
    watched = Watched(spec(client("a"), client("b"), *joins, faults=planned, config=CONFIG))
    watched.advance_to(59_999)
    targets = [
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if any(
            r["type"] == "ConsumerGroupTargetAssignmentMetadata" for r in step.get("records", ())
        )
    ]
    assert len(targets) == 4
    assert 20_000 <= targets[2] < 22_000, "the interval has long passed since the second join"
    assert targets[3] - targets[2] >= 10_000, "and the next one waits for it"


def test_another_coordinator_goes_by_the_altered_settings_too() -> None:
    planned = (
        GroupConfigChange(at_ms=10_000, consumer_heartbeat_interval_ms=5_000),
        CoordinatorMove(at_ms=20_000),
        BrokerCrash(at_ms=30_000, duration_ms=20_000),
    )
    watched = Watched(world(*planned))
    watched.run()
    assert intervals(watched, "a", 12_100) == {5_000}
    assert len(watched.steps(StepKind.COORDINATOR_LOADED)) == 3


def test_brokers_hear_of_a_change_one_by_one() -> None:
    change = GroupConfigChange(at_ms=20_000, consumer_heartbeat_interval_ms=5_000)
    watched = Watched(world(change))
    watched.advance_to(20_002)
    group = watched.world.group_id
    assert {b.configs.heartbeat_interval_ms(group) for b in watched.world.brokers} == {2_000}
    watched.advance_to(20_006)
    assert {b.configs.heartbeat_interval_ms(group) for b in watched.world.brokers} == {5_000}
    reported = watched.steps(StepKind.CONFIG_CHANGED)
    assert [step["shard"] for step in reported] == ["broker-0"], "only one shard is active"


# -- what is refused when a scenario is read -----------------------------------------------


@pytest.mark.parametrize(
    ("planned", "complaint"),
    [
        (
            [GroupConfigChange(at_ms=5, consumer_session_timeout_ms=5_999)],
            "faults[0]: consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms (INVALID_CONFIG)",
        ),
        (
            [
                GroupConfigChange(at_ms=9, consumer_session_timeout_ms=6_000),
                GroupConfigChange(at_ms=5, consumer_heartbeat_interval_ms=7_000),
            ],
            "faults[0]: consumer.session.timeout.ms must be greater than "
            "consumer.heartbeat.interval.ms (INVALID_CONFIG)",
        ),
        (
            [GroupConfigChange(at_ms=5, deletes=("consumer.nothing",))],
            "faults[0]: Unknown group config name: consumer.nothing (INVALID_CONFIG)",
        ),
        (
            [BrokerConfigChange(at_ms=5, group_consumer_assignment_interval_ms=15_001)],
            "faults[0]: group.consumer.assignment.interval.ms must be less than or equal to "
            "group.consumer.max.assignment.interval.ms (INVALID_REQUEST)",
        ),
    ],
)
def test_a_change_that_a_broker_would_refuse_is_refused_when_it_is_planned(
    planned: list[Fault], complaint: str
) -> None:
    with pytest.raises(ValueError) as refusal:
        world(*planned)
    assert str(refusal.value) == complaint


def test_a_version_without_assignment_interval_refuses_to_alter_it() -> None:
    alters = BrokerConfigChange(at_ms=5, group_consumer_assignment_interval_ms=500)
    with pytest.raises(ValueError, match="Cannot update these configs dynamically"):
        world(alters, semantics="kafka-4.1")
    own = GroupConfigChange(at_ms=5, consumer_assignment_interval_ms=500)
    with pytest.raises(ValueError, match="Unknown group config name"):
        world(own, semantics="kafka-4.1")


def test_a_change_of_nothing_and_one_that_contradicts_itself_are_refused() -> None:
    with pytest.raises(ValueError, match="must set or delete at least one"):
        GroupConfigChange(at_ms=5)
    with pytest.raises(ValueError, match="is set as well"):
        GroupConfigChange(
            at_ms=5,
            consumer_session_timeout_ms=7_000,
            deletes=("consumer.session.timeout.ms",),
        )
