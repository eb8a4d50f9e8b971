"""Requests out of frames, and responses into frames; which APIs there are, in which versions."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from rebalance_sim.conformance import codec
from rebalance_sim.conformance.errors import WireError

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
    oldest: int
    newest: int


_ROWS = (
    Api("Produce", 0, 3, 12),
    Api("Fetch", 1, 4, 17),
    Api("ListOffsets", 2, 1, 10),
    Api("Metadata", 3, 0, 13),
    Api("OffsetCommit", 8, 2, 10),
    Api("OffsetFetch", 9, 1, 10),
    Api("FindCoordinator", 10, 0, 6),
    Api("JoinGroup", 11, 0, 9),
    Api("Heartbeat", 12, 0, 4),
    Api("LeaveGroup", 13, 0, 5),
    Api("SyncGroup", 14, 0, 5),
    Api("DescribeGroups", 15, 0, 6),
    Api("ListGroups", 16, 0, 5),
    Api("ApiVersions", 18, 0, 4),
    Api("CreateTopics", 19, 2, 7),
    Api("DeleteTopics", 20, 1, 6),
    Api("InitProducerId", 22, 0, 5),
    Api("AddPartitionsToTxn", 24, 0, 3),
    Api("AddOffsetsToTxn", 25, 0, 4),
    Api("EndTxn", 26, 0, 5),
    Api("TxnOffsetCommit", 28, 0, 5),
    Api("OffsetForLeaderEpoch", 23, 2, 4),
    Api("DescribeConfigs", 32, 1, 4),
    Api("CreatePartitions", 37, 0, 3),
    Api("DeleteGroups", 42, 0, 2),
    Api("IncrementalAlterConfigs", 44, 0, 1),
    Api("OffsetDelete", 47, 0, 0),
    Api("DescribeCluster", 60, 0, 2),
    Api("ConsumerGroupHeartbeat", 68, 0, 1),
    Api("ConsumerGroupDescribe", 69, 0, 1),
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
    key, version, correlation_id = _HEAD.unpack(reader.take(_HEAD.size))
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
    schema = codec.schema_of(api.name, version, "Request")
    if schema.__flexible__:
        reader.skip_tagged()
    message = codec.read(schema, reader)
    return Request(api, version, correlation_id, client_id, message, len(frame))


def frame_of(request: Request, message: codec.Message) -> bytes:
    """The frame that answers a request."""
    schema = codec.schema_of(request.api.name, request.version, "Response")
    head = _SIZE.pack(request.correlation_id)
    # The header of an answer to ApiVersions is that of the oldest clients, whatever the version.
    if schema.__flexible__ and request.api.name != "ApiVersions":
        head += b"\0"
    body = codec.write(schema, message)
    return _SIZE.pack(len(head) + len(body)) + head + body
