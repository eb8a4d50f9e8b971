"""The bytes that consumers exchange through the coordinator, as the values of the core and back.

Bytes that would come back otherwise, of other protocols or newer versions, are handed on as they
are: a coordinator carries them unread (classic §3.4).
"""

from __future__ import annotations

import importlib
import struct
from functools import cache
from typing import Any

from rebalance_sim.conformance import codec
from rebalance_sim.conformance.errors import WireError
from rebalance_sim.protocol.wire.embedded import (
    NEWEST_VERSION,
    Assignment,
    EmbeddedAssignment,
    EmbeddedMetadata,
    NamedPartitions,
    Subscription,
)

_VERSION = struct.Struct(">h")


@cache
def _schema(kind: str, version: int) -> type:
    module = importlib.import_module(f"kio.schema.consumer_protocol_{kind}.v{version}.data")
    schema: type = getattr(module, f"ConsumerProtocol{kind.title()}")
    return schema


def subscription_of(data: bytes) -> EmbeddedMetadata:
    """What a member sends with its JoinGroup; the bytes themselves if they are of no consumer."""
    found = _read("subscription", data)
    if found is None:
        return data
    version, fields = found
    subscription = Subscription(
        topics=tuple(fields["topics"]),
        owned_partitions=_named(fields.get("owned_partitions", ())),
        generation_id=fields.get("generation_id", -1),
        rack_id=fields.get("rack_id"),
        user_data=fields["user_data"],
        version=version,
    )
    return subscription if subscription_bytes(subscription) == data else data


def subscription_bytes(metadata: EmbeddedMetadata | None) -> bytes:
    """The same as bytes; none at all for None."""
    if not isinstance(metadata, Subscription):
        return metadata or b""
    return _write(
        "subscription",
        metadata.version,
        topics=metadata.topics,
        owned_partitions=_rows(metadata.owned_partitions),
        generation_id=metadata.generation_id,
        rack_id=metadata.rack_id,
        user_data=metadata.user_data,
    )


def assignment_of(data: bytes) -> EmbeddedAssignment:
    """What a leader gives a member; None for no bytes."""
    found = _read("assignment", data)
    if found is None:
        return data or None
    version, fields = found
    assignment = Assignment(
        partitions=_named(fields["assigned_partitions"]),
        user_data=fields["user_data"],
        version=version,
    )
    return assignment if assignment_bytes(assignment) == data else data


def assignment_bytes(assignment: EmbeddedAssignment) -> bytes:
    """The same as bytes."""
    if not isinstance(assignment, Assignment):
        return assignment or b""
    return _write(
        "assignment",
        assignment.version,
        assigned_partitions=_rows(assignment.partitions),
        user_data=assignment.user_data,
    )


def _read(kind: str, data: bytes) -> tuple[int, codec.Message] | None:
    reader = codec.Reader(data)
    try:
        version = reader.number(_VERSION)
        if not 0 <= version <= NEWEST_VERSION:
            return None
        return version, codec.read(_schema(kind, version), reader)
    except WireError:
        return None


def _write(kind: str, version: int, **fields: Any) -> bytes:
    return _VERSION.pack(version) + codec.write(_schema(kind, version), fields)


def _named(rows: Any) -> tuple[NamedPartitions, ...]:
    return tuple(NamedPartitions(row["topic"], tuple(row["partitions"])) for row in rows)


def _rows(named: tuple[NamedPartitions, ...]) -> list[codec.Message]:
    return [{"topic": topic, "partitions": partitions} for topic, partitions in named]
