"""Requests and responses for committed offsets, as frozen values.

Field names are Kafka's in snake case. Offsets are keyed by partition instead of nested by topic.
One group per OffsetFetch, as consumers send it (consumer-client.md, section 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from protocol.errors import ErrorCode
from protocol.topics import TopicPartition

__all__ = [
    "NO_MEMBER_EPOCH",
    "NO_OFFSET",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
]

NO_MEMBER_EPOCH = -1
"""Epoch of a commit, or an offset fetch, by somebody who is not in the group."""

NO_OFFSET = -1
"""Answer of OffsetFetch for a partition for which nothing is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """Api key 8. ``offsets``: partition -> offset of the next record to read.

    ``metadata``: partition -> free text, for those that have any. ``api_version`` 9 is the first
    that members of the consumer protocol may use.
    """

    group_id: str
    member_id: str
    generation_id_or_member_epoch: int
    offsets: Mapping[TopicPartition, int]
    group_instance_id: str | None = None
    metadata: Mapping[TopicPartition, str] = field(default_factory=dict)
    api_version: int = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitResponse:
    """Answer to api key 8: partition -> error code, NONE where the offset is committed."""

    errors: Mapping[TopicPartition, ErrorCode]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """Api key 9. ``member_id`` None and epoch -1: not signed, and therefore not checked."""

    group_id: str
    partitions: frozenset[TopicPartition]
    member_id: str | None = None
    member_epoch: int = NO_MEMBER_EPOCH
    require_stable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """Answer to api key 9. An error of the group leaves ``offsets`` empty.

    ``offsets``: partition -> committed offset or ``NO_OFFSET``. ``errors`` holds only partitions
    that could not be answered.
    """

    error_code: ErrorCode = ErrorCode.NONE
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest:
    """Api key 47."""

    group_id: str
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteResponse:
    """Answer to api key 47. An error of the group leaves ``errors`` empty."""

    error_code: ErrorCode = ErrorCode.NONE
    errors: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
