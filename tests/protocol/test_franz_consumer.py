"""What a franz-go member of the consumer protocol makes of calls that come at a bad time."""

from __future__ import annotations

from typing import Any

from manual_classic_member import Driver, metadata

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import CallReturned, SendHeartbeat
from rebalance_sim.protocol.clients.common.events import (
    CallbackCompleted,
    HeartbeatAnswered,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.franz.consumer.franz_consumer import FranzMember
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse


class ConsumerDriver(Driver):
    """See ``Driver``."""

    def make_member(self, config: Any) -> FranzMember:
        return FranzMember(config=ConsumerConfig(group_id="group"), member_id="A", now_ms=0)

    def answer(self, heartbeat: SendHeartbeat, epoch: int) -> None:
        """It is accepted."""
        response = ConsumerGroupHeartbeatResponse(
            member_id=heartbeat.request.member_id, member_epoch=epoch, heartbeat_interval_ms=5_000
        )
        event = HeartbeatAnswered(correlation_id=heartbeat.correlation_id, response=response)
        self.handle(event)


def test_who_leaves_while_a_heartbeat_is_under_way_joins_again_without_its_answer() -> None:
    driver = ConsumerDriver()
    driver.handle(metadata({"foo": "foo"}))
    driver.wait(0)
    driver.find()
    driver.wait(0)
    driver.answer(driver.last(SendHeartbeat), 1)
    driver.wait(5_000)
    unanswered = driver.last(SendHeartbeat)
    assert unanswered.request.member_epoch == 1
    driver.handle(Unsubscribe())
    driver.handle(CallbackCompleted())
    leave = driver.last(SendHeartbeat)
    assert leave.request.member_epoch == -1
    driver.answer(leave, -1)
    driver.wait(0)
    assert driver.count(CallReturned) == 1
    driver.handle(Subscribe(topic_names=frozenset({"foo"})))
    driver.handle(metadata({"foo": "foo"}))
    driver.wait(0)
    join = driver.last(SendHeartbeat).request
    assert join.member_epoch == 0
    assert join.member_id != unanswered.request.member_id
