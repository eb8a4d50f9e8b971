"""Requests and responses for committed offsets, as frozen values.

Field names are Kafka's in snake case. Offsets are keyed by partition instead of nested by topic.
One group per OffsetFetch, as consumers send it (client §7).

Up to version 9 of OffsetCommit and OffsetFetch topics are *named* on the wire, from version 10 on
they stand there by id. ``wire_topics`` says as what the topics of a request stand there: topic id
-> name, or -> another id, where the client's metadata have one for the same name by now. What is
not in it stands as it is. An administrator who knows names only takes the name for the id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.value import value

FIRST_VERSION_WITH_TOPIC_IDS = 10
"""Of OffsetCommit and OffsetFetch; not known to Kafka 4.1 (both as brokers were seen to do)."""

FIRST_COMMIT_WITH_LEADER_EPOCH = 6
FIRST_FETCH_WITH_LEADER_EPOCH = 5
"""Older versions of OffsetCommit and of the answer to OffsetFetch have no field for it."""

NO_LEADER_EPOCH = -1
"""Leader epoch of a commit that names none."""

NO_MEMBER_EPOCH = -1
"""Epoch of a commit, or an offset fetch, by somebody who is not in the group."""

NO_OFFSET = -1
"""Answer of OffsetFetch for a partition for which nothing is committed."""


@value
class OffsetCommitRequest:
    """Api key 8. ``offsets``: partition -> offset of the next record to read.

    ``metadata``: partition -> free text, for those that have any. ``leader_epochs``: partition ->
    epoch of the leader that the last record was read from, likewise; counts from version 6 on.
    ``api_version`` 9 is the first that members of the consumer protocol may use.
    ``retention_time_ms`` counts in versions 2 to 4 only (coordinator §8.4).
    """

    group_id: str
    member_id: str
    generation_id_or_member_epoch: int
    offsets: Mapping[TopicPartition, int]
    group_instance_id: str | None = None
    metadata: Mapping[TopicPartition, str] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    api_version: int = 9
    wire_topics: Mapping[str, str] = field(default_factory=dict)
    retention_time_ms: int | None = None


@value
class OffsetCommitResponse:
    """Answer to api key 8: partition -> error code, NONE where the offset is committed."""

    errors: Mapping[TopicPartition, ErrorCode]


@value
class OffsetFetchRequest:
    """Api key 9. ``member_id`` None and epoch -1: not signed, and therefore not checked.

    ``partitions`` None: all for which anything is committed.
    """

    group_id: str
    partitions: frozenset[TopicPartition] | None
    member_id: str | None = None
    member_epoch: int = NO_MEMBER_EPOCH
    require_stable: bool = True
    api_version: int = 9
    wire_topics: Mapping[str, str] = field(default_factory=dict)


@value
class OffsetFetchResponse:
    """Answer to api key 9. An error of the group leaves ``offsets`` empty.

    ``offsets``: partition -> committed offset or ``NO_OFFSET``. ``metadata``: partition -> the
    text that was committed beside the offset, for those that have any; ``leader_epochs``
    likewise, from version 5 of the request on. ``errors`` holds only partitions that could not be
    answered.
    """

    error_code: ErrorCode = ErrorCode.NONE
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    metadata: Mapping[TopicPartition, str] = field(default_factory=dict)
    leader_epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@value
class OffsetDeleteRequest:
    """Api key 47. Topics are named on the wire, in all its versions."""

    group_id: str
    partitions: frozenset[TopicPartition]
    wire_topics: Mapping[str, str] = field(default_factory=dict)


@value
class OffsetDeleteResponse:
    """Answer to api key 47. An error of the group leaves ``errors`` empty."""

    error_code: ErrorCode = ErrorCode.NONE
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
