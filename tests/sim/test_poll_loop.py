"""When an application is inside ``poll``, and which of its polls submit an event (client §0.1)."""

from __future__ import annotations

from rebalance_sim.sim.client.poll_loop import PollLoop


def away(*, skips: bool = True) -> PollLoop:
    """A loop whose ``poll`` at 0 hands out records, and which is away for 10 ms at a time."""
    loop = PollLoop(away_ms=10, draw_away_ms=None, looks_every_ms=5, now_ms=0, skips=skips)
    loop.look(0, has_records=True, is_held=False)
    return loop


def test_of_polls_that_hand_out_records_every_second_one_submits_an_event() -> None:
    loop = away()
    assert [loop.submits_event(at_ms) for at_ms in (10, 20, 30, 40)] == [False, True, False, True]
    assert [loop.in_poll_ms(at_ms) for at_ms in (1, 11)] == [10, 20]
    assert [loop.in_poll_ms(at_ms, needs_event=True) for at_ms in (1, 11, 21)] == [20, 20, 40]


def test_without_that_rule_each_poll_submits_an_event() -> None:
    assert away(skips=False).in_poll_ms(1, needs_event=True) == 10


def test_a_poll_that_waits_submits_events_as_often_as_it_looks() -> None:
    loop = PollLoop(away_ms=10, draw_away_ms=None, looks_every_ms=5, now_ms=0, skips=True)
    assert [loop.in_poll_ms(at_ms, needs_event=True) for at_ms in (1, 6)] == [5, 10]


def test_after_a_poll_without_an_event_the_next_one_submits() -> None:
    loop = away()
    loop.skip(10)
    assert [loop.submits_event(at_ms) for at_ms in (20, 30)] == [True, False]


def test_after_a_callback_the_next_poll_submits_an_event() -> None:
    loop = away()
    loop.begin_poll(20)
    loop.look(20, has_records=True, is_held=True)
    loop.look(23, has_records=True, is_held=False)
    assert [loop.submits_event(at_ms) for at_ms in (33, 43)] == [True, False]


def test_a_call_between_polls_does_not_change_whose_turn_it_is() -> None:
    loop = away()
    loop.note_call(4)
    loop.look(4, has_records=True, is_held=True)
    loop.look(14, has_records=True, is_held=False)
    assert [loop.submits_event(at_ms) for at_ms in (14, 24, 34)] == [False, True, False]


def test_times_away_that_are_drawn_alternate_too() -> None:
    times = iter([10, 20, 5])
    loop = PollLoop(
        away_ms=5, draw_away_ms=lambda: next(times), looks_every_ms=5, now_ms=0, skips=True
    )
    loop.look(0, has_records=True, is_held=False)
    turns = []
    for now_ms in (1, 11, 31):
        loop.advance(now_ms)
        at_ms = loop.in_poll_ms(now_ms)
        turns.append((at_ms, loop.submits_event(at_ms)))
    assert turns == [(10, False), (30, True), (35, False)]
