"""Topics as a coordinator and a client know them: ids, names, partition counts.

Members subscribe by name; assignments, owned lists and targets use topic ids
(coordinator §7.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from rebalance_sim.protocol.wire.value import value


class TopicPartition(NamedTuple):
    """One partition, named by the id (never the name) of its topic. Sorts by id, then number."""

    topic_id: str
    partition: int


ReplicaRacks = tuple[tuple[str, ...], ...]
"""For each partition of a topic the racks that have a replica, ascending; () if no broker is in
a rack."""


@value
class Topic:
    """A topic as it stands in one metadata image.

    Raises ValueError for a partition count below 0, and for racks of more or fewer partitions.
    """

    topic_id: str
    name: str
    partition_count: int
    replica_racks: ReplicaRacks = ()

    def __post_init__(self) -> None:
        if self.partition_count < 0:
            raise ValueError(f"topic {self.name}: partition_count must be >= 0")
        if self.replica_racks and len(self.replica_racks) != self.partition_count:
            raise ValueError(f"topic {self.name}: replica_racks must have an entry per partition")


class MetadataImage:
    """An immutable snapshot of all topics of the cluster; ``version`` grows with each change."""

    __slots__ = ("by_id", "by_name", "version")

    def __init__(self, topics: Iterable[Topic] = (), *, version: int = 0) -> None:
        ordered = sorted(topics, key=lambda topic: topic.name)
        self.version = version
        self.by_name: Mapping[str, Topic] = MappingProxyType({t.name: t for t in ordered})
        self.by_id: Mapping[str, Topic] = MappingProxyType({t.topic_id: t for t in ordered})
        if len(self.by_name) != len(ordered) or len(self.by_id) != len(ordered):
            raise ValueError("topic names and topic ids must be unique")

    def with_topic(self, topic: Topic) -> MetadataImage:
        """A new image in which ``topic`` stands under its name (created, grown or recreated)."""
        rest = [t for t in self.by_name.values() if t.name != topic.name]
        return MetadataImage([*rest, topic], version=self.version + 1)

    def without_topic(self, name: str) -> MetadataImage:
        """A new image without the topic of this name. Raises KeyError if there is none."""
        if name not in self.by_name:
            raise KeyError(name)
        rest = [t for t in self.by_name.values() if t.name != name]
        return MetadataImage(rest, version=self.version + 1)


EMPTY_IMAGE = MetadataImage()


def group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """topic id -> sorted partition numbers, topics in ascending id; the wire's shape."""
    grouped: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, []).append(partition)
    return grouped
