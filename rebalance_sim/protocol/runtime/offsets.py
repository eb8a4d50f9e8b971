"""Committed offsets: who may commit and fetch, what is stored, when it expires.

Source: coordinator §8. Offsets are stored by the *name* of the topic, so a recreated topic can
inherit them (coordinator D13), where the id stored with them is not asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, TypeVar

from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.group_type import GroupType, time_of_commit
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.runtime.pending_offsets import PendingOffsets
from rebalance_sim.protocol.runtime.snapshot import StateFields
from rebalance_sim.protocol.runtime.timeline import TimelineDict, committed, new_table
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.protocol.wire.offset_messages import (
    FIRST_COMMIT_WITH_LEADER_EPOCH,
    FIRST_FETCH_WITH_LEADER_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_LEADER_EPOCH,
    NO_OFFSET,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.records import (
    OffsetCommit,
    OffsetCommitValue,
    Record,
    TransactionMarker,
    TxnOffsetCommit,
)
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition
from rebalance_sim.protocol.wire.value import maker

OffsetKey = tuple[str, int]
"""Topic name and partition number."""

GroupOffsets = Mapping[OffsetKey, OffsetCommitValue]

_Stored = TypeVar("_Stored", bound=OffsetCommitValue | None)

FIRST_VERSION_WITH_MEMBER_EPOCH = 9
_VERSIONS_WITH_RETENTION = range(2, 5)
_MINUTE_MS = 60_000
_FOR_EVER_MS = 2**62

OFFSET_TIMES = ("commit_timestamp", "expire_timestamp")
"""Fields with times that only the expiry of offsets looks at."""

OFFSET_STATE: Mapping[type, StateFields] = MappingProxyType(
    {OffsetCommitValue: StateFields(times=dict.fromkeys(OFFSET_TIMES, _FOR_EVER_MS))}
)
"""What the fields mean where two states are compared; how long offsets are kept is a setting."""


_new_value = maker(OffsetCommitValue)
_new_record = maker(OffsetCommit)


class OffsetStore:
    """All offsets of one shard. Changed by ``replay`` only; handlers return records."""

    def __init__(
        self, context: CoordinatorContext[Any], types: Mapping[type, GroupType[Any]]
    ) -> None:
        self._context = context
        self._types = types
        self._by_group: dict[str, dict[OffsetKey, OffsetCommitValue]] = new_table(context.timeline)
        self.pending = PendingOffsets(context)

    def of_group(self, group_id: str) -> GroupOffsets:
        """Topic name and partition -> committed offset of this group."""
        return self._by_group.get(group_id, {})

    def committed_of_group(self, group_id: str) -> GroupOffsets:
        """The same at the last committed offset of the log (coordinator §9.4)."""
        return committed(committed(self._by_group).get(group_id, {}))

    def committed_count(self) -> int:
        """How many offsets there are at the last committed offset of the log."""
        return sum(len(committed(offsets)) for offsets in committed(self._by_group).values())

    def group_ids(self) -> list[str]:
        """Groups that have any offset, ascending."""
        return sorted(self._by_group)

    @property
    def state(self) -> dict[str, dict[OffsetKey, OffsetCommitValue]]:
        """Group -> its offsets, as a value to be kept."""
        return self._by_group

    def take_state(self, by_group: Mapping[str, dict[OffsetKey, OffsetCommitValue]]) -> None:
        """Continue from another state."""
        self._by_group.clear()
        self._by_group.update(by_group)

    def replay(self, record: OffsetCommit) -> None:
        """Store or forget one offset."""
        group_id, topic, partition, value = record
        if self.pending.table:
            if value is None:
                self.pending.forget(group_id, topic, partition)
            else:
                self.pending.supersede(group_id, topic, partition)
        offsets = self._by_group.get(group_id)
        if value is not None:
            if offsets is None:
                offsets = self._by_group[group_id] = new_table(self._context.timeline)
            offsets[topic, partition] = value
        elif offsets is not None:
            offsets.pop((topic, partition), None)
            if not offsets:
                del self._by_group[group_id]

    def replay_commits(self, group_id: str, records: Sequence[Record], *, offset: int) -> bool:
        """Store the offsets of one commit at once, as ``replay`` does one by one; the first record
        stands at ``offset``. False, and nothing is done: there is more to it than that."""
        offsets = self._by_group.get(group_id)
        if self.pending.table or not isinstance(offsets, TimelineDict):
            return False
        items: dict[OffsetKey, OffsetCommitValue] = {}
        for record in records:
            if type(record) is not OffsetCommit:
                return False
            owner, topic, partition, value = record
            if value is None or owner != group_id:
                return False
            items[topic, partition] = value
        if len(items) < len(records):
            return False
        offsets.set_each(items, offset=offset)
        return True

    def replay_transaction(self, record: TxnOffsetCommit | TransactionMarker) -> None:
        """An offset is pending, or what is pending counts or is dropped (transactions §3)."""
        if isinstance(record, TxnOffsetCommit):
            self.pending.add(record)
            return
        for topic, partition, value in self.pending.end(record):
            offsets = self._by_group.get(record.group_id)
            if offsets is None:
                offsets = self._by_group[record.group_id] = new_table(self._context.timeline)
            offsets[topic, partition] = value

    # -- commit ----------------------------------------------------------------------------

    def commit(self, request: OffsetCommitRequest, group: Any, *, now_ms: int) -> Outcome:
        """coordinator §8.1. The whole request is refused, or each partition is stored on its
        own."""
        errors: dict[TopicPartition, ErrorCode] = {}
        known: dict[TopicPartition, Topic] = {}
        metadata = request.metadata
        wire_topics = request.wire_topics
        topics = self._topics_of(wire_topics, request.api_version)
        for partition in request.offsets:
            topic_id, number = partition
            topic = topics.get(wire_topics.get(topic_id, topic_id))
            if topic is None:
                errors[partition] = _unknown_topic(request.api_version)
            elif not 0 <= number < topic.partition_count:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif metadata and self._is_too_long(metadata.get(partition, "")):
                errors[partition] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            else:
                known[partition] = topic
        try:
            self._check_commit(request, group, list(known))
        except GroupError as refusal:
            errors.update(dict.fromkeys(known, refusal.code))
            return Outcome(OffsetCommitResponse(errors=errors))
        errors.update(dict.fromkeys(known, ErrorCode.NONE))
        response = OffsetCommitResponse(errors=errors)
        wall_ms = now_ms + self._context.wall_offset_ms
        if group is None or not known:
            return Outcome(response, self._records_of(request, known, wall_ms))
        timers = self._types[type(group)].on_commit_accepted(group, request, now_ms=now_ms)
        return Outcome(response, self._records_of(request, known, wall_ms), timers)

    def _records_of(
        self, request: OffsetCommitRequest, known: Mapping[TopicPartition, Topic], wall_ms: int
    ) -> tuple[Record, ...]:
        """One record for each partition."""
        group_id, offsets, metadata = request.group_id, request.offsets, request.metadata
        leader_epochs = request.leader_epochs
        if request.api_version < FIRST_COMMIT_WITH_LEADER_EPOCH:
            leader_epochs = {}
        writes_topic_id = self._context.rules.writes_topic_id_of_offsets
        expire_timestamp = None
        if (
            request.retention_time_ms is not None
            and request.api_version in _VERSIONS_WITH_RETENTION
        ):
            expire_timestamp = wall_ms + request.retention_time_ms
        records: list[Record] = []
        for partition, topic in known.items():
            text, leader_epoch = "", NO_LEADER_EPOCH
            if metadata:
                text = metadata.get(partition, "")
            if leader_epochs:
                leader_epoch = leader_epochs.get(partition, NO_LEADER_EPOCH)
            stored_id = topic.topic_id if writes_topic_id else None
            offset = offsets[partition]
            value = _new_value((offset, wall_ms, leader_epoch, text, expire_timestamp, stored_id))
            records.append(_new_record((group_id, topic.name, partition.partition, value)))
        return tuple(records)

    def _topics_of(self, wire_topics: Mapping[str, str], api_version: int) -> Mapping[str, Topic]:
        """The topics that this broker knows, by what stands for them in a request."""
        image = self._context.image
        is_by_id = not wire_topics or api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        return image.by_id if is_by_id else image.by_name

    def _is_too_long(self, metadata: str) -> bool:
        # The limit is named for bytes, but a broker compares the length of a Java string: UTF-16.
        units = len(metadata.encode("utf-16-le")) // 2
        return units > self._context.config.offset_metadata_max_bytes

    def _check_commit(
        self, request: OffsetCommitRequest, group: Any, partitions: Sequence[TopicPartition]
    ) -> None:
        if group is not None:
            self._types[type(group)].check_commit(group, request, partitions)
        elif request.generation_id_or_member_epoch >= 0:
            is_old_version = request.api_version < FIRST_VERSION_WITH_MEMBER_EPOCH
            raise GroupError(
                ErrorCode.ILLEGAL_GENERATION if is_old_version else ErrorCode.GROUP_ID_NOT_FOUND
            )

    # -- fetch, delete ---------------------------------------------------------------------

    def fetch(
        self, request: OffsetFetchRequest, group: Any, *, is_committed: bool
    ) -> OffsetFetchResponse:
        """coordinator §8.2. A request that requires stable offsets is shown the newest state, and
        the host lets the answer go when that is committed; any other one is a read at the last
        committed offset (``is_committed``). ``group`` is None if there is none."""
        if group is not None:
            try:
                self._types[type(group)].check_fetch(group, request, is_committed=is_committed)
            except GroupError as refusal:
                return OffsetFetchResponse(error_code=refusal.code)
        group_id = request.group_id
        stored = self.committed_of_group(group_id) if is_committed else self.of_group(group_id)
        has_ids = request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        unstable: Set[OffsetKey] = frozenset()
        if self.pending.table and not is_committed and self._context.rules.hides_pending_offsets:
            unstable = self.pending.partitions_of(group_id)
        if request.partitions is None:
            hidden = self._all_known(dict.fromkeys(unstable), has_ids=has_ids)
            known = self._all_known(stored, has_ids=has_ids)
            return _shown(request, {**known, **hidden}, _unstable(hidden))
        wire_topics = request.wire_topics
        topics = self._topics_of(wire_topics, request.api_version)
        values: dict[TopicPartition, OffsetCommitValue | None] = {}
        errors: dict[TopicPartition, ErrorCode] = {}
        for partition in sorted(request.partitions):
            topic = topics.get(wire_topics.get(partition.topic_id, partition.topic_id))
            if topic is None and has_ids:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_ID
                continue
            value = None
            if topic is not None:
                value = stored.get((topic.name, partition.partition))
                if value is not None and has_ids and not value.may_be_of(topic.topic_id):
                    value = None
                if (topic.name, partition.partition) in unstable:
                    value = None
                    errors[partition] = ErrorCode.UNSTABLE_OFFSET_COMMIT
            values[partition] = value
        return _shown(request, values, errors)

    def _all_known(
        self, stored: Mapping[OffsetKey, _Stored], *, has_ids: bool
    ) -> dict[TopicPartition, _Stored]:
        """Every offset; where topics stand by id, those without one are left out."""
        by_name = self._context.image.by_name
        values = {}
        for name, number in sorted(stored):
            topic = by_name.get(name)
            if topic is not None:
                values[TopicPartition(topic.topic_id, number)] = stored[name, number]
            elif not has_ids:
                values[TopicPartition(name, number)] = stored[name, number]
        return values

    def delete(self, request: OffsetDeleteRequest, group: Any) -> Outcome:
        """coordinator §8.3: topics that somebody subscribes to keep their offsets."""
        if group is None:
            return Outcome(OffsetDeleteResponse(error_code=ErrorCode.GROUP_ID_NOT_FOUND))
        try:
            self._types[type(group)].check_offset_delete(group)
        except GroupError as refusal:
            return Outcome(OffsetDeleteResponse(error_code=refusal.code))
        stored = self._keys_of(request.group_id)
        wire_topics = request.wire_topics
        topics = self._topics_of(wire_topics, 0)
        errors = {}
        records: list[Record] = []
        for partition in sorted(request.partitions):
            topic = topics.get(wire_topics.get(partition.topic_id, partition.topic_id))
            if topic is None or not 0 <= partition.partition < topic.partition_count:
                errors[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif group.is_subscribed_to(topic.name):
                errors[partition] = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                errors[partition] = ErrorCode.NONE
                if (topic.name, partition.partition) in stored:
                    records.append(
                        OffsetCommit(request.group_id, topic.name, partition.partition, None)
                    )
        return Outcome(OffsetDeleteResponse(errors=errors), tuple(records))

    # -- tombstones ------------------------------------------------------------------------

    def tombstones_of_group(self, group_id: str) -> list[Record]:
        """Forget every offset of a group that is deleted (coordinator §8.6)."""
        if not self._context.rules.deletes_offsets_with_group:
            return []
        return [OffsetCommit(group_id, t, p, None) for t, p in sorted(self._keys_of(group_id))]

    def _keys_of(self, group_id: str) -> Collection[OffsetKey]:
        """Partitions of which the group has an offset, also if it is pending."""
        stored = self.of_group(group_id).keys()
        return stored | self.pending.partitions_of(group_id) if self.pending.table else stored

    def tombstones_of_topic(self, topic_name: str, topic_id: str) -> tuple[Record, ...]:
        """Forget every offset of a topic that is deleted, but for those of another topic that had
        its name (coordinator §8.4)."""
        if not self._context.rules.deletes_offsets_with_topic:
            return ()
        stored = [
            OffsetCommit(group_id, topic, partition, None)
            for group_id in self.group_ids()
            for (topic, partition), value in sorted(self._by_group[group_id].items())
            if topic == topic_name and value.may_be_of(topic_id)
        ]
        pending = self.pending.of_topic(topic_name) if self.pending.table else ()
        # A partition with both kinds has two tombstones, as on a broker (transactions §3).
        return (*stored, *(OffsetCommit(g, t, p, None) for g, t, p in pending))

    def expired(self, group_id: str, group: Any, *, now_ms: int) -> list[Record]:
        """Tombstones of offsets whose retention is over (coordinator §8.5).

        Topics that the group subscribes to are spared. From when retention counts, the type of
        the group says; without a group, from the commit on. ``now_ms``: by the wall clock.
        """
        base_of: Callable[[OffsetCommitValue], int] | None = time_of_commit
        if group is not None:
            base_of = self._types[type(group)].expiry_base(group)
        if base_of is None:
            return []
        retention_ms = self._context.config.offsets_retention_minutes * _MINUTE_MS
        rules = self._context.rules
        records: list[Record] = []
        pending = self.pending.partitions_of(group_id) if self.pending.table else frozenset()
        for (topic, partition), value in sorted(self.of_group(group_id).items()):
            if (topic, partition) in pending:
                continue
            is_subscribed = group is not None and group.is_subscribed_to(topic)
            if value.expire_timestamp is not None:
                is_over = not is_subscribed and now_ms >= value.expire_timestamp
            else:
                is_over = rules.offset_expires(
                    value,
                    is_subscribed=is_subscribed,
                    age_ms=now_ms - base_of(value),
                    retention_ms=retention_ms,
                )
            if is_over:
                records.append(OffsetCommit(group_id, topic, partition, None))
        return records


def _shown(
    request: OffsetFetchRequest,
    values: Mapping[TopicPartition, OffsetCommitValue | None],
    errors: Mapping[TopicPartition, ErrorCode],
) -> OffsetFetchResponse:
    """The answer that shows these values as they are stored; None where there is none."""
    leader_epochs = {}
    if request.api_version >= FIRST_FETCH_WITH_LEADER_EPOCH:
        leader_epochs = {
            p: v.leader_epoch
            for p, v in values.items()
            if v is not None and v.leader_epoch != NO_LEADER_EPOCH
        }
    return OffsetFetchResponse(
        offsets={p: NO_OFFSET if v is None else v.offset for p, v in values.items()},
        metadata={p: v.metadata for p, v in values.items() if v is not None and v.metadata},
        leader_epochs=leader_epochs,
        errors=errors,
    )


def _unstable(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
    return dict.fromkeys(partitions, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def _unknown_topic(api_version: int) -> ErrorCode:
    if api_version >= FIRST_VERSION_WITH_TOPIC_IDS:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
