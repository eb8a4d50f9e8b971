"""A librdkafka member's heartbeats: what they say, when they come, and what follows on refusals.

Source: client §10.1.
"""

from __future__ import annotations

import pytest
from librdkafka_driver import LibrdkafkaStory
from member_driver import INTERVAL_MS, partitions, sent

from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.effects import CloseConnection, SendHeartbeat
from rebalance_sim.protocol.clients.common.events import Subscribe
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer import LibrdkafkaMember
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState
from rebalance_sim.protocol.wire.consumer_messages import UNCHANGED_TIMEOUT_MS
from rebalance_sim.protocol.wire.errors import ErrorCode

NOTHING = partitions()


def heartbeats(effects: list[object]) -> list[SendHeartbeat]:
    return [effect for effect in effects if isinstance(effect, SendHeartbeat)]


# --- what a heartbeat says -----------------------------------------------------------------------


def test_a_join_tells_everything_and_a_steady_heartbeat_nothing() -> None:
    story = LibrdkafkaStory(
        group_instance_id="seat", client_rack="rack", group_remote_assignor="range"
    )
    story.join()
    join = story.last
    assert (join.member_epoch, join.instance_id, join.rack_id) == (0, "seat", "rack")
    assert (join.subscribed_topic_names, join.subscribed_topic_regex) == (("orders",), "")
    assert (join.server_assignor, join.topic_partitions) == ("range", NOTHING)
    assert join.rebalance_timeout_ms == story.member.config.max_poll_interval_ms
    story.answer(partitions(0))
    story.finish_callback()
    story.look_up()
    acknowledgement = story.last
    assert acknowledgement.topic_partitions == partitions(0)
    assert acknowledgement.subscribed_topic_names is None
    story.answer()
    story.wait(INTERVAL_MS)
    steady = story.last
    assert steady is not acknowledgement
    assert (steady.instance_id, steady.rack_id, steady.server_assignor) == (None, None, None)
    assert (steady.subscribed_topic_names, steady.subscribed_topic_regex) == (None, None)
    assert (steady.topic_partitions, steady.rebalance_timeout_ms) == (None, UNCHANGED_TIMEOUT_MS)


def test_the_rack_is_in_every_full_request_not_only_in_the_join() -> None:
    story = LibrdkafkaStory(client_rack="rack")
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.lose_connection(story.heartbeats[-1])
    story.answer_searches()
    story.wait(INTERVAL_MS)
    assert story.last.is_full
    assert (story.last.member_epoch, story.last.rack_id) == (1, "rack")
    assert story.last.topic_partitions == partitions(0)


def test_a_pattern_goes_out_in_parentheses_and_without_names() -> None:
    story = LibrdkafkaStory()
    story.handle(Subscribe(topic_names=frozenset(), topic_regex="^ord.*", has_listener=True))
    story.resume()
    story.answer_searches()
    assert (story.last.subscribed_topic_names, story.last.subscribed_topic_regex) == (
        (),
        "(^ord.*)",
    )


def test_until_something_is_assigned_every_heartbeat_is_full_and_no_callback_runs() -> None:
    story = LibrdkafkaStory()
    story.join()
    story.answer(NOTHING)
    for _ in range(3):
        count = len(story.heartbeats)
        story.wait(INTERVAL_MS - 10)
        assert len(story.heartbeats) == count, "no acknowledgement, and nothing before the interval"
        story.wait(10)
        assert len(story.heartbeats) == count + 1
        assert story.last.is_full
        assert (story.last.member_epoch, story.last.topic_partitions) == (1, NOTHING)
        story.answer(NOTHING)
    assert story.callbacks() == []
    assert story.member.assigned == {}


def test_a_new_subscription_is_told_at_once_and_without_the_owned_list() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.subscribe("orders", "payments")
    assert story.last.subscribed_topic_names == ("orders", "payments")
    assert story.last.subscribed_topic_regex == ""
    assert story.last.topic_partitions is None
    story.answer()
    story.wait(INTERVAL_MS)
    assert story.last.subscribed_topic_names is None


