"""Requests out of frames, and responses into frames; which APIs there are, in which versions."""

from __future__ import annotations

import asyncio
import importlib
import struct
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from rebalance_sim.gateway.errors import WireError
from rebalance_sim.gateway.wire import codec

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""What a request may have at most; a longer one ends its connection."""

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
    """A request as it was sent. ``is_unsupported``: an ApiVersions request of a version that is not
    served, which is answered nevertheless; its message is empty."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    message: codec.Message
    is_unsupported: bool = False


async def read_frame(reader: asyncio.StreamReader, first: bytes = b"") -> bytes | None:
    """The next frame, which begins with ``first``; None at the end of the connection. Raises
    WireError for one that is longer than ``MAX_FRAME_BYTES``, before it is read."""
    try:
        (size,) = _SIZE.unpack(first + await reader.readexactly(_SIZE.size - len(first)))
        if not 0 <= size <= MAX_FRAME_BYTES:
            raise WireError(f"a frame of {size} bytes")
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
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
        return Request(api, 0, correlation_id, client_id, {}, is_unsupported=True)
    schema = _schema(api, version, "Request")
    if schema.__flexible__:
        for _ in range(reader.count(reader.varint())):
            reader.varint()
            reader.take(reader.varint())
    return Request(api, version, correlation_id, client_id, codec.read(schema, reader))


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
