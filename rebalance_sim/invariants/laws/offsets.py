"""Committed offsets and groups from their first record to their last: who writes and sees them, and
when they go. ``offset_fences.py`` has at which epoch.

Sources: coordinator §8.1-§8.6, §9.4, §15, D13; defects S4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step, StepKind, wall_ms
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.outcome import ShardTimer, topic_deleted
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest
from rebalance_sim.protocol.wire.offset_messages import (
    FIRST_FETCH_WITH_LEADER_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue
from rebalance_sim.protocol.wire.topics import TopicPartition

MINUTE_MS = 60_000

_MAY_EXPIRE = (ClassicGroupState.EMPTY, ClassicGroupState.STABLE)


class OffsetsKept(Property):
    """coordinator §8.3-§8.6. Retention counts from the commit, or from when the last member of a
    classic group went. The end of a group is ``log.tombstones``."""

    id = "offsets.kept"
    sentence = (
        "An offset is deleted with its topic or group, or, while no member subscribes to it, on "
        "request or after its retention, but not while a classic group rebalances."
    )
    clauses = (
        *("coordinator §8.3", "coordinator §8.4", "coordinator §8.5", "coordinator §8.6"),
        "classic §8.5",
    )
    violated_by = ("KAFKA-13636", "mut-expire-subscribed", "mut-expire-early")
    interest = Interest(is_beyond_commits=True)

    def on_append(self, step: Step) -> Finding | None:
        """Look at every offset that was deleted."""
        offset_model = self.model.offset_models.get(step.shard.name)
        if not offset_model or not offset_model.deleted:
            return None
        for (name, number), value in sorted(offset_model.deleted.items()):
            why = self._must_stay(step, name, value)
            if why:
                what = f"the offset of {name}-{number} was deleted"
                return Finding(f"{step.shard.name}: {what}, {why}")
        return None

    def _must_stay(self, step: Step, name: str, value: OffsetCommitValue) -> str:
        shard, is_timer = step.shard, step.kind is StepKind.COORDINATOR_TIMER
        if type(step.request) is DeleteGroupsRequest:
            return ""
        if is_timer and step.event.kind is ShardTimer.TOPIC_DELETED:
            deleted, topic_id = topic_deleted(step.event)
            is_of_it = deleted == name and value.topic_id in (None, topic_id)
            return "" if is_of_it else f"with another topic, {deleted} ({topic_id})"
        classic_model = self.model.classic.get(shard.name)
        now = None if classic_model is None else classic_model.snapshot
        if is_timer and now is not None and now.state not in _MAY_EXPIRE:
            return f"while the classic group is {now.state.value}"
        ledger = self.model.ledger_of(shard)
        if name in ledger.all_names():
            return "which a member of the group subscribes to"
        emptied_ms = _emptied_ms(self.model, shard, ledger)
        since_ms = value.commit_timestamp if emptied_ms is None else emptied_ms
        age_ms, limit_ms = wall_ms(step) - since_ms, _retention_ms(shard)
        if is_timer and value.expire_timestamp is None and age_ms < limit_ms:
            return f"after {age_ms} ms; the retention is {limit_ms} ms"
        return ""


def _retention_ms(shard: ShardView) -> int:
    return shard.configs.broker.offsets_retention_minutes * MINUTE_MS


class OffsetsEndWithTopic(Property):
    """coordinator §8.4. A coordinator that loads later knows nothing of it (coordinator D13)."""

    id = "offsets.end_with_topic"
    sentence = (
        "When a topic is deleted or recreated, an active coordinator deletes the offsets under its "
        "name, but for those stored with another topic id."
    )
    clauses = ("coordinator §8.4",)
    violated_by = ("KAFKA-16168",)
    judges_mixed = True

    def on_timer_fired(self, step: Step, change: Change | None) -> Finding | None:
        """Is one left?"""
        if step.event.kind is not ShardTimer.TOPIC_DELETED:
            return None
        deleted, topic_id = topic_deleted(step.event)
        stored = step.shard.coordinator.offsets.of_group(self.model.group_id).items()
        for (name, number), value in stored:
            if name == deleted and value.topic_id in (None, topic_id):
                where = f"{step.shard.name} keeps the offset of {name}-{number}"
                return Finding(f"the topic {name} was deleted, and {where}")
        return None


class OffsetsExpire(Property):
    """coordinator §8.5. What a classic group with members subscribes to is not always known."""

    id = "offsets.expire"
    sentence = (
        "A shard that looks for what has expired keeps no offset that no member subscribes to past "
        "its retention, and no group without members and offsets."
    )
    clauses = ("coordinator §8.5", "classic §8.4")
    violated_by = ("test:keeps-groups-of-no-one",)
    judges_mixed = True

    def on_timer_fired(self, step: Step, change: Change | None) -> Finding | None:
        """Look at what is left; so too of groups that only store offsets."""
        if step.event.kind is not ShardTimer.EXPIRY:
            return None
        shard, group_id = step.shard, self.model.group_id
        coordinator, ledger = shard.coordinator, self.model.ledger_of(shard)
        for other_id, other in coordinator.groups_of(ClassicGroup).items():
            if other_id != group_id and other.is_simple:
                finding = self._judge(step, other_id, frozenset(), 0)
                if finding is not None:
                    return finding
        classic_model = self.model.classic.get(shard.name)
        classic = None if classic_model is None else classic_model.snapshot
        if classic is not None and classic.state is not ClassicGroupState.EMPTY:
            return None
        if not coordinator.offsets.of_group(group_id):
            group = self.model.group_in(shard)
            if classic is None and (group is None or not group.is_empty):
                return None
            return Finding(f"{shard.name} keeps a group without members and offsets")
        emptied_ms = _emptied_ms(self.model, shard, ledger) or 0
        return self._judge(step, group_id, ledger.all_names(), emptied_ms)

    @staticmethod
    def _judge(step: Step, group_id: str, subscribed: Set[str], emptied_ms: int) -> Finding | None:
        shard, now_ms = step.shard, wall_ms(step)
        for (name, number), value in shard.coordinator.offsets.of_group(group_id).items():
            due_ms = value.expire_timestamp
            if due_ms is None:
                due_ms = max(value.commit_timestamp, emptied_ms) + _retention_ms(shard)
            if name not in subscribed and now_ms >= due_ms:
                return Finding(
                    f"{shard.name} keeps the offset of {name}-{number} in group {group_id}, which "
                    f"was to expire {now_ms - due_ms} ms ago"
                )
        return None


def _emptied_ms(model: ModelView, shard: ShardView, ledger: GroupLedger) -> int | None:
    """When the last member of a classic group went, by the wall clock; None for others. The log may
    know of an earlier time only, if the record of the last could not be written."""
    classic, classic_model = ledger.classic, model.classic.get(shard.name)
    times_ms = [None if classic_model is None else classic_model.emptied_ms]
    if classic is not None and classic.protocol_type and not classic.members:
        times_ms.append(classic.current_state_timestamp)
    return max((time_ms for time_ms in times_ms if time_ms is not None), default=None)


class OffsetsHaveGroup(Property):
    """coordinator §8.1, row "group missing". What no group has is not listed, and never expires."""

    id = "offsets.of_a_group"
    sentence = (
        "Offsets that are stored belong to a group; where there was none, they make one that holds "
        "them and nothing else."
    )
    clauses = ("coordinator §8.1", "coordinator §8.5")
    violated_by = ("test:offsets-of-no-group",)
    judges_mixed = True

    def on_commit(self, step: Step, stored: Sequence[TopicPartition]) -> Finding | None:
        """Is there a group?"""
        group_id, groups_of = self.model.group_id, step.shard.coordinator.groups_of
        if group_id in groups_of(ConsumerGroup) or group_id in groups_of(ClassicGroup):
            return None
        return Finding(f"{step.shard.name} stored offsets of {group_id}, and has no such group")


class FetchShown(Property):
    """coordinator §8.2, where the shadow model has offsets: an immediate answer always, another one
    only after one of these, or after something was deleted."""

    id = "offsets.fetch_shows_committed"
    sentence = (
        "An offset fetch that does not wait shows what is committed, and one that waits the "
        "newest; beside each offset its text and leader epoch."
    )
    clauses = ("coordinator §8.2", "coordinator §9.4")
    violated_by = ("mut-reads-uncommitted", "mut-abort-keeps-offsets")
    interest = Interest(requests=(OffsetFetchRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Compare the answer with the log."""
        request, response, shard = step.request, step.response, step.shard
        offset_model = self.model.offset_models.get(shard.name)
        if offset_model is None or response.error_code:
            return None
        expected = offset_model.newest
        if not request.require_stable:
            expected = offset_model.committed(shard.high_watermark)
        # Who asks for everything says nothing of topics: they stand as the broker knows them.
        asks_for_all, version = request.partitions is None, request.api_version
        wire_topics: Mapping[str, str] = {} if asks_for_all else request.wire_topics
        for partition, offset in sorted(response.offsets.items()):
            if response.errors.get(partition):
                continue
            topic_id, number = partition
            name = self.model.wire_name_of(step, topic_id, wire_topics)
            value = expected.get((name or "", number))
            if value is not None and version >= FIRST_VERSION_WITH_TOPIC_IDS and not asks_for_all:
                is_of_it = value.topic_id in (None, wire_topics.get(topic_id, topic_id))
                value = value if is_of_it else None
            wanted = NO_OFFSET, "", NO_LEADER_EPOCH
            if value is not None:
                has_epoch = version >= FIRST_FETCH_WITH_LEADER_EPOCH
                leader_epoch = value.leader_epoch if has_epoch else NO_LEADER_EPOCH
                wanted = value.offset, value.metadata, leader_epoch
            shown = (
                offset,
                response.metadata.get(partition, ""),
                response.leader_epochs.get(partition, NO_LEADER_EPOCH),
            )
            if name is not None and shown != wanted:
                words = (f"offset {o}, text {t}, leader epoch {e}" for o, t, e in (shown, wanted))
                return Finding(f"{shard.name} showed of {name}-{number} {'; it is '.join(words)}")
        return None


