"""Likeness of two recordings: equal answers, and types of records in the same order."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.trace_likeness import Likeness, likeness, total


def trace(*answers: object, log: str = "", at_ms: int = 10) -> dict[str, Any]:
    steps = [{"at_ms": at_ms, "op": "x", "response": answer} for answer in answers]
    records = [{"type": letter, "key": {}, "value": {"timestamp": at_ms}} for letter in log]
    return {"steps": steps, "log": [{"at_ms": at_ms, "records": records}]}


def test_two_runs_that_differ_in_times_and_drawn_ids_alone_are_alike():
    one = trace({"error": "none", "rows": [{"topic_id": "a"}]}, log="AB", at_ms=10)
    other = trace({"error": "none", "rows": [{"topic_id": "b"}]}, log="AB", at_ms=99)
    assert likeness(one, other) == Likeness(1, 1, 2, 2)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (trace("a", "b"), trace("a", "c"), Likeness(1, 2, 0, 0)),
        (trace("a", "b"), trace("a"), Likeness(1, 2, 0, 0)),
        (trace("a", log="ABC"), trace("a", log="AC"), Likeness(1, 1, 2, 3)),
        (trace("a", log="AB"), trace("a", log=""), Likeness(1, 1, 0, 2)),
    ],
)
def test_what_one_has_and_the_other_has_not_counts(one, other, expected):
    assert likeness(one, other) == expected == likeness(other, one)


def test_a_record_that_is_deleted_is_another_one():
    one, other = trace(log="A"), trace(log="A")
    other["log"][0]["records"][0]["value"] = None
    one["steps"] = other["steps"] = [{"at_ms": 10, "op": "sleep"}]
    assert likeness(one, other) == Likeness(0, 0, 0, 1)


def test_what_is_written_after_the_script_does_not_count():
    one, other = trace("a", log="A"), trace("a", log="A")
    other["log"].append({"at_ms": 6_000, "records": [{"type": "B", "key": {}, "value": {}}]})
    assert likeness(one, other) == Likeness(1, 1, 1, 1)


def test_recordings_are_summed():
    summed = total([Likeness(1, 2, 0, 0), Likeness(2, 2, 3, 4)])
    assert (summed.of_answers, summed.of_records) == (0.75, 0.75)
    assert Likeness(0, 0, 0, 0).of_answers == 1.0
