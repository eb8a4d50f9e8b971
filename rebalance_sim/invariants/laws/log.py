"""What is written: answers wait for it, it stays, and of who is removed nothing stays.

Sources: coordinator §4.2, §8.5, §8.6, §9.1-§9.6, §14.1, §14.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from rebalance_sim.invariants.formatting import listed
from rebalance_sim.invariants.laws.replay import differs
from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.property import Finding, Interest, Property, notes
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupRegularExpression,
    OffsetCommit,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)


class Tombstones(Property):
    """coordinator C16, §8.6: what compaction leaves of who was removed is nothing."""

    id = "log.tombstones"
    sentence = (
        "A member is removed with its target and assignment, and with the next group epoch or its "
        "static successor; a group when it is empty, with all of it."
    )
    clauses = (
        *("coordinator C16", "coordinator §4.2", "coordinator §8.5", "coordinator §8.6"),
        *("coordinator §9.2", "defects S5"),
    )
    violated_by = (
        "mut-no-assignment-tombstone",
        "mut-no-bump-on-leave",
        "mut-delete-keeps-offsets",
    )

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the records of every member that went, and at what is left of a group."""
        if change.is_group_removed:
            offset_model = self.model.offset_models.get(step.shard.name)
            newest = sorted(offset_model.newest) if offset_model else ()
            left = (*change.left_behind, *(f"the offset of {name}-{n}" for name, n in newest))
            return Finding(f"the group was deleted, and left {listed(left)}") if left else None
        for member_id, (before, after) in change.members.items():
            if before is None or before.current is None:
                continue
            if after is not None:
                if after.current is None:
                    return Finding(f"{member_id} lost its current assignment and stays a member")
                continue
            written = {
                record.type_id
                for record in change.records
                if record.value is None and getattr(record, "member_id", None) == member_id
            }
            who = self.model.who(member_id)
            if not written >= {5, 7, 8}:
                types = listed(sorted(written))
                what = f"{who} was removed by tombstones of types {types}, not of 5, 7, 8"
                return Finding(what, member=member_id)
            if change.group_epoch[1] <= change.group_epoch[0] and not (
                before.instance_id is not None and before.instance_id in change.ledger.instances
            ):
                what = f"{who} was removed, and the group epoch stays {change.group_epoch[1]}"
                return Finding(what, member=member_id)
        return None


_WAITING = (
    *(ConsumerGroupHeartbeatRequest, OffsetCommitRequest, OffsetFetchRequest),
    *(ConsumerGroupPrepareAssignmentRequest, ConsumerGroupInstallAssignmentRequest),
    *(OffsetDeleteRequest, DeleteGroupsRequest),
)
"""Requests whose answer waits for what was written before; of fetches, those of stable offsets
(coordinator §8.2)."""

_BROKERS_OWN = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""What a broker answers in the coordinator's place; it shows nothing of its state."""

_NEVER = 1 << 62
"""An offset that no log comes to."""


class CommitBeforeResponse(Property):
    """coordinator C20, §9.6. Reads (describe, list) show committed state and wait for nothing."""

    id = "log.commit_before_response"
    sentence = (
        "No answer is released before all records written until then are committed; too late, it "
        "is COORDINATOR_NOT_AVAILABLE, to an OffsetFetch NOT_COORDINATOR."
    )
    clauses = ("coordinator C20", "coordinator E2", "coordinator §9.6", "defects S5")
    violated_by = ("mut-reply-before-commit", "KAFKA-16973", "KafScale-121")
    judges_mixed = True
    interest = Interest(requests=_WAITING)
    _waits_for: dict[tuple[str, int], int] = notes(dict)
    """Shard and operation -> the end offset of what its answer waits for."""

    def on_request(self, step: Step) -> None:
        """Remember what an answer must wait for."""
        shard, request = step.shard, step.request
        end = shard.log_end_offset
        if end > shard.high_watermark and (
            type(request) is not OffsetFetchRequest or request.require_stable
        ):
            self._waits_for[shard.name, step.operation] = end

    def on_released(self, step: Step) -> Finding | None:
        """Has the log been committed that far? If not, and if the records are still there, and so
        is their coordinator, they have not been committed in time."""
        if not self._waits_for:
            return None
        shard = step.shard
        offset = self._waits_for.pop((shard.name, step.operation), None)
        if offset is None or offset <= shard.high_watermark:
            return None
        codes = set(_codes_of(step.response))
        waits = f"{shard.name} answers operation {step.operation}, whose records"
        if codes.isdisjoint(_BROKERS_OWN):
            end = "are lost" if offset == _NEVER else f"end at {offset}"
            return Finding(f"{waits} {end}; committed is {shard.high_watermark}")
        is_fetch = type(step.request) is OffsetFetchRequest
        late = ErrorCode.NOT_COORDINATOR if is_fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE
        if codes == {late} or not shard.is_active or shard.log_end_offset < offset:
            return None
        return Finding(f"{waits} have not been committed in time, and not with {late.name}")

    def on_truncated(self, step: Step) -> None:
        """What could not be written is never committed, whatever comes to its offsets later."""
        shard = step.shard
        for key, end in self._waits_for.items():
            if key[0] == shard.name and end > shard.log_end_offset:
                self._waits_for[key] = _NEVER

    def on_unloaded(self, step: Step) -> None:
        """Answers of a shard that gave up are errors by now."""
        name = step.shard.name
        self._waits_for = {key: end for key, end in self._waits_for.items() if key[0] != name}


def _codes_of(response: object) -> Iterable[ErrorCode | None]:
    return getattr(response, "errors", {}).values() or [getattr(response, "error_code", None)]


RecordKey = tuple[int, str, str, int]
"""Type, group, member (or pattern, or topic) and partition of a record: the key of compaction."""


