"""A librdkafka member whose application stays away from ``poll``, and comes back.

Source: client §10.1.
"""

from __future__ import annotations

from librdkafka_driver import LibrdkafkaStory
from member_driver import INTERVAL_MS, partitions

from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.wire.errors import ErrorCode

MAX_POLL_MS = 30_000
NOTHING = partitions()


def stalled() -> LibrdkafkaStory:
    """A steady member whose application has left ``poll``."""
    story = LibrdkafkaStory(max_poll_interval_ms=MAX_POLL_MS)
    story.stabilise(0)
    story.stay_away()
    return story


def heartbeat_until(story: LibrdkafkaStory, end_ms: int) -> None:
    """Answer every heartbeat up to a time."""
    while story.now_ms < end_ms - 2:
        count = len(story.heartbeats)
        story.wait(min(100, end_ms - story.now_ms - 2))
        if len(story.heartbeats) > count:
            story.answer(epoch=story.member.member_epoch)


def test_a_member_away_from_poll_goes_silent_and_does_not_leave() -> None:
    story = stalled()
    away_ms = story.now_ms
    heartbeat_until(story, away_ms + MAX_POLL_MS)
    assert story.member.state is ClientState.STABLE
    story.wait(600)
    assert story.member.state is ClientState.STALE
    count = len(story.heartbeats)
    story.wait(100_000)
    assert len(story.heartbeats) == count
    assert min(h.request.member_epoch for h in story.heartbeats[1:]) == 1, "no leave was sent"
    assert story.callbacks() == [(CallbackKind.ASSIGNED, partitions(0))]
    assert story.member.assigned.keys() == partitions(0)


def test_the_poll_timer_is_looked_at_twice_a_second() -> None:
    """Counted from the assigned callback; one look may come just too early."""
    story = stalled()
    away_ms = story.now_ms
    heartbeat_until(story, away_ms + MAX_POLL_MS)
    story.wait(2)
    assert story.member.state is ClientState.STABLE
    story.wait(500)
    assert story.member.state is ClientState.STALE


def test_back_at_poll_it_gives_everything_up_as_lost_leaves_and_joins_anew() -> None:
    story = stalled()
    heartbeat_until(story, story.now_ms + MAX_POLL_MS)
    story.wait(1_000)
    story.resume()
    assert story.callbacks()[1:] == [(CallbackKind.LOST, partitions(0))]
    story.finish_callback()
    assert story.last.member_epoch == -1
    assert story.commits == [], "what is lost is not committed"
    story.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    story.wait(100)
    assert (story.last.member_epoch, story.last.member_id) == (0, "m1")
    assert story.last.is_full
    assert None in story.errors(), "and the application is told that it was away for too long"


def test_an_application_inside_of_a_slow_callback_is_not_away() -> None:
    story = LibrdkafkaStory(max_poll_interval_ms=MAX_POLL_MS)
    story.stabilise(0)
    story.wait(INTERVAL_MS)
    story.answer(partitions(0, 1), epoch=2)
    heartbeat_until(story, story.now_ms + 2 * MAX_POLL_MS)
    assert story.member.running_callback is not None
    assert story.member.state is ClientState.RECONCILING


def test_a_member_that_was_never_assigned_anything_is_not_watched() -> None:
    story = LibrdkafkaStory(max_poll_interval_ms=MAX_POLL_MS)
    story.join()
    story.answer(NOTHING)
    story.stay_away()
    count = len(story.heartbeats)
    while story.now_ms < 2 * MAX_POLL_MS:
        before = len(story.heartbeats)
        story.wait(100)
        if len(story.heartbeats) > before:
            story.answer(NOTHING)
    assert len(story.heartbeats) > count + 8
    assert story.member.state is ClientState.STABLE


def test_a_member_that_has_nothing_left_leaves_at_once_and_joins_when_the_application_is_back() -> (
    None
):
    """There is no lost callback that the leave would have to wait for."""
    story = LibrdkafkaStory(max_poll_interval_ms=MAX_POLL_MS)
    story.stabilise(0, consumed=False)
    story.wait(INTERVAL_MS)
    story.answer(NOTHING, epoch=2)
    story.finish_callback()
    story.finish_callback()
    story.answer(epoch=2)
    story.stay_away()
    heartbeat_until(story, story.now_ms + MAX_POLL_MS)
    story.wait(1_000)
    assert story.last.member_epoch == -1
    story.answer(epoch=-1)
    count = len(story.heartbeats)
    story.wait(60_000)
    assert len(story.heartbeats) == count
    assert story.member.state is ClientState.STALE
    story.resume()
    story.wait(100)
    assert story.last.member_epoch == 0
