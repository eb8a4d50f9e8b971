"""The codec against the library whose schemas it uses, and bytes that are no requests."""

from __future__ import annotations

import asyncio
import datetime
import importlib
import io
import random
import struct
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
from frames import frame, new_server, random_message, schema_of, send
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import entity_reader, entity_writer

from rebalance_sim.conformance import codec
from rebalance_sim.conformance.embedded_bytes import (
    assignment_bytes,
    assignment_of,
    subscription_bytes,
    subscription_of,
)
from rebalance_sim.conformance.errors import WireError
from rebalance_sim.gateway.wire.frames import APIS, MAX_FRAME_BYTES, request_of
from rebalance_sim.gateway.wire.records import batch_of, batches_in
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription

EVERY = [(api, version) for api in APIS.values() for version in range(api.oldest, api.newest + 1)]


def plain(value: Any) -> Any:
    """A message of kio as ours: dicts, lists, whole milliseconds and codes."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    return value


def without_nothing(value: Any) -> Any:
    """What kio says by null, or by leaving it at its default, is left out on both sides."""
    if isinstance(value, dict):
        rows = {key: without_nothing(one) for key, one in value.items()}
        return {key: one for key, one in rows.items() if one is not None and not _is_no_uuid(one)}
    return [without_nothing(one) for one in value] if isinstance(value, list) else value


def _is_no_uuid(value: Any) -> bool:
    return getattr(value, "int", None) == 0 and not isinstance(value, int)


@pytest.mark.parametrize(("api", "version"), EVERY, ids=lambda one: getattr(one, "name", one))
def test_what_is_written_is_what_kio_reads_and_writes(api, version):
    schema = schema_of(api, version)
    for seed in range(20):
        message = random_message(schema, random.Random(seed))
        message = {name: one for name, one in message.items() if not _is_tagged(schema, name)}
        data = codec.write(schema, message)
        entity, size = entity_reader(schema)(memoryview(data), 0)
        assert size == len(data)
        read = codec.read(schema, codec.Reader(data))
        theirs = {name: one for name, one in plain(entity).items() if name in message}
        assert without_nothing(read) == without_nothing(theirs)
        again = io.BytesIO()
        entity_writer(schema)(again, entity)
        read_again = codec.read(schema, codec.Reader(again.getvalue()))
        assert without_nothing(read_again) == without_nothing(read)


def _is_tagged(schema: Any, name: str) -> bool:
    return any(field.name == name and "tag" in field.metadata for field in fields(schema))


@pytest.mark.parametrize(("api", "version"), EVERY, ids=lambda one: getattr(one, "name", one))
def test_an_answer_with_nothing_given_is_one_that_kio_reads(api, version):
    schema = codec.schema_of(api.name, version, "Response")
    data = codec.write(schema, {})
    _, size = entity_reader(schema)(memoryview(data), 0)
    assert size == len(data)


def test_an_announced_length_is_refused_before_room_is_made_for_it():
    api = APIS["DescribeGroups"]
    huge = struct.pack(">i", 2**31 - 1)
    with pytest.raises(WireError, match="2147483647 items are announced"):
        request_of(frame(api, 0, huge)[4:])
    with pytest.raises(WireError, match="bytes are announced"):
        request_of(frame(APIS["JoinGroup"], 0, struct.pack(">h", 2**15 - 1))[4:])


def test_items_of_all_arrays_are_bounded_together():
    api = APIS["DescribeGroups"]
    count = codec.MAX_ITEMS + 1
    with pytest.raises(WireError, match="items are announced"):
        request_of(frame(api, 0, struct.pack(">i", count) + b"\0\0" * count)[4:])


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", MAX_FRAME_BYTES + 1) + b"x" * 100,
        struct.pack(">i", -1) + b"x" * 100,
        struct.pack(">ihhih", 10, 1000, 0, 7, -1),
        struct.pack(">ihhih", 10, 11, 99, 7, -1),
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"x" * 100,
    ],
    ids=["too long", "negative", "unknown API", "unknown version", "a hello of TLS"],
)
def test_a_connection_with_what_is_no_request_is_closed_without_an_answer(data):
    async def ask() -> tuple[bytes, list[Exception]]:
        server = new_server()
        return await send(server, data), server.escapes

    assert asyncio.run(ask()) == (b"", [])


def test_an_unknown_version_of_api_versions_is_answered_with_what_there_is():
    data = struct.pack(">ihhih", 10, 18, 99, 7, -1)

    async def ask() -> bytes:
        return await send(new_server(), data)

    answer = asyncio.run(ask())
    schema = importlib.import_module("kio.schema.api_versions.v0.response").ApiVersionsResponse
    read, _ = entity_reader(schema)(memoryview(answer), 8)
    assert struct.unpack(">i", answer[4:8]) == (7,)
    assert read.error_code == 35
    assert {row.api_key: (row.min_version, row.max_version) for row in read.api_keys} == {
        api.key: (api.oldest, api.newest) for api in APIS.values()
    }


named = st.lists(
    st.builds(
        NamedPartitions, st.text(max_size=5), st.lists(st.integers(0, 9), max_size=3).map(tuple)
    ),
    max_size=3,
).map(tuple)


@given(named, st.lists(st.text(max_size=5), max_size=3).map(tuple), st.none() | st.binary())
def test_subscriptions_and_assignments_come_back_from_their_bytes(partitions, topics, user_data):
    subscription = Subscription(topics=topics, owned_partitions=partitions, user_data=user_data)
    assert subscription_of(subscription_bytes(subscription)) == subscription
    assignment = Assignment(partitions=partitions, user_data=user_data)
    assert assignment_of(assignment_bytes(assignment)) == assignment


@given(st.binary(max_size=40))
def test_other_bytes_are_handed_on_as_they_are(data):
    assert subscription_bytes(subscription_of(data)) == data
    assert assignment_bytes(assignment_of(data)) == data


def test_batches_are_placed_one_after_the_other():
    data = batch_of([b"a", b"b"], 5) + batch_of([b"c"], 5)
    assert [(one.first, one.end) for one in batches_in(data, 7, 0)] == [(7, 9), (9, 10)]
    with pytest.raises(WireError, match="cut off"):
        list(batches_in(data[:-1], 7, 0))
