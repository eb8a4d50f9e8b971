"""Laws of what is committed, as coordinators tell it. Each returns what violates it, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from recording import Recording
from start_laws import NOTHING, life_of

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.records import OffsetCommit, TransactionMarker, TxnOffsetCommit
from rebalance_sim.protocol.wire.topics import TopicPartition


class Written(NamedTuple):
    """An offset that a coordinator has written, or taken out: at which moment, where its log ended
    then, and when that was confirmed; None: never."""

    at: int
    record: OffsetCommit
    log_end: int
    confirmed: int | None


def the_committed_offset_is_the_last_one_confirmed(recording: Recording) -> list[str]:
    """A coordinator tells the last offset whose commit has been confirmed, or one that was written
    since; and that there is none only before the first one, or after one was taken out.

    What was confirmed by its predecessor, it knows to be so when its own high watermark gets there
    (coordinator §9.3)."""
    found = []
    written = list(writes(recording))
    for at, group_id, partition, told in answers(recording):
        allowed = in_force(recording, written, at, group_id, partition)
        if told not in allowed:
            at_ms = recording.moments[at].at_ms
            found.append(f"{at_ms} ms: {group_id} {partition} at {told}, not one of {allowed}")
    return found


def ended_transaction(
    record: TxnOffsetCommit | TransactionMarker,
    pending: dict[tuple[str, str, int, int], OffsetCommit],
) -> Iterator[OffsetCommit]:
    """What a marker commits: offsets of its producer, unless they were overtaken. No answer tells
    when: EndTxn is answered before its markers are written (transactions §2.4)."""
    if isinstance(record, TxnOffsetCommit):
        key = (record.group_id, record.topic, record.partition, record.producer_id)
        pending[key] = OffsetCommit(record.group_id, record.topic, record.partition, record.value)
        return
    for key in [
        key for key in pending if (key[0], key[3]) == (record.group_id, record.producer_id)
    ]:
        commit = pending.pop(key)
        if record.value:
            yield commit


def writes(recording: Recording) -> Iterator[Written]:
    """What became of committed offsets, in order."""
    names = {life.partition.topic_id: life.topic for life in recording.partitions}
    confirmed: dict[tuple[str, int, TopicPartition], int] = {}
    for at, moment in enumerate(recording.moments):
        is_commit = isinstance(moment.request, OffsetCommitRequest)
        if is_commit and moment.kind is StepKind.RESPONSE_RELEASED and moment.shard is not None:
            for partition, error in moment.response.errors.items():
                if error is ErrorCode.NONE:
                    key = moment.shard.name, moment.operation, partition
                    confirmed[key] = at
    pending: dict[tuple[str, str, int, int], OffsetCommit] = {}
    for at, moment in enumerate(recording.moments):
        for record in moment.records:
            assert moment.shard is not None
            if isinstance(record, TxnOffsetCommit | TransactionMarker):
                for commit in ended_transaction(record, pending):
                    yield Written(at, commit, moment.shard.log_end_offset, None)
            if not isinstance(record, OffsetCommit):
                continue
            for overtaken in [one for one in pending if one[:3] == record[:3]]:
                del pending[overtaken]
            of_request = getattr(moment.request, "offsets", {})
            released = [
                confirmed.get((moment.shard.name, moment.operation, partition))
                for partition in of_request
                if (names.get(partition.topic_id), partition.partition) == record[1:3]
            ]
            log_end = moment.shard.log_end_offset
            yield Written(at, record, log_end, released[0] if released else None)


def answers(recording: Recording) -> Iterator[tuple[int, str, TopicPartition, int]]:
    """What coordinators said is committed: at which moment, of which group and partition."""
    for at, moment in enumerate(recording.moments):
        request = moment.request
        if moment.kind is StepKind.COORDINATOR_REQUEST and isinstance(request, OffsetFetchRequest):
            offsets = {} if moment.response is None else moment.response.offsets
            for partition, told in offsets.items():
                yield at, request.group_id, partition, told


def in_force(
    recording: Recording, written: list[Written], at: int, group_id: str, partition: TopicPartition
) -> list[int]:
    """What may be told at a moment of what is committed."""
    topic = life_of(recording, partition).topic
    shard = recording.moments[at].shard
    known = 0 if shard is None else shard.high_watermark
    allowed = [NOTHING]
    for one in written:
        record = one.record
        if one.at > at or (record.group_id, record.topic, record.partition) != (
            group_id,
            topic,
            partition.partition,
        ):
            continue
        if one.confirmed is not None and one.confirmed < at and one.log_end <= known:
            allowed = []
        if record.value is None:
            allowed.append(NOTHING)
            continue
        allowed.append(record.value.offset)
        if not record.value.may_be_of(partition.topic_id):
            # Who asks by name is told that of the former topic of the name (coordinator §8.4).
            allowed.append(NOTHING)
    return allowed
