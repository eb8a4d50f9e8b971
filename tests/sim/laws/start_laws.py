"""Laws of where a new owner starts. Each returns what violates it, in words."""

from __future__ import annotations

from lives import Holding, holdings
from recording import PartitionLife, Recording

from rebalance_sim.protocol.clients.common.events import Seek
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.spec import OffsetReset

NOTHING = -1


def at_the_committed_offset_or_where_reset_says(recording: Recording) -> list[str]:
    """Its position is the offset that the coordinator has told it last; if it told that nothing is
    committed, ``auto.offset.reset`` decides: the beginning, or what was the end of the log at some
    time between that answer and the position."""
    found = []
    for holding in holdings(recording):
        if holding.position is None or goes_on_by_name(holding):
            continue
        asked_ms, told = told_last(holding)
        allowed = range(told, told + 1)
        if told == NOTHING:
            allowed = where_reset_says(recording, holding, asked_ms)
        if holding.position not in allowed:
            found.append(
                f"{holding.life.name} #{holding.life.incarnation} starts with {holding.partition} "
                f"at {holding.position}, not within {allowed}"
            )
    return found


def goes_on_by_name(holding: Holding) -> bool:
    """Its topic was deleted and created again: a client that knows it by name has taken position
    and all over to the new one (classic §4.2, client §7)."""
    return any(
        held.number == holding.number and partition != holding.partition
        for _, _, seen in holding.life.moments
        for partition, held in seen.held.items()
    )


def told_last(holding: Holding) -> tuple[int, int]:
    """When the process was last told before it had the position, and which offset; or its
    application has sought, as after a transaction that aborted (transactions §4)."""
    assert holding.begins is not None
    found = None
    for at, moment, _ in holding.life.moments:
        response = getattr(moment.event, "response", None)
        offsets = getattr(response, "offsets", {})
        if isinstance(moment.event, Seek):
            offsets = moment.event.positions
        if at <= holding.begins and holding.partition in offsets:
            found = moment.at_ms, offsets[holding.partition]
    assert found is not None, f"{holding.life.name} never asked for {holding.partition}"
    return found


def where_reset_says(recording: Recording, holding: Holding, asked_ms: int) -> range:
    """The beginning, or the ends of the log within that time."""
    assert holding.begins is not None
    seen = recording.moments[holding.begins].client
    assert seen is not None
    if seen.spec.auto_offset_reset is OffsetReset.EARLIEST:
        return range(1)
    until_ms = recording.moments[holding.begins].at_ms
    return range(
        log_end(recording, holding.partition, asked_ms),
        log_end(recording, holding.partition, until_ms) + 1,
    )


def log_end(recording: Recording, partition: TopicPartition, at_ms: int) -> int:
    """Records that its topic has brought it by then; of a deleted topic, as if it had gone on."""
    life = life_of(recording, partition)
    rates = {topic.name: topic.records_per_second for topic in recording.spec.topics}
    return rates.get(life.topic, 0) * (at_ms - life.from_ms) // 1_000


def life_of(recording: Recording, partition: TopicPartition) -> PartitionLife:
    """A partition's."""
    (found,) = [life for life in recording.partitions if life.partition == partition]
    return found
