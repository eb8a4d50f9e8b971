"""The topics of the cluster as an administrator changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rebalance_sim.protocol.wire.topics import MetadataImage, Topic, TopicPartition

if TYPE_CHECKING:
    from rebalance_sim.sim.world import World


class TopicAdmin:
    """Creates, grows and deletes topics. A topic id is name and generation: ``orders:1``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._generations: dict[str, int] = {}
        self._rates = {spec.name: spec.records_per_second for spec in world.spec.topics}

    def initial_image(self) -> MetadataImage:
        """The topics of the specification."""
        topics = [
            self._new_topic(spec.name, spec.partition_count) for spec in self._world.spec.topics
        ]
        return MetadataImage(topics, version=1)

    def create(self, name: str, partition_count: int) -> bool:
        """Create a topic; False if the name exists."""
        image = self._image
        if name in image.by_name:
            return False
        self._set(image.with_topic(self._new_topic(name, partition_count)))
        return True

    def grow(self, name: str, partition_count: int) -> bool:
        """Add partitions; False if there is nothing to add."""
        image = self._image
        topic = image.by_name.get(name)
        if topic is None or topic.partition_count >= partition_count:
            return False
        self._begin(topic.topic_id, name, range(topic.partition_count, partition_count))
        grown = Topic(topic_id=topic.topic_id, name=name, partition_count=partition_count)
        self._set(image.with_topic(grown))
        return True

    def delete(self, name: str) -> bool:
        """Delete a topic; False if there is none."""
        image = self._image
        topic = image.by_name.get(name)
        if topic is None:
            return False
        for number in range(topic.partition_count):
            self._world.metrics.on_partition_deleted(TopicPartition(topic.topic_id, number))
        self._world.data_plane.on_topic_deleted(topic.topic_id, topic.partition_count)
        self._set(image.without_topic(name))
        return True

    def partition_count(self, name: str) -> int | None:
        """The present number of partitions; None: no such topic."""
        topic = self._image.by_name.get(name)
        return None if topic is None else topic.partition_count

    @property
    def _image(self) -> MetadataImage:
        return self._world.controller.metadata.image

    def _set(self, image: MetadataImage) -> None:
        self._world.controller.set_image(image)

    def _new_topic(self, name: str, partition_count: int) -> Topic:
        generation = self._generations[name] = self._generations.get(name, 0) + 1
        topic_id = f"{name}:{generation}"
        self._begin(topic_id, name, range(partition_count))
        return Topic(topic_id=topic_id, name=name, partition_count=partition_count)

    def _begin(self, topic_id: str, name: str, numbers: range) -> None:
        world = self._world
        world.data_plane.leaders.on_topic_created(topic_id)
        world.topic_logs.create(
            topic_id,
            numbers,
            records_per_second=self._rates.get(name, 0),
            now_ms=world.clock.now_ms,
        )
        for group in world.groups.values():
            if group.subscribes_to(name):
                ownership = world.metrics.ownership[group.group_id]
                for number in numbers:
                    ownership.add(TopicPartition(topic_id, number))
