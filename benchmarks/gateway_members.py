"""What a gateway takes for many members at once: latency of heartbeats, CPU and memory.

Run: ``python benchmarks/gateway_members.py --members 1000``, with the extra ``gateway``.

The gateway is a process of its own; all members are light clients in this one, each with a
connection. They join, come to rest, and heartbeat every 3 s, as clients do by default; the
members of a group share the partitions of a topic, one each. Properties are checked as ever.

A row for each protocol: how long the group takes to come to rest, the answers to heartbeats after
that, the share of a core that the gateway needs, and its memory at the begin, at half time and
at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, ClassVar

from rebalance_sim.conformance import codec
from rebalance_sim.conformance.embedded_bytes import assignment_bytes, subscription_bytes
from rebalance_sim.gateway.wire.frames import APIS
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription

INTERVAL_S = 3.0
SESSION_MS = 45_000
VERSIONS = {"ConsumerGroupHeartbeat": 1, "JoinGroup": 9, "SyncGroup": 5, "Heartbeat": 4}
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def _schema(api: str, kind: str) -> Any:
    return codec.schema_of(api, VERSIONS[api], kind)


class Link:
    """A connection with one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, api: str, message: codec.Message) -> codec.Message:
        """The answer to a request."""
        return self.read(api, await self.ask_bytes(self.frame(api, message)))

    def frame(self, api: str, message: codec.Message) -> bytes:
        """A request as bytes."""
        head = struct.pack(">hhih", APIS[api].key, VERSIONS[api], 1, 1) + b"c\0"
        body = codec.write(_schema(api, "Request"), message)
        return struct.pack(">i", len(head) + len(body)) + head + body

    def read(self, api: str, frame: bytes) -> codec.Message:
        """An answer out of its frame."""
        return codec.read(_schema(api, "Response"), codec.Reader(frame[5:]))

    async def ask_bytes(self, frame: bytes) -> bytes:
        """The frame that answers this one."""
        self._writer.write(frame)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        return await self._reader.readexactly(size)


class Member:
    """A member of a group. ``latencies_ms``: of heartbeats since that was emptied."""

    latencies_ms: ClassVar[list[float]] = []
    errors = 0

    def __init__(self, number: int, group_id: str, link: Link) -> None:
        self.number, self.group_id, self.link = number, group_id, link
        self.rng = random.Random(number)
        self.is_at_rest = False

    async def beats(self, frame: bytes) -> bytes:
        """Wait for an interval, and heartbeat."""
        await asyncio.sleep(INTERVAL_S)
        began = time.perf_counter()
        answer = await self.link.ask_bytes(frame)
        Member.latencies_ms.append((time.perf_counter() - began) * 1000)
        return answer

    async def live(self) -> None:
        """Until cancelled."""
        raise NotImplementedError


class ConsumerMember(Member):
    """Of the consumer protocol."""

    async def live(self) -> None:
        api, link = "ConsumerGroupHeartbeat", self.link
        me: codec.Message = {"group_id": self.group_id, "member_id": uuid.uuid4().hex}
        quiet: codec.Message = me | {"subscribed_topic_names": None, "topic_partitions": None}
        quiet |= {"rebalance_timeout": -1}
        joins = me | {
            "member_epoch": 0,
            "rebalance_timeout": 60_000,
            "topic_partitions": [],
            "subscribed_topic_names": [self.group_id],
        }
        answer = await link.ask(api, joins)
        while True:
            epoch, given = answer["member_epoch"], answer["assignment"]
            Member.errors += bool(answer["error_code"])
            if given is not None:
                owned = given["topic_partitions"]
                answer = await link.ask(
                    api, quiet | {"member_epoch": epoch, "topic_partitions": owned}
                )
                continue
            frame = link.frame(api, quiet | {"member_epoch": epoch})
            self.is_at_rest = True
            answer = link.read(api, await self.beats(frame))


