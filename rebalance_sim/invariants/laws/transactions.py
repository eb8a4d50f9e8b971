"""Transactions: every effect counts once, of members at their epoch, and nothing pending is shown.

Source: transactions §3, §4; KIP-447.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rebalance_sim.invariants.laws.offset_fences import kept_since
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.offset_model import EndedTransaction, OffsetKey
from rebalance_sim.invariants.property import Finding, Interest, Property, notes
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.clients.common.events import SendOffsetsToTransaction
from rebalance_sim.protocol.clients.kinds import EVERY_KIND
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest
from rebalance_sim.protocol.wire.records import OffsetCommit, Record, TransactionMarker
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import (
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)


class _Sent(NamedTuple):
    """What a transaction of a client is made of."""

    client: str
    starts: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]


class ExactlyOnce(Property):
    """transactions §4. Judged from the second transaction with a partition on, and afresh after
    others have changed its offset: where its client then begins is not the application's doing."""

    id = "transactions.exactly_once"
    sentence = (
        "Transactions that commit follow each other in every partition: no record's effect counts "
        "twice, and none is left out."
    )
    clauses = ("transactions §3", "transactions §4")
    violated_by = ("mut-abort-keeps-offsets", "mut-txn-commit-no-fence")
    client_kinds = EVERY_KIND
    judges_mixed = True
    needs_data_plane = True
    outlives_lost_commits = False
    interest = Interest(events=(SendOffsetsToTransaction,))
    _sent: dict[int, list[_Sent]] = notes(dict)
    """Producer -> what it has sent, and has not committed as far as is known."""
    _ends: dict[TopicPartition, int] = notes(dict)
    _waiting: dict[str, deque[tuple[int, OffsetKey | EndedTransaction]]] = notes(dict)
    """Shard -> offset and what was committed there, until that is below its high watermark."""

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """A transaction begins."""
        event = step.event
        sent = _Sent(entry.name, event.starts, event.offsets)
        self._sent.setdefault(event.producer_id, []).append(sent)

    def on_metadata(self, step: Step) -> None:
        """What there was in a topic that is gone does not matter."""
        by_id = step.shard.coordinator.image.by_id
        self._ends = {p: end for p, end in self._ends.items() if p.topic_id in by_id}

    def on_append(self, step: Step) -> None:
        """Follow what is written."""
        self._follow(step.shard, step.records)

    def on_loaded(self, step: Step, ledger: GroupLedger) -> None:
        """Begin again with the log as it is: another leader may have lost some of it. What was
        judged before is not among what was sent any more."""
        self._waiting.pop(step.shard.name, None)
        self._follow(step.shard, step.shard.log_records())

    def on_truncated(self, step: Step) -> None:
        """What was not committed is gone."""
        waiting, end = self._waiting.get(step.shard.name), step.shard.log_end_offset
        while waiting and waiting[-1][0] >= end:
            waiting.pop()

    def _follow(self, shard: ShardView, records: Sequence[Record]) -> None:
        offset_model = self.model.offset_models.get(shard.name)
        if not self.model.has_transactions or offset_model is None:
            return
        waiting = self._waiting.setdefault(shard.name, deque())
        for offset, record in enumerate(records, shard.log_end_offset - len(records)):
            if offset in offset_model.ended:
                waiting.append((offset, offset_model.ended[offset]))
            elif (
                type(record) is OffsetCommit
                and record.group_id == self.model.group_id
                and self._sent
                and offset >= shard.high_watermark
            ):
                waiting.append((offset, (record.topic, record.partition)))

    def on_committed(self, step: Step) -> Finding | None:
        """What was written counts."""
        waiting = self._waiting.get(step.shard.name)
        finding = None
        while waiting and waiting[0][0] < step.shard.high_watermark:
            what = waiting.popleft()[1]
            if isinstance(what, EndedTransaction):
                finding = finding or self._end(step.shard, what)
            else:
                self._ends.pop(self._partition(step.shard, what), None)
        return finding

    def _partition(self, shard: ShardView, key: OffsetKey) -> TopicPartition:
        topic = shard.coordinator.image.by_name.get(key[0])
        return TopicPartition(key[0] if topic is None else topic.topic_id, key[1])

    def _end(self, shard: ShardView, ended: EndedTransaction) -> Finding | None:
        offsets = {self._partition(shard, key): end for key, end in ended.offsets.items()}
        known = self._sent.get(ended.producer_id, [])
        # Not all of a transaction needs to be there: a topic may be gone, or its offset deleted.
        # One that was aborted may have had a part of it, up to the same offsets.
        matching = [one for one in known if _agrees(one.offsets, offsets)]
        if not matching:
            return None
        sent = max(matching, key=lambda one: len(one.offsets.keys() & offsets.keys()))
        offsets = {p: end for p, end in offsets.items() if p in sent.offsets}
        del known[: known.index(sent) + 1]
        found = None
        for partition, end in sorted(offsets.items()):
            start, last = sent.starts[partition], self._ends.get(partition)
            if last is not None and last != start and found is None:
                counts = "again" if last > start else "not at all"
                found = Finding(
                    f"a transaction of {sent.client} commits from {start} on in "
                    f"{self.model.name_of(partition)}, and the one before it has ended at {last}: "
                    f"what is between counts {counts}",
                    client=sent.client,
                    partition=partition,
                )
            self._ends[partition] = end
        return found


