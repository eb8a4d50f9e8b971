"""Frames for a server without sockets: random requests of every API, and a connection to one."""

from __future__ import annotations

import asyncio
import random
import struct
import uuid
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any, get_args, get_origin

from rebalance_sim.conformance import codec
from rebalance_sim.conformance.embedded_bytes import subscription_bytes
from rebalance_sim.gateway.server import Server
from rebalance_sim.gateway.settings import GatewaySettings
from rebalance_sim.gateway.wire.frames import APIS, Api
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.embedded import Subscription

_CONSUMER = subscription_bytes(Subscription(topics=("orders", "payments")))
_PRODUCER = 1_000_000_001
"""The id of the first producer with a transactional id, of the first coordinator."""


def records_of(attributes: int, producer_id: int, epoch: int, sequence: int) -> bytes:
    """A batch of one record, whose checksum is wrong: brokers here do not look at it."""
    body = b"\x0e\0\0\0\1\2x\0"
    head = struct.pack(">hiqqqhii", attributes, 0, 0, 0, producer_id, epoch, sequence, 1)
    return struct.pack(">qiibI", 0, len(head + body) + 9, -1, 2, 0) + head + body


_PRODUCERS = (_PRODUCER, _PRODUCER, _PRODUCER + 1, -1)
_RECORDS = (
    records_of(0, -1, -1, -1),
    records_of(0, 5, 0, 0),
    *(records_of(0x10, _PRODUCER, epoch, 3) for epoch in range(4)),
    records_of(0x10, _PRODUCER + 1, 0, 3),
    records_of(0x30, _PRODUCER, 0, 3),
)
LIKELY: dict[str, tuple[Any, ...]] = {
    "group_id": ("group", "g2", "g3"),
    "member_id": ("m1", "m2", ""),
    "member_epoch": (0, 0, 1, 2, -1, -2, 7),
    "generation_id": (1, 2, 3, -1),
    "generation_id_or_member_epoch": (1, 2, -1),
    "group_instance_id": (None, None, "i1"),
    "instance_id": (None, None, "i1"),
    "protocol_type": ("consumer", "consumer", "connect", ""),
    "metadata": (_CONSUMER, _CONSUMER, b"", b"\0\1"),
    "session_timeout": (6_000, 10_000, 0),
    "rebalance_timeout": (6_000, -1),
    "server_assignor": (None, None, "range", "x"),
    "subscribed_topic_names": (None, ["orders"], ["orders", "payments"], []),
    "subscribed_topic_regex": (None, None, "ord.*", "("),
    "topic_partitions": (None, []),
    "partition_index": (0, 1, 2, 3, -1),
    "num_partitions": (1, 2, -1, 0, 100_000),
    "count": (4, 5, 0, 2**31 - 1),
    "transactional_id": ("t1", "t1", "t2", None),
    "v3_and_below_transactional_id": ("t1", "t1", "t2"),
    **dict.fromkeys(("producer_id", "v3_and_below_producer_id"), _PRODUCERS),
    **dict.fromkeys(("producer_epoch", "v3_and_below_producer_epoch"), (0, 1, 1, 2, 3, -1)),
    "transaction_timeout": (60_000, 1, 0),
    "index": (0, 1, 2, 3, -1),
    "isolation_level": (0, 1),
    "records": _RECORDS,
}
"""What some fields have more often than not, so that requests are not all refused."""
ALWAYS = ("num_partitions", "count")
"""Fields that have nothing else: memory is to be that of requests, and not of many partitions."""
NAMES = ("orders", "payments", "group", "g2", "m1", "m2", "range", "consumer", "", "x#1")
NUMBERS = (-2, -1, 0, 1, 2, 3, 127)


