"""Comparing what the model wrote with what a real broker wrote.

The broker lingers, so several writes can share a batch: each write of ours must lie whole within
one recorded batch, in the same order. Records whose order a real broker takes from hash maps
compare as sets.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

TIME_TOLERANCE_MS = 50
"""What a recording may differ by; the recorder's own figure."""

_SUBSCRIPTION_DEFAULTS = {"owned_partitions": [], "generation_id": -1, "rack_id": None}
_NO_DEFAULT = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Records that one operation of the model wrote, in the trace's spelling.

    The real time of a write that answers a request lies between its step and the next, so a
    window is kept: ``from_ms`` to ``until_ms``.
    """

    from_ms: int
    until_ms: int
    cause: str
    records: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDifference:
    """A recorded batch that was not met (``batch``: its index), or writes that are in none."""

    at_ms: int
    batch: int | None
    problem: str
    expected: Sequence[dict[str, Any]]
    taken: Sequence[Write]

    def __str__(self) -> str:
        causes = "; ".join(write.cause for write in self.taken) or "nothing"
        if self.batch is None:
            head = f"log: the model wrote, the recording did not: {causes}"
        else:
            head = f"log batch {self.batch + 1} at {self.at_ms} ms: {self.problem}"
            head += f" (caused by {causes})"
        expected = _text(self.expected) if self.expected else "nothing"
        got = _text(record for write in self.taken for record in write.records)
        return f"{head}\n  expected: {expected}\n  got:      {got}"


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """A batch of a recording. ``canonical`` are its records without what does not count."""

    at_ms: int
    records: Sequence[dict[str, Any]]
    canonical: Sequence[dict[str, Any]]


def recorded_log(batches: Iterable[Mapping[str, Any]]) -> tuple[RecordedBatch, ...]:
    """The log of a recording, made ready to be compared with more than one replay."""
    return tuple(
        RecordedBatch(
            batch["at_ms"], batch["records"], [_canonical(record) for record in batch["records"]]
        )
        for batch in batches
    )


def compare_log(
    recorded: Sequence[RecordedBatch], writes: Iterable[Write], *, last_step_ms: int
) -> Iterator[LogDifference]:
    """Match recorded batches with writes: all that differs. Writes after the recording's end are
    not held against the model if they come after the last step, because a recording may end
    early."""
    queue = deque(writes)
    for index, batch in enumerate(recorded):
        taken = _take(queue, len(batch.records))
        problem = _differs(batch, taken)
        if problem is not None:
            yield LogDifference(
                at_ms=batch.at_ms,
                batch=index,
                problem=problem,
                expected=batch.records,
                taken=taken,
            )
    for write in queue:
        if write.until_ms <= last_step_ms:
            yield LogDifference(
                at_ms=write.until_ms, batch=None, problem="", expected=(), taken=[write]
            )


def _take(queue: deque[Write], record_count: int) -> list[Write]:
    taken: list[Write] = []
    count = 0
    while queue and count < record_count:
        taken.append(queue.popleft())
        count += len(taken[-1].records)
    return taken


def _differs(batch: RecordedBatch, taken: list[Write]) -> str | None:
    count = 0
    for write in taken:
        ours = [_canonical(record) for record in write.records]
        theirs = list(batch.canonical[count : count + len(ours)])
        slack_ms = write.until_ms - write.from_ms
        if not _same(theirs, ours, slack_ms=slack_ms) and not _same(
            _sort_unordered(theirs), _sort_unordered(ours), slack_ms=slack_ms
        ):
            return "records differ"
        count += len(ours)
    if count != len(batch.canonical):
        return "the number of records differs"
    # A batch has the time of the last write: those before have waited for it.
    for write in taken:
        is_late = write is taken[-1] and batch.at_ms > write.until_ms + TIME_TOLERANCE_MS
        if is_late or batch.at_ms < write.from_ms - TIME_TOLERANCE_MS:
            return f"written at {batch.at_ms} ms, by the model at {write.from_ms} ms"
    return None


def _canonical(record: dict[str, Any]) -> dict[str, Any]:
    value = record["value"]
    if isinstance(value, dict):
        value = {key: _canonical_value(item) for key, item in value.items()}
        # A recording leaves out what has its default.
        if value.get("metadata_hash") == 0:
            del value["metadata_hash"]
        if "assignment_epoch" in value:
            value.setdefault("assignment_timestamp", 0)
    return {"type": record["type"], "key": record["key"], "value": value}


def _canonical_value(item: Any) -> Any:
    """Lists compare as sets, wherever they stand; the partitions of a row keep their epochs."""
    if isinstance(item, dict):
        plain = {key: _canonical_value(value) for key, value in item.items()}
        if isinstance(plain.get("subscription"), dict):
            plain["subscription"] = _without_defaults(plain["subscription"])
        return _sorted_partitions(plain)
    if not isinstance(item, list):
        return item
    rows = [_canonical_value(row) if isinstance(row, dict) else row for row in item]
    return (
        rows
        if _all_numbers(rows)
        else sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    )


def _without_defaults(subscription: dict[str, Any]) -> dict[str, Any]:
    """Older versions of a subscription have no place for what newer ones leave open."""
    return {
        key: value
        for key, value in subscription.items()
        if value != _SUBSCRIPTION_DEFAULTS.get(key, _NO_DEFAULT)
    }


def _all_numbers(rows: list[Any]) -> bool:
    return all(isinstance(row, int) for row in rows)


def _sorted_partitions(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a partition list with its partitions in order, their epochs along with them."""
    partitions = row.get("partitions")
    if partitions is None:
        return row
    order = sorted(range(len(partitions)), key=partitions.__getitem__)
    return {
        key: [item[i] for i in order] if isinstance(item, list) else item
        for key, item in row.items()
    }


def _sort_unordered(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort each run of records of one type, values or tombstones, by what they are about."""
    result: list[dict[str, Any]] = []
    for _, run in groupby(records, key=_kind):
        result += sorted(run, key=_subject)
    return result


def _subject(record: dict[str, Any]) -> tuple[str, str]:
    """What a record is about; of two members with one name, what it says."""
    key, value = (json.dumps(record[part], sort_keys=True) for part in ("key", "value"))
    return key, value


def _kind(record: dict[str, Any]) -> tuple[str, bool]:
    return record["type"], record["value"] is None


def _same(theirs: Any, ours: Any, *, slack_ms: int, key: str = "") -> bool:
    if "timestamp" in key and isinstance(theirs, int) and isinstance(ours, int):
        return -TIME_TOLERANCE_MS <= theirs - ours <= slack_ms + TIME_TOLERANCE_MS
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return theirs.keys() == ours.keys() and all(
            _same(theirs[name], ours[name], slack_ms=slack_ms, key=name) for name in theirs
        )
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(theirs) == len(ours) and all(
            _same(a, b, slack_ms=slack_ms, key=key) for a, b in zip(theirs, ours, strict=True)
        )
    return bool(theirs == ours)


def _text(records: Iterable[dict[str, Any]]) -> str:
    return json.dumps(list(records), sort_keys=True)
