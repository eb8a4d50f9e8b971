"""Laws of records that no one is handed, or no one processes. Each returns what violates it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from deliveries import first_expected
from lives import Holding, holdings
from marks import Marks, count, marked
from record_flow import passed_over
from recording import PartitionLife, Recording
from start_laws import NOTHING, goes_on_by_name, log_end, told_last

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest


def every_record_is_handed_out_or_skipped_or_still_ahead(recording: Recording) -> list[str]:
    """Of the records since a group has first subscribed, the figures say how many it was handed and
    how many it has skipped; the rest is what no one has come to yet."""
    produced = before = ahead = 0
    for group_id, life, handed_out in partitions_of_groups(recording):
        first = first_expected(recording, group_id, life.partition)
        end = log_end(recording, life.partition, life.to_ms)
        furthest = len(handed_out)
        before += count(handed_out[:first])
        produced += max(0, end - first)
        ahead += max(0, end - max(first, furthest))
    figures = recording.result.metrics
    distinct = figures["records_delivered"] - figures["records_redelivered"]
    counted = distinct - before + figures["records_skipped"] + ahead
    return [] if counted == produced else [f"{counted} are counted of {produced}"]


def what_is_ahead_is_lag(recording: Recording) -> list[str]:
    """Records that no process has come to are lag at the end, in a world with a data plane; but for
    one of each partition, of which a part is there."""
    ahead = 0
    furthest: dict[tuple[str, PartitionLife], int] = {}
    of = {life.partition: life for life in recording.partitions}
    for holding in holdings(recording):
        life = of[holding.partition]
        if holding.position is not None and life.to_ms == recording.end_ms:
            key = holding.life.moments[0][2].group_id, life
            ends = [delivery.end for delivery in holding.handed_out]
            furthest[key] = max([furthest.get(key, 0), holding.position, *ends])
    for (_, life), offset in furthest.items():
        ahead += max(0, log_end(recording, life.partition, life.to_ms) - offset - 1)
    lag = recording.result.metrics.get("lag_records_at_end", ahead)
    return [] if ahead <= lag else [f"{ahead} are ahead, and the lag is {lag}"]


def what_is_skipped_has_a_cause(recording: Recording) -> list[str]:
    """No one was handed a record, and somebody a later one: somebody has started behind it because
    nothing was committed, or an administrator has committed an offset behind it."""
    found = []
    resets = [one for one in holdings(recording) if is_reset(one)]
    for group_id, life, handed_out in partitions_of_groups(recording):
        first = first_expected(recording, group_id, life.partition)
        passed = [
            one.position
            for one in resets
            if one.partition == life.partition and one.life.moments[0][2].group_id == group_id
        ]
        passed += altered(recording, group_id, life)
        furthest = max((offset for offset in passed if offset is not None), default=0)
        from_there = max(first, furthest)
        without = np.flatnonzero(~handed_out[from_there:])
        if len(without):
            start = from_there + without[0]
            found.append(f"{group_id} {life.partition}: {len(without)} from {start} on")
    return found


def what_is_lost_was_in_hand(recording: Recording) -> list[str]:
    """Records that were handed out, that no one has processed, and that a later owner has passed
    over: the time with the partition in which they were handed out is over."""
    if not recording.spec.data_plane:
        return []
    found = []
    over = {(one.number, one.partition) for one in holdings(recording) if is_over(recording, one)}
    for group_id, life, _ in partitions_of_groups(recording):
        key = group_id, life.partition
        told = [one for one in recording.flowed if (one.group_id, one.partition) == key]
        own = [one for one in recording.deliveries if (one.group_id, one.partition) == key]
        lost = passed_over(replace(recording, deliveries=own), *key, told)
        for delivery in own:
            in_hand = np.flatnonzero(lost[delivery.start : delivery.end])
            if len(in_hand) and (delivery.held, delivery.partition) not in over:
                first = delivery.start + in_hand[0]
                found.append(f"{key}: {len(in_hand)} from {first} on are with {delivery.client}")
    return found


def partitions_of_groups(
    recording: Recording,
) -> Iterator[tuple[str, PartitionLife, Marks]]:
    """Every partition that a group was handed anything of, and which offsets."""
    of = {life.partition: life for life in recording.partitions}
    handed_out: dict[tuple[str, PartitionLife], list[tuple[int, int]]] = {}
    for delivery in recording.deliveries:
        key = delivery.group_id, of[delivery.partition]
        handed_out.setdefault(key, []).append((delivery.start, delivery.end))
    for (group_id, life), spans in handed_out.items():
        yield group_id, life, marked(spans)


def is_reset(holding: Holding) -> bool:
    """Whether ``auto.offset.reset`` has decided where it starts, or a former topic of the name."""
    if holding.position is None:
        return False
    return goes_on_by_name(holding) or told_last(holding)[1] == NOTHING


def altered(recording: Recording, group_id: str, life: PartitionLife) -> list[int]:
    """Offsets that an administrator has committed for a partition."""
    return [
        moment.request.offsets[life.partition]
        for moment in recording.moments
        if moment.kind is StepKind.ADMIN_RETURNED
        and isinstance(moment.request, OffsetCommitRequest)
        and moment.request.group_id == group_id
        and life.partition in moment.request.offsets
    ]


def is_over(recording: Recording, holding: Holding) -> bool:
    """Whether the process is gone, or has given the partition up."""
    at, moment, seen = holding.life.moments[-1]
    is_gone = moment.kind is StepKind.CLIENT_CRASHED or any(
        later.client is not None
        and later.client.name == seen.name
        and later.client.incarnation > seen.incarnation
        for later in recording.moments[at + 1 :]
    )
    held = seen.held.get(holding.partition)
    return is_gone or held is None or held.number != holding.number
