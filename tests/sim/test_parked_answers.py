"""A broker with classic groups: parked requests, what depends on commits, and how all that fails.

Source: classic §2, §8. The clients are played by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
from classic_clients_by_hand import REBALANCE_MS, SESSION_MS, Driver, assigned
from worlds import Watched, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.sim.faults.brokers import AppendFailure, BrokerCrash, BrokerIsolation
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.network.network import ConnectionState

MS_THERE = 2
"""A message takes two milliseconds one way, and replication as long."""


class Story:
    """A world in which the clients are hands. Time is counted from the first one's arrival."""

    def __init__(self, *faults: Fault, linger_ms: int = 0, delay_ms: int = 0) -> None:
        config = CoordinatorConfig(
            group_initial_rebalance_delay_ms=delay_ms,
            group_coordinator_append_linger_ms=linger_ms,
        )
        self.watched = Watched(spec(faults=faults, config=config))
        self.world = self.watched.world
        self.watched.advance_to(1_000)

    def hands(self, *names: str) -> list[Driver]:
        """Clients with open connections."""
        found = [Driver(self.world, name) for name in names]
        self.wait(10)
        return found

    def wait(self, ms: int) -> None:
        """Let everything happen that happens within a time."""
        self.watched.advance_to(self.world.now_ms + ms)

    def wait_until(self, at_ms: int) -> None:
        """Let everything happen until a time."""
        self.watched.advance_to(at_ms)

    @property
    def group(self) -> Any:
        """The classic group, as the acting shard has it."""
        shard = self.world.acting_shard()
        assert shard is not None
        return shard.coordinator.groups_of(ClassicGroup).get("group")

    def steps(self, kind: StepKind, **wanted: Any) -> list[dict[str, Any]]:
        """As of ``Watched``."""
        return self.watched.steps(kind, **wanted)

    def joined(self, *names: str) -> list[Driver]:
        """Members of one generation, which the first of them leads; no one has synced."""
        hands = self.hands(*names)
        for driver in hands:
            driver.join()
            self.wait(20)
            driver.join()
            self.wait(20)
        for driver in hands[:-1]:
            driver.join()
        self.wait(20)
        assert {driver.generation_id for driver in hands} == {self.group.generation_id}
        assert self.group.leader_id == hands[0].member_id
        return hands

    def stable(self, *names: str) -> list[Driver]:
        """The same, each with the partition of its number."""
        hands = self.joined(*names)
        for driver in hands[1:]:
            driver.sync()
        hands[0].sync({driver.member_id: assigned(i) for i, driver in enumerate(hands)})
        self.wait(30)
        assert self.group.state is ClassicGroupState.STABLE
        for driver in hands:
            driver.answers.clear()
        return hands


# -- what is parked, and when it is answered -----------------------------------------------


def test_joins_are_parked_until_the_initial_delay_is_over_and_then_answered_at_once() -> None:
    story = Story(delay_ms=3_000)
    first, second = story.hands("a", "b")
    for driver in (first, second):
        driver.join()
        story.wait(10)
        driver.join()
        story.wait(10)
        assert driver.codes == ["MEMBER_ID_REQUIRED"]
    story.wait(5_990)
    assert [driver.generation_id for driver in (first, second)] == [1, 1]
    assert first.answers[1][0] == second.answers[1][0], "both in the millisecond of the tick"
    [released] = story.steps(StepKind.RESPONSE_RELEASED, operation=4)
    assert released["request"]["member_id"] == second.member_id
    [tick] = [s for s in story.steps(StepKind.COORDINATOR_TIMER) if s["at_ms"] >= 6_000]
    assert tick["at_ms"] == released["at_ms"]


def test_the_leaders_assignment_goes_to_all_when_it_is_committed_and_not_before() -> None:
    story = Story()
    leader, follower = story.joined("a", "b")
    follower.sync()
    story.wait(100)
    assert follower.last.error_code.name == "NONE"
    assert type(follower.last).__name__ == "JoinGroupResponse", "its SyncGroup is parked"
    sent_ms = story.world.now_ms
    leader.sync({leader.member_id: assigned(0), follower.member_id: assigned(1)})
    story.wait(30)
    assert leader.last.assignment == assigned(0)
    assert follower.last.assignment == assigned(1)
    answered = {driver.answers[-1][0] for driver in (leader, follower)}
    assert answered == {sent_ms + MS_THERE + MS_THERE + MS_THERE}, "there, replicated, and back"
    [written] = story.steps(StepKind.COORDINATOR_WRITTEN)[-1:]
    assert written["event"]["type"] == "LeaderAssignment"
    assert written["at_ms"] == sent_ms + MS_THERE + MS_THERE
    assert written["high_watermark"] == written["log_end_offset"]