def _agrees(sent: Mapping[TopicPartition, int], ended: Mapping[TopicPartition, int]) -> bool:
    """Whether they have partitions in common, and the same offsets there. Others of ``ended`` are
    of topics that are gone, or others by now."""
    common = sent.keys() & ended.keys()
    return bool(common) and all(sent[p] == ended[p] for p in common)


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


class MarkerFenced(Property):
    """transactions §2.4, by the markers in the log."""

    id = "transactions.marker_fenced"
    sentence = (
        "A coordinator of transactions that another has followed ends nothing more: its markers "
        "are refused once there is one of its successor for the same producer."
    )
    clauses = ("transactions §2.4",)
    violated_by = ("mut-old-marker-counts",)
    judges_mixed = True
    interest = Interest(requests=(WriteTxnMarkersRequest,), is_beyond_commits=True)
    _epochs: dict[str, dict[int, int]] = notes(dict)
    """Shard -> producer -> the highest coordinator epoch of its markers."""

    def on_append(self, step: Step) -> None:
        """Follow what is written."""
        self._follow(step.shard, step.records)

    def on_loaded(self, step: Step, ledger: GroupLedger | None) -> None:
        """Begin again with the log as it is."""
        self._epochs.pop(step.shard.name, None)
        self._follow(step.shard, step.shard.log_records())

    def on_truncated(self, step: Step) -> None:
        """Likewise: what was not committed is gone."""
        self.on_loaded(step, None)

    def _follow(self, shard: ShardView, records: Sequence[Record]) -> None:
        if self.model.has_transactions:
            epochs = self._epochs.setdefault(shard.name, {})
            for record in records:
                if type(record) is TransactionMarker:
                    before = epochs.get(record.producer_id, 0)
                    epochs[record.producer_id] = max(before, record.coordinator_epoch)

    def on_request(self, step: Step) -> Finding | None:
        """Look at what was accepted; its own record is among those that were followed."""
        request, epochs = step.request, self._epochs.get(step.shard.name, {})
        newest = epochs.get(request.producer_id, 0)
        if step.response.error_code or request.coordinator_epoch >= newest:
            return None
        return Finding(
            f"a marker of producer {request.producer_id} from coordinator epoch "
            f"{request.coordinator_epoch} was accepted after one of epoch {newest}"
        )


class PendingHidden(Property):
    """transactions §3, as the log alone tells what is pending."""

    id = "transactions.pending_hidden"
    sentence = (
        "A fetch that requires stable offsets is shown none of a partition that an open "
        "transaction has, and is refused no other."
    )
    clauses = ("transactions §3", "coordinator §8.2")
    violated_by = ("mut-fetch-shows-pending",)
    judges_mixed = True
    interest = Interest(requests=(OffsetFetchRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Look at what was shown, and at what was not."""
        request, response = step.request, step.response
        if not request.require_stable:
            return None
        offsets = self.model.offset_models.get(step.shard.name)
        for partition, offset in response.offsets.items():
            name = self.model.wire_name_of(step, partition.topic_id)
            has_it = offsets is not None and offsets.has_pending((name or "", partition.partition))
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
