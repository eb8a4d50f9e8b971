"""Figures of a data plane, from what became of each partition's records."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from marks import Marks, count, marked, only_in
from outputs import grown
from recording import BY_WORKERS, Flowed, Recording

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.data_plane.poll_clock import PARTS


def flow_figures(recording: Recording) -> dict[str, float]:
    """The figures of all groups together; none of a world without a data plane."""
    if not recording.spec.data_plane:
        return {}
    processed = reprocessed = lost = at_end = 0
    highest = 0.0
    late = 0
    area = 0.0
    after_assignment: list[int] = []
    after_loss: list[int] = []
    for group_id in recording.spec.group_ids:
        for life in recording.partitions:
            told = [
                flowed
                for flowed in recording.flowed
                if (flowed.group_id, flowed.partition) == (group_id, life.partition)
            ]
            spans = [done(one) for one in told if one.kind == "processed"]
            total = sum(end - start for start, end in spans)
            processed += total
            late += sum(
                end - start for start, end in (done(one) for one in told if one.flow == BY_WORKERS)
            )
            reprocessed += total - count(marked(spans))
            lost += count(passed_over(recording, group_id, life.partition, told))
            grows = grown(recording, life.partition, group_id)
            lags = lag_line(recording, told, life.topic, life.from_ms, life.to_ms, grows)
            for (from_ms, first), (to_ms, last) in pairwise(lags):
                area += (first + last) * (to_ms - from_ms) / 2
            highest = max([highest, *(lag for _, lag in lags)])
            if lags and life.to_ms == recording.end_ms:
                at_end += int(lags[-1][1])
            waits = first_records(told)
            after_assignment += [one[0] for one in waits]
            after_loss += [one[1] for one in waits]
    found: dict[str, float] = {
        "records_processed": processed,
        "records_reprocessed": reprocessed,
        "records_lost": lost,
        "lag_record_seconds": area / 1_000,
        "lag_records_max": int(highest),
        "lag_records_at_end": at_end,
    }
    if any(one.workers is not None for one in recording.spec.clients):
        found["records_processed_after_loss"] = late
    for name, times in (
        ("first_record_after_assignment_ms", after_assignment),
        ("first_record_after_loss_ms", after_loss),
    ):
        if times:
            found[f"{name}_max"] = max(times)
            found[f"{name}_mean"] = sum(times) / len(times)
    return found


def done(flowed: Flowed) -> tuple[int, int]:
    """Offsets of the records that were finished between two positions; the end is exclusive."""
    return flowed.before // PARTS, flowed.position // PARTS


def passed_over(
    recording: Recording, group_id: str, partition: TopicPartition, told: list[Flowed]
) -> Marks:
    """Records that were handed out, that no client has processed, and behind which the last
    consumer began."""
    handed_out = marked(
        (delivery.start, delivery.end)
        for delivery in recording.deliveries
        if (delivery.group_id, delivery.partition) == (group_id, partition)
    )
    finished = marked(done(one) for one in told if one.kind == "processed")
    begins = [one.position // PARTS for one in told if one.kind == "begin"]
    return only_in(handed_out, finished)[: begins[-1] if begins else 0]


def lag_line(
    recording: Recording,
    told: list[Flowed],
    topic: str,
    from_ms: int,
    to_ms: int,
    grows: Sequence[tuple[int, int]] = (),
) -> list[tuple[int, float]]:
    """Times and lags in records, of the newest consumer, from the first one's beginning on; between
    two of them the lag goes along a line. ``grows``: when a log that has no rate had how much."""
    rate = {one.name: one.records_per_second for one in recording.spec.topics}.get(topic, 0)
    base = 0

    def lag(at_ms: int, position: int) -> float:
        return max(0.0, rate * (at_ms - from_ms) / 1_000 + base - position / PARTS)

    found: list[tuple[int, float]] = []
    newest = position = None
    events: list[Flowed | tuple[int, int]] = [*told, *grows]
    events.sort(key=lambda one: one.at_ms if isinstance(one, Flowed) else one[0])
    for flowed in events:
        if not isinstance(flowed, Flowed):
            at_ms, grown_to = flowed
            if position is not None and at_ms <= to_ms:
                found.append((at_ms, lag(at_ms, position)))
            base = grown_to if at_ms <= to_ms else base
            if position is not None and at_ms <= to_ms:
                found.append((at_ms, lag(at_ms, position)))
            continue
        if flowed.at_ms > to_ms:
            break
        if flowed.kind == "begin":
            if position is not None:
                found.append((flowed.at_ms, lag(flowed.at_ms, position)))
            newest, position = flowed.flow, flowed.position
        elif flowed.kind not in ("moved", "processed") or flowed.flow != newest:
            continue
        position = flowed.position
        found.append((flowed.at_ms, lag(flowed.at_ms, position)))
    if position is not None:
        found.append((to_ms, lag(to_ms, position)))
    return found


def first_records(told: list[Flowed]) -> list[tuple[int, int]]:
    """Of each consumer whose predecessor was another client, how long its first record took: from
    its assignment, and from when the predecessor could hand out no more."""
    found: list[tuple[int, int]] = []
    before: dict[int, tuple[str, int | None]] = {}
    holder: tuple[str, int | None] | None = None
    newest = None
    for flowed in told:
        if flowed.kind == "begin":
            if holder is not None and holder[0] != flowed.client:
                before[flowed.flow] = holder
            holder, newest = (flowed.client, None), flowed.flow
        elif flowed.kind in ("lose", "end") and flowed.flow == newest:
            if holder is not None and holder[1] is None:
                holder = (flowed.client, flowed.at_ms)
        elif flowed.kind == "regain" and flowed.flow == newest:
            holder = (flowed.client, None)
        elif flowed.kind == "first" and flowed.flow in before:
            _, lost_ms = before.pop(flowed.flow)
            waited_ms = 0 if lost_ms is None else flowed.at_ms - lost_ms
            found.append((flowed.at_ms - flowed.assigned_ms, waited_ms))
    return found
