"""One broker's replica of the offsets partition: records with leader epochs, and a high watermark.

Source: consumer-group-coordinator.md, sections 9.4 and 9.5. Offsets count records from 0. Two
replicas that have the same leader epoch at an offset have the same record there, and the same log
before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.records import Record

__all__ = ["ReplicaLog"]


class ReplicaLog:
    """A replica. ``high_watermark`` is what this replica knows to be committed."""

    __slots__ = ("epochs", "high_watermark", "records")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epochs: list[int] = []
        self.high_watermark = 0

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return len(self.records)

    def append(self, records: Sequence[Record], leader_epoch: int) -> None:
        """The leader writes."""
        self.records.extend(records)
        self.epochs.extend([leader_epoch] * len(records))

    def fetch_from(self, leader: ReplicaLog, up_to: int) -> None:
        """Copy the leader's records up to an offset, and learn its high watermark.

        The log must be a prefix of the leader's, see ``divergence_from``.
        """
        start = len(self.records)
        if up_to > start:
            self.records.extend(leader.records[start:up_to])
            self.epochs.extend(leader.epochs[start:up_to])
        self.high_watermark = max(
            self.high_watermark, min(leader.high_watermark, len(self.records))
        )

    def divergence_from(self, leader: ReplicaLog) -> int:
        """The first offset at which this log does not agree with the leader's."""
        offset = min(len(self.records), len(leader.records))
        while offset > 0 and self.epochs[offset - 1] != leader.epochs[offset - 1]:
            offset -= 1
        return offset

    def truncate_to(self, offset: int) -> int:
        """Drop everything from ``offset`` on; the number of records that are lost."""
        lost = len(self.records) - offset
        if lost > 0:
            del self.records[offset:]
            del self.epochs[offset:]
            self.high_watermark = min(self.high_watermark, offset)
        return max(lost, 0)
