"""The shadow model of one group, as the checker writes it."""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.computations import Computations
from rebalance_sim.invariants.model.group_settings import ConfigHistory, setting_ms
from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.offset_model import OffsetKey, OffsetModel
from rebalance_sim.invariants.step import ShardView, Step, WorldView
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    GroupMetadata,
    OffsetCommit,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_OF_TRANSACTIONS = frozenset({TxnOffsetCommit, TransactionMarker})
_DELETED_TOPICS = 1_000
"""So many are remembered, and forgotten together: whether a name comes again."""


class ShadowModel(ModelView):
    """What ``ModelView`` shows, and how it happens: only the checker has this interface."""

    def __init__(self, view: WorldView) -> None:
        self.view = view
        self.group_id = view.group_id
        self.config = view.config
        self.rules = view.semantics.as_released.coordinator
        self.ledgers: dict[str, GroupLedger] = {}
        self.computations = Computations()
        self.config_history = ConfigHistory(view.group_id)
        self.classic: dict[str, ClassicModel] = {}
        self.offset_models: dict[str, OffsetModel] = {}
        self.has_transactions = False
        self.entries: dict[str, ClientEntry] = {}
        self.clients: dict[str, ClientEntry] = {}
        self.classic_clients: dict[str, ClientEntry] = {}
        self.by_member_id: dict[str, ClientEntry] = {}
        self.fetchers: dict[TopicPartition, dict[str, None]] = {}
        self.contested: dict[TopicPartition, None] = {}
        self.has_lost_topics = False
        self.topics_changed_ms = -1
        self.released_ms = -1
        self._switched: dict[str, int] = {}
        self._converted: tuple[int, int | None] = -1, None
        """Epoch and timestamp of the target that the last conversion took over."""
        self.former_instances: set[str] = set()
        self._leader_epoch = -1
        self.may_lose_committed = False
        """A fault has begun that may lose what was committed."""
        self.went_back_at_step: int | None = None
        self._held_since: dict[str, set[TopicPartition]] = {}
        """Member -> all that was ever held for it since the group went back in time."""
        self._open_then: set[tuple[OffsetKey, int]] = set()
        """Partition and producer of what was pending when it did."""
        self._committed_to = 0
        self._topic_ids: dict[str, str] = {}
        self._partition_counts: dict[str, int] | None = None
        self._replaced: dict[str, str] = {}
        self._recreated: set[str] = set()

    # -- shards ----------------------------------------------------------------------------

    def open_ledger(self, shard: ShardView, *, without_last: int = 0) -> GroupLedger:
        """Read a replica's log; ``without_last`` leaves out records still to be entered."""
        records = tuple(shard.log_records())
        ledger = self.ledgers[shard.name] = self.new_ledger()
        ledger.apply(records[: len(records) - without_last])
        self.note_configs(shard, ledger)
        return ledger

    def open_offset_model(self, shard: ShardView, *, without_last: int = 0) -> OffsetModel:
        """Read the offsets in a replica's log; ``without_last`` as with ledgers."""
        records = shard.log_records()
        offset_model = self.offset_models[shard.name] = OffsetModel(self.group_id)
        # What is not committed has one record for each offset, and comes last.
        offset_model.apply(
            records[: len(records) - without_last],
            first_offset=shard.log_end_offset - len(records),
            at_ms=self.view.now_ms,
        )
        return offset_model

    def note_configs(self, shard: ShardView, ledger: GroupLedger) -> None:
        """Other settings are in force at a shard, or its ledger is new."""
        self.config_history.note(shard, self.view.now_ms)
        configs, group_id = shard.configs, self.group_id
        ledger.heartbeat_interval_ms = setting_ms(configs, group_id, "heartbeat_interval")
        ledger.session_timeout_ms = setting_ms(configs, group_id, "session_timeout")

    def note_topics(self, shard: ShardView) -> None:
        """A shard has a metadata image that may be new."""
        by_id = shard.coordinator.image.by_id
        counts = {topic.topic_id: topic.partition_count for topic in by_id.values()}
        if self._partition_counts not in (None, counts):
            self.topics_changed_ms = self.view.now_ms
        self._partition_counts = counts
        if any(topic_id not in by_id for topic_id in self._topic_ids.values()):
            self.has_lost_topics = True
        for topic in by_id.values():
            former = self._topic_ids.setdefault(topic.name, topic.topic_id)
            if former != topic.topic_id:
                self._topic_ids[topic.name] = topic.topic_id
                self._recreated.discard(self._replaced.get(topic.name, ""))
                self._replaced[topic.name] = former
                self._recreated.update((former, topic.topic_id))
        if len(self._topic_ids) > len(by_id) + _DELETED_TOPICS:
            self._topic_ids = {topic.name: topic.topic_id for topic in by_id.values()}
            self._replaced = {name: self._replaced.get(name, "") for name in self._topic_ids}

    def note_commit_returned(self, entry: ClientEntry, commit_id: int) -> None:
        """A commit of an application has come to its end."""
        commit = entry.open_commits.pop(commit_id, None)
        if commit is not None and commit.is_sync:
            self.note_returned(entry, commit.since_ms)

    def note_returned(self, entry: ClientEntry, since_ms: int) -> None:
        """A rebalance callback or a synchronous commit since then is over."""
        if self.view.now_ms - since_ms > entry.member.config.request_timeout_ms:
            self.released_ms = self.view.now_ms

    def note_append(self, step: Step, shard: ShardView) -> bool:
        """A shard wrote records; whether these are more than offsets that are committed. Its
        offsets matter as soon as some are deleted, or pending."""
        is_more = False
        for record in step.records:
            if type(record) is not OffsetCommit or record.value is None:
                is_more = True
                break
        if is_more and not self.has_transactions:
            self.has_transactions = not _OF_TRANSACTIONS.isdisjoint(map(type, step.records))
        count = len(step.records)
        offset_model = self.offset_models.get(shard.name)
        if offset_model is None:
            is_deleting = is_more and any(map(self._deletes_offsets, step.records))
            if not is_deleting and not self.has_transactions:
                return is_more
            offset_model = self.open_offset_model(shard, without_last=count)
        first = shard.log_end_offset - count
        offset_model.apply(step.records, first_offset=first, at_ms=step.at_ms)
        return is_more

    def _deletes_offsets(self, record: Record) -> bool:
        """Whether it deletes an offset of the group, or the group."""
        is_tombstone = record.group_id == self.group_id and record.value is None
        return is_tombstone and type(record) in (OffsetCommit, ConsumerGroupMetadata)

    def note_fetch(self, shard: ShardView, request: OffsetFetchRequest) -> None:
        """A shard is asked for offsets; those of a fetch that does not wait can be judged."""
        is_judged = not request.require_stable or self.has_transactions
        if is_judged and shard.name not in self.offset_models:
            self.open_offset_model(shard)

    def note_committed(self, shard: ShardView) -> None:
        """The high watermark of a leader advanced."""
        self._committed_to = max(self._committed_to, shard.high_watermark)
        offset_model = self.offset_models.get(shard.name)
        if offset_model is not None:
            offset_model.prune(shard.high_watermark)

    def note_truncated(self, shard: ShardView, at_ms: int) -> None:
        """A log has lost its tail; if the shard is active, memory goes back to where it ends."""
        offset_model = self.offset_models.get(shard.name)
        if offset_model is not None:
            offset_model.truncate_to(shard.log_end_offset)
        old = self.ledgers.pop(shard.name, None)
        if old is None or not shard.is_active:
            return
        ledger = self.open_ledger(shard)
        heard_ms = {**old.last_heard_ms, **old.heard_ms}
        for member_id in ledger.members:
            ledger.heard_ms[member_id] = heard_ms.get(member_id, at_ms)
            ledger.state_since_ms[member_id] = old.state_since_ms.get(member_id, at_ms)

    def note_loaded(self, shard: ShardView, at_ms: int, step_index: int) -> GroupLedger:
        """A shard became active: it knows what its log has, and all clocks start again."""
        self._leader_epoch = max(self._leader_epoch, shard.leader_epoch)
        is_newest = shard.leader_epoch == self._leader_epoch
        lacks_some = shard.log_end_offset < self._committed_to
        if is_newest and lacks_some and self.may_lose_committed:
            self._committed_to = shard.log_end_offset
            self.went_back_at_step = step_index
        self._committed_to = max(self._committed_to, shard.high_watermark)
        self.note_topics(shard)
        self.computations.forget(shard.name)
        if self.has_transactions:
            self.open_offset_model(shard)
        ledger = self.open_ledger(shard)
        if self.went_back_at_step == step_index:
            self._held_since = {name: set(entry.held()) for name, entry in ledger.members.items()}
            known = self.offset_models.get(shard.name)
            self._open_then = {(key, one) for key, one, _ in known.open_since()} if known else set()
        if (ledger.target_epoch, ledger.target_timestamp) == self._converted:
            # Compaction may have removed the tombstone that tells so.
            ledger.converted_epoch = ledger.target_epoch
        ledger.heard_ms = dict.fromkeys(ledger.members, at_ms)
        ledger.state_since_ms = dict.fromkeys(ledger.members, at_ms)
        return ledger

    def note_unloaded(self, shard: ShardView) -> None:
        """A shard gave up; the next time this replica leads, its log may be another one."""
        self.classic.pop(shard.name, None)
        self.ledgers.pop(shard.name, None)
        self.offset_models.pop(shard.name, None)
        self.computations.forget(shard.name)

    def note_change(self, step: Step, shard: ShardView, change: Change) -> None:
        """A batch was entered into a ledger."""
        change.group = self.group_in(shard)
        change.ledger.note_states(change, step.at_ms)
        if self.went_back_at_step is not None:
            for member_id, (_, after) in change.members.items():
                if after is not None:
                    self._held_since.setdefault(member_id, set()).update(after.held())
        if change.ledger.instances:
            self._note_instances(change)
        if change.is_mixed:
            self._note_upgrade(shard, change, step.at_ms)
            for member_id, (before, after) in change.members.items():
                is_replaced = before and after is None and before.instance_id is not None
                if is_replaced or (before and after and before.is_classic is not after.is_classic):
                    self._switched[member_id] = step.index

    def _note_instances(self, change: Change) -> None:
        for before, after in change.members.values():
            if (
                before is not None
                and after is not None
                and before.instance_id is not None
                and before.instance_id != after.instance_id
            ):
                self.former_instances.add(before.instance_id)

    def _note_upgrade(self, shard: ShardView, change: Change, at_ms: int) -> None:
        """A batch may turn a classic group into a consumer group."""
        mine = [r for r in change.records if r.group_id == self.group_id]
        classic = [r for r in mine if isinstance(r, GroupMetadata)]
        classic_model = self.classic.get(shard.name)
        if (
            not classic
            or classic[-1].value is not None
            or not any(isinstance(r, ConsumerGroupMetadata) and r.value for r in mine)
            or classic_model is None
            or classic_model.group is None
            or not classic_model.group.members
        ):
            return
        change.upgraded = classic_model.group
        for member_id, converted in change.upgraded.members.items():
            change.ledger.classic_ms[member_id] = at_ms
            instance_id = converted.group_instance_id
            after = change.ledger.members.get(member_id)
            if instance_id is not None and after and after.instance_id != instance_id:
                self.former_instances.add(instance_id)
        self._converted = change.ledger.converted_epoch, change.ledger.target_timestamp

    def refresh_fetchers(self, entry: ClientEntry, fetchable: frozenset[TopicPartition]) -> None:
        """Enter what a client may fetch now; ``entry.fetchable`` is what it was before."""
        fetchers = self.fetchers
        for partition in entry.fetchable - fetchable:
            names = fetchers[partition]
            del names[entry.name]
            if not names:
                del fetchers[partition]
            elif len(names) == 1:
                self.contested.pop(partition, None)
        for partition in fetchable - entry.fetchable:
            names = fetchers.setdefault(partition, {})
            names[entry.name] = None
            if len(names) > 1:
                self.contested[partition] = None
        entry.fetchable = fetchable
