"""Comparing what the model wrote with what a real broker wrote.

The broker lingers, so several writes can share a batch: each write of ours must lie whole within
one recorded batch, in the same order. Records whose order a real broker takes from hash maps
compare as sets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

TIME_TOLERANCE_MS = 50
"""What a recording may differ by; the recorder's own figure."""


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
class LogComparison:
    """How many recorded batches were met, and the first that was not."""

    batches_ok: int
    batches_total: int
    first_difference: str | None


def compare_log(
    recorded: Sequence[dict[str, Any]], writes: Iterable[Write], *, last_step_ms: int
) -> LogComparison:
    """Match recorded batches with writes. Writes after the recording's end are not held against
    the model if they come after the last step, because a recording may end early."""
    queue = list(writes)
    matched = 0
    first: str | None = None
    for index, batch in enumerate(recorded):
        taken, rest = _take(queue, len(batch["records"]))
        problem = _differs(batch, taken)
        queue = rest
        if problem is None:
            matched += 1
        elif first is None:
            first = _report(index, batch, taken, problem)
    for write in queue:
        if write.until_ms <= last_step_ms and first is None:
            first = (
                f"log: the model wrote, the recording did not: {write.cause}\n"
                f"  expected: nothing\n  got: {_text(write.records)}"
            )
    return LogComparison(batches_ok=matched, batches_total=len(recorded), first_difference=first)


def _take(queue: list[Write], record_count: int) -> tuple[list[Write], list[Write]]:
    taken: list[Write] = []
    count = 0
    while queue and count < record_count:
        count += len(queue[0].records)
        taken.append(queue[0])
        queue = queue[1:]
    return taken, queue


def _differs(batch: dict[str, Any], taken: list[Write]) -> str | None:
    expected = [_canonical(record) for record in batch["records"]]
    got: list[dict[str, Any]] = []
    for write in taken:
        size = len(write.records)
        ours = _sort_unordered([_canonical(record) for record in write.records])
        theirs = _sort_unordered(expected[len(got) : len(got) + size])
        if not _same(theirs, ours, slack_ms=write.until_ms - write.from_ms):
            return "records differ"
        got += ours
    if len(got) != len(expected):
        return "the number of records differs"
    at_ms = batch["at_ms"]
    for write in taken:
        early = write.from_ms - TIME_TOLERANCE_MS
        late = write.until_ms + TIME_TOLERANCE_MS
        if not early <= at_ms <= late:
            return f"written at {at_ms} ms, by the model at {write.from_ms} ms"
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
        return _sorted_partitions({key: _canonical_value(value) for key, value in item.items()})
    if not isinstance(item, list):
        return item
    rows = [_canonical_value(row) if isinstance(row, dict) else row for row in item]
    return (
        rows
        if _all_numbers(rows)
        else sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))
    )


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
    """Sort each run of records of one type about members, values or tombstones, by member."""
    result: list[dict[str, Any]] = []
    for _, run in groupby(records, key=_kind):
        result += sorted(run, key=lambda record: str(record["key"].get("member_id")))
    return result


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


def _report(index: int, batch: dict[str, Any], taken: list[Write], problem: str) -> str:
    causes = "; ".join(write.cause for write in taken) or "nothing"
    return (
        f"log batch {index + 1} at {batch['at_ms']} ms: {problem} (caused by {causes})\n"
        f"  expected: {_text(batch['records'])}\n"
        f"  got:      {_text(record for write in taken for record in write.records)}"
    )


def _text(records: Iterable[dict[str, Any]]) -> str:
    return json.dumps(list(records), sort_keys=True)
