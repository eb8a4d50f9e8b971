"""The topics of the cluster as an administrator changes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from rebalance_sim.protocol.wire.topics import MetadataImage, ReplicaRacks, Topic
from rebalance_sim.sim.data_plane.topic_spec import TopicSpec


class TopicPublisher(Protocol):
    """The controller."""

    @property
    def image(self) -> MetadataImage:
        """The topics that were published last."""

    def set_image(self, image: MetadataImage) -> None:
        """Let every broker learn topics."""

    def postpones(self, decision: Callable[[], object]) -> bool:
        """Keep a decision for later if there is no controller to take it."""


class TopicWatcher(Protocol):
    """Is informed of partitions before clients and brokers are."""

    def on_partitions_created(
        self, topic_id: str, name: str, numbers: range, *, records_per_second: int
    ) -> None:
        """Partitions of a topic, new or not, are created."""

    def on_topic_deleted(self, topic: Topic) -> None:
        """A topic is deleted."""


class TopicAdmin:
    """Creates, grows and deletes topics. A topic id is name and generation: ``orders:1``."""

    def __init__(
        self,
        specs: Iterable[TopicSpec],
        publisher: TopicPublisher,
        watcher: TopicWatcher,
        *,
        racks: Sequence[str] = (),
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self._racks = racks
        self._publisher = publisher
        self._watcher = watcher
        self._generations: dict[str, int] = {}
        self._rates = {name: spec.records_per_second for name, spec in self._specs.items()}

    def initial_image(self) -> MetadataImage:
        """The topics of the specification."""
        topics = [self._new_topic(name, one.partition_count) for name, one in self._specs.items()]
        return MetadataImage(topics, version=1)

    def create(
        self, name: str, partition_count: int, records_per_second: int | None = None
    ) -> bool:
        """Create a topic; False if the name exists. ``records_per_second`` of each partition; None:
        as many as the last topic of that name had, or none."""
        if self._publisher.postpones(
            lambda: self.create(name, partition_count, records_per_second)
        ):
            return True
        image = self._image
        if name in image.by_name:
            return False
        if records_per_second is not None:
            self._rates[name] = records_per_second
        self._set(image.with_topic(self._new_topic(name, partition_count)))
        return True

    def grow(self, name: str, partition_count: int) -> bool:
        """Add partitions; False if there is nothing to add."""
        if self._publisher.postpones(lambda: self.grow(name, partition_count)):
            return True
        image = self._image
        topic = image.by_name.get(name)
        if topic is None or topic.partition_count >= partition_count:
            return False
        self._begin(topic.topic_id, name, range(topic.partition_count, partition_count))
        self._set(image.with_topic(self._topic(topic.topic_id, name, partition_count)))
        return True

    def delete(self, name: str) -> bool:
        """Delete a topic; False if there is none."""
        if self._publisher.postpones(lambda: self.delete(name)):
            return True
        image = self._image
        topic = image.by_name.get(name)
        if topic is None:
            return False
        self._watcher.on_topic_deleted(topic)
        self._set(image.without_topic(name))
        return True

    def partition_count(self, name: str) -> int | None:
        """The present number of partitions; None: no such topic."""
        topic = self._image.by_name.get(name)
        return None if topic is None else topic.partition_count

    @property
    def _image(self) -> MetadataImage:
        return self._publisher.image

    def _set(self, image: MetadataImage) -> None:
        self._publisher.set_image(image)

    def _new_topic(self, name: str, partition_count: int) -> Topic:
        generation = self._generations[name] = self._generations.get(name, 0) + 1
        topic_id = f"{name}:{generation}"
        self._begin(topic_id, name, range(partition_count))
        return self._topic(topic_id, name, partition_count)

    def _topic(self, topic_id: str, name: str, partition_count: int) -> Topic:
        return Topic(
            topic_id=topic_id,
            name=name,
            partition_count=partition_count,
            replica_racks=self._replica_racks(name, partition_count) if self._racks else (),
        )

    def _replica_racks(self, name: str, partition_count: int) -> ReplicaRacks:
        """See ``TopicSpec``; a topic without a specification has one replica of each partition."""
        spec, racks = self._specs.get(name), self._racks
        replicas = range(1 if spec is None else min(spec.replication_factor, len(racks)))
        return tuple(
            tuple(sorted(racks[(number + step) % len(racks)] for step in replicas))
            for number in range(partition_count)
        )

    def _begin(self, topic_id: str, name: str, numbers: range) -> None:
        rate = self._rates.get(name, 0)
        self._watcher.on_partitions_created(topic_id, name, numbers, records_per_second=rate)
