"""Transactions: every effect counts once, of members at their epoch, and nothing pending is shown.

Source: transactions §3, §4; KIP-447.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rebalance_sim.invariants.laws.offset_fences import kept_since
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.clients import SendOffsetsToTransaction
from rebalance_sim.protocol.clients.kinds import EVERY_KIND
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest
from rebalance_sim.protocol.wire.records import (
    OffsetCommit,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import TxnOffsetCommitRequest


class _Sent(NamedTuple):
    """What a transaction of a client is made of."""

    client: str
    starts: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]


class ExactlyOnce(Property):
    """transactions §4. Judged from the second transaction with a partition on, and anew after
    others have changed its offset: where its client then begins is not the application's doing."""

    id = "transactions.exactly_once"
    sentence = (
        "Transactions that commit follow each other in every partition: no record's effect counts "
        "twice, and none is left out."
    )
    clauses = ("transactions §3", "transactions §4")
    violated_by = ("mut-abort-keeps-offsets",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    needs_data_plane = True
    outlives_lost_commits = False
    interest = Interest(events=(SendOffsetsToTransaction,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._sent: dict[tuple[int, int], _Sent] = {}
        """By producer id and epoch."""
        self._ends: dict[TopicPartition, int] = {}
        self._waiting: dict[str, deque[tuple[int, Record]]] = {}
        """Shard -> offset and record of what its log has, until that is committed."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A transaction begins."""
        event = step.event
        producer = event.producer_id, event.producer_epoch
        self._sent[producer] = _Sent(entry.name, event.starts, event.offsets)
        return None

    def on_append(self, step: Step) -> Finding | None:
        """One has ended, or somebody else has changed an offset, once that is committed."""
        shard, records = step.shard, step.records
        for offset, record in enumerate(records, shard.log_end_offset - len(records)):
            self._note(shard, offset, record)
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Another leader commits what it has inherited, or has lost it."""
        shard = step.shard
        self._waiting.pop(shard.name, None)
        records = shard.log_records()
        for offset, record in enumerate(records, shard.log_end_offset - len(records)):
            if offset >= shard.high_watermark or type(record) is TransactionMarker:
                self._note(shard, offset, record)
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """What was not committed is gone."""
        end, waiting = step.shard.log_end_offset, self._waiting.get(step.shard.name, deque())
        while waiting and waiting[-1][0] >= end:
            waiting.pop()
        return None

    def on_committed(self, step: Step) -> Finding | None:
        """What was written counts."""
        waiting = self._waiting.get(step.shard.name)
        finding = None
        while waiting and waiting[0][0] < step.shard.high_watermark:
            record = waiting.popleft()[1]
            if type(record) is TransactionMarker:
                finding = finding or self._end(record)
            elif type(record) is OffsetCommit:
                topic = step.shard.coordinator.image.by_name.get(record.topic)
                if topic is not None:
                    self._ends.pop(TopicPartition(topic.topic_id, record.partition), None)
        return finding

    def _note(self, shard: ShardView, offset: int, record: Record) -> None:
        is_marker = type(record) is TransactionMarker
        if record.group_id == self.model.group_id and (is_marker or type(record) is OffsetCommit):
            if is_marker or self._sent:
                self._waiting.setdefault(shard.name, deque()).append((offset, record))

    def on_metadata(self, step: Step) -> Finding | None:
        """What there was in a topic that is gone does not matter."""
        by_id = step.shard.coordinator.image.by_id
        self._ends = {p: end for p, end in self._ends.items() if p.topic_id in by_id}
        return None

    def _end(self, marker: TransactionMarker) -> Finding | None:
        # In version 2 the marker has the epoch of the next transaction.
        sent = self._sent.pop((marker.producer_id, marker.producer_epoch), None)
        before = self._sent.pop((marker.producer_id, marker.producer_epoch - 1), None)
        sent = sent or before
        if sent is None or not marker.value:
            return None
        found = None
        for partition, start in sorted(sent.starts.items()):
            end = self._ends.get(partition, start)
            if start != end and found is None:
                counts = "again" if start < end else "not at all"
                found = Finding(
                    f"a transaction of {sent.client} commits from {start} on in "
                    f"{self.model.name_of(partition)}, and the one before it has ended at {end}: "
                    f"what is between counts {counts}",
                    client=sent.client,
                    partition=partition,
                )
            self._ends[partition] = sent.offsets[partition]
        return found


class TxnCommitFenced(Property):
    """transactions §3, KIP-447: a commit that names no member is not checked."""

    id = "transactions.commit_fenced"
    sentence = (
        "A member adds offsets to a transaction at its epoch, or at an older one for what it kept "
        "since; one that is fenced adds none, so that its transaction never commits them."
    )
    clauses = ("transactions §3",)
    violated_by = ("mut-txn-commit-no-fence",)
    interest = Interest(requests=(TxnOffsetCommitRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Look at what was accepted."""
        request = step.request
        accepted = [p for p, code in step.response.errors.items() if not code]
        ledger = self.model.ledger_of(step.shard)
        if not accepted or not request.member_id or not ledger.has_group:
            return None
        entry, epoch = ledger.members.get(request.member_id), request.generation_id
        if entry is None:
            is_fine = epoch < 0 and not ledger.members
        else:
            is_fine = epoch == entry.epoch or kept_since(entry, epoch, accepted)
        if is_fine:
            return None
        stored = "no member" if entry is None else f"at {entry.epoch}"
        return Finding(
            f"offsets of {self.model.who(request.member_id)} at epoch {epoch} are in a "
            f"transaction; it is {stored}",
            member=request.member_id,
        )


class PendingHidden(Property):
    """transactions §3, as the log alone tells what is pending."""

    id = "transactions.pending_hidden"
    sentence = (
        "A fetch that requires stable offsets is shown none of a partition that an open "
        "transaction has, and is told so of no other."
    )
    clauses = ("transactions §3", "coordinator §8.2")
    violated_by = ("mut-fetch-shows-pending",)
    judges_mixed = True
    interest = Interest(requests=(OffsetFetchRequest,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._pending: dict[str, dict[tuple[str, int], set[int]]] = {}
        """Shard -> topic and partition -> producers."""

    def on_append(self, step: Step) -> Finding | None:
        """Follow the log."""
        self._apply(step.shard, step.records)
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Begin again with the log as it is."""
        self._read(step.shard)
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """Likewise."""
        self._read(step.shard)
        return None

    def _read(self, shard: ShardView) -> None:
        self._pending.pop(shard.name, None)
        self._apply(shard, shard.log_records())

    def on_request(self, step: Step) -> Finding | None:
        """Look at what was shown, and at what was not."""
        request, response = step.request, step.response
        if not request.require_stable:
            return None
        pending = self._pending.get(step.shard.name, {})
        for partition, offset in response.offsets.items():
            name = self.model.wire_name_of(
                step.shard, request.wire_topics, request.api_version, partition
            )
            has_it = bool(pending.get((name or "", partition.partition)))
            code = response.errors.get(partition, ErrorCode.NONE)
            is_refused = code is ErrorCode.UNSTABLE_OFFSET_COMMIT
            if name is None or code not in (ErrorCode.NONE, ErrorCode.UNSTABLE_OFFSET_COMMIT):
                continue
            if has_it != is_refused:
                shown = "refused" if is_refused else f"shown {offset}"
                has = "has" if has_it else "does not have"
                return Finding(
                    f"a fetch that requires stable offsets was {shown} of "
                    f"{self.model.name_of(partition)}, which an open transaction {has}",
                    partition=partition,
                )
        return None

    def _apply(self, shard: ShardView, records: Iterable[Record]) -> None:
        for record in records:
            if record.group_id != self.model.group_id:
                continue
            if type(record) is TxnOffsetCommit:
                pending = self._pending.setdefault(shard.name, {})
                producers = pending.setdefault((record.topic, record.partition), set())
                producers.add(record.producer_id)
            elif shard.name not in self._pending:
                continue
            elif type(record) is TransactionMarker:
                for producers in self._pending[shard.name].values():
                    producers.discard(record.producer_id)
            elif type(record) is OffsetCommit and record.value is None:
                self._pending[shard.name].pop((record.topic, record.partition), None)