def test_a_parked_request_holds_up_what_comes_behind_it_on_its_connection() -> None:
    """Kafka mutes a connection while a request on it is unanswered."""
    story = Story()
    leader, follower = story.stable("a", "b")
    follower.join("orders", "payments")
    follower.heartbeat()
    story.wait(1_000)
    assert follower.answers == []
    assert len(follower.connection.inbox) == 1
    leader.join()
    story.wait(20)
    kinds = [type(response).__name__ for _, response in follower.answers]
    assert kinds == ["JoinGroupResponse", "HeartbeatResponse"]
    assert follower.codes == ["NONE", "ILLEGAL_GENERATION"], "it was sent in the old generation"


def test_a_client_that_connects_anew_gets_the_answer_there_and_not_on_the_old_connection() -> None:
    story = Story()
    leader, follower = story.stable("a", "b")
    follower.join("orders", "payments")
    story.wait(20)
    follower.connection.reset()
    follower.connect(0)
    story.wait(20)
    follower.join("orders", "payments")
    story.wait(20)
    leader.join()
    story.wait(20)
    assert follower.codes == ["NONE"]
    assert follower.generation_id == leader.generation_id == story.group.generation_id
    [one] = [s for s in story.steps(StepKind.RESPONSE_RELEASED) if _is_join_of(s, follower)][-1:]
    assert one["operation"] == max(_operations_of_joins(story, follower))


def _is_join_of(step: dict[str, Any], driver: Driver) -> bool:
    request = step["request"]
    return request["type"] == "JoinGroupRequest" and request["member_id"] == driver.member_id


def _operations_of_joins(story: Story, driver: Driver) -> list[int]:
    steps = story.steps(StepKind.COORDINATOR_REQUEST)
    return [step["operation"] for step in steps if _is_join_of(step, driver)]


