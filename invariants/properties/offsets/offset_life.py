"""Committed offsets and groups from their first record to their last: who may see and delete them.

Sources: coordinator §8.2-§8.6, §9.4, §15, D13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.offset_model import OffsetKey, OffsetModel
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step, StepKind, wall_ms
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.outcome import ShardTimer, TimerKey, topic_deleted
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    FIRST_FETCH_WITH_LEADER_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition

ORDER = 150


MINUTE_MS = 60_000

_MAY_EXPIRE = (ClassicGroupState.EMPTY, ClassicGroupState.STABLE)


class OffsetsKept(Property):
    """coordinator §8.3-§8.6."""

    id = "offsets.kept"
    sentence = (
        "An offset is deleted with its topic or its group, and else only while nobody "
        "subscribes to its topic: on request, or when its retention is over, which counts from "
        "the commit, or from when the last member of a classic group went; while a classic group "
        "rebalances none expires."
    )
    clauses = (
        "coordinator §8.3",
        "coordinator §8.4",
        "coordinator §8.5",
        "coordinator §8.6",
        "classic §8.5",
    )
    violated_by = (
        "KAFKA-13636",
        "mut-expire-subscribed",
        "mut-expire-early",
    )

    def on_append(self, step: Step) -> Finding | None:
        """Look at every offset that was deleted."""
        offset_model = self.model.offset_models.get(step.shard.name)
        stored = None if offset_model is None else offset_model.deleted
        return self._judge(step, stored) if stored else None

    def _judge(self, step: Step, stored: Mapping[OffsetKey, OffsetCommitValue]) -> Finding | None:
        if type(step.request) is DeleteGroupsRequest:
            return None  # Judged as the end of the group.
        is_timer = step.kind is StepKind.COORDINATOR_TIMER
        timer: TimerKey | None = step.event if is_timer else None
        if timer is not None and timer.kind is ShardTimer.TOPIC_DELETED:
            return self._judge_end_of_topic(step, timer, stored)
        shard = step.shard
        classic_model = self.model.classic.get(shard.name)
        classic = None if classic_model is None else classic_model.snapshot
        if timer is not None and classic is not None and classic.state not in _MAY_EXPIRE:
            name, number = min(stored)
            return Finding(
                f"{shard.name} let the offset of {name}-{number} expire while the classic group is "
                f"{classic.state.value}"
            )
        ledger = self.model.ledger_of(shard)
        subscribed = ledger.all_names()
        emptied_ms = _emptied_ms(self.model, shard, ledger)
        for (name, number), value in sorted(stored.items()):
            if name in subscribed:
                return Finding(
                    f"{shard.name} deleted the offset of {name}-{number}, which a member of the "
                    "group subscribes to"
                )
            if timer is not None:
                since_ms = value.commit_timestamp if emptied_ms is None else emptied_ms
                age_ms = wall_ms(step) - since_ms
                retention_ms = shard.configs.broker.offsets_retention_minutes * MINUTE_MS
                if value.expire_timestamp is None and age_ms < retention_ms:
                    return Finding(
                        f"{shard.name} let the offset of {name}-{number} expire after {age_ms} ms; "
                        f"the retention is {retention_ms} ms"
                    )
        return None

    @staticmethod
    def _judge_end_of_topic(
        step: Step, timer: TimerKey, stored: Mapping[OffsetKey, OffsetCommitValue]
    ) -> Finding | None:
        name, topic_id = topic_deleted(timer)
        for (topic, number), value in sorted(stored.items()):
            if topic != name or value.topic_id not in (None, topic_id):
                return Finding(
                    f"{step.shard.name} deleted the offset of {topic}-{number} with another topic, "
                    f"{name} ({topic_id})"
                )
        return None


class OffsetsLoaded(Property):
    """coordinator §9.3, §9.5. Of an offset that should be gone nobody learns before a fetch."""

    id = "offsets.loaded"
    sentence = "A coordinator that has loaded holds the offsets that its log has, and no other."
    clauses = ("coordinator §8.4", "coordinator §9.3", "coordinator §9.5", "defects S5")
    violated_by = ("mut-load-revives-offsets",)
    judges_mixed = True

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Replay the records of offsets alone."""
        shard = step.shard
        logged = OffsetModel(self.model.group_id)
        logged.apply(shard.log_records(), first_offset=0)
        held = shard.coordinator.offsets.of_group(self.model.group_id)
        for name, number in sorted({*held, *logged.newest}):
            mine, theirs = held.get((name, number)), logged.newest.get((name, number))
            if mine != theirs:
                return Finding(
                    f"{shard.name} has loaded {_offset_of(mine)} for {name}-{number}; the log has "
                    f"{_offset_of(theirs)}"
                )
        return None