class CommitOfTopic(Property):
    """coordinator D13, and what clients make of it: offsets go by the name of a topic."""

    id = "offsets.of_this_topic"
    sentence = (
        "What was reached in a deleted topic is not stored for the topic that has its name now."
    )
    clauses = ("coordinator §8.4", "coordinator D13")
    violated_by = ("test:commit-for-former-topic",)

    def on_commit(self, step: Step, stored: Sequence[TopicPartition]) -> Finding | None:
        """Compare what the client means and what the broker understands."""
        request, shard = step.request, step.shard
        if not request.wire_topics:  # The broker's own names of ids, or nothing but names.
            return None
        for called, partition in {p.topic_id: p for p in stored}.items():
            name = self.model.wire_name_of(step, called)
            topic = shard.coordinator.image.by_name.get(name or "")
            is_other = topic is not None and called not in (topic.topic_id, name)
            if topic and is_other and self.model.is_client(request.member_id):
                return Finding(
                    f"a commit of {self.model.who(request.member_id)} for {called} was stored for "
                    f"{topic.topic_id}, which has its name now",
                    member=request.member_id,
                    partition=partition,
                )
        return None


class StoredAsAsked(Property):
    """coordinator §8.4."""

    id = "offsets.stored_as_asked"
    sentence = "A commit stores the offsets that are answered as accepted, and no others."
    clauses = ("coordinator §8.4", "coordinator §9.1")
    violated_by = ("test:stores-another-offset", "test:commit-for-another-topic")
    judges_mixed = True
    interest = Interest(requests=(OffsetCommitRequest,))

    def before_request(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Compare answer and records, which come in the same order as a rule."""
        offsets, name, accepted = step.request.offsets, "", []
        last: str | None = None
        for partition, code in step.response.errors.items():
            if not code:
                topic_id, number = partition
                if topic_id != last:
                    last, name = topic_id, self.model.wire_name_of(step, topic_id) or ""
                accepted.append((name, number, offsets[partition]))
        stored = [
            (record.topic, record.partition, record.value.offset)
            for record in step.records
            if type(record) is OffsetCommit and record.value is not None
        ]
        if stored == accepted:
            return None
        both = _by_key(accepted), _by_key(stored)
        if both[0] == both[1]:
            return None
        texts = (
            ", ".join(f"{name}-{number} at {offset}" for (name, number), offset in one.items())
            for one in both
        )
        return Finding("accepted was {}, stored {}".format(*(text or "nothing" for text in texts)))


def _by_key(rows: Iterable[tuple[str, int, int]]) -> dict[tuple[str, int], int]:
    """Topic and partition -> offset: the last one counts."""
    return {(name, number): offset for name, number, offset in rows}
