"""Somebody looks at the groups now and then: sees what is committed, and disturbs no one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from random_worlds import random_spec
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.hosting.routing import GroupRequests
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.faults.brokers import BrokerCrash, ReplicationSlowdown
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec
from rebalance_sim.sim.world import World

READS = (ConsumerGroupDescribeRequest, ListGroupsRequest)


def described(
    world: World, broker: Broker, request: ConsumerGroupDescribeRequest
) -> tuple[ConsumerGroupDescribeResponse, ...]:
    """What a broker shows of groups."""
    return GroupRequests(broker.shards, world.partition_of).describe(request, world.now_ms)


def listed_by(world: World, broker: Broker) -> ListGroupsResponse:
    """The groups that a broker lists."""
    requests = GroupRequests(broker.shards, world.partition_of)
    return requests.list(ListGroupsRequest(), world.now_ms)


class Answers:
    """A checker that keeps what describe and list have shown, and the digest of all the rest."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.described: list[tuple[int, ConsumerGroupDescribeResponse]] = []
        self.listed: list[tuple[int, ListGroupsRequest, ListGroupsResponse]] = []
        self.others: Counter[StepKind] = Counter()

    def after_step(self, step: Step) -> None:
        if isinstance(step.request, READS):
            if step.kind is not StepKind.COORDINATOR_REQUEST:
                return
            if isinstance(step.request, ListGroupsRequest):
                self.listed.append((step.at_ms, step.request, step.response))
            else:
                self.described += [(step.at_ms, row) for row in step.response]
        else:
            self.others[step.kind] += 1

    def at_end(self) -> None:
        pass


def watched(*clients: Any, until_ms: int = 60_000, **settings: Any) -> Answers:
    world = World(spec(*clients, admin_interval_ms=1_000, **settings), make_checker=Answers)  # type: ignore[arg-type]
    assert world.advance_to(until_ms)
    return world.steps.checker  # type: ignore[return-value]


def test_it_sees_the_group_come_together() -> None:
    seen = watched(client("a"), client("b", start_ms=10_000))
    errors = {row.error_code for at_ms, row in seen.described if at_ms > 1_000}
    assert errors == {ErrorCode.NONE}
    last = seen.described[-1][1]
    assert (last.state, last.group_epoch, last.assignment_epoch) == ("Stable", 3, 3)
    assert [len(member.assignment) for member in last.members] == [3, 3]
    # Half to one and a half times the interval apart.
    assert 40 <= len(seen.described) <= 120


def test_it_lists_with_and_without_filters() -> None:
    seen = watched(client("a"))
    rows = {
        (request.states_filter, request.types_filter): [row.group_state for row in response.groups]
        for at_ms, request, response in seen.listed
        if at_ms > 10_000
    }
    assert rows[(), ()] == ["Stable"]
    assert rows[("stable",), ()] == ["Stable"]
    assert rows[(), ("classic",)] == []
    assert len(rows) > 4


def test_what_is_not_committed_is_not_shown() -> None:
    slow = ReplicationSlowdown(at_ms=1, duration_ms=30_000, factor=2_000)  # 4 s
    seen = watched(client("a", start_ms=5_000), faults=(slow,), until_ms=20_000)
    early = [row for at_ms, row in seen.described if 5_010 < at_ms < 9_000]
    assert len(early) >= 2
    assert {row.error_code for row in early} == {ErrorCode.GROUP_ID_NOT_FOUND}
    late = [row for at_ms, row in seen.described if at_ms > 9_100]
    assert late[0].members and late[0].error_code is ErrorCode.NONE


def test_a_broker_that_does_not_coordinate_says_so_and_lists_nothing() -> None:
    world = World(spec(client("a"), admin_interval_ms=1_000))
    world.advance_to(10_000)
    request = ConsumerGroupDescribeRequest(group_ids=("group", "other"))
    leader, follower = world.brokers[0], world.brokers[1]
    assert [row.error_code for row in described(world, leader, request)] == [
        ErrorCode.NONE,
        ErrorCode.GROUP_ID_NOT_FOUND,
    ]
    assert {row.error_code for row in described(world, follower, request)} == {
        ErrorCode.NOT_COORDINATOR
    }
    assert listed_by(world, follower) == ListGroupsResponse()
    [row] = listed_by(world, leader).groups
    assert (row.group_id, row.group_state, row.group_type) == ("group", "Stable", "consumer")


def test_a_list_fails_as_a_whole_while_a_partition_is_loaded() -> None:
    slow = BrokerSpec(offsets_partition_count=3, load=DelaySpec(min_ms=5_000))
    move = CoordinatorMove(at_ms=10_000, to_broker=1, offsets_partition=0)
    world = World(spec(client("a"), brokers=slow, faults=(move,), admin_interval_ms=1_000))
    world.advance_to(12_000)
    listed = listed_by(world, world.brokers[1])
    assert listed.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    moved = next(name for name in map(str, range(100)) if world.partition_of(name) == 0)
    request = ConsumerGroupDescribeRequest(group_ids=(moved,))
    [row] = described(world, world.brokers[1], request)
    assert row.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_it_goes_on_after_brokers_died() -> None:
    crashes = tuple(
        BrokerCrash(at_ms=at_ms, duration_ms=12_000, broker=node_id)
        for at_ms, node_id in ((10_000, 0), (30_000, 1))
    )
    seen = watched(client("a"), faults=crashes, until_ms=80_000)
    assert any(at_ms > 70_000 and row.state == "Stable" for at_ms, row in seen.described)


@pytest.mark.parametrize("seed", range(6))
def test_no_one_notices_that_somebody_looks(seed: int) -> None:
    alone = random_spec(seed)
    plain = World(alone, make_checker=Answers)  # type: ignore[arg-type]
    looked_at = World(replace(alone, admin_interval_ms=700), make_checker=Answers)  # type: ignore[arg-type]
    before, after = plain.run(), looked_at.run()
    assert after.metrics == before.metrics
    assert looked_at.steps.checker.others == plain.steps.checker.others  # type: ignore[attr-defined]
    assert len(looked_at.steps.checker.described) > 100  # type: ignore[attr-defined]


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("seed", range(30))
def test_random_worlds_show_what_is_committed(seed: int) -> None:
    watched = Watched(replace(random_spec(seed), admin_interval_ms=300))
    watched.run()
    [checker] = watched.checkers.values()
    coverage = checker.coverage()
    assert coverage["situation.read"] > 300


@pytest.mark.parametrize(
    ("names", "interval_ms", "said"),
    [
        (("a", "admin"), 1_000, "'admin' is the administrators'"),
        (("a",), 0, "admin_interval_ms must be >= 1"),
    ],
)
def test_a_world_in_which_it_cannot_be_is_refused(
    names: tuple[str, ...], interval_ms: int, said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        spec(*(client(name) for name in names), admin_interval_ms=interval_ms)
