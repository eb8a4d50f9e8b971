"""Offsets of transactions that have not ended yet.

Source: transactions §3. Changed by ``replay`` of records only.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import Any

from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.producer_markers import ProducerMarkers
from rebalance_sim.protocol.wire.records import (
    OffsetCommitValue,
    TransactionMarker,
    TxnOffsetCommit,
)
from rebalance_sim.protocol.wire.value import value


@value
class PendingOffset:
    """What a producer wants to commit for one partition. ``sequence`` is its place in the log among
    pending ones. ``is_superseded``: the log has a newer committed offset, so that this one will not
    count even if it commits."""

    offset: OffsetCommitValue
    sequence: int
    is_superseded: bool = False


@value
class ProducerEntry:
    """What the log says of a producer: its newest epoch, that of the coordinator of transactions
    that wrote its last marker, and its markers."""

    producer_epoch: int
    coordinator_epoch: int = -1
    markers: ProducerMarkers = field(default_factory=ProducerMarkers)


PendingKey = tuple[str, str, int, int]
"""Group, topic name, partition number, producer id."""


class PendingOffsets:
    """All pending offsets of one shard."""

    def __init__(self, context: CoordinatorContext[Any]) -> None:
        table: dict[Any, PendingOffset] = context.groups_of(PendingOffset)
        self._rules = context.rules
        self._pending: dict[PendingKey, PendingOffset] = table
        self.table = table
        """All of them; to ask whether there are any costs nothing."""
        self._producers: dict[Any, ProducerEntry] = context.groups_of(ProducerEntry)

    def markers_of(self, producer_id: int) -> ProducerMarkers:
        """The markers of this producer."""
        known = self._producers.get(producer_id)
        return ProducerMarkers() if known is None else known.markers

    def partitions_of(self, group_id: str) -> set[tuple[str, int]]:
        """Topic name and number of partitions for which anybody has a pending offset."""
        return {(topic, number) for group, topic, number, _ in self._pending if group == group_id}

    def of_topic(self, topic: str) -> list[tuple[str, str, int]]:
        """Group, topic and number of partitions of this topic that have a pending offset."""
        return sorted({key[:3] for key in self._pending if key[1] == topic})

    def add(self, record: TxnOffsetCommit) -> None:
        """A producer has written an offset; it replaces one that it wrote before."""
        key = (record.group_id, record.topic, record.partition, record.producer_id)
        last = max((one.sequence for one in self._pending.values()), default=0)
        self._pending[key] = PendingOffset(offset=record.value, sequence=last + 1)
        known = self._producers.get(record.producer_id)
        if known is None or known.producer_epoch < record.producer_epoch:
            before = known or ProducerEntry(producer_epoch=record.producer_epoch)
            self._producers[record.producer_id] = replace(
                before, producer_epoch=record.producer_epoch
            )

    def supersede(
        self, group_id: str, topic: str, partition: int, before: int | None = None
    ) -> None:
        """An offset has been committed: what was pending, up to the sequence ``before`` if that is
        given, is older."""
        for key in self._of(group_id, topic, partition):
            one = self._pending[key]
            if not one.is_superseded and (before is None or one.sequence < before):
                self._pending[key] = PendingOffset(
                    offset=one.offset, sequence=one.sequence, is_superseded=True
                )

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        """The offset is deleted, and what is pending with it."""
        for key in self._of(group_id, topic, partition):
            del self._pending[key]

    def end(self, marker: TransactionMarker) -> list[tuple[str, int, OffsetCommitValue]]:
        """A transaction has ended. Topic name, partition number and offset of what counts from now
        on."""
        group_id, producer_id = marker.group_id, marker.producer_id
        known = self._producers.get(producer_id)
        before = known or ProducerEntry(producer_epoch=marker.producer_epoch)
        self._producers[producer_id] = ProducerEntry(
            producer_epoch=max(before.producer_epoch, marker.producer_epoch),
            coordinator_epoch=max(before.coordinator_epoch, marker.coordinator_epoch),
            markers=before.markers.with_one(marker.producer_epoch),
        )
        keys = [key for key in sorted(self._pending) if (key[0], key[3]) == (group_id, producer_id)]
        counting = []
        for key in keys:
            one = self._pending.pop(key)
            counts = marker.value or not self._rules.drops_aborted_offsets
            if counts and not one.is_superseded:
                _, topic, partition, _ = key
                counting.append((topic, partition, one.offset))
                self.supersede(group_id, topic, partition, before=one.sequence)
        return counting

    def _of(self, group_id: str, topic: str, partition: int) -> list[PendingKey]:
        return [key for key in sorted(self._pending) if key[:3] == (group_id, topic, partition)]
