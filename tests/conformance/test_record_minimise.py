"""Steps are left out as long as the same difference is shown."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.conformance.record.minimise import (
    Difference,
    Step,
    difference_of,
    minimise,
)

SHOWN = Difference("describe", frozenset({"state"}), 0)


def _steps(count: int) -> list[Step]:
    return [{"op": "heartbeat", "number": number} for number in range(count)]


class Broker:
    """Differs in a describe once all of some steps have been asked before it."""

    def __init__(self, *needed: int) -> None:
        self._needed = set(needed)
        self.asked: list[tuple[Step, ...]] = []

    def __call__(self, steps: tuple[Step, ...]) -> Difference | None:
        self.asked.append(steps)
        seen = set()
        for place, step in enumerate(steps):
            if step["op"] == "describe" and seen >= self._needed:
                return Difference("describe", frozenset({"state"}), place)
            seen.add(step.get("number"))
        return None


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_only_what_is_needed_is_left(case: tuple[int, set[int]]) -> None:
    count, needed = case
    steps = [*_steps(count), {"op": "describe"}, *_steps(3)]
    difference = Difference(SHOWN.op, SHOWN.fields, count)
    left = minimise(steps, difference, Broker(*needed), limit=1000)
    assert left is not None
    assert [step.get("number") for step in left] == [*sorted(needed), None]


def test_the_broker_is_asked_no_more_often_than_the_limit_says() -> None:
    broker = Broker(3, 17, 30)
    steps = [*_steps(40), {"op": "describe"}]
    left = minimise(steps, Difference(SHOWN.op, SHOWN.fields, 40), broker, limit=7)
    assert len(broker.asked) == 7
    assert left is not None
    assert 4 < len(left) < 41


def test_another_difference_is_not_taken_for_it() -> None:
    steps = (*_steps(4), {"op": "describe"})

    def ask(asked: tuple[Step, ...]) -> Difference:
        fields = {"state"} if asked == steps else {"members"}
        return Difference("describe", frozenset(fields), len(asked) - 1)

    assert minimise(steps, Difference(SHOWN.op, SHOWN.fields, 4), ask, limit=50) == steps


def test_an_answer_that_is_waited_for_goes_with_its_request() -> None:
    join: dict[str, Any] = {"op": "join_group", "async": "j1"}
    steps = [join, {"op": "sleep"}, {"op": "await", "id": "j1"}, {"op": "describe"}]
    broker = Broker()
    left = minimise(steps, Difference(SHOWN.op, SHOWN.fields, 3), broker, limit=50)
    assert left == ({"op": "describe"},)
    for asked in broker.asked:
        assert ("async" in str(asked)) == ("await" in str(asked))


def test_a_difference_names_the_fields_in_which_answers_differ() -> None:
    step = {"op": "describe"}
    found = difference_of(5, step, {"state": "Stable", "x": 1}, {"state": "Empty", "x": 1, "y": 2})
    assert found == Difference("describe", frozenset({"state", "y"}), 5)
    assert found.is_same(difference_of(2, step, {"state": 1, "y": 1}, {"state": 2, "y": 3}))
    assert not found.is_same(difference_of(5, step, {"state": 1}, {"state": 2}))
    assert not found.is_same(None)


def test_what_does_not_show_again_is_not_minimised() -> None:
    broker = Broker(99)
    steps = [*_steps(4), {"op": "describe"}]
    assert minimise(steps, Difference(SHOWN.op, SHOWN.fields, 4), broker, limit=50) is None
    assert len(broker.asked) == 1