def test_whoever_is_gone_loses_its_answer_and_in_the_end_its_place() -> None:
    story = Story()
    leader, follower = story.stable("a", "b")
    follower.join("orders", "payments")
    story.wait(20)
    follower.connection.reset()
    leader.join()
    story.wait(20)
    assert follower.answers == []
    assert follower.member_id in story.group.members, "it joined in time"
    leader.sync({leader.member_id: assigned(0, 1)})
    for _ in range(SESSION_MS // 1_000):
        story.wait(1_000)
        leader.heartbeat()
    story.wait(100)
    assert follower.member_id not in story.group.members


def test_the_answer_of_the_last_one_that_joins_lets_all_others_go() -> None:
    story = Story()
    hands = story.stable("a", "b", "c")
    for driver in hands:
        driver.join("orders", "payments")
        story.wait(500)
    times = {driver.answers[-1][0] for driver in hands}
    assert len(times) == 1
    assert {driver.generation_id for driver in hands} == {story.group.generation_id}


# -- failover ------------------------------------------------------------------------------


def test_a_coordinator_that_resigns_answers_whoever_is_parked() -> None:
    move = CoordinatorMove(at_ms=10_000, to_broker=1)
    story = Story(move)
    _, follower = story.stable("a", "b")
    story.wait_until(9_990)
    follower.join("orders", "payments")
    story.wait(500)
    assert follower.codes == ["NOT_COORDINATOR"]
    assert story.world.acting_shard() is not None
    assert story.group.state is ClassicGroupState.STABLE, "the rebalance is forgotten"


def test_a_coordinator_that_resigns_with_an_open_batch_refuses_what_is_in_it() -> None:
    """First its memory goes back to where the log ends, then it gives the groups up."""
    story = Story(CoordinatorMove(at_ms=10_000, to_broker=1), linger_ms=20)
    leader, follower = story.stable("a", "b")
    generation_id = leader.generation_id
    story.wait_until(9_900)
    leader.join()
    follower.join("orders", "payments")
    story.wait_until(9_994)
    follower.sync()
    leader.sync({leader.member_id: assigned(0), follower.member_id: assigned(1)})
    story.wait(1_000)
    assert leader.codes[-1] == follower.codes[-1] == "NOT_COORDINATOR"
    assert story.group.generation_id == generation_id, "the new one was never written"
    assert leader.generation_id == generation_id + 1


def test_a_coordinator_that_resigns_while_it_loads_has_no_one_to_answer() -> None:
    """It had resigned before: who was parked then has been answered then."""
    moves = [
        CoordinatorMove(at_ms=at_ms, to_broker=broker)
        for at_ms, broker in ((10_000, 1), (10_100, 0), (10_110, 2))
    ]
    story = Story(*moves)
    story.stable("a", "b")
    story.wait_until(10_200)
    shard = story.world.acting_shard()
    assert shard is not None
    assert shard.node_id == 2
    unloaded = [step["shard"] for step in story.steps(StepKind.COORDINATOR_UNLOADED)]
    assert unloaded == ["broker-0", "broker-1"]
    assert story.group.state is ClassicGroupState.STABLE


def test_while_it_loads_a_coordinator_calms_who_sends_heartbeats_and_puts_off_all_others() -> None:
    story = Story(CoordinatorMove(at_ms=10_000, to_broker=1))
    leader, follower = story.stable("a", "b")
    story.wait_until(9_980)
    for driver in (leader, follower):
        driver.connect(1)
    story.wait_until(10_010)
    shard = story.world.brokers[1].replicas[0].shard
    assert shard.state.value == "loading"
    leader.heartbeat()
    follower.join()
    story.wait(6)
    assert leader.codes == ["NONE"]
    assert follower.codes == ["COORDINATOR_LOAD_IN_PROGRESS"]
    assert shard.state.value == "loading"


def test_a_coordinator_that_dies_answers_no_one_and_forgets_the_rebalance() -> None:
    story = Story(BrokerCrash(at_ms=10_000, duration_ms=5_000))
    leader, follower = story.stable("a", "b")
    generation_id = leader.generation_id
    story.wait_until(9_990)
    follower.join("orders", "payments")
    story.wait(12_000)
    assert follower.answers == []
    assert follower.connection.state is ConnectionState.CLOSED
    assert story.group.state is ClassicGroupState.STABLE
    assert story.group.generation_id == generation_id


# -- writes that fail, or take too long ----------------------------------------------------


@pytest.mark.parametrize("linger_ms", [0, 20])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (WriteError.STORAGE, "NOT_COORDINATOR"),
        (WriteError.NOT_ENOUGH_REPLICAS, "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_an_assignment_that_cannot_be_written_is_refused_to_all_and_the_group_starts_over(
    linger_ms: int, error: WriteError, code: str
) -> None:
    failure = AppendFailure(at_ms=10_000, duration_ms=1_000, error=error)
    story = Story(failure, linger_ms=linger_ms)
    leader, follower = story.stable("a", "b")
    leader.join()
    follower.join("orders", "payments")
    story.wait(20)
    story.wait_until(10_100)
    follower.sync()
    story.wait(10)
    leader.sync({leader.member_id: assigned(0), follower.member_id: assigned(1)})
    story.wait(100)
    assert leader.codes[-1] == follower.codes[-1] == code
    assert story.group.state is ClassicGroupState.PREPARING_REBALANCE
    [written] = story.steps(StepKind.COORDINATOR_WRITTEN)[-1:]
    assert written["detail"] == error.value
    story.wait_until(11_100)
    for driver in (leader, follower):
        driver.join()
    story.wait(100)
    leader.sync({leader.member_id: assigned(0), follower.member_id: assigned(1)})
    follower.sync()
    story.wait(100)
    assert follower.last.assignment == assigned(1)


def test_an_assignment_that_is_not_committed_in_time_is_taken_for_lost() -> None:
    story = Story(BrokerIsolation(at_ms=5_000, duration_ms=8_000))
    leader, follower = story.stable("a", "b")
    story.wait_until(4_900)
    leader.join()
    follower.join("orders", "payments")
    story.wait_until(5_100)
    generation_id = leader.generation_id
    sent_ms = story.world.now_ms
    leader.sync({leader.member_id: assigned(0), follower.member_id: assigned(1)})
    story.wait(5_100)
    assert leader.codes[-1] == "COORDINATOR_NOT_AVAILABLE"
    assert leader.answers[-1][0] == sent_ms + MS_THERE + 5_000 + MS_THERE
    assert story.group.state is ClassicGroupState.PREPARING_REBALANCE
    story.wait_until(14_000)
    assert story.group.state is ClassicGroupState.PREPARING_REBALANCE, "too late is too late"
    assert story.group.generation_id == generation_id


def test_a_join_that_waits_behind_somebody_elses_write_is_refused_with_it() -> None:
    """It writes nothing itself, but may not be answered before what it was decided on."""
    story = Story(BrokerIsolation(at_ms=5_000, duration_ms=8_000))
    leader, follower = story.stable("a", "b")
    story.wait_until(4_900)
    leader.join()
    follower.join("orders", "payments")
    story.wait_until(5_100)
    leader.sync({leader.member_id: assigned(0), follower.member_id: assigned(1)})
    story.wait(10)
    follower.join("orders")
    story.wait(3_000)
    assert story.group.members[follower.member_id].awaiting_join is not None
    story.wait(2_100)
    assert follower.codes[-1] == "COORDINATOR_NOT_AVAILABLE"
    answers = len(follower.answers)
    leader.join()
    story.wait(100)
    assert leader.codes[-1] == "NONE", "to the coordinator the follower has joined"
    assert len(follower.answers) == answers, "no one is answered twice"


@pytest.mark.parametrize("linger_ms", [0, 20])
def test_a_group_that_cannot_be_written_is_not_there(linger_ms: int) -> None:
    failure = AppendFailure(at_ms=10_000, duration_ms=1_000)
    story = Story(failure, linger_ms=linger_ms, delay_ms=3_000)
    [driver] = story.hands("a")
    story.wait_until(10_100)
    driver.join(instance_id="one")
    story.wait(100)
    assert driver.codes == ["NOT_COORDINATOR"]
    assert story.group is None
    story.wait_until(11_100)
    driver.member_id = ""
    driver.join(instance_id="one")
    story.wait(3_100)
    assert driver.codes[-1] == "NONE"
    assert story.group.generation_id == 1


@pytest.mark.parametrize("linger_ms", [0, 20])
def test_a_conversion_that_cannot_be_written_leaves_the_classic_group_as_it_was(
    linger_ms: int,
) -> None:
    failure = AppendFailure(at_ms=10_000, duration_ms=1_000)
    story = Story(failure, linger_ms=linger_ms)
    leader, follower = story.stable("a", "b")
    [newcomer] = story.hands("c")
    story.wait_until(9_900)
    follower.join("orders", "payments")
    story.wait_until(10_100)
    newcomer.send(
        ConsumerGroupHeartbeatRequest(
            group_id="group",
            member_id="newcomer",
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=("orders",),
            topic_partitions=frozenset(),
        )
    )
    story.wait(100)
    assert newcomer.codes == ["NOT_COORDINATOR"]
    assert follower.codes == ["REBALANCE_IN_PROGRESS"], "it is told before anything is written"
    shard = story.world.acting_shard()
    assert shard is not None
    assert not shard.coordinator.groups_of(ConsumerGroup)
    assert sorted(story.group.members) == sorted([leader.member_id, follower.member_id])
    for driver in (leader, follower):
        driver.join("orders", "payments")
    story.wait(100)
    assert leader.codes[-1] == follower.codes[-1] == "NONE"


def test_the_timer_of_a_classic_group_is_not_tried_again_when_its_write_fails() -> None:
    """classic §2.9. The last member's session ends, and the record of the empty group is lost."""
    story = Story(AppendFailure(at_ms=10_000, duration_ms=20_000))
    [only] = story.stable("a")
    story.wait_until(29_000)
    assert story.group.members == {}
    assert only.member_id not in story.group.members
    fired = [s for s in story.steps(StepKind.COORDINATOR_TIMER) if s["at_ms"] > 5_000]
    assert fired == []
    shard = story.world.acting_shard()
    assert shard is not None
    assert not [key for key in shard.armed_timers if key.kind.startswith("classic-")]


def test_nothing_random_happens_with_hands() -> None:
    def reported() -> tuple[str, list[tuple[int, str]]]:
        story = Story(CoordinatorMove(at_ms=10_000, to_broker=1), linger_ms=20)
        hands = story.stable("a", "b", "c")
        story.wait_until(11_000)
        answers = [(at_ms, type(r).__name__) for driver in hands for at_ms, r in driver.answers]
        return story.world.trace.digest(), answers

    assert reported() == reported()