def _key(record: Record) -> RecordKey:
    if type(record) is TransactionMarker:
        name = f"{record.producer_id} {record.producer_epoch}"
        return record.type_id, record.group_id, name, -1
    if type(record) is OffsetCommit or type(record) is TxnOffsetCommit:
        return record.type_id, record.group_id, record.topic, record.partition
    if type(record) is ConsumerGroupRegularExpression:
        return record.type_id, record.group_id, record.regular_expression, -1
    return record.type_id, record.group_id, getattr(record, "member_id", ""), -1


class CommittedKept(Property):
    """coordinator C21. Below a leader's high watermark, compaction may drop what a later record
    replaced. Records of other groups are seen as gaps, and not judged here."""

    id = "log.committed_kept"
    sentence = "A committed record never disappears, and no offset is committed twice."
    clauses = ("coordinator C21", "defects S5")
    violated_by = ("test:lost-commit",)
    judges_mixed = True
    kept = 1 << 14
    """So many committed records are compared one by one when they are committed again; of older
    ones what compaction leaves is compared when a leader loads its log."""

    _end: int = notes(int)
    """Everything before this offset was committed."""
    _latest: dict[RecordKey, Record] = notes(dict)
    """What compaction would keep of it, but for what is in ``_newest``."""
    _newest: list[Record] = notes(list)
    """What was committed since that was last asked for, in order: only a load asks."""
    _recent: dict[int, Record | None] = notes(dict)
    """Offset -> record, of the last ones; nothing, or None, where another group wrote."""
    _leader_epoch = -1
    """The last term in which a leader has loaded the log."""
    _tails: dict[str, tuple[int, list[Record | None]]] = notes(dict)
    """Shard -> first offset that was not committed when last seen, and the records from it;
    None where another group wrote."""

    def on_append(self, step: Step) -> None:
        """Remember what was appended."""
        shard = step.shard
        begin = shard.log_end_offset - len(step.records)
        tail = self._tails.get(shard.name)
        if tail is None:
            tail = self._tails[shard.name] = begin, []
        first, records = tail
        gap = begin - first - len(records)
        if gap < 0:
            self._read_tail(shard)
            return
        if gap:
            records += [None] * gap
        records += step.records

    def on_committed(self, step: Step) -> Finding | None:
        """Enter what a leader committed; offsets that were committed before must agree."""
        shard = step.shard
        end, recent, newest = shard.high_watermark, self._recent, self._newest
        tail = self._tails.get(shard.name)
        if tail is None or end <= tail[0]:
            return None
        first, records = tail
        fresh = records[: end - first]
        self._tails[shard.name] = end, records[end - first :]
        if first > self._end and not shard.is_active:
            return None
        if first < self._end:
            again, fresh = fresh[: self._end - first], fresh[self._end - first :]
            for offset, record in enumerate(again, first):
                known = recent.get(offset)
                if known is None:
                    recent[offset] = record
                elif record is not None and known is not record and known != record:
                    return differs(self.model, shard, f"record at offset {offset}", record, known)
            first += len(again)
        self._end = max(self._end, first + len(fresh))
        for offset, record in enumerate(fresh, first):
            if record is not None:
                recent[offset] = record
                newest.append(record)
        if len(newest) > self.kept:
            self._compact()
        if len(recent) > 2 * self.kept:
            self._recent = dict(islice(recent.items(), len(recent) - self.kept, None))
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """A new leader must have everything that was ever committed, but what a fault may lose; one
        that does not know that its term is over may not have what was committed since."""
        shard = step.shard
        records, log_end = self._read_tail(shard), shard.log_end_offset
        if shard.leader_epoch < self._leader_epoch:
            return None
        self._leader_epoch = shard.leader_epoch
        if self.model.went_back_at_step == step.index:  # Its log is what counts from now on.
            self._recent.clear()
            self._end = -1
        elif log_end < self._end:
            return Finding(
                f"{shard.name} became leader with a log that ends at {log_end}; committed was "
                f"{self._end}"
            )
        # A new leader may not know yet how far the old one had committed.
        end = log_end if self._end < 0 else max(self._end, shard.high_watermark)
        found: dict[RecordKey, Record] = {}
        for record in records[: len(records) - (log_end - end)]:
            self._enter(found, record)
        self._compact()
        expected = self._latest
        if end > self._end:  # Committed before anybody looked.
            self._latest, self._end = found, end
        elif found != expected:
            key = min(k for k in {*found, *expected} if found.get(k) != expected.get(k))
            what = f"committed record of type {key[0]} for {key[2] or key[1]}"
            return differs(self.model, shard, what, found.get(key), expected.get(key))
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """What a leader drops must not have been committed; a follower's log is judged later."""
        shard = step.shard
        end = shard.log_end_offset
        first, records = self._tails.pop(shard.name, (end, []))
        if end >= first:
            self._tails[shard.name] = first, records[: end - first]
        elif shard.is_active:
            return Finding(f"{shard.name} dropped its log from {end}; committed was {first}")
        return None

    def _compact(self) -> None:
        """Bring ``_latest`` up to date."""
        for record in self._newest:
            self._enter(self._latest, record)
        self._newest.clear()

    def _enter(self, latest: dict[RecordKey, Record], record: Record) -> None:
        """The next record; of others, it leaves the last of each key."""
        if record.group_id == self.model.group_id:
            if record.value is None:
                latest.pop(_key(record), None)
            else:
                latest[_key(record)] = record

    def _read_tail(self, shard: ShardView) -> Sequence[Record]:
        records = shard.log_records()
        behind = shard.log_end_offset - shard.high_watermark
        tail: list[Record | None] = list(records[len(records) - behind :])
        self._tails[shard.name] = shard.high_watermark, tail
        return records
