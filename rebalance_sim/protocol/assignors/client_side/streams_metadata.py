"""What members of a Streams application and their assignor tell each other, as versioned bytes.

Source: the text of KIP-848, "Member Metadata and Assignment Metadata", in its accepted form:
version and reason (or error) are fields of the protocol, and not part of the bytes. Two versions
are here, so that an upgrade can be recognised:

- 0: a member says its process and the lags of its tasks; it gets active and standby tasks, and
  takes a warm-up for a standby.
- 1: a member also says its tags and its topology; warm-up tasks are distinguished.

A task is a partition of a topic, as if each topic had a sub-topology of its own. What the KIP has
for interactive queries (user end point, partitions by host) is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from struct import Struct, error

from rebalance_sim.protocol.wire.topics import TopicPartition, group_by_topic

OLDEST_VERSION, NEWEST_VERSION = 0, 1


class MetadataReason(IntEnum):
    """Why a member has updated its metadata."""

    NONE = 0
    SHUTDOWN = 1
    WARM_UP_READY = 2
    WARM_UP_FAILED = 3
    TOPOLOGY_CHANGED = 4


class AssignmentError(IntEnum):
    """What an assignor reports beside an assignment."""

    NONE = 0
    SHUTDOWN = 1
    ASSIGNMENT_ERROR = 2
    INCONSISTENT_TOPOLOGY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsMember:
    """What a member says. ``process_id`` names the instance, which may have several members and
    one store of state; ``task_lags`` are in records, for tasks that it has a copy of."""

    process_id: str
    client_tags: Mapping[str, str] = field(default_factory=dict)
    topology_hash: int = 0
    task_lags: Mapping[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsAssignment:
    """What a member gets: the tasks that it runs, keeps a copy of, or builds one of."""

    active: frozenset[TopicPartition] = frozenset()
    standby: frozenset[TopicPartition] = frozenset()
    warm_up: frozenset[TopicPartition] = frozenset()

    @property
    def tasks(self) -> frozenset[TopicPartition]:
        """All tasks of which the member keeps state."""
        return self.active | self.standby | self.warm_up


# -- members -------------------------------------------------------------------------------


def encode_member(member: StreamsMember, version: int) -> bytes:
    """The bytes of a member in a version; what the version cannot say is left out.

    Raises ValueError for an unknown version.
    """
    _check(version)
    out = _Writer()
    out.text(member.process_id)
    out.number(len(member.task_lags))
    for topic_id, numbers in group_by_topic(member.task_lags).items():
        out.text(topic_id)
        out.number(len(numbers))
        for number in numbers:
            out.number(number)
            out.long(member.task_lags[TopicPartition(topic_id, number)])
    if version >= 1:
        out.number(len(member.client_tags))
        for key in sorted(member.client_tags):
            out.text(key)
            out.text(member.client_tags[key])
        out.long(member.topology_hash)
    return bytes(out.data)


def decode_member(data: bytes, version: int) -> StreamsMember:
    """A member from its bytes. Raises ValueError for an unknown version and for other bytes."""
    _check(version)
    read = _Reader(data)
    process_id = read.text()
    lags: dict[TopicPartition, int] = {}
    count = read.number()
    while len(lags) < count:
        topic_id = read.text()
        for _ in range(read.number()):
            number = read.number()
            lags[TopicPartition(topic_id, number)] = read.long()
    tags: dict[str, str] = {}
    topology_hash = 0
    if version >= 1:
        for _ in range(read.number()):
            key = read.text()
            tags[key] = read.text()
        topology_hash = read.long()
    read.end()
    return StreamsMember(
        process_id=process_id, client_tags=tags, topology_hash=topology_hash, task_lags=lags
    )


# -- assignments ---------------------------------------------------------------------------


def encode_assignment(assignment: StreamsAssignment, version: int) -> bytes:
    """The bytes of an assignment in a version; to version 0 a warm-up is a standby.

    Raises ValueError for an unknown version.
    """
    _check(version)
    out = _Writer()
    out.tasks(assignment.active)
    if version >= 1:
        out.tasks(assignment.standby)
        out.tasks(assignment.warm_up)
    else:
        out.tasks(assignment.standby | assignment.warm_up)
    return bytes(out.data)


def decode_assignment(data: bytes, version: int) -> StreamsAssignment:
    """An assignment from its bytes; no bytes at all are an assignment of nothing.

    Raises ValueError for an unknown version and for other bytes.
    """
    _check(version)
    if not data:
        return StreamsAssignment()
    read = _Reader(data)
    active, standby = read.tasks(), read.tasks()
    warm_up = read.tasks() if version >= 1 else frozenset()
    read.end()
    return StreamsAssignment(active=active, standby=standby, warm_up=warm_up)


def _check(version: int) -> None:
    if not OLDEST_VERSION <= version <= NEWEST_VERSION:
        raise ValueError(f"version {version} of the metadata is not known")


# -- bytes ---------------------------------------------------------------------------------

_NUMBER, _LONG = Struct(">I"), Struct(">q")


class _Writer:
    """Numbers of four and eight bytes, texts with their length in front."""

    def __init__(self) -> None:
        self.data = bytearray()

    def number(self, value: int) -> None:
        self.data += _NUMBER.pack(value)

    def long(self, value: int) -> None:
        self.data += _LONG.pack(value)

    def text(self, value: str) -> None:
        encoded = value.encode()
        self.number(len(encoded))
        self.data += encoded

    def tasks(self, tasks: frozenset[TopicPartition]) -> None:
        grouped = group_by_topic(tasks)
        self.number(len(grouped))
        for topic_id, numbers in grouped.items():
            self.text(topic_id)
            self.number(len(numbers))
            for number in numbers:
                self.number(number)


class _Reader:
    """The reverse. Raises ValueError where the bytes end too early, or too late."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self) -> int:
        return self._unpack(_NUMBER)

    def long(self) -> int:
        return self._unpack(_LONG)

    def text(self) -> str:
        end = self.number() + self._at
        if end > len(self._data):
            raise ValueError("the metadata ends within a text")
        text = self._data[self._at : end].decode()
        self._at = end
        return text

    def tasks(self) -> frozenset[TopicPartition]:
        found = set()
        for _ in range(self.number()):
            topic_id = self.text()
            for _ in range(self.number()):
                found.add(TopicPartition(topic_id, self.number()))
        return frozenset(found)

    def end(self) -> None:
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes follow the metadata")

    def _unpack(self, struct: Struct) -> int:
        try:
            value: int = struct.unpack_from(self._data, self._at)[0]
        except error as problem:
            raise ValueError("the metadata ends within a number") from problem
        self._at += struct.size
        return value
