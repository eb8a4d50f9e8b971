"""Requests out of frames, and responses into frames; which APIs there are, in which versions."""

from __future__ import annotations

import asyncio
import importlib
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from rebalance_sim.gateway.errors import WireError
from rebalance_sim.gateway.wire import codec

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""What a request may have at most; a longer one ends its connection."""
LARGE_BYTES = 64 * 1024
MAX_BYTES_UNDER_WAY = 256 * 1024 * 1024
"""What frames of more than ``LARGE_BYTES`` may have together: requests that are being read, and
answers that clients do not read."""
MAX_IDLE_S = 600.0
"""``connections.max.idle.ms``: so long may a connection wait for the rest of a request."""

_SIZE = struct.Struct(">i")
_HEAD = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
UNSUPPORTED_VERSION = 35


class Api(NamedTuple):
    """An API, with the versions that are served."""

    name: str
    key: int
    module: str
    oldest: int
    newest: int


_ROWS = (
    Api("Produce", 0, "produce", 3, 12),
    Api("Fetch", 1, "fetch", 4, 17),
    Api("ListOffsets", 2, "list_offsets", 1, 10),
    Api("Metadata", 3, "metadata", 0, 13),
    Api("OffsetCommit", 8, "offset_commit", 2, 10),
    Api("OffsetFetch", 9, "offset_fetch", 1, 10),
    Api("FindCoordinator", 10, "find_coordinator", 0, 6),
    Api("JoinGroup", 11, "join_group", 0, 9),
    Api("Heartbeat", 12, "heartbeat", 0, 4),
    Api("LeaveGroup", 13, "leave_group", 0, 5),
    Api("SyncGroup", 14, "sync_group", 0, 5),
    Api("DescribeGroups", 15, "describe_groups", 0, 6),
    Api("ListGroups", 16, "list_groups", 0, 5),
    Api("ApiVersions", 18, "api_versions", 0, 4),
    Api("CreateTopics", 19, "create_topics", 2, 7),
    Api("DeleteTopics", 20, "delete_topics", 1, 6),
    Api("InitProducerId", 22, "init_producer_id", 0, 5),
    Api("AddPartitionsToTxn", 24, "add_partitions_to_txn", 0, 3),
    Api("AddOffsetsToTxn", 25, "add_offsets_to_txn", 0, 4),
    Api("EndTxn", 26, "end_txn", 0, 5),
    Api("TxnOffsetCommit", 28, "txn_offset_commit", 0, 5),
    Api("OffsetForLeaderEpoch", 23, "offset_for_leader_epoch", 2, 4),
    Api("DescribeConfigs", 32, "describe_configs", 1, 4),
    Api("CreatePartitions", 37, "create_partitions", 0, 3),
    Api("DeleteGroups", 42, "delete_groups", 0, 2),
    Api("IncrementalAlterConfigs", 44, "incremental_alter_configs", 0, 1),
    Api("OffsetDelete", 47, "offset_delete", 0, 0),
    Api("DescribeCluster", 60, "describe_cluster", 0, 2),
    Api("ConsumerGroupHeartbeat", 68, "consumer_group_heartbeat", 0, 1),
    Api("ConsumerGroupDescribe", 69, "consumer_group_describe", 0, 1),
)
APIS: Mapping[str, Api] = MappingProxyType({api.name: api for api in _ROWS})
"""What is served, by name."""

_BY_KEY = {api.key: api for api in _ROWS}


class Request(NamedTuple):
    """A request as it was sent. ``size``: in bytes. ``is_unsupported``: an ApiVersions request of
    a version that is not served, which is answered nevertheless; its message is empty."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    message: codec.Message
    size: int = 0
    is_unsupported: bool = False


class Room:
    """What all connections together may have of large frames, on their way in or out."""

    def __init__(self, size: int = MAX_BYTES_UNDER_WAY) -> None:
        self.left = size

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Take room for a frame; small ones take none. Raises WireError if there is not enough."""
        size = 0 if size <= LARGE_BYTES else size
        if size > self.left:
            raise WireError(f"no room for a frame of {size} bytes")
        self.left -= size
        try:
            yield
        finally:
            self.left += size


async def read_frame(reader: asyncio.StreamReader, first: bytes, room: Room) -> bytes | None:
    """The next frame, which begins with ``first``; None at the end of the connection, also of one
    that is idle for too long. Raises WireError for a frame that is longer than
    ``MAX_FRAME_BYTES``, or for which there is no room, before it is read."""
    try:
        async with asyncio.timeout(MAX_IDLE_S):
            (size,) = _SIZE.unpack(first + await reader.readexactly(_SIZE.size - len(first)))
            if not 0 <= size <= MAX_FRAME_BYTES:
                raise WireError(f"a frame of {size} bytes")
            with room.hold(size):
                return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
        return None


def request_of(frame: bytes) -> Request:
    """The request in a frame. Raises WireError for an API or a version that is not served, and for
    bytes that are no request of it."""
    reader = codec.Reader(frame)
    key, version, correlation_id = (
        reader.number(_SHORT),
        reader.number(_SHORT),
        reader.number(_SIZE),
    )
    api = _BY_KEY.get(key)
    if api is None:
        raise WireError(f"API {key} is not served")
    length = reader.number(_LENGTH)
    try:
        client_id = "" if length < 0 else reader.take(length).decode()
    except UnicodeDecodeError:
        raise WireError("a client id is no UTF-8") from None
    if not api.oldest <= version <= api.newest:
        if api.name != "ApiVersions":
            raise WireError(f"{api.name} of version {version} is not served")
        return Request(api, 0, correlation_id, client_id, {}, len(frame), is_unsupported=True)
    schema = _schema(api, version, "Request")
    if schema.__flexible__:
        for _ in range(reader.count(reader.varint())):
            reader.varint()
            reader.take(reader.varint())
    message = codec.read(schema, reader)
    return Request(api, version, correlation_id, client_id, message, len(frame))


def frame_of(request: Request, message: codec.Message) -> bytes:
    """The frame that answers a request."""
    schema = _schema(request.api, request.version, "Response")
    head = _SIZE.pack(request.correlation_id)
    # The header of an answer to ApiVersions is that of the oldest clients, whatever the version.
    if schema.__flexible__ and request.api.name != "ApiVersions":
        head += b"\0"
    body = codec.write(schema, message)
    return _SIZE.pack(len(head) + len(body)) + head + body


_SHORT = _LENGTH


@cache
def _schema(api: Api, version: int, kind: str) -> Any:
    module = importlib.import_module(f"kio.schema.{api.module}.v{version}.{kind.lower()}")
    return getattr(module, f"{api.name}{kind}")
