"""A librdkafka member's way to its coordinator: searches that fail, and connections.

Source: client §10.1.
"""

from __future__ import annotations

import itertools

from librdkafka_driver import LibrdkafkaStory
from member_driver import sent

from rebalance_sim.protocol.clients.common.effects import ConnectCoordinator
from rebalance_sim.protocol.clients.common.events import CoordinatorSearchFailed, Disconnected
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState
from rebalance_sim.protocol.wire.errors import ErrorCode


def test_a_search_that_fails_is_repeated_every_half_second() -> None:
    story = LibrdkafkaStory()
    story.subscribe()
    story.resume()
    for _ in range(3):
        assert story.member.coordinator_state is CoordinatorState.WAIT_COORD
        number = story.searches.pop()
        story.handle(
            CoordinatorSearchFailed(
                correlation_id=number, error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE
            )
        )
        assert story.member.coordinator_state is CoordinatorState.QUERY_COORD
        story.wait(499)
        assert story.searches == []
        story.wait(1)
        assert len(story.searches) == 1


def test_a_lost_search_asks_another_broker_at_once() -> None:
    story = LibrdkafkaStory()
    story.subscribe()
    story.resume()
    number = story.searches.pop()
    effects = story.handle(Disconnected(correlation_ids=(number,)))
    assert sent(effects) == ["FindCoordinator"]


def test_a_search_the_broker_refuses_for_good_is_told_to_the_application() -> None:
    story = LibrdkafkaStory()
    story.subscribe()
    story.resume()
    number = story.searches.pop()
    refused = ErrorCode.GROUP_AUTHORIZATION_FAILED
    story.handle(CoordinatorSearchFailed(correlation_id=number, error_code=refused))
    assert story.errors() == [refused]


def test_a_coordinator_that_cannot_be_reached_is_tried_again_after_twice_as_long() -> None:
    story = LibrdkafkaStory()
    story.can_connect = False
    story.subscribe()
    story.resume()
    story.answer_searches()
    assert story.member.coordinator_state is CoordinatorState.WAIT_BROKER_TRANSPORT
    times = [story.now_ms]
    while story.now_ms < 3_500:
        if any(isinstance(effect, ConnectCoordinator) for effect in story.wait(10)):
            times.append(story.now_ms)
    gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert gaps == [100, 200, 400, 800, 1_600]
    assert story.heartbeats == []
    story.can_connect = True
    story.wait(3_200)
    assert story.member.coordinator_state is CoordinatorState.UP
    assert story.last.member_epoch == 0
