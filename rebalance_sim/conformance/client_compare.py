"""Fair comparison of what a client did with what a member did.

Source: client §13. Content must be equal; order counts within one kind, not between kinds, because
requests are stamped by the proxy and the rest by the client; times may differ by 150 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rebalance_sim.conformance.client_bodies import by_partition
from rebalance_sim.conformance.client_input import callbacks
from rebalance_sim.conformance.client_observed import APIS, Observed
from rebalance_sim.conformance.client_trace import ClientProcess
from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.wire.topics import TopicPartition, group_by_topic

TIME_TOLERANCE_MS = 150
_TOGETHER_MS = 5
_RECORDS_NEAR_COMMIT_MS = 5  # records returned so close to a commit may be in it, or not

Same = Callable[[Observed, Observed], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How many of one kind were met; ``total`` counts what is missing and what is too much."""

    ok: int
    total: int
    first_difference: str | None


def recorded_items(process: ClientProcess) -> list[Observed]:
    """What the real client did, in the same form as what a member does."""
    items: list[Observed] = []
    for event in process.events:
        if event["kind"] == "request" and event["api"] in APIS:
            items.append(Observed(event["at_ms"], event["api"], event["body"]))
        elif event["kind"] == "state":
            fields = {key: event[key] for key in ("from", "to", "member_epoch") if key in event}
            items.append(Observed(event["at_ms"], event.get("what", "state"), fields))
    for callback in callbacks(process):
        if callback.assignment_at_end is not None:
            content = {
                "callback": callback.name,
                "partitions": callback.partitions,
                "assignment_at_end": callback.assignment_at_end,
            }
            items.append(Observed(callback.begin_ms, "callback", content))
    return items


def compare(
    what: str, process: ClientProcess, expected: Sequence[Observed], got: Sequence[Observed]
) -> Comparison:
    """Align the items of one kind and count those that are met."""
    left = [item for item in expected if item.what == what]
    right = [item for item in got if item.what == what]
    if what == "ConsumerGroupHeartbeat":
        left, right = _without_last_steady(left, right)
    elif what == "FindCoordinator" and _has_two_threads(process):
        left, right = _gathered(left), _gathered(right)
    same = _same_commit(process) if what == "OffsetCommit" else _same
    pairs = _align(left, right, same)
    ok = len(pairs)
    total = max(len(left), len(right))
    difference = None
    if ok < total:
        difference = _first_difference(process, left, right, pairs)
    return Comparison(ok=ok, total=total, first_difference=difference)


def _without_last_steady(
    left: list[Observed], right: list[Observed]
) -> tuple[list[Observed], list[Observed]]:
    """Heartbeats drift: one more, or less, just before the leave says nothing (client §13)."""
    if abs(len(left) - len(right)) != 1:
        return left, right
    longer, shorter = (left, right) if len(left) > len(right) else (right, left)
    for index, item in enumerate(longer[1:]):
        before = longer[index]
        is_steady = before.content["topic_partitions"] is None
        if (
            item.content["member_epoch"] < 0 < before.content["member_epoch"]
            and is_steady
            and item.at_ms - before.at_ms <= TIME_TOLERANCE_MS
            and len(shorter) > index
            and shorter[index].content["member_epoch"] < 0
        ):
            shortened = longer[:index] + longer[index + 1 :]
            return (shortened, right) if longer is left else (left, shortened)
    return left, right


def _has_two_threads(process: ClientProcess) -> bool:
    """Whether two threads of the client search: the application's and that of the heartbeats."""
    return process.kind.name == CLASSIC


def _gathered(searches: list[Observed]) -> list[Observed]:
    """Searches that were let through together count once: how many of them had gathered depends on
    which of a classic Java client's two threads had the network when, and that is not recorded."""
    return [
        search
        for index, search in enumerate(searches)
        if index == 0 or search.at_ms - searches[index - 1].at_ms > _TOGETHER_MS
    ]


def _same(expected: Observed, got: Observed) -> bool:
    return abs(expected.at_ms - got.at_ms) <= TIME_TOLERANCE_MS and expected.content == got.content


def _align(
    left: Sequence[Observed], right: Sequence[Observed], same: Same
) -> list[tuple[int, int]]:
    """Longest common subsequence, as pairs of indexes; prefers the earliest pairs."""
    rows, columns = len(left), len(right)
    length = [[0] * (columns + 1) for _ in range(rows + 1)]
    equal = [[same(a, b) for b in right] for a in left]
    for i in range(rows - 1, -1, -1):
        for j in range(columns - 1, -1, -1):
            if equal[i][j]:
                length[i][j] = length[i + 1][j + 1] + 1
            else:
                length[i][j] = max(length[i + 1][j], length[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < rows and j < columns:
        if equal[i][j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif length[i + 1][j] >= length[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _first_difference(
    process: ClientProcess,
    left: Sequence[Observed],
    right: Sequence[Observed],
    pairs: Sequence[tuple[int, int]],
) -> str:
    """The first item of either side without a partner, and what stood in its place."""
    index = next(
        (n for n, (i, j) in enumerate(pairs) if (i, j) != (n, n)),
        len(pairs),
    )
    expected = left[index] if index < len(left) else None
    got = right[index] if index < len(right) else None
    return f"{process.name}: expected {_show(expected)}, got {_show(got)}"


def _show(item: Observed | None) -> str:
    if item is None:
        return "nothing"
    fields = ", ".join(
        f"{key}={_show_value(value)}"
        for key, value in item.content.items()
        if value not in (None, -1) and key not in ("group_id", "key_type", "coordinator_keys")
    )
    return f"{item.what}({fields}) at {item.at_ms} ms"


def _show_value(value: Any) -> str:
    if isinstance(value, frozenset):
        return str(group_by_topic(value))
    return str(value)


# --- commits -------------------------------------------------------------------------------------


def _same_commit(process: ClientProcess) -> Same:
    """Equality of commits; an offset may lack, or hold, records returned at that very moment."""
    history = _position_history(process)

    def same(expected: Observed, got: Observed) -> bool:
        if abs(expected.at_ms - got.at_ms) > TIME_TOLERANCE_MS:
            return False
        head = {key: value for key, value in expected.content.items() if key != "topics"}
        if head != {key: value for key, value in got.content.items() if key != "topics"}:
            return False
        wanted = by_partition(expected.content["topics"])
        found = by_partition(got.content["topics"])
        return wanted.keys() == found.keys() and all(
            wanted[p] == found[p]
            or {wanted[p], found[p]} <= _positions_near(history.get(p, ()), expected.at_ms)
            for p in wanted
        )

    return same


def _position_history(
    process: ClientProcess,
) -> Mapping[TopicPartition, Sequence[tuple[int, int, int]]]:
    """Partition -> (time, position before, position after) of each return of records."""
    history: dict[TopicPartition, list[tuple[int, int, int]]] = {}
    for event in process.events:
        if event["kind"] == "records":
            for partition, (first, last) in by_partition(event["offsets"]).items():
                history.setdefault(partition, []).append((event["at_ms"], first, last + 1))
    return history


def _positions_near(history: Sequence[tuple[int, int, int]], at_ms: int) -> set[int]:
    near: set[int] = set()
    for time_ms, before, after in history:
        if abs(time_ms - at_ms) <= _RECORDS_NEAR_COMMIT_MS:
            near |= {before, after}
    return near
