"""How like two recordings of one script are: the answers that are equal, and the types of records
that were written in the same order.

Two runs of the same broker are not equal: it computes and expires at times of its own, and draws
ids. Times and drawn ids are left out; members and topics stand under the names of the script.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from typing import Any, NamedTuple

_LINGER_MS = 50
"""What is written later than that after the last step is no part of the script any more."""
_NEVER_ALIKE = ("at_ms", "timestamp", "current_state_timestamp", "topic_id")
"""Times, and ids that a broker draws."""


class Likeness(NamedTuple):
    """Equal of all, of answers and of records; sums of several recordings."""

    answers_equal: int
    answers: int
    records_equal: int
    records: int

    @property
    def of_answers(self) -> float:
        """From 0 to 1; 1 where there are none."""
        return self.answers_equal / self.answers if self.answers else 1.0

    @property
    def of_records(self) -> float:
        """From 0 to 1; 1 where there are none."""
        return self.records_equal / self.records if self.records else 1.0


def likeness(one: Mapping[str, Any], other: Mapping[str, Any]) -> Likeness:
    """Of two traces of one script. An answer is compared with that to the same step; a record
    counts as equal if its type is in the longest blocks that both logs have in common
    (``difflib``), of as many as the longer log has."""
    steps = list(zip(one["steps"], other["steps"], strict=False))
    pairs = [
        (a["response"], b["response"]) for a, b in steps if "response" in a and "response" in b
    ]
    count = max(_answer_count(one), _answer_count(other))
    types, other_types = (list(_record_types(trace)) for trace in (one, other))
    matcher = SequenceMatcher(None, types, other_types, autojunk=False)
    return Likeness(
        answers_equal=sum(_comparable(a) == _comparable(b) for a, b in pairs),
        answers=count,
        records_equal=sum(block.size for block in matcher.get_matching_blocks()),
        records=max(len(types), len(other_types)),
    )


def total(parts: Iterable[Likeness]) -> Likeness:
    """The sums."""
    return Likeness(*map(sum, zip(*parts, strict=True)))


def _answer_count(trace: Mapping[str, Any]) -> int:
    return sum("response" in step for step in trace["steps"])


def _record_types(trace: Mapping[str, Any]) -> Iterator[str]:
    end_ms = max((step["at_ms"] for step in trace["steps"]), default=0) + _LINGER_MS
    for batch in trace.get("log", ()):
        for record in batch["records"] if batch["at_ms"] <= end_ms else ():
            yield f"{record['type']}{'' if record['value'] is not None else ' deleted'}"


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _comparable(one) for key, one in value.items() if key not in _NEVER_ALIKE}
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    return value
