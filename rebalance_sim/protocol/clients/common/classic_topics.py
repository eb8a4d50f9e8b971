"""What the client's metadata say of topics: ids, names and partition counts.

The classic protocol names topics by name, and what a client owns stands here by id. Sources:
classic §3.4, §4.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from rebalance_sim.protocol.clients.common.events import MetadataKnown
from rebalance_sim.protocol.wire.embedded import NamedPartitions
from rebalance_sim.protocol.wire.topics import ReplicaRacks, TopicPartition


class KnownTopicNames(Protocol):
    """What a client knows of names and ids."""

    def on_metadata(self, topic_names: Mapping[str, str]) -> None:
        """The client's metadata has been refreshed."""

    def ids_by_name(self) -> Mapping[str, str]:
        """Name -> id, as the newest metadata have it."""

    def ids_in_use(self) -> Mapping[str, str]:
        """Name -> id of assigned topics, which the newest metadata need not have any more."""

    def knows(self, topic_id: str) -> bool:
        """Whether somebody has said the name of this topic."""

    def name_of(self, topic_id: str) -> str:
        """The name of a topic that is, or was, assigned; the id itself if no one ever said."""

    def keep(self, partitions: frozenset[TopicPartition]) -> None:
        """Remember the names of what is assigned from now on, should their topics be deleted."""


class Moved(NamedTuple):
    """Partitions that stand for others by now -> those.

    ``found``: they stood under the name of their topic, whose id is known now. ``renamed``: the
    name of their topic belongs to another topic, which has as many.
    """

    found: Mapping[TopicPartition, TopicPartition]
    renamed: Mapping[TopicPartition, TopicPartition]


class TopicCatalogue:
    """Ids of topic names, partition counts and racks, as of the client's newest metadata."""

    def __init__(self, topic_names: KnownTopicNames) -> None:
        self._topic_names = topic_names
        self._ids: Mapping[str, str] = {}
        self.counts: Mapping[str, int] = {}
        self.replica_racks: Mapping[str, ReplicaRacks] = {}

    def on_metadata(self, event: MetadataKnown, held: Iterable[TopicPartition]) -> Moved:
        """The client's metadata has been refreshed; what becomes of the partitions it has."""
        without_id = self.without_id(held)
        self._topic_names.on_metadata(event.topic_names)
        self._ids = self._topic_names.ids_by_name()
        self.counts = event.partition_counts
        self.replica_racks = event.replica_racks
        return Moved(self._found_late(without_id), self._renamed(held))

    def counts_of(self, topics: Iterable[str]) -> dict[str, int]:
        """Partition counts of those topics that exist, in ascending order of names."""
        return {topic: self.counts[topic] for topic in sorted(topics) if topic in self.counts}

    def racks_of(self, topics: Iterable[str]) -> dict[str, ReplicaRacks]:
        """Racks of the replicas of those topics that have any."""
        racks = self.replica_racks
        return {topic: racks[topic] for topic in topics if topic in racks} if racks else {}

    def by_id(self, named: Iterable[NamedPartitions]) -> frozenset[TopicPartition]:
        """The same partitions by topic id.

        The client takes over what it does not know as well. Such a topic stands under its
        name instead of an id, until metadata say it (``Moved.found``).
        """
        in_use = self._topic_names.ids_in_use()
        return frozenset(
            TopicPartition(self._ids.get(topic) or in_use.get(topic, topic), number)
            for topic, numbers in named
            for number in numbers
        )

    def without_id(self, partitions: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Those that stand under the name of their topic: no one has said its id so far."""
        return frozenset(p for p in partitions if not self._topic_names.knows(p.topic_id))

    def by_name(self, partitions: Iterable[TopicPartition]) -> tuple[NamedPartitions, ...]:
        """The same partitions grouped under the names of their topics, both ascending."""
        grouped: dict[str, list[int]] = {}
        for partition in sorted(partitions):
            name = self._topic_names.name_of(partition.topic_id)
            grouped.setdefault(name, []).append(partition.partition)
        return tuple(NamedPartitions(name, tuple(grouped[name])) for name in sorted(grouped))

    def keep_names(self, partitions: frozenset[TopicPartition]) -> None:
        """Remember the names of what is assigned from now on, should their topics be deleted."""
        self._topic_names.keep(partitions)

    def _found_late(
        self, without_id: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TopicPartition]:
        return {
            partition: TopicPartition(self._ids[partition.topic_id], partition.partition)
            for partition in sorted(without_id)
            if partition.topic_id in self._ids
        }

    def _renamed(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TopicPartition]:
        found: dict[TopicPartition, TopicPartition] = {}
        for partition in sorted(partitions):
            if not self._topic_names.knows(partition.topic_id):
                continue
            name = self.name_of(partition)
            topic_id = self._ids.get(name, partition.topic_id)
            if topic_id != partition.topic_id and partition.partition < self.counts.get(name, 0):
                found[partition] = TopicPartition(topic_id, partition.partition)
        return found

    def name_of(self, partition: TopicPartition) -> str:
        """The name of the partition's topic."""
        return self._topic_names.name_of(partition.topic_id)
