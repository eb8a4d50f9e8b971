"""Topics and their records, in memory.

The core knows a topic by its name and a number that counts how often the name was made, as traces
spell it; on the wire this stands as a UUID.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rebalance_sim.gateway.wire.records import Batch
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

MAX_PARTITION_BYTES = 64 * 1024 * 1024
"""What a partition holds at most: older batches are deleted."""
MAX_PARTITIONS = 10_000
MAX_DELETED_TOPICS = 1_000
"""So many deleted topics are remembered: those that were deleted last."""


class PartitionLog:
    """The batches of one partition."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.end_offset = 0
        self._bytes = 0

    @property
    def start_offset(self) -> int:
        """The first offset that is still there."""
        return self.batches[0].first if self.batches else self.end_offset

    def append(self, batches: Iterable[Batch]) -> None:
        """Add batches, whose offsets continue the log."""
        for batch in batches:
            self.batches.append(batch)
            self.end_offset = batch.end
            self._bytes += len(batch.data)
        while self._bytes > MAX_PARTITION_BYTES:
            self._bytes -= len(self.batches.pop(0).data)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one with ``offset`` on; the first whatever its size."""
        at = bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1
        found: list[bytes] = []
        size = 0
        for batch in self.batches[max(at, 0) :]:
            if batch.end <= offset:
                continue
            size += len(batch.data)
            if found and size > max_bytes:
                break
            found.append(batch.data)
        return b"".join(found)


@dataclass(slots=True, eq=False)
class HeldTopic:
    """A topic with its records; ``uuid`` is its id on the wire."""

    topic: Topic
    uuid: uuid.UUID
    partitions: list[PartitionLog] = field(default_factory=list)


class Topics:
    """All topics. ``image`` is what a coordinator sees of them."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.by_name: dict[str, HeldTopic] = {}
        self._by_uuid: dict[uuid.UUID, HeldTopic] = {}
        self._made: dict[str, int] = {}
        """Topic, also one that was deleted -> how often it was made."""
        self._made_at_most = 0
        """The largest such number of topics that are not remembered any more."""
        self._deleted: dict[uuid.UUID, str] = {}
        """The core's ids of topics that were deleted, by that on the wire; the oldest first."""
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def partition_count(self) -> int:
        """Of all topics."""
        return sum(len(held.partitions) for held in self.by_name.values())

    @property
    def counts(self) -> Mapping[str, int]:
        """Topic -> how many partitions it has."""
        return {name: len(held.partitions) for name, held in self.by_name.items()}

    def set(self, name: str, partition_count: int) -> HeldTopic:
        """Make a topic, or give it more partitions."""
        held = self.by_name.get(name)
        if held is None:
            self._made[name] = number = self._made.get(name, self._made_at_most) + 1
            topic_id = f"{name}#{number}"
            digest = hashlib.blake2b(topic_id.encode(), digest_size=16).digest()
            held = HeldTopic(Topic(topic_id=topic_id, name=name, partition_count=0), _uuid(digest))
            self.by_name[name] = self._by_uuid[held.uuid] = held
        held.topic = Topic(topic_id=held.topic.topic_id, name=name, partition_count=partition_count)
        while len(held.partitions) < partition_count:
            held.partitions.append(PartitionLog())
        self.image = self.image.with_topic(held.topic)
        return held

    def delete(self, name: str) -> None:
        """Delete a topic with its records. Raises KeyError if there is none."""
        held = self.by_name.pop(name)
        del self._by_uuid[held.uuid]
        self.image = self.image.without_topic(name)
        self._deleted[held.uuid] = held.topic.topic_id
        if len(self._deleted) > MAX_DELETED_TOPICS:
            oldest = next(iter(self._deleted))
            self._forget(self._deleted.pop(oldest))

    def _forget(self, topic_id: str) -> None:
        """No id is given twice, also not to a topic that is made again after this."""
        name, _, number = topic_id.rpartition("#")
        if self._made[name] == int(number):
            self._made_at_most = max(self._made_at_most, self._made.pop(name))

    def with_uuid(self, topic_uuid: uuid.UUID) -> HeldTopic | None:
        """The topic that has this id."""
        return self._by_uuid.get(topic_uuid)

    def topic_id(self, topic_uuid: uuid.UUID) -> str:
        """The core's id of a topic, also of one that was deleted lately: members may own its
        partitions still. That of any other is like no other."""
        held = self._by_uuid.get(topic_uuid)
        if held is not None:
            return held.topic.topic_id
        return self._deleted.get(topic_uuid, str(topic_uuid))

    def uuid_of(self, topic_id: str) -> uuid.UUID:
        """The same back; also of a topic that was deleted."""
        held = self.by_name.get(topic_id.rpartition("#")[0])
        if held is not None and held.topic.topic_id == topic_id:
            return held.uuid
        try:
            return uuid.UUID(topic_id)
        except ValueError:
            return _uuid(hashlib.blake2b(topic_id.encode(), digest_size=16).digest())

    def partition(self, held: HeldTopic | None, number: int) -> PartitionLog | None:
        """The log of a partition, if there is one."""
        if held is None or not 0 <= number < len(held.partitions):
            return None
        return held.partitions[number]

    # -- waiting for records -------------------------------------------------------------------

    def on_append(self) -> None:
        """Records were appended: wake who waits for some."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    async def appended(self, timeout_s: float) -> None:
        """Return when records were appended, or after this time."""
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await asyncio.wait_for(waiting, timeout_s)
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(waiting)


def _uuid(digest: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=digest, version=4)
