"""Whatever is sent: nothing escapes, no property of the coordinator is violated, and what is kept
is bounded."""

from __future__ import annotations

import asyncio
import random
import socket
import struct

import pytest
from frames import fetch_frame, frame, mutated, new_server, random_frame, schema_of, send
from hypothesis import given, settings
from hypothesis import strategies as st
from real_clients import until

import rebalance_sim as rs
from rebalance_sim.gateway import server as server_module
from rebalance_sim.gateway.laws import SWEPT_FROM
from rebalance_sim.gateway.wire import codec, frames
from rebalance_sim.gateway.wire.frames import APIS


async def _survives(seeds: range, *, is_mutated: bool) -> None:
    server = new_server()
    for seed in seeds:
        rng = random.Random(seed)
        data = random_frame(rng)
        await send(server, mutated(data, rng) if is_mutated else data, 0.001)
        assert server.escapes == [], f"seed {seed}"
        assert server.violations == [], f"seed {seed}"


@given(st.integers(0, 10**9))
@settings(max_examples=20)
def test_random_requests_of_every_api_are_answered_or_refused(seed):
    asyncio.run(_survives(range(seed, seed + 60), is_mutated=False))


@given(st.integers(0, 10**9))
@settings(max_examples=20)
def test_mutated_frames_are_answered_or_refused(seed):
    asyncio.run(_survives(range(seed, seed + 60), is_mutated=True))


@pytest.mark.slow
@pytest.mark.parametrize("is_mutated", [False, True])
def test_so_are_a_hundred_thousand(is_mutated):
    for first in range(0, 100_000, 10_000):
        asyncio.run(_survives(range(first, first + 10_000), is_mutated=is_mutated))


def test_a_timer_that_arms_itself_again_at_once_does_not_stop_the_clock():
    # As a join phase does that lasts no time, and that no member joins.
    async def fire() -> list[int]:
        server = new_server()
        fired: list[int] = []

        def again(at_ms: int) -> None:
            fired.append(at_ms)
            server.host.call_at(at_ms, again)

        server.host.call_at(0, again)
        await asyncio.sleep(0.05)
        server.host.stop()
        return fired

    fired = asyncio.run(fire())
    assert len(fired) > 1
    assert fired == sorted(set(fired))


def test_who_does_not_wait_for_answers_is_not_read_any_more():
    with rs.Gateway(topics={"orders": 1}) as broker:
        host, port = broker.bootstrap.split(":")
        with socket.create_connection((host, int(port))) as client:
            client.settimeout(0.5)
            # A Fetch that waits for 30 s; what comes after it waits in small buffers.
            client.sendall(fetch_frame(30_000))
            with pytest.raises(TimeoutError):
                for _ in range(1_000):
                    client.sendall(b"\0" * 65_536)
        broker.assert_ok()


def connected(broker: rs.Gateway) -> socket.socket:
    host, port = broker.bootstrap.split(":")
    client = socket.create_connection((host, int(port)))
    client.settimeout(10)
    return client


def is_closed(client: socket.socket, within_s: float = 10.0) -> bool:
    client.settimeout(within_s)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_half_a_frame_for_ever_is_given_up(monkeypatch):
    monkeypatch.setattr(frames, "MAX_IDLE_S", 0.3)
    with rs.Gateway(topics={"orders": 1}) as broker:
        client = connected(broker)
        for _ in range(2):  # A whole frame begins the time again.
            client.sendall(fetch_frame())
            assert client.recv(4)
        client.sendall(fetch_frame()[:-1])
        while not is_closed(client):
            pass
        broker.assert_ok()


def test_large_frames_that_never_end_have_a_bounded_room(monkeypatch):
    monkeypatch.setattr(server_module, "Room", lambda: frames.Room(10 * frames.MAX_FRAME_BYTES))
    with rs.Gateway(topics={"orders": 1}) as broker:
        clients = [connected(broker) for _ in range(12)]
        for client in clients:
            client.sendall(struct.pack(">i", frames.MAX_FRAME_BYTES) + b"x")
        closed = [is_closed(client, 0.5) for client in clients]
        assert closed.count(True) == 2
        other = connected(broker)
        other.sendall(fetch_frame())  # What is small needs no room.
        assert other.recv(4)
        for client in clients:
            client.close()
        until(lambda: broker._here._room.left == 10 * frames.MAX_FRAME_BYTES)
        broker.assert_ok()


def test_clients_that_go_in_the_middle_leave_nothing_behind():
    with rs.Gateway(topics={"orders": 1}) as broker:
        broker.add_records("orders", [b"x" * 1_000] * 2_000)
        for seed in range(60):
            rng = random.Random(seed)
            client = connected(broker)
            data = b"".join(random_frame(rng) for _ in range(5)) + fetch_frame() * 5
            client.sendall(data[: rng.randrange(len(data))])
            if rng.random() < 0.5:
                client.shutdown(socket.SHUT_WR)
            client.close()
        server = broker._here
        until(lambda: not server._connections)
        assert server._open == {}
        assert server._room.left == frames.MAX_BYTES_UNDER_WAY
        broker.assert_ok()


def test_groups_of_which_there_is_nothing_are_forgotten_and_those_that_are_there_watched():
    async def name() -> None:
        server = new_server(records_traces=False)

        def ask(group_id: str) -> bytes:
            message = {"group_id": group_id, "generation_id": 1, "member_id": "m"}
            return frame(
                APIS["Heartbeat"], 3, codec.write(schema_of(APIS["Heartbeat"], 3), message)
            )

        api = APIS["ConsumerGroupHeartbeat"]
        joins = {"group_id": "there", "member_id": "m", "member_epoch": 0, "topic_partitions": []}
        joins |= {"rebalance_timeout": 60_000, "subscribed_topic_names": ["orders"]}
        await send(server, frame(api, 1, codec.write(schema_of(api, 1), joins)), 5)
        for number in range(1_500):
            await send(server, ask(f"named-{number}"), 5)
            assert len(server.group_ids) <= SWEPT_FROM
        assert server.group_ids[0] == "there"
        assert "named-1499" in server.group_ids
        assert server.violations == server.escapes == []
        server.host.stop()

    asyncio.run(name())
