"""What is measured of partitions that applications write to in transactions."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import RecordsWritten
from rebalance_sim.sim.broker.output_log import OutputLog
from rebalance_sim.sim.observe.deliveries import Deliveries
from rebalance_sim.sim.observe.sums import Sums


class _Highest:
    """The highest value of a run, and since a part of it began."""

    def __init__(self) -> None:
        self.ever = self.lately = 0

    def add(self, value: int) -> None:
        """One more."""
        self.ever, self.lately = max(self.ever, value), max(self.lately, value)


class OutputTotals:
    """``readers``: what the applications of each group were handed that reads what is not
    committed."""

    def __init__(
        self, outputs: dict[TopicPartition, OutputLog], readers: Iterable[Deliveries]
    ) -> None:
        self._outputs = outputs
        self._readers = tuple(readers)
        self._unstable, self._open_ms = _Highest(), _Highest()
        self._began_ms: dict[tuple[TopicPartition, int], int] = {}
        """Of transactions that are open in a partition, by producer."""

    def on_written(self, written: RecordsWritten, now_ms: int) -> None:
        """A partition has more records, or a marker."""
        self._unstable.add(self._outputs[written.partition].unstable_records)
        key = written.partition, written.producer_id
        if written.committed is None:
            self._began_ms.setdefault(key, now_ms)
        else:
            self._open_ms.add(now_ms - self._began_ms.pop(key, now_ms))

    def sums(self, now_ms: int) -> Sums:
        """What has added up so far."""
        for began_ms in self._began_ms.values():
            self._open_ms.add(now_ms - began_ms)
        return Sums(
            counts={"records_read_aborted": float(sum(map(self._read_aborted, self._readers)))},
            highest={
                "unstable_records_max": self._unstable.ever,
                "open_transaction_ms_max": self._open_ms.ever,
            },
            lately={
                "unstable_records_max": self._unstable.lately,
                "open_transaction_ms_max": self._open_ms.lately,
            },
        )

    def _read_aborted(self, deliveries: Deliveries) -> int:
        return sum(
            deliveries.handed_out(partition).count_within(first, end)
            for partition, output in self._outputs.items()
            for first, end in output.aborted_spans()
        )

    def begin_part(self) -> None:
        """A part of the run begins."""
        self._unstable.lately = self._open_ms.lately = 0