class Sink:
    """What a connection writes to; ``size`` counts the bytes."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        pass


def frame(api: Api, version: int, body: bytes, client_id: bytes = b"c") -> bytes:
    """A frame with its length in front."""
    schema = schema_of(api, version)
    head = struct.pack(">hhih", api.key, version, 7, len(client_id)) + client_id
    if schema.__flexible__:
        head += b"\0"
    return struct.pack(">i", len(head) + len(body)) + head + body


def fetch_frame(max_wait_ms: int = 0, *, at: int = 0) -> bytes:
    """A Fetch of the first partition of ``orders``, from an offset on."""
    api = APIS["Fetch"]
    rows = [{"partition": 0, "fetch_offset": at, "partition_max_bytes": 1_000_000}]
    message = {
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "topics": [{"topic": "orders", "partitions": rows}],
    }
    return frame(api, 12, codec.write(schema_of(api, 12), message))


def schema_of(api: Api, version: int) -> Any:
    """The schema of a request."""
    return codec.schema_of(api.name, version, "Request")


def random_frame(rng: random.Random, apis: Iterable[str] = tuple(APIS)) -> bytes:
    """A request of any API in any version, whose fields are drawn."""
    api = APIS[rng.choice(tuple(apis))]
    version = rng.randint(api.oldest, api.newest)
    schema = schema_of(api, version)
    return frame(api, version, codec.write(schema, random_message(schema, rng)))


def random_message(schema: Any, rng: random.Random) -> codec.Message:
    """A message of this schema. Tagged fields are there in one of two."""
    return {
        field.name: rng.choice(LIKELY[field.name])
        if field.name in LIKELY and (field.name in ALWAYS or rng.random() < 0.8)
        else _value(field.type, field.metadata.get("kafka_type", ""), rng)
        for field in fields(schema)
        if "tag" not in field.metadata or rng.random() < 0.5
    }


def _value(kind: Any, primitive: str, rng: random.Random) -> Any:
    parts = get_args(kind)
    if NoneType in parts:
        if rng.random() < 0.3:
            return None
        kind = next(part for part in parts if part is not NoneType)
    if get_origin(kind) is tuple:
        item = get_args(kind)[0]
        return [_value(item, primitive, rng) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if is_dataclass(kind):
        return random_message(kind, rng)
    if primitive == "string":
        return rng.choice(NAMES)
    if primitive in ("bytes", "records"):
        return rng.randbytes(rng.choice((0, 2, 6, 70)))
    if primitive == "uuid":
        return uuid.UUID(int=rng.choice((0, rng.getrandbits(128))))
    if primitive == "bool":
        return rng.random() < 0.5
    if primitive in ("int64", "timedelta_i64", "timedelta_i32", "int32", "datetime_i64"):
        return rng.choice((*NUMBERS, 6_000, 2**31 - 1))
    return rng.choice(NUMBERS)


def mutated(data: bytes, rng: random.Random) -> bytes:
    """The frame with some bytes changed, cut off or repeated."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(out))
        what = rng.random()
        if what < 0.5:
            out[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        elif what < 0.75:
            out[at : at + rng.randint(1, 4)] = rng.randbytes(rng.randint(0, 6))
        else:
            del out[at:]
        if not out:
            return b"\0"
    return bytes(out)


def new_server(*, records_traces: bool = True) -> Server:
    """A server that does not listen. To be called in a running loop."""
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=0)
    settings = GatewaySettings(topics={"orders": 3, "payments": 1}, coordinator=config)
    server = Server(settings, records_traces=records_traces)
    server.add_records("orders", [b"r"] * 30, None)
    server.host.load()
    return server


async def send(server: Server, data: bytes, timeout_s: float = 0.02) -> bytes:
    """What the server says on a new connection to these bytes, which is given up if that takes
    longer: requests may wait for others."""
    reader, sink = asyncio.StreamReader(), Sink()
    reader.feed_data(data)
    reader.feed_eof()
    work = asyncio.ensure_future(server.serve(reader, sink))  # type: ignore[arg-type]
    await asyncio.wait([work], timeout=timeout_s)
    if not work.done():
        work.cancel()
        await asyncio.wait([work])
    return bytes(sink.data)
