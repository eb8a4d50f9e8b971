"""What classic members send each other through the coordinator: the embedded "consumer" protocol.

On the wire these are bytes inside JoinGroup and SyncGroup. A classic coordinator carries them
unread and compares them, so two values here are equal exactly if their bytes would be: the order of
topics and of owned partitions counts. Source: classic §3.4.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition
from rebalance_sim.protocol.wire.value import value

CONSUMER_PROTOCOL_TYPE = "consumer"
"""The protocol type of consumers; other types (of connectors, for instance) are opaque bytes."""

NEWEST_VERSION = 3
_FIRST_VERSION_WITH_OWNED, _FIRST_VERSION_WITH_GENERATION, _FIRST_VERSION_WITH_RACK = 1, 2, 3


class NamedPartitions(NamedTuple):
    """Partitions of one topic, by the topic's *name*."""

    topic: str
    partitions: tuple[int, ...]


class StickyUserData(NamedTuple):
    """What a member of ``sticky`` says: the assignment it last got, and in which generation."""

    previous_assignment: tuple[NamedPartitions, ...]
    generation_id: int


class CooperativeUserData(NamedTuple):
    """What a member of ``cooperative-sticky`` says besides its metadata."""

    generation_id: int


@value
class Subscription:
    """A member's metadata for one assignor. ``generation_id`` is the client's own, -1 for none.

    Raises ValueError for a field that the version cannot carry.
    """

    topics: tuple[str, ...]
    owned_partitions: tuple[NamedPartitions, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    user_data: Hashable | None = None
    version: int = NEWEST_VERSION

    def __post_init__(self) -> None:
        if self.version < _FIRST_VERSION_WITH_OWNED and self.owned_partitions:
            raise ValueError(f"version {self.version} carries no owned_partitions")
        if self.version < _FIRST_VERSION_WITH_GENERATION and self.generation_id != -1:
            raise ValueError(f"version {self.version} carries no generation_id")
        if self.version < _FIRST_VERSION_WITH_RACK and self.rack_id is not None:
            raise ValueError(f"version {self.version} carries no rack_id")


@value
class Assignment:
    """What the leader gives to one member."""

    partitions: tuple[NamedPartitions, ...] = ()
    user_data: Hashable | None = None
    version: int = NEWEST_VERSION


EmbeddedMetadata = Subscription | bytes
"""Metadata of the consumer protocol, or bytes of another one, which no one here reads."""

EmbeddedAssignment = Assignment | bytes | None
"""An assignment; None stands for no bytes at all, which is what a member has before its first."""


def partitions_by_name(
    partitions: Iterable[TopicPartition], image: MetadataImage
) -> tuple[NamedPartitions, ...]:
    """Partitions grouped under the names of their topics, ascending; unknown topics vanish."""
    grouped: dict[str, list[int]] = {}
    by_id = image.by_id
    for topic_id, partition in partitions:
        topic = by_id.get(topic_id)
        if topic is not None:
            grouped.setdefault(topic.name, []).append(partition)
    return tuple(NamedPartitions(name, tuple(sorted(grouped[name]))) for name in sorted(grouped))


def partitions_of(
    named: Iterable[NamedPartitions], image: MetadataImage
) -> frozenset[TopicPartition]:
    """The same partitions by topic id; unknown topics vanish."""
    by_name = image.by_name
    return frozenset(
        TopicPartition(by_name[topic].topic_id, partition)
        for topic, partitions in named
        if topic in by_name
        for partition in partitions
    )


def assignment_of(
    partitions: Iterable[TopicPartition], image: MetadataImage, metadata: EmbeddedMetadata
) -> Assignment:
    """An assignment in the version of the member's own metadata."""
    version = metadata.version if isinstance(metadata, Subscription) else NEWEST_VERSION
    return Assignment(partitions=partitions_by_name(partitions, image), version=version)
