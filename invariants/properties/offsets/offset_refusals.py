"""Commits, fetches and deletions: refused for one of the causes that there are, stored as asked.

What a request deserves is worked out from the group as the shadow model had it before.
Sources: coordinator §8.1-§8.6; classic §8.4, §8.5.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step, wall_ms
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest
from rebalance_sim.protocol.wire.embedded import CONSUMER_PROTOCOL_TYPE
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    FIRST_COMMIT_WITH_LEADER_EPOCH,
    FIRST_VERSION_WITH_TOPIC_IDS,
    NO_LEADER_EPOCH,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import OffsetCommit, OffsetCommitValue
from rebalance_sim.protocol.wire.topics import Topic, TopicPartition

ORDER = 145

Verdict = frozenset[ErrorCode]

_NONE = frozenset({ErrorCode.NONE})
_UNKNOWN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID})
_ILLEGAL = frozenset({ErrorCode.ILLEGAL_GENERATION})
_STALE = frozenset({ErrorCode.STALE_MEMBER_EPOCH})
_FIRST_VERSION_WITH_MEMBER_EPOCH = 9


class CommitRefusalCause(Property):
    """coordinator §8.1 and classic §8.4, read both ways."""

    id = "offsets.commit_refusal_cause"
    sentence = (
        "A commit is refused with a code exactly when the committer, its epoch or generation, the "
        "group, the partition or the text beside the offset is what the code says."
    )
    clauses = ("coordinator §8.1", "coordinator §8.4", "classic §8.4")
    violated_by = (
        "PR-16145",
        "mut-commit-no-fence",
        "test:commit-refused-for-nothing",
        "test:classic-commit-refused-for-nothing",
    )
    judges_mixed = True
    interest = Interest(requests=(OffsetCommitRequest,))

    def before_offsets(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Compare the codes, partition by partition."""
        request, shard = step.request, step.shard
        of_group = self._of_group(request, ledger, classic_model)
        topics, wire_topics = _topics_by_wire(request, shard), request.wire_topics
        has_texts = bool(request.metadata)
        for partition, code in step.response.errors.items():
            topic = topics.get(wire_topics.get(partition.topic_id, partition.topic_id))
            deserved = of_group
            if has_texts or topic is None or not 0 <= partition.partition < topic.partition_count:
                own = self._of_partition(request, shard, partition, topic)
                deserved = frozenset({own}) if own else of_group
            if code not in deserved:
                return Finding(
                    f"a commit of {self.model.who(request.member_id) or 'nobody'} at epoch "
                    f"{request.generation_id_or_member_epoch} for {self.model.name_of(partition)} "
                    f"was answered {code.name}; it deserves "
                    f"{' or '.join(sorted(c.name for c in deserved))}",
                    member=request.member_id,
                )
        if step.response.errors.keys() == request.offsets.keys():
            return None
        return Finding("a commit was not answered for each of its partitions")

    def _of_partition(
        self,
        request: OffsetCommitRequest,
        shard: ShardView,
        partition: TopicPartition,
        topic: Topic | None,
    ) -> ErrorCode:
        if topic is None:
            has_ids = request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
            return ErrorCode.UNKNOWN_TOPIC_ID if has_ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not 0 <= partition.partition < topic.partition_count:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        text = request.metadata.get(partition, "") if request.metadata else ""
        limit = shard.configs.broker.offset_metadata_max_bytes
        if text and sum(1 + (ord(letter) > 0xFFFF) for letter in text) > limit:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def _of_group(
        self, request: OffsetCommitRequest, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Verdict:
        if ledger.has_group:
            return self._of_member(request, ledger)
        if classic_model is not None and classic_model.snapshot is not None:
            return frozenset({_of_classic(request, classic_model)})
        if request.generation_id_or_member_epoch < 0:
            return _NONE
        # A group that is nothing but offsets knows no members; without any there is no group.
        is_old = request.api_version < _FIRST_VERSION_WITH_MEMBER_EPOCH
        missing = ErrorCode.ILLEGAL_GENERATION if is_old else ErrorCode.GROUP_ID_NOT_FOUND
        return _UNKNOWN | {missing}

    def _of_member(self, request: OffsetCommitRequest, ledger: GroupLedger) -> Verdict:
        epoch = request.generation_id_or_member_epoch
        if epoch < 0 and not ledger.members:
            return _NONE
        entry = ledger.members.get(request.member_id)
        if entry is None:
            return _UNKNOWN
        if request.api_version < _FIRST_VERSION_WITH_MEMBER_EPOCH and not _speaks_classic(entry):
            return frozenset({ErrorCode.UNSUPPORTED_VERSION})
        if epoch == entry.epoch:
            return _NONE
        stale = _ILLEGAL if _speaks_classic(entry) else _STALE
        # How much older an epoch may be, ``offsets.commit_fenced`` and
        # ``offsets.valid_commit`` say.
        return stale if epoch > entry.epoch or epoch < 0 else stale | _NONE


class FetchRefusalCause(Property):
    """coordinator §8.2."""

    id = "offsets.fetch_refusal_cause"
    sentence = (
        "An offset fetch is refused exactly when it is signed by somebody who is no member, or not "
        "at the member's epoch; only a topic id that is gone is an error of its own."
    )
    clauses = ("coordinator §8.2", "coordinator §8.4")
    violated_by = ("mut-fetch-no-fence", "test:fetch-refused-for-nothing")
    judges_mixed = True
    interest = Interest(requests=(OffsetFetchRequest,))

    def before_offsets(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Compare the code of the group, and those of partitions."""
        request, response, shard = step.request, step.response, step.shard
        is_newest_shown = (
            shard.high_watermark >= shard.log_end_offset
            and not self.model.shows_dropped_group(shard)
        )
        if request.require_stable or is_newest_shown:
            deserved = self._of_group(request, ledger)
            if response.error_code not in deserved:
                return Finding(
                    f"an offset fetch of {self.model.who(request.member_id or '') or 'nobody'} at "
                    f"epoch {request.member_epoch} was answered {response.error_code.name}; it "
                    f"deserves {' or '.join(sorted(c.name for c in deserved))}",
                    member=request.member_id,
                )
        if response.error_code or request.partitions is None:
            return None
        has_ids = request.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
        topics, wire_topics = _topics_by_wire(request, shard), request.wire_topics
        for partition in sorted(request.partitions):
            code = response.errors.get(partition, ErrorCode.NONE)
            topic = topics.get(wire_topics.get(partition.topic_id, partition.topic_id))
            is_gone = has_ids and topic is None
            if code is not (ErrorCode.UNKNOWN_TOPIC_ID if is_gone else ErrorCode.NONE):
                return Finding(
                    f"an offset fetch was answered {code.name} for {self.model.name_of(partition)}"
                )
            if not is_gone and partition not in response.offsets:
                return Finding(f"an offset fetch left out {self.model.name_of(partition)}")
        return None

    def _of_group(self, request: OffsetFetchRequest, ledger: GroupLedger) -> Verdict:
        if not ledger.has_group or (request.member_id is None and request.member_epoch < 0):
            return _NONE
        entry = ledger.members.get(request.member_id or "")
        if entry is None:
            return _UNKNOWN
        if entry.epoch == request.member_epoch or not self.model.rules.checks_epoch_of_fetch:
            return _NONE
        return _ILLEGAL if _speaks_classic(entry) else _STALE


class DeletionRefusalCause(Property):
    """coordinator §8.3, §8.6."""

    id = "offsets.deletion_refusal_cause"
    sentence = (
        "Offsets are deleted on request unless the group, the partition or a subscription stands "
        "against it, and a group unless it has members; each refusal has the code of its cause."
    )
    clauses = ("coordinator §8.3", "coordinator §8.6", "classic §8.5")
    violated_by = (
        "test:delete-of-subscribed-offset",
        "test:empty-group-stays",
        "test:consumers-keep-offsets",
    )
    judges_mixed = True
    interest = Interest(requests=(DeleteGroupsRequest, OffsetDeleteRequest))

    def before_offsets(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Compare the codes."""
        request = step.request
        if type(request) is DeleteGroupsRequest:
            return self._judge_group(step, ledger, classic_model)
        return self._judge_offsets(step, request, ledger, classic_model)

    def _judge_group(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        code: ErrorCode = step.response.error_code
        if ledger.members or (classic_model is not None and classic_model.members):
            deserved = frozenset({ErrorCode.NON_EMPTY_GROUP})
        elif ledger.has_group:
            deserved = _NONE
        elif classic_model is not None and classic_model.snapshot is not None:
            is_empty = classic_model.snapshot.state is ClassicGroupState.EMPTY
            deserved = _NONE if is_empty else frozenset({ErrorCode.NON_EMPTY_GROUP})
        else:  # A group that is nothing but offsets can be deleted, too.
            deserved = _NONE | {ErrorCode.GROUP_ID_NOT_FOUND}
        if code in deserved:
            return None
        return Finding(
            f"the deletion of the group was answered {code.name}; it deserves "
            f"{' or '.join(sorted(c.name for c in deserved))}"
        )

    def _judge_offsets(
        self,
        step: Step,
        request: OffsetDeleteRequest,
        ledger: GroupLedger,
        classic_model: ClassicModel | None,
    ) -> Finding | None:
        response, shard = step.response, step.shard
        if ledger.has_group and response.error_code:
            return Finding(
                f"the deletion of offsets was answered {response.error_code.name}, and the group "
                "is there"
            )
        if response.error_code is ErrorCode.NON_EMPTY_GROUP:
            group = None if classic_model is None else classic_model.group
            is_of_others = group is not None and group.protocol_type != CONSUMER_PROTOCOL_TYPE
            if classic_model is None or not classic_model.members or not is_of_others:
                return Finding(
                    "the deletion of offsets was answered NON_EMPTY_GROUP, and the group has no "
                    "members, or only consumers, whose subscriptions are known"
                )
            return None
        if response.error_code or not ledger.has_group:
            return None  # What a classic group subscribes to is its leader's affair.
        names = ledger.all_names()
        topics, wire_topics = _topics_by_wire(request, shard), request.wire_topics
        for partition, code in response.errors.items():
            topic = topics.get(wire_topics.get(partition.topic_id, partition.topic_id))
            if topic is None or not 0 <= partition.partition < topic.partition_count:
                deserved = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif topic.name in names:
                deserved = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            else:
                deserved = ErrorCode.NONE
            if code is not deserved:
                return Finding(
                    f"the deletion of the offset of {self.model.name_of(partition)} was answered "
                    f"{code.name}; it deserves {deserved.name}"
                )
        if response.errors.keys() == request.partitions:
            return None
        return Finding("a deletion of offsets was not answered for each of its partitions")


class StoredAsAsked(Property):
    """coordinator §8.4: the content of record 1. ``offsets.of_this_topic`` looks at the topic."""

    id = "offsets.stored_as_asked"
    sentence = (
        "An accepted commit stores each offset with the text and the leader epoch that came "
        "beside it, at the time of the commit, and with an end of its own only where the request "
        "names one."
    )
    clauses = ("coordinator §8.4", "coordinator §9.1")
    violated_by = (
        "test:stores-another-offset",
        "test:accepted-and-not-stored",
        "test:stores-no-leader-epoch",
    )
    judges_mixed = True
    interest = Interest(requests=(OffsetCommitRequest,))

    def before_offsets(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Compare answer and records one by one, in their order."""
        request = step.request
        offsets, texts = request.offsets, request.metadata
        accepted = [p for p, code in step.response.errors.items() if not code]
        written: dict[tuple[str, int], OffsetCommitValue | None] = {
            record[1:3]: record.value for record in step.records if type(record) is OffsetCommit
        }
        if len(accepted) < len(written):
            return Finding(f"{len(accepted)} offsets were accepted, {len(written)} stored")
        stored_ms = wall_ms(step)
        ends_ms = None
        if request.retention_time_ms is not None and 2 <= request.api_version <= 4:
            ends_ms = stored_ms + request.retention_time_ms
        leader_epochs = request.leader_epochs
        if request.api_version < FIRST_COMMIT_WITH_LEADER_EPOCH:
            leader_epochs = {}
        topics, wire_topics = _topics_by_wire(request, step.shard), request.wire_topics
        for partition in accepted:
            topic_id, number = partition
            topic = topics.get(wire_topics.get(topic_id, topic_id))
            value = written.get((topic.name if topic else "", number))
            if value is None:
                return Finding(f"{self.model.name_of(partition)} was accepted, and not stored")
            text = texts.get(partition, "") if texts else ""
            leader_epoch = NO_LEADER_EPOCH
            if leader_epochs:
                leader_epoch = leader_epochs.get(partition, NO_LEADER_EPOCH)
            # All but the topic's id; tuples compare without a value made for it.
            if value[:5] != (offsets[partition], stored_ms, leader_epoch, text, ends_ms):
                return Finding(
                    f"{self.model.name_of(partition)} was committed at "
                    f"{request.offsets[partition]}, and stored was {value.offset} of "
                    f"{value.commit_timestamp} ms with {len(value.metadata)} letters and leader "
                    f"epoch {value.leader_epoch}, to end at "
                    f"{value.expire_timestamp or 'no time of its own'}"
                )
        return None


def _topics_by_wire(
    request: OffsetCommitRequest | OffsetFetchRequest | OffsetDeleteRequest, shard: ShardView
) -> Mapping[str, Topic]:
    """The topics of a shard, by what stands for them in a request; OffsetDelete names topics in all
    its versions."""
    image = shard.coordinator.image
    has_ids = getattr(request, "api_version", 0) >= FIRST_VERSION_WITH_TOPIC_IDS
    return image.by_id if has_ids or not request.wire_topics else image.by_name


def _speaks_classic(entry: MemberEntry) -> bool:
    return entry.metadata is not None and entry.metadata.classic_member_metadata is not None


def _of_classic(request: OffsetCommitRequest, classic_model: ClassicModel) -> ErrorCode:
    """classic §8.4."""
    now, generation = classic_model.snapshot, request.generation_id_or_member_epoch
    if now is None or (generation < 0 and now.state is ClassicGroupState.EMPTY):
        return ErrorCode.NONE
    members, instance_id = classic_model.members, request.group_instance_id
    if generation < 0 and not request.member_id and instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if instance_id is not None:
        holders = [m for m, note in members.items() if note.group_instance_id == instance_id]
        if holders and request.member_id not in holders:
            return ErrorCode.FENCED_INSTANCE_ID
        if not holders:
            return ErrorCode.UNKNOWN_MEMBER_ID
    if request.member_id not in members:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if generation != now.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    if now.state is ClassicGroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE
