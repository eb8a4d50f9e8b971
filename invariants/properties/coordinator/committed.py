"""What is committed stays.

Sources: coordinator §9.3-§9.5, §14.1.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.coordinator.replay import differs
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.wire.records import ConsumerGroupRegularExpression, OffsetCommit, Record

ORDER = 81

RecordKey = tuple[int, str, str, int]
"""Type, group, member (or pattern, or topic) and partition of a record: what compaction goes by."""


class _Compacted:
    """A log as compaction would leave it: the last record of a key counts, tombstones go."""

    def __init__(self) -> None:
        self.records: dict[RecordKey, Record] = {}

    def enter(self, record: Record) -> None:
        """The next record."""
        if record.value is None:
            self.records.pop(_key(record), None)
        else:
            self.records[_key(record)] = record


def _key(record: Record) -> RecordKey:
    if type(record) is OffsetCommit:
        return record.type_id, record.group_id, record.topic, record.partition
    if type(record) is ConsumerGroupRegularExpression:
        return record.type_id, record.group_id, record.regular_expression, -1
    return record.type_id, record.group_id, getattr(record, "member_id", ""), -1


_KEPT = 1 << 14
"""So many committed records are compared one by one when they are committed again; of older ones
what compaction leaves is compared when a leader loads its log."""


class CommittedKept(Property):
    """coordinator C21. Below a leader's high watermark, compaction may drop what a later record
    replaced.

    The log may hold records of other groups: they are seen as gaps, and not judged here.
    """

    id = "log.committed_kept"
    sentence = "A committed record never disappears, and no offset is committed twice."
    clauses = ("coordinator C21", "defects S5")
    violated_by = ("test:lost-commit",)
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._first = 0
        self._committed: list[Record | None] = []
        """What was committed from the offset ``_first`` on, by offset; None where nobody looked in
        time, or where another group wrote."""
        self._latest = _Compacted()
        """What compaction would keep of all before the offset ``_entered``; caught up with at
        loads, and where records are forgotten."""
        self._entered = 0
        self._leader_epoch = -1
        """The last term in which a leader has loaded the log."""
        self._tails: dict[str, tuple[int, list[Record | None]]] = {}
        """Shard -> first offset that was not committed when last seen, and the records from it."""

    def on_append(self, step: Step) -> Finding | None:
        """Remember what was appended."""
        shard = step.shard
        end = shard.log_end_offset
        tail = self._tails.get(shard.name)
        if tail is None:
            tail = self._tails[shard.name] = end - len(step.records), []
        first, records = tail
        gap = end - len(step.records) - first - len(records)
        if gap < 0:
            self._read_tail(shard)
            return None
        if gap:
            records += [None] * gap
        records += step.records
        return None

    def on_committed(self, step: Step) -> Finding | None:
        """Enter what a leader committed; offsets that were committed before must agree."""
        shard = step.shard
        end = shard.high_watermark
        first, records = self._tails.get(shard.name, (end, []))
        count = end - first
        if count <= 0:
            return None
        self._tails[shard.name] = end, records[count:]
        del records[count:]
        committed = self._committed
        if first < self._first:
            del records[: self._first - first]
            first = self._first
        place = first - self._first
        again = len(committed) - place
        if again > 0:
            known = committed[place : place + len(records)]
            if known != records[:again]:
                for offset, (record, other) in enumerate(zip(records, known, strict=False), first):
                    if record is None:
                        records[offset - first] = other
                    elif other is not None and other != record:
                        what = f"record at offset {offset}"
                        return differs(self.model, shard, what, record, other)
                committed[place : place + len(known)] = records[:again]
            del records[:again]
        elif again < 0 and shard.is_active:
            committed += [None] * -again
            again = 0
        if again >= 0:
            committed += records
        if len(committed) > 2 * _KEPT:
            self._forget(len(committed) - _KEPT)
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """A new leader must have everything that was ever committed, but what a fault may lose; one
        that does not know that its term is over may not have what was committed since."""
        shard = step.shard
        records = self._read_tail(shard)
        if shard.leader_epoch < self._leader_epoch:
            return None
        self._leader_epoch = shard.leader_epoch
        if self.model.went_back_at_step == step.index:
            self._go_back(shard, records)
            return None
        known_end = self._first + len(self._committed)
        if shard.log_end_offset < known_end:
            return Finding(
                f"{shard.name} became leader with a log that ends at {shard.log_end_offset}; "
                f"committed was {known_end}"
            )
        self._enter_to(known_end)
        # A new leader may not know yet how far the old one had committed.
        group_id = self.model.group_id
        end = self._entered = max(known_end, shard.high_watermark)
        latest = _Compacted()
        for record in records[: len(records) - (shard.log_end_offset - end)]:
            if record.group_id == group_id:
                latest.enter(record)
        if end > known_end:  # Committed before anybody looked.
            self._latest = latest
            self._committed += [None] * (end - known_end)
        elif latest.records != self._latest.records:
            found, expected = latest.records, self._latest.records
            key = min(k for k in {*found, *expected} if found.get(k) != expected.get(k))
            what = f"committed record of type {key[0]} for {key[2] or key[1]}"
            return differs(self.model, shard, what, found.get(key), expected.get(key))
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """What a leader drops must not have been committed; a follower's log is judged later."""
        shard = step.shard
        first, records = self._tails.pop(shard.name, (shard.log_end_offset, []))
        if shard.log_end_offset >= first:
            self._tails[shard.name] = first, records[: shard.log_end_offset - first]
        elif shard.is_active:
            return Finding(
                f"{shard.name} dropped its log from {shard.log_end_offset}; committed was {first}"
            )
        return None

    def _enter_to(self, end: int) -> None:
        """Compact everything before an offset."""
        group_id = self.model.group_id
        for record in self._committed[self._entered - self._first : end - self._first]:
            if record is not None and record.group_id == group_id:
                self._latest.enter(record)
        self._entered = max(self._entered, end)

    def _forget(self, count: int) -> None:
        """The oldest of what is kept one by one are compacted, so that a long run needs no more."""
        self._enter_to(self._first + count)
        del self._committed[:count]
        self._first += count

    def _go_back(self, shard: ShardView, records: Sequence[Record]) -> None:
        """The log of a leader that lacks committed records is what counts from now on."""
        self._committed.clear()
        self._first = self._entered = shard.log_end_offset
        self._latest = _Compacted()
        for record in records:
            if record.group_id == self.model.group_id:
                self._latest.enter(record)

    def _read_tail(self, shard: ShardView) -> Sequence[Record]:
        records = shard.log_records()
        behind = shard.log_end_offset - shard.high_watermark
        tail: list[Record | None] = list(records[len(records) - behind :])
        self._tails[shard.name] = shard.high_watermark, tail
        return records
