"""Topics and their records, in memory.

The core knows a topic by its name and a number that counts how often the name was made, as traces
spell it; on the wire this stands as a UUID.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import uuid
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rebalance_sim.gateway.wire.records import Batch, batches_in
from rebalance_sim.protocol.transactions.transaction_spans import Aborted, TransactionSpans
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic
from rebalance_sim.protocol.wire.transaction_messages import DataPartition

MAX_PARTITION_BYTES = 64 * 1024 * 1024
"""What a partition holds at most: older batches are deleted."""
MAX_PARTITIONS = 10_000
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
LEADER_EPOCH = 0
"""Of every partition, for good."""
KEPT_BATCHES = 5
"""So many batches of an idempotent producer are known when it sends them again, as by Kafka."""
MAX_PRODUCERS = 1_000
"""Of so many producers, in each partition: those that wrote last."""
MAX_DELETED_TOPICS = 1_000
"""So many deleted topics are remembered: those that were deleted last."""


def check_topic(name: str, partition_count: int, has: int = 0) -> None:
    """Raises ValueError for what a topic cannot be called, and for fewer partitions than it has."""
    if not is_legal_name(name):
        raise ValueError(f"{name!r} is no name of a topic: letters, digits, '.', '_' and '-'")
    if not 1 <= partition_count <= MAX_PARTITIONS:
        raise ValueError(f"must be from 1 to {MAX_PARTITIONS}, got {partition_count}")
    if partition_count < has:
        raise ValueError(f"topic {name!r} has {has} partitions, and cannot have fewer")


def is_legal_name(name: str) -> bool:
    """Whether a topic may have this name."""
    return name not in (".", "..") and _LEGAL_NAME.fullmatch(name) is not None


class PartitionLog:
    """The batches of one partition."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.end_offset = 0
        self._bytes = 0
        self._spans = TransactionSpans()
        self._last: dict[int, deque[Batch]] = {}
        """Producer -> its last batches, of idempotent ones."""

    @property
    def last_stable_offset(self) -> int:
        """Where the first transaction begins that has not ended."""
        return self._spans.last_stable_offset(self.end_offset)

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
            if batch.is_transactional:
                self._spans.begin(batch.producer_id, batch.first)
            if batch.sequence >= 0:
                self._note(batch)
        while self._bytes > MAX_PARTITION_BYTES:
            self._bytes -= len(self.batches.pop(0).data)
            self._spans.forget_below(self.start_offset)

    def _note(self, batch: Batch) -> None:
        last = self._last.pop(batch.producer_id, None)
        if last is None or last[-1].producer_epoch != batch.producer_epoch:
            last = deque(maxlen=KEPT_BATCHES)
        last.append(batch._replace(data=b""))
        self._last[batch.producer_id] = last
        if len(self._last) > MAX_PRODUCERS:
            del self._last[next(iter(self._last))]

    def written_before(self, batch: Batch) -> int | None:
        """Where the same batch is, of an idempotent producer that sends it again."""
        is_idempotent = batch.sequence >= 0
        for one in self._last.get(batch.producer_id, ()) if is_idempotent else ():
            if one[4:] == batch[4:] and one.end - one.first == batch.end - batch.first:
                return one.first
        return None

    def end_transaction(self, marker: Batch, *, committed: bool) -> None:
        """Append the marker of a producer, also where it ends nothing."""
        self.append([marker])
        self._spans.end(marker.producer_id, marker.end, committed=committed)

    def aborted(self, offset: int, end: int) -> list[Aborted]:
        """The aborted transactions that reach between two offsets."""
        return self._spans.aborted(offset, end)

    def read(self, offset: int, max_bytes: int, end_offset: int) -> bytes:
        """Whole batches below ``end_offset`` from the one with ``offset`` on; the first whatever
        its size."""
        at = bisect_right(self.batches, offset, key=lambda batch: batch.first) - 1
        found: list[bytes] = []
        size = 0
        for batch in self.batches[max(at, 0) :]:
            if batch.end <= offset:
                continue
            if batch.end > end_offset:
                break
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
        """Make a topic, or give it more partitions. Raises ValueError, in a line, for a name that
        is none, and for a number of partitions that will not do."""
        held = self.by_name.get(name)
        check_topic(name, partition_count, 0 if held is None else held.topic.partition_count)
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
        held = self.named(name)
        del self.by_name[name]
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

    def named(self, name: str) -> HeldTopic:
        """A topic. Raises KeyError, in a line, if there is none."""
        held = self.by_name.get(name)
        if held is None:
            raise KeyError(f"there is no topic {name!r}; there are: {', '.join(self.by_name)}")
        return held

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

    def end_transaction(self, named: DataPartition, marker: bytes, *, committed: bool) -> None:
        """Append the marker of a transaction, if the partition is there still."""
        held = self.by_name.get(named.topic_id.rpartition("#")[0])
        if held is None or held.topic.topic_id != named.topic_id:
            return
        log = self.partition(held, named.number)
        if log is not None:
            (batch,) = batches_in(marker, log.end_offset, LEADER_EPOCH, has_markers=True)
            log.end_transaction(batch, committed=committed)
            self.on_append()

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