def _offset_of(value: OffsetCommitValue | None) -> str:
    return "no offset" if value is None else f"offset {value.offset}"


class OffsetsEndWithTopic(Property):
    """coordinator §8.4. A coordinator that loads later knows nothing of it (coordinator D13)."""

    id = "offsets.end_with_topic"
    sentence = (
        "When a topic is deleted or recreated while a coordinator is active, it deletes the "
        "offsets under the name of the topic, but for those stored with another topic id."
    )
    clauses = ("coordinator §8.4",)
    violated_by = ("KAFKA-16168",)
    judges_mixed = True

    def on_timer_fired(self, step: Step, change: Change | None) -> Finding | None:
        """Is one left?"""
        key: TimerKey = step.event
        if key.kind is not ShardTimer.TOPIC_DELETED:
            return None
        shard = step.shard
        deleted, topic_id = topic_deleted(key)
        offsets = shard.coordinator.offsets.of_group(self.model.group_id)
        for (name, number), value in offsets.items():
            if name == deleted and value.topic_id in (None, topic_id):
                return Finding(
                    f"the topic {name} was deleted, and {shard.name} keeps the offset of "
                    f"{name}-{number}"
                )
        return None


class OffsetsExpire(Property):
    """coordinator §8.5. What a classic group with members subscribes to is not always known."""

    id = "offsets.expire"
    sentence = (
        "When a shard looks for what has expired, no offset stays of a topic that nobody "
        "subscribes to once its retention is over, and no group without members and offsets; the "
        "same holds of groups that only store offsets."
    )
    clauses = ("coordinator §8.5", "classic §8.4")
    violated_by = ("test:keeps-groups-of-nobody",)
    judges_mixed = True

    def on_timer_fired(self, step: Step, change: Change | None) -> Finding | None:
        """Look at what is left."""
        if step.event.kind is not ShardTimer.EXPIRY:
            return None
        shard, group_id = step.shard, self.model.group_id
        coordinator = shard.coordinator
        offsets_of = coordinator.offsets.of_group
        for other_id, other in coordinator.groups_of(ClassicGroup).items():
            if other_id != group_id and other.is_simple:
                finding = self._judge(step, other_id, offsets_of(other_id), frozenset(), 0)
                if finding is not None:
                    return finding
        classic_model = self.model.classic.get(shard.name)
        classic = None if classic_model is None else classic_model.snapshot
        if classic is not None and classic.state is not ClassicGroupState.EMPTY:
            return None
        stored = offsets_of(group_id)
        if not stored:
            group = self.model.group_in(shard)
            if classic is None and (group is None or not group.is_empty):
                return None
            return Finding(f"{shard.name} keeps a group without members and offsets")
        ledger = self.model.ledger_of(shard)
        emptied_ms = _emptied_ms(self.model, shard, ledger) or 0
        return self._judge(step, group_id, stored, ledger.all_names(), emptied_ms)

    @staticmethod
    def _judge(
        step: Step,
        group_id: str,
        stored: Mapping[OffsetKey, OffsetCommitValue],
        subscribed: Set[str],
        emptied_ms: int,
    ) -> Finding | None:
        shard, now_ms = step.shard, wall_ms(step)
        retention_ms = shard.configs.broker.offsets_retention_minutes * MINUTE_MS
        for (name, number), value in stored.items():
            if name in subscribed:
                continue
            due_ms = value.expire_timestamp
            if due_ms is None:
                due_ms = max(value.commit_timestamp, emptied_ms) + retention_ms
            if now_ms >= due_ms:
                return Finding(
                    f"{shard.name} keeps the offset of {name}-{number} in group {group_id}, which "
                    f"was to expire {now_ms - due_ms} ms ago"
                )
        return None