def test_a_subscription_in_the_middle_of_a_rebalance_is_told_after_it() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1), epoch=2)
    story.subscribe("orders", "payments")
    assert story.last.subscribed_topic_names is None, "a heartbeat, but not yet with the names"
    story.answer(epoch=2)
    story.finish_callback()
    story.look_up()
    assert story.last.topic_partitions == partitions(0, 1)
    assert story.last.subscribed_topic_names == ("orders", "payments")


# --- when an answer does not come ----------------------------------------------------------------


def test_an_unanswered_heartbeat_is_given_up_after_an_interval_and_the_next_is_not_full() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    unanswered = story.heartbeats[-1]
    effects = story.wait(INTERVAL_MS)
    assert any(isinstance(effect, CloseConnection) for effect in effects)
    (second,) = heartbeats(effects)
    assert second.request == unanswered.request
    assert not second.request.is_full


def test_an_acknowledgement_that_was_given_up_is_repeated() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1), epoch=2)
    story.finish_callback()
    story.look_up()
    assert story.last.topic_partitions == partitions(0, 1)
    effects = story.wait(INTERVAL_MS)
    (second,) = heartbeats(effects)
    assert second.request.topic_partitions == partitions(0, 1)
    assert second.request.subscribed_topic_names is None


@pytest.mark.parametrize("is_answered", [True, False])
@pytest.mark.parametrize(
    ("commits_at_ms", "noticed_at_ms"),
    [
        ((), INTERVAL_MS),
        # The line is looked at when nothing was sent for a second, two, three, ...
        ((600,), INTERVAL_MS + 600),
        # ... which a request begins again ...
        ((600, INTERVAL_MS + 50), INTERVAL_MS + 1_050),
        # ... and when it is used more than a second after the last look.
        (tuple(range(700, INTERVAL_MS + 2_000, 400)), INTERVAL_MS + 900),
        (tuple(range(700, INTERVAL_MS + 2_000, 700)), INTERVAL_MS + 600),
    ],
)
def test_when_a_late_answer_is_noticed_depends_on_the_other_traffic(
    commits_at_ms: tuple[int, ...], noticed_at_ms: int, is_answered: bool
) -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    begin_ms = story.now_ms
    for at_ms in commits_at_ms:
        story.wait(begin_ms + at_ms - story.now_ms)
        story.commit(dict.fromkeys(partitions(0), 20))
        story.wait(0)
        if any(isinstance(effect, CloseConnection) for effect in story.effects):
            break
        if is_answered:
            story.answer_commit()
    else:
        while not any(isinstance(effect, CloseConnection) for effect in story.effects):
            story.wait(10)
    assert story.now_ms - begin_ms == noticed_at_ms


def test_after_a_lost_heartbeat_comes_a_search_and_a_full_heartbeat_on_the_interval() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    sent_ms = story.member.last_heartbeat_ms
    effects = story.lose_connection(story.heartbeats[-1])
    assert "FindCoordinator" in sent(effects)
    effects = story.answer_searches()
    assert "SendHeartbeat" not in sent(effects)
    story.wait(sent_ms + INTERVAL_MS - 1 - story.now_ms)
    assert not story.last.is_full
    story.wait(1)
    assert story.last.is_full


def test_a_lost_acknowledgement_is_told_in_full_as_soon_as_the_coordinator_is_known_again() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1), epoch=2)
    story.finish_callback()
    story.look_up()
    story.wait(1_000)
    story.lose_connection(story.heartbeats[-1])
    story.answer_searches()
    story.wait(100)
    assert story.last.is_full
    assert story.last.topic_partitions == partitions(0, 1)


def test_a_join_lost_with_its_connection_is_repeated_word_for_word() -> None:
    story = LibrdkafkaStory()
    story.join()
    join = story.heartbeats[-1]
    story.lose_connection(join)
    story.answer_searches()
    story.wait(1_000)
    assert story.heartbeats[-1] is not join
    assert story.last == join.request


def test_an_idle_connection_that_closes_is_replaced_without_a_full_heartbeat() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(1_000)
    count = len(story.heartbeats)
    story.can_connect = False
    effects = story.lose_connection(is_isolated=True)
    assert "FindCoordinator" in sent(effects)
    story.can_connect = True
    story.answer_searches()
    story.wait(50)
    assert len(story.heartbeats) == count + 1
    assert not story.last.is_full


