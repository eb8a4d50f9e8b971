"""The variables of one franz-go member that all its parts share.

Source: client §0.2, franz §1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.values import LocalAssignment
from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_RETRY_MIN_MS = 250
_RETRY_MAX_MS = 5_000
_LONGEST_AFTER = 10

COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Answers after which the coordinator is looked up again, and asked again (franz §2)."""

REFUSALS = frozenset(
    {
        *(ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_MAX_SIZE_REACHED),
        *(ErrorCode.UNSUPPORTED_ASSIGNOR, ErrorCode.INVALID_REQUEST),
        *(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.INVALID_SESSION_TIMEOUT),
        *(ErrorCode.INVALID_REGULAR_EXPRESSION, ErrorCode.FENCED_INSTANCE_ID),
    }
)
"""Errors that other clients fail for; franz-go tells of them, and asks again all the same."""

RETRIES = 20
"""How often a request is repeated at most (``RequestRetries``)."""


class FranzCore(MemberCore):
    """Shared variables.

    ``topic_names``: id -> name, as the newest metadata have it. ``now_assigned`` is what the group
    has given last, None before that; ``last_assigned`` what the session under way began with.
    ``fetching``: partitions whose committed offsets are still to be looked up. ``is_leaving``: from
    ``LeaveGroup`` on.
    """

    heartbeat_interval_ms = 0

    def __init__(
        self,
        *,
        config: MemberConfig,
        member_id: str,
        rules: FranzRules,
        jitter: Callable[[], float],
        now_ms: int,
    ) -> None:
        super().__init__(config=config, member_id=member_id, jitter=jitter, now_ms=now_ms)
        self.rules = rules
        self.change_count = 0
        self.topic_names: Mapping[str, str] = {}
        self.partition_counts: Mapping[str, int] = {}
        self.is_cooperative = True
        self.is_downgraded = False  # to eager, and what it had before is still to be revoked
        self.now_assigned: frozenset[TopicPartition] | None = None
        self.last_assigned: frozenset[TopicPartition] = frozenset()
        self.fetching: frozenset[TopicPartition] = frozenset()
        self.is_leaving = False

    def retry_backoff_ms(self, fails: int) -> int:
        """How long to wait after so many failures in a row."""
        if fails > _LONGEST_AFTER:
            return _RETRY_MAX_MS
        nominal_ms = _RETRY_MIN_MS << (fails - 1)
        return min(int(nominal_ms * (1 + BACKOFF_JITTER * self.jitter())), _RETRY_MAX_MS)

    def give(self, partitions: frozenset[TopicPartition]) -> None:
        """The group has given another assignment than before."""
        self.now_assigned = partitions
        self.note_target(partitions)

    def note_target(self, partitions: frozenset[TopicPartition]) -> None:
        """What the member is to come to, as everybody reads it."""
        if partitions != self.target.partitions or self.target.local_epoch < 0:
            self.target = LocalAssignment(self.target.local_epoch + 1, partitions)

    def wire_topics_of(self, partitions: Iterable[TopicPartition]) -> Mapping[str, str]:
        """As what topics stand in an OffsetFetch: by id, unless brokers know them by name alone."""
        if self.config.uses_topic_ids is not False:
            return {}
        ids = sorted({partition.topic_id for partition in partitions})
        return {topic_id: self.topic_names.get(topic_id, topic_id) for topic_id in ids}

    @property
    def offsets_version(self) -> int:
        """Of OffsetCommit and OffsetFetch."""
        return 10 if self.config.uses_topic_ids else 9