def _emptied_ms(model: ModelView, shard: ShardView, ledger: GroupLedger) -> int | None:
    """When the last member of a classic group went, by the wall clock; None for others. The log may
    know of an earlier time only, if the record of the last could not be written."""
    times_ms = []
    classic = ledger.classic
    if classic is not None and classic.protocol_type and not classic.members:
        times_ms.append(classic.current_state_timestamp)
    classic_model = model.classic.get(shard.name)
    if classic_model is not None:
        times_ms.append(classic_model.emptied_ms)
    return max((time_ms for time_ms in times_ms if time_ms is not None), default=None)


class GroupGone(Property):
    """coordinator §8.6: what compaction leaves of a deleted group is nothing."""

    id = "log.deleted_group_gone"
    sentence = (
        "A group is deleted only when it has no members, and nothing of it stays behind in "
        "the log: no target, no pattern, no offset."
    )
    clauses = ("coordinator §8.5", "coordinator §8.6", "coordinator §9.2")
    violated_by = ("mut-delete-keeps-offsets",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at what was there when the last record of the group was written."""
        if not change.is_group_removed:
            return None
        shard = step.shard
        if change.left_behind:
            return Finding(
                f"{shard.name} deleted the group and left {', '.join(change.left_behind)} behind"
            )
        offset_model = self.model.offset_models.get(shard.name)
        if offset_model is not None and offset_model.newest:
            names = [f"{name}-{number}" for name, number in sorted(offset_model.newest)]
            return Finding(
                f"{shard.name} deleted the group and left the offsets of {', '.join(names)} behind"
            )
        return None


class OffsetsHaveGroup(Property):
    """coordinator §8.1, row "group missing". What nobody owns is not listed, and never expires."""

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
        shard, group_id = step.shard, self.model.group_id
        groups_of = shard.coordinator.groups_of
        if group_id in groups_of(ConsumerGroup) or group_id in groups_of(ClassicGroup):
            return None
        return Finding(f"{shard.name} stored offsets of {group_id}, and has no such group")


class FetchShown(Property):
    """coordinator §8.2: stable offsets are the newest, and wait; all others are the committed
    ones."""

    id = "offsets.fetch_shows_committed"
    sentence = (
        "An offset fetch that does not wait shows the offsets of the last committed offset of "
        "the log, and one that waits shows the newest; beside each stand the text and the "
        "leader epoch that were committed with it."
    )
    clauses = ("coordinator §8.2", "coordinator §9.4")
    violated_by = ("mut-reads-uncommitted",)
    interest = Interest(requests=(OffsetFetchRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Compare the answer with the log, where the shadow model has its offsets: an immediate
        answer always, another one only after one of these, or after something was deleted."""
        request, shard = step.request, step.shard
        offset_model = self.model.offset_models.get(shard.name)
        response: OffsetFetchResponse = step.response
        if offset_model is None or response.error_code is not ErrorCode.NONE:
            return None
        expected = (
            offset_model.newest
            if request.require_stable
            else offset_model.committed(shard.high_watermark)
        )
        shown = {}
        ids: dict[tuple[str, int], str] = {}
        names_topics_by_id = (
            request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS and request.partitions is not None
        )
        # Who asks for everything says nothing of topics: they stand as the broker knows them.
        wire_topics = {} if request.partitions is None else request.wire_topics
        for partition, offset in response.offsets.items():
            name = self.model.wire_name_of(shard, wire_topics, request.api_version, partition)
            if name is None:
                continue
            if names_topics_by_id:
                topic_id = partition.topic_id
                ids[name, partition.partition] = wire_topics.get(topic_id, topic_id)
            text = response.metadata.get(partition, "")
            leader_epoch = response.leader_epochs.get(partition, NO_LEADER_EPOCH)
            shown[name, partition.partition] = (offset, text, leader_epoch)
        has_leader_epochs = request.api_version >= FIRST_FETCH_WITH_LEADER_EPOCH
        for key, (offset, text, leader_epoch) in sorted(shown.items()):
            value = expected.get(key)
            if value is not None and value.topic_id not in (None, ids.get(key, value.topic_id)):
                value = None
            wanted = NO_OFFSET if value is None else value.offset
            if offset != wanted:
                return Finding(
                    f"{shard.name} showed offset {offset} of {key[0]}-{key[1]}; it is {wanted}"
                )
            if text != ("" if value is None else value.metadata):
                return Finding(
                    f"{shard.name} showed another text beside offset {offset} of "
                    f"{key[0]}-{key[1]} than was committed"
                )
            wanted = NO_LEADER_EPOCH
            if value is not None and has_leader_epochs:
                wanted = value.leader_epoch
            if leader_epoch != wanted:
                return Finding(
                    f"{shard.name} showed leader epoch {leader_epoch} beside offset {offset} of "
                    f"{key[0]}-{key[1]}; it is {wanted}"
                )
        return None


class FetchFenced(Property):
    """coordinator §8.2: a fetch that is signed needs its member, at exactly its epoch."""

    id = "offsets.fetch_fenced"
    sentence = "A signed offset fetch is answered at the member's present epoch only."
    clauses = ("coordinator §8.2",)
    violated_by = ("mut-fetch-no-fence",)
    interest = Interest(requests=(OffsetFetchRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Look at every fetch of a member that was answered."""
        request = step.request
        if (
            not request.require_stable
            or request.member_id is None
            or step.response.error_code is not ErrorCode.NONE
        ):
            return None
        ledger = self.model.ledger_of(step.shard)
        entry = ledger.members.get(request.member_id)
        if not ledger.has_group or (entry is not None and entry.epoch == request.member_epoch):
            return None
        stored = "nobody" if entry is None else f"at {entry.epoch}"
        return Finding(
            f"offsets were shown to {self.model.who(request.member_id)} at epoch "
            f"{request.member_epoch}; the member is {stored}",
            member=request.member_id,
        )


class CommitOfTopic(Property):
    """coordinator D13, and what clients make of it: offsets go by the name of a topic."""

    id = "offsets.of_this_topic"
    sentence = (
        "An offset is stored for the topic that the request names, and what was reached in a "
        "deleted topic is not stored for the one that has its name."
    )
    clauses = ("coordinator §8.4", "coordinator D13")
    violated_by = ("test:commit-for-another-topic",)

    def on_commit(self, step: Step, stored: Sequence[TopicPartition]) -> Finding | None:
        """Compare what the client means, what the broker understands, and what it writes."""
        request = step.request
        if not request.wire_topics and request.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
            return None
        shard = step.shard
        by_name = shard.coordinator.image.by_name
        written = {record[1:3] for record in step.records if type(record) is OffsetCommit}
        names = {
            called: self.model.wire_name_of(
                shard, request.wire_topics, request.api_version, partition
            )
            for called, partition in {p.topic_id: p for p in stored}.items()
        }
        if self._are_of_them(names, by_name) and all(
            (names[called], number) in written for called, number in stored
        ):
            return None
        for partition in sorted(stored):
            called = partition.topic_id
            name = names[called]
            if name is None or (name, partition.partition) not in written:
                where = ", ".join(f"{topic}-{number}" for topic, number in sorted(written))
                return Finding(
                    f"a commit for {partition.topic_id}-{partition.partition} was stored for "
                    f"{where or 'nothing'}",
                    member=request.member_id,
                    partition=partition,
                )
            topic = by_name.get(name)
            if (
                topic is not None
                and partition.topic_id not in (topic.topic_id, name)
                and self.model.is_client(request.member_id)
            ):
                return Finding(
                    f"a commit of {self.model.who(request.member_id)} for {partition.topic_id} was "
                    f"stored for {topic.topic_id}, which has its name now",
                    member=request.member_id,
                    partition=partition,
                )
        return None

    @staticmethod
    def _are_of_them(names: Mapping[str, str | None], by_name: Mapping[str, Topic]) -> bool:
        """Whether each of these names belongs to the topic that a client calls so."""
        for called, name in names.items():
            topic = None if name is None else by_name.get(name)
            if topic is not None and called not in (topic.topic_id, name):
                return False
        return True