class ClassicMember(Member):
    """Of the classic protocol."""

    async def live(self) -> None:
        link = self.link
        me: codec.Message = {"group_id": self.group_id, "member_id": ""}
        about: codec.Message = {"protocol_type": "consumer", "group_instance_id": None}
        metadata = subscription_bytes(Subscription(topics=(self.group_id,)))
        while True:
            joined = await link.ask(
                "JoinGroup",
                me
                | about
                | {
                    "session_timeout": SESSION_MS,
                    "rebalance_timeout": 60_000,
                    "protocols": [{"name": "range", "metadata": metadata}],
                },
            )
            me["member_id"] = joined["member_id"]
            if joined["error_code"]:
                continue
            given = [
                {
                    "member_id": row["member_id"],
                    "assignment": assignment_bytes(
                        Assignment(partitions=(NamedPartitions(self.group_id, (number,)),))
                    ),
                }
                for number, row in enumerate(joined["members"])
            ]
            about |= {"generation_id": joined["generation_id"]}
            synced = await link.ask(
                "SyncGroup", me | about | {"protocol_name": "range", "assignments": given}
            )
            frame = link.frame("Heartbeat", me | about)
            self.is_at_rest = not synced["error_code"]
            while self.is_at_rest:
                answer = link.read("Heartbeat", await self.beats(frame))
                self.is_at_rest = not answer["error_code"]


class Server:
    """``rebalance-sim serve`` as a process."""

    def __init__(self, topics: dict[str, int], folder: Path) -> None:
        path = folder / "gateway.toml"
        path.write_text(
            "\n".join(["[topics]", *(f"{name} = {count}" for name, count in topics.items())])
            + f"\n[coordinator]\ngroup_consumer_heartbeat_interval_ms = {int(INTERVAL_S * 1000)}\n"
            "group_consumer_max_size = 100000\n"
            "group_consumer_min_heartbeat_interval_ms = 1000\n"
        )
        start = "from rebalance_sim.cli.start import main; main()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", start, "serve", str(path)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        host, _, port = self.process.stdout.readline().strip().rpartition(":")
        self.address = host, int(port)

    def cpu_s(self) -> float:
        """User and system time so far."""
        row = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(row[11]) + int(row[12])) / _TICKS

    def memory_mib(self) -> float:
        """Resident memory."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * _PAGE / 2**20


async def measure(protocol: str, members: int, groups: int, seconds: float) -> dict[str, Any]:
    """Members of one protocol, for a time."""
    names = [f"g{number}" for number in range(groups)]
    with tempfile.TemporaryDirectory() as folder:
        server = Server(dict.fromkeys(names, -(-members // groups)), Path(folder))
        try:
            return await _measured(server, protocol, members, names, seconds)
        finally:
            server.process.terminate()
            server.process.wait()


async def _measured(
    server: Server, protocol: str, members: int, names: list[str], seconds: float
) -> dict[str, Any]:
    kind = ClassicMember if protocol == "classic" else ConsumerMember
    began = time.monotonic()
    everyone: list[Member] = []
    tasks = []
    for number in range(members):
        link = Link(*await asyncio.open_connection(*server.address))
        everyone.append(kind(number, names[number % len(names)], link))
        tasks.append(asyncio.create_task(everyone[-1].live()))
    last_ms = Member.latencies_ms
    while not all(one.is_at_rest for one in everyone):
        await asyncio.sleep(0.1)
        if time.monotonic() - began > 300:
            raise RuntimeError(f"{sum(not m.is_at_rest for m in everyone)} are not at rest")
        for task in tasks:
            if task.done():
                task.result()
    rest_s = time.monotonic() - began
    await asyncio.sleep(4 * INTERVAL_S)
    last_ms.clear()
    cpu_s, memory, at = server.cpu_s(), server.memory_mib(), time.monotonic()
    await asyncio.sleep(seconds / 2)
    half = server.memory_mib()
    await asyncio.sleep(seconds / 2)
    wall_s, busy_s = time.monotonic() - at, server.cpu_s() - cpu_s
    latencies = sorted(last_ms)
    for task in tasks:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    return {
        "protocol": protocol,
        "members": members,
        "groups": len(names),
        "at_rest_s": round(rest_s, 1),
        "heartbeats_per_s": round(len(latencies) / wall_s),
        "p50_ms": round(latencies[len(latencies) // 2], 2),
        "p99_ms": round(latencies[len(latencies) * 99 // 100], 2),
        "max_ms": round(latencies[-1], 1),
        "core_percent": round(100 * busy_s / wall_s),
        "memory_mib": [round(memory), round(half), round(server.memory_mib())],
        "still_at_rest": sum(one.is_at_rest for one in everyone),
    }


def main() -> None:
    """Print a row of JSON for each protocol."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--protocol", choices=("classic", "consumer"))
    asked = parser.parse_args()
    for protocol in (asked.protocol,) if asked.protocol else ("consumer", "classic"):
        row = asyncio.run(measure(protocol, asked.members, asked.groups, asked.seconds))
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