def test_not_coordinator_leads_to_a_search_and_a_full_heartbeat_on_the_interval() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    effects = story.refuse(ErrorCode.NOT_COORDINATOR)
    assert "FindCoordinator" in sent(effects)
    story.answer_searches()
    assert not story.last.is_full
    story.wait(INTERVAL_MS)
    assert story.last.is_full


def test_a_coordinator_that_has_moved_is_not_spoken_to_before_it_is_connected() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.NOT_COORDINATOR)
    story.can_connect = False
    count = len(story.heartbeats)
    effects = story.find_coordinator(2)
    assert any(isinstance(effect, CloseConnection) for effect in effects)
    assert story.member.coordinator_state is CoordinatorState.WAIT_BROKER_TRANSPORT
    story.wait(2_000)
    assert len(story.heartbeats) == count
    story.can_connect = True
    story.wait(2_000)
    assert story.last.is_full


def test_while_a_coordinator_loads_the_same_request_is_repeated_twice_at_most() -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    refused = story.last
    times: list[int] = []
    for _ in range(2):
        story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        count, begin_ms = len(story.heartbeats), story.now_ms
        while len(story.heartbeats) == count:
            story.wait(1)
        times.append(story.now_ms - begin_ms)
        assert story.last is refused
    assert times == [100, 200]
    story.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    count = len(story.heartbeats)
    story.wait(1_000)
    assert len(story.heartbeats) == count, "the next one comes on the interval"
    story.wait(INTERVAL_MS)
    assert len(story.heartbeats) > count


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error_code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_at_once_with_its_id(
    error_code: ErrorCode,
) -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(error_code)
    assert story.callbacks()[1:] == [(CallbackKind.LOST, partitions(0))]
    story.finish_callback()
    story.wait(100)
    assert story.commits == []
    assert (story.last.member_epoch, story.last.member_id) == (0, "m1")
    assert story.last.topic_partitions == NOTHING


@pytest.mark.parametrize(
    "error_code",
    [ErrorCode.UNRELEASED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INVALID_REQUEST],
)
def test_after_any_other_refusal_there_is_an_error_and_silence(error_code: ErrorCode) -> None:
    story = LibrdkafkaStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.refuse(error_code)
    assert story.errors() == [error_code]
    count = len(story.heartbeats)
    story.wait(60_000)
    assert len(story.heartbeats) == count
    assert story.member.state is ClientState.FATAL
    assert len(story.callbacks()) == 1, "no callback runs any more"


# --- with the repair of coordinator D12 ----------------------------------------------------------


class RepairedStory(LibrdkafkaStory):
    """A member that reports what it is about to take over."""

    def make_member(self, config: ConsumerConfig, rules: type[MemberRules]) -> LibrdkafkaMember:
        """See ``Story``."""
        return LibrdkafkaMember(config=config, member_id="m1", rules=LibrdkafkaRules, now_ms=0)


def test_a_full_request_has_what_was_given_and_waits_for_the_name_of_its_topic() -> None:
    given = partitions(0, topic="new")
    story = RepairedStory()
    story.join()
    story.answer(given)
    story.wait(INTERVAL_MS)
    assert story.last.is_full
    assert story.last.topic_partitions == given
    shipped = LibrdkafkaStory()
    shipped.join()
    shipped.answer(given)
    shipped.wait(INTERVAL_MS)
    assert shipped.last.is_full
    assert shipped.last.topic_partitions == NOTHING


def test_what_was_reported_and_is_taken_back_unbegun_is_told_to_be_gone() -> None:
    story = RepairedStory()
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0) | partitions(0, topic="new"))
    story.wait(INTERVAL_MS)
    story.lose_connection(story.heartbeats[-1])
    story.answer_searches()
    story.wait(INTERVAL_MS)
    assert story.last.topic_partitions == partitions(0) | partitions(0, topic="new")
    story.answer(partitions(0))
    story.wait(INTERVAL_MS)
    assert story.last.topic_partitions == partitions(0)
    story.answer()
    story.wait(INTERVAL_MS)
    assert story.last.topic_partitions is None
