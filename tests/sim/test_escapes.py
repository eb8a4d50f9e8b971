"""An exception escapes from a coordinator: what clients get, what stays, and what a run says.

Sources: coordinator §9.4; classic §1.7.
"""

from __future__ import annotations

from typing import Any

import pytest
from classic_clients_by_hand import REBALANCE_MS, SESSION_MS, Driver, assigned
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.classic.join import join
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.classic_messages import JoinGroupProtocol, JoinGroupRequest
from rebalance_sim.protocol.wire.embedded import Subscription
from rebalance_sim.protocol.wire.errors import IllegalTransition, ReplayError
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario


def join_naming(driver: Driver, *assignors: str) -> None:
    """A JoinGroup with these assignors, in this order."""
    metadata = Subscription(topics=("orders",))
    driver.send(
        JoinGroupRequest(
            group_id=driver.group_id,
            member_id=driver.member_id,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocols=tuple(JoinGroupProtocol(name, metadata) for name in assignors),
        )
    )


def test_a_join_that_names_one_assignor_twice_is_answered_as_a_broker_does() -> None:
    """GIVEN a client that has its member id WHEN it names range twice
    THEN it is answered UNKNOWN_SERVER_ERROR, and the group is as before
    BECAUSE a broker counts it twice, finds no assignor that is named as often as there are members,
    and throws (classic §1.7)."""
    watched = Watched(spec(config=CoordinatorConfig(group_initial_rebalance_delay_ms=0)))
    watched.advance_to(1_000)
    driver = Driver(watched.world, "a")
    watched.advance_to(1_010)
    join_naming(driver, "range")
    watched.advance_to(1_030)
    leader = watched.world.acting_shard()
    assert leader is not None
    end = leader.log_end_offset
    join_naming(driver, "range", "range")
    watched.advance_to(1_050)
    assert driver.codes == ["MEMBER_ID_REQUIRED", "UNKNOWN_SERVER_ERROR"]
    assert leader.log_end_offset == end
    group = leader.coordinator.groups_of(ClassicGroup)["group"]
    assert (group.state, group.members) == (ClassicGroupState.EMPTY, {})

    join_naming(driver, "range")
    watched.advance_to(1_100)
    driver.sync({driver.member_id: assigned(0)})
    watched.advance_to(1_150)
    assert driver.codes[2:] == ["NONE", "NONE"]
    assert driver.last.assignment == assigned(0)


def test_a_request_whose_handler_raises_leaves_everything_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """GIVEN a handler of ours that raises WHEN a request comes
    THEN its sender is answered UNKNOWN_SERVER_ERROR, the property is violated, others are served
    BECAUSE a broker's event processor catches what a handler throws (coordinator §9.4)."""

    def raising(op: Any, group: Any, call: Any, new_member_id: Any) -> Any:
        if call.client_id == "a":
            raise IllegalTransition("from STABLE to DEAD")
        return join(op, group, call, new_member_id)

    monkeypatch.setattr("rebalance_sim.protocol.classic.classic_type.join", raising)
    watched = Watched(spec(config=CoordinatorConfig(group_initial_rebalance_delay_ms=0)))
    world = watched.world
    watched.advance_to(1_000)
    driver, other = Driver(world, "a"), Driver(world, "b")
    watched.advance_to(1_010)
    join_naming(driver, "range")
    world.advance_to(1_030)
    assert driver.codes == ["UNKNOWN_SERVER_ERROR"]
    leader = world.acting_shard()
    assert leader is not None
    assert leader.is_active
    assert leader.log_end_offset == 0
    [escaped] = watched.steps(StepKind.COORDINATOR_ESCAPED)
    assert escaped["request"]["type"] == "JoinGroupRequest"
    assert escaped["detail"] == "IllegalTransition: from STABLE to DEAD"
    [violation] = watched.checkers["group"].violations
    assert str(violation).startswith("coordinator.no_uncaught_exception")
    for until_ms in (1_050, 1_070):
        join_naming(other, "range")
        world.advance_to(until_ms)
    assert other.codes == ["MEMBER_ID_REQUIRED", "NONE"]


@pytest.mark.parametrize("metrics_interval_ms", [None, 1_000])
def test_a_run_in_which_a_handler_raises_goes_on_and_ends_as_a_violation(
    monkeypatch: pytest.MonkeyPatch, metrics_interval_ms: int | None
) -> None:
    handle = GroupCoordinator.handle

    def contradicted(self: Any, request: Any, *, now_ms: int, **rest: Any) -> Any:
        if 10_000 <= now_ms < 20_000:
            raise ReplayError("partition 0 is granted twice")
        return handle(self, request, now_ms=now_ms, **rest)

    monkeypatch.setattr(GroupCoordinator, "handle", contradicted)
    world = spec(client("a"), client("b"))
    scenario = Scenario(name="escapes", world=world)
    result = run(scenario, metrics_interval_ms=metrics_interval_ms)
    assert result.outcome == "violation"
    assert [row.property for row in result.violations] == ["coordinator.no_uncaught_exception"]
    assert "ReplayError: partition 0 is granted twice" in result.reason
    assert result.simulated_ms == world.duration_ms + world.quiet_period_ms


def test_a_timer_whose_handler_raises_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(self: Any, key: Any, **rest: Any) -> Any:
        raise KeyError("a")

    monkeypatch.setattr(GroupCoordinator, "fire", raising)
    watched = Watched(spec(client("a"), duration_ms=700_000))
    watched.world.advance_to(650_000)
    [step] = watched.steps(StepKind.COORDINATOR_ESCAPED)
    assert step["event"]["kind"] == "expiry"
    assert step["detail"] == "KeyError: 'a'"
    assert watched.fetchable("a") == set(range(6)), "all others are served"
