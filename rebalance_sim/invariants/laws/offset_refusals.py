"""Refusals of commits, fetches and deletions of offsets, and of deletions of groups, have a cause.

Sources: coordinator §8.1-§8.6; classic §8.4, §8.5.
"""

from __future__ import annotations

from typing import ClassVar

from rebalance_sim.invariants.laws.asked import (
    EMPTY,
    FENCED,
    OTHER_GENERATION,
    UNKNOWN,
    Asked,
    Causes,
    Refusals,
)
from rebalance_sim.invariants.laws.offset_fences import kept_since
from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.property import Finding, Interest
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire import consumer_messages as consumer
from rebalance_sim.protocol.wire import offset_messages as offsets
from rebalance_sim.protocol.wire.embedded import CONSUMER_PROTOCOL_TYPE
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_COMPLETING = ClassicGroupState.COMPLETING_REBALANCE


def _is_missing(a: Asked) -> bool:
    count = a.topic.partition_count if a.topic else 0
    return a.partition is not None and not 0 <= a.partition.partition < count


def _is_foreign(a: Asked) -> bool:
    """Who comes at no epoch needs not be a member, unless somebody is."""
    return a.is_unknown and (a.epoch >= 0 or bool(a.members) or a.state is not EMPTY)


def _is_stale(a: Asked) -> bool:
    """A commit of an older epoch is good for partitions that were kept since."""
    if a.entry is None or a.entry.is_classic or a.epoch == a.entry.epoch:
        return False
    errors = getattr(a.step.response, "errors", {})
    refused = [p for p, code in errors.items() if code is ErrorCode.STALE_MEMBER_EPOCH]
    tolerated = a.model.rules.tolerates_older_commits and 0 < a.epoch < a.entry.epoch
    return not (tolerated and refused and kept_since(a.entry, a.epoch, refused))


def _has_long_text(a: Asked) -> bool:
    text = a.request.metadata.get(a.partition, "")
    return len(text.encode("utf-16-le")) > 2 * a.config.offset_metadata_max_bytes


def _has_members(a: Asked) -> bool:
    """To offsets, these matter only if no one can say what they subscribe to."""
    if isinstance(a.request, consumer.DeleteGroupsRequest):
        return bool(a.members) or (not a.is_consumer and a.state is not EMPTY)
    return a.classic.group is not None and a.classic.group.protocol_type != CONSUMER_PROTOCOL_TYPE


def _is_in_use(a: Asked) -> bool:
    return not a.is_consumer or bool(a.topic and a.topic.name in a.ledger.all_names())


_IS_MISSING = "there is no such partition", _is_missing
_NO_GROUP = "there is no group", lambda a: not a.is_consumer and a.generation is None
_OF_SIGNATURE: Causes = {
    ErrorCode.UNKNOWN_TOPIC_ID: (
        "there is no such topic",
        lambda a: a.partition and a.topic is None,
    ),
    ErrorCode.UNKNOWN_MEMBER_ID: (UNKNOWN, _is_foreign),
    ErrorCode.STALE_MEMBER_EPOCH: ("its epoch is over, and what it had is lost", _is_stale),
    ErrorCode.ILLEGAL_GENERATION: OTHER_GENERATION,
}


class _OfOffsets(Refusals):
    """A request as a whole has a code, or each of its partitions."""

    def before_request(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Look at what is refused."""
        response = step.response
        if not getattr(step.request, "require_stable", True):
            return None
        errors: dict[TopicPartition | None, ErrorCode] = {**getattr(response, "errors", {})}
        errors[None] = getattr(response, "error_code", ErrorCode.NONE)
        asked = Asked(self.model, step, ledger, classic_model)
        for asked.partition, code in errors.items():
            if code and (finding := self.judge(code, asked)):
                return finding
        return None


class CommitRefusalCause(_OfOffsets):
    """coordinator §8.1, classic §8.4."""

    id = "offsets.commit_refusal_cause"
    sentence = (
        "A commit is refused only for what its code says of committer, epoch, group or partition; "
        "not at an older epoch, if its partitions were kept since."
    )
    clauses = ("coordinator §8.1", "coordinator §8.4", "classic §8.4", "defects L4")
    violated_by = ("KAFKA-20066", "PR-16145")
    interest = Interest(requests=(), refused_requests=(offsets.OffsetCommitRequest,))
    causes: ClassVar[Causes] = {
        **_OF_SIGNATURE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _IS_MISSING,
        ErrorCode.GROUP_ID_NOT_FOUND: _NO_GROUP,
        ErrorCode.FENCED_INSTANCE_ID: (FENCED, lambda a: a.is_held_by_other),
        ErrorCode.REBALANCE_IN_PROGRESS: (
            "no one knows yet who owns what",
            lambda a: a.state is _COMPLETING,
        ),
        ErrorCode.UNSUPPORTED_VERSION: ("it is too old", lambda a: a.request.api_version < 9),
        ErrorCode.OFFSET_METADATA_TOO_LARGE: ("the text is too long", _has_long_text),
    }


class FetchRefusalCause(_OfOffsets):
    """coordinator §8.2. One that does not wait is a read of what is committed."""

    id = "offsets.fetch_refusal_cause"
    sentence = (
        "An offset fetch that waits for commits is refused only if its sender is no member, or at "
        "another epoch; a topic id that is gone, or an open transaction, is an error of its own."
    )
    clauses = ("coordinator §8.2", "coordinator §8.4")
    violated_by = ("test:fetch-refused-for-nothing",)
    interest = Interest(requests=(), refused_requests=(offsets.OffsetFetchRequest,))
    causes: ClassVar[Causes] = {
        **_OF_SIGNATURE,
        # A fetch with a member id, at whatever epoch, is that of a member.
        ErrorCode.UNKNOWN_MEMBER_ID: (UNKNOWN, lambda a: a.is_unknown),
        # Whether one has it is judged by ``transactions.pending_hidden``.
        ErrorCode.UNSTABLE_OFFSET_COMMIT: (
            "an open transaction has it",
            lambda a: a.partition is not None,
        ),
    }


class DeletionRefusalCause(_OfOffsets):
    """coordinator §8.3, §8.6. What a classic group subscribes to, only its leader knows."""

    id = "offsets.deletion_refusal_cause"
    sentence = (
        "Offsets are deleted on request unless the group, the partition or a subscription stands "
        "against it, and a group unless it has members."
    )
    clauses = ("coordinator §8.3", "coordinator §8.6", "classic §8.5")
    violated_by = ("test:empty-group-stays",)
    interest = Interest(
        requests=(), refused_requests=(consumer.DeleteGroupsRequest, offsets.OffsetDeleteRequest)
    )
    causes: ClassVar[Causes] = {
        ErrorCode.NON_EMPTY_GROUP: ("the group has members", _has_members),
        ErrorCode.GROUP_ID_NOT_FOUND: _NO_GROUP,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: _IS_MISSING,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: ("somebody subscribes to the topic", _is_in_use),
    }
