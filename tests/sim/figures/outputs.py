"""Figures of partitions that applications write to in transactions, from what leaders wrote."""

from __future__ import annotations

from collections.abc import Iterator

from recording import Recording

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import RecordsWritten

COMMITTED = IsolationLevel.READ_COMMITTED


class _Log:
    """The offsets of a partition one by one: whose record it is, None for a marker; and what became
    of it, None as long as that is open."""

    def __init__(self) -> None:
        self.writer: list[int | None] = []
        self.fate: list[bool | None] = []

    def enter(self, written: RecordsWritten) -> None:
        count = written.end - written.first
        if written.committed is None:
            self.writer += [written.producer_id] * count
            self.fate += [None] * count
            return
        for offset, writer in enumerate(self.writer):
            if writer == written.producer_id and self.fate[offset] is None:
                self.fate[offset] = written.committed
        self.writer += [None] * count
        self.fate += [True] * count

    @property
    def stable(self) -> int:
        return self.fate.index(None) if None in self.fate else len(self.fate)

    def counts(self, level: IsolationLevel) -> int:
        """What a group has to process by now, or will have."""
        stable = self.stable if level is COMMITTED else len(self.fate)
        records = [offset for offset in range(stable) if self.writer[offset] is not None]
        if level is COMMITTED:
            records = [offset for offset in records if self.fate[offset]]
        return len(records) + len(self.fate) - stable


def writes(
    recording: Recording, partition: TopicPartition
) -> Iterator[tuple[int, RecordsWritten, _Log]]:
    """When something was written there, what, and the log after that."""
    log = _Log()
    for moment in recording.moments:
        if moment.kind is StepKind.RECORDS_WRITTEN and moment.event.partition == partition:
            log.enter(moment.event)
            yield moment.at_ms, moment.event, log


def grown(recording: Recording, partition: TopicPartition, group_id: str) -> list[tuple[int, int]]:
    """Times, and what there is for a group from then on."""
    level = recording.spec.isolation_levels[group_id]
    return [(at_ms, log.counts(level)) for at_ms, _, log in writes(recording, partition)]


def output_figures(recording: Recording) -> dict[str, float]:
    """None of a world without output topics."""
    spec = recording.spec
    if not spec.output_topics:
        return {}
    unstable, longest, aborted = 0, 0, 0
    for life in recording.partitions:
        began: dict[int, int] = {}
        log = _Log()
        for at_ms, written, log in writes(recording, life.partition):
            unstable = max(unstable, len(log.fate) - log.stable)
            if written.committed is None:
                began.setdefault(written.producer_id, at_ms)
            elif written.producer_id in began:
                longest = max(longest, at_ms - began.pop(written.producer_id))
        longest = max([longest, *(recording.end_ms - at_ms for at_ms in began.values())])
        fates = [fate for fate, writer in zip(log.fate, log.writer, strict=True) if writer]
        for group_id in spec.group_ids:
            if fates and spec.isolation_levels[group_id] is not COMMITTED:
                seen = {
                    record
                    for one in recording.deliveries
                    if (one.group_id, one.partition) == (group_id, life.partition)
                    for record in range(one.start, one.end)
                }
                aborted += sum(fates[record] is False for record in seen)
    return {
        "unstable_records_max": unstable,
        "open_transaction_ms_max": longest,
        "records_read_aborted": aborted,
    }
