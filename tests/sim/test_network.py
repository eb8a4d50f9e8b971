"""The laws of a connection: order, one request at a time, breaks, partitions, crashes."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import (
    Connection,
    ConnectionState,
    Direction,
    Network,
    Purpose,
)
from rebalance_sim.sim.network.pipe import retransmission_at_ms
from rebalance_sim.sim.spec import DelaySpec, NetworkSpec
from rebalance_sim.sim.streams import Streams


class StubBroker:
    """Answers at once, or holds answers back until it is told to let them go."""

    def __init__(self, clock: Clock, node_id: int = 0) -> None:
        self._clock = clock
        self.node_id = node_id
        self.is_alive = True
        self.holds = False
        self.connections: dict[Connection, None] = {}
        self.seen: list[tuple[int, Any]] = []
        self.held: list[tuple[Connection, int, Any]] = []

    def on_request(self, connection: Connection, correlation_id: int, request: Any) -> None:
        self.seen.append((self._clock.now_ms, request))
        if self.holds:
            self.held.append((connection, correlation_id, request))
        else:
            connection.answer(correlation_id, f"answer to {request}")

    def release(self) -> None:
        connection, correlation_id, request = self.held.pop(0)
        connection.answer(correlation_id, f"answer to {request}")


class StubOwner:
    """Notes what its connection says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.events: list[tuple[int, str]] = []

    def on_connected(self, connection: Connection) -> None:
        self.events.append((self._clock.now_ms, "connected"))

    def on_answer(self, connection: Connection, correlation_id: int, response: Any) -> None:
        self.events.append((self._clock.now_ms, response))

    def on_closed(self, connection: Connection) -> None:
        self.events.append((self._clock.now_ms, "closed"))

    @property
    def words(self) -> list[str]:
        return [word for _, word in self.events]


class Wire:
    """One client, one broker, one connection that is open at time 100."""

    def __init__(self, latency: DelaySpec, seed: int = 1, *, rack: str = "") -> None:
        self.clock = Clock()
        self.rack = rack
        network = NetworkSpec(latency=latency, between_racks_ms=20)
        self.network = Network(self.clock, network, Streams(seed))
        self.network.racks = ("east", "west")
        self.broker = StubBroker(self.clock)
        self.owner = StubOwner(self.clock)
        self.connection = self.connect()
        self.run_to(100)

    def connect(self) -> Connection:
        connection = Connection(
            self.network,
            owner=self.owner,
            client_name="a",
            broker=self.broker,  # type: ignore[arg-type]
            purpose=Purpose.COORDINATOR,
            rack=self.rack,
        )
        connection.open()
        return connection

    def run_to(self, at_ms: int) -> None:
        self.clock.run_until(at_ms)


@pytest.fixture
def wire() -> Wire:
    return Wire(DelaySpec(min_ms=5))


def test_a_request_and_its_answer_take_a_latency_each(wire: Wire) -> None:
    wire.connection.send(1, "ping")
    wire.run_to(200)
    assert wire.broker.seen == [(105, "ping")]
    assert wire.owner.events[-1] == (110, "answer to ping")


@pytest.mark.parametrize(("rack", "extra_ms"), [("", 0), ("east", 0), ("west", 20), ("other", 20)])
def test_a_message_takes_longer_between_racks(rack: str, extra_ms: int) -> None:
    wire = Wire(DelaySpec(min_ms=5), rack=rack)
    assert wire.owner.events == [(2 * (5 + extra_ms), "connected")]
    wire.connection.send(1, "ping")
    wire.run_to(200)
    assert wire.broker.seen == [(105 + extra_ms, "ping")]
    assert wire.owner.events[-1] == (110 + 2 * extra_ms, "answer to ping")


def test_a_message_takes_at_least_a_millisecond() -> None:
    wire = Wire(DelaySpec(min_ms=0))
    wire.connection.send(1, "ping")
    wire.run_to(200)
    assert wire.broker.seen == [(101, "ping")]


@pytest.mark.parametrize("seed", range(5))
def test_nothing_overtakes_on_a_connection(seed: int) -> None:
    wire = Wire(DelaySpec(min_ms=1, max_ms=50), seed)
    for number in range(20):
        wire.connection.send(number, number)
    wire.run_to(5_000)
    assert [request for _, request in wire.broker.seen] == list(range(20))
    assert wire.owner.words[1:] == [f"answer to {number}" for number in range(20)]


def test_a_held_answer_holds_the_requests_behind_it(wire: Wire) -> None:
    wire.broker.holds = True
    wire.connection.send(1, "first")
    wire.connection.send(2, "second")
    wire.run_to(200)
    assert wire.broker.seen == [(105, "first")]
    wire.broker.release()
    wire.run_to(300)
    assert wire.broker.seen[1] == (200, "second")


def test_a_reset_loses_what_is_on_its_way(wire: Wire) -> None:
    wire.connection.send(1, "ping")
    wire.connection.reset()
    wire.run_to(200)
    assert wire.broker.seen == []
    assert wire.owner.events[1:] == [(100, "closed")]
    assert wire.connection.state is ConnectionState.CLOSED


@pytest.mark.parametrize(
    ("moment", "handled"), [(Moment.BEFORE_REQUEST, 0), (Moment.BEFORE_RESPONSE, 1)]
)
def test_a_cut_decides_whether_the_broker_saw_the_request(
    wire: Wire, moment: Moment, handled: int
) -> None:
    wire.network.link("a").cut = moment
    wire.connection.send(1, "ping")
    wire.run_to(200)
    assert len(wire.broker.seen) == handled
    assert wire.owner.words == ["connected", "closed"]
    assert wire.network.link("a").cut is None


def test_what_was_sent_before_the_client_closed_is_still_handled(wire: Wire) -> None:
    wire.connection.send(1, "heartbeat")
    wire.connection.send(2, "commit")
    wire.connection.close()
    wire.run_to(200)
    assert [request for _, request in wire.broker.seen] == ["heartbeat", "commit"]
    assert "answer to heartbeat" not in wire.owner.words
    assert not wire.broker.connections
    assert not wire.network.connections_of("a")


def test_an_answer_to_a_closed_connection_loses_the_requests_behind_the_next(wire: Wire) -> None:
    wire.broker.holds = True
    for correlation_id, request in enumerate(["first", "second", "third"]):
        wire.connection.send(correlation_id, request)
    wire.connection.close()
    wire.run_to(200)
    wire.broker.release()  # the kernel takes this answer, and learns that no one wants it
    wire.run_to(300)
    wire.broker.release()  # this one cannot be written
    wire.run_to(400)
    assert [request for _, request in wire.broker.seen] == ["first", "second"]
    assert not wire.broker.connections


def test_a_partition_holds_what_a_closed_connection_has_sent(wire: Wire) -> None:
    wire.network.block("a", None, Direction.BOTH)
    wire.connection.send(1, "heartbeat")
    wire.connection.close()
    wire.run_to(10_000)
    assert not wire.broker.seen
    wire.network.unblock("a", None, Direction.BOTH)
    wire.run_to(20_000)
    assert [request for _, request in wire.broker.seen] == ["heartbeat"]


def test_a_partition_holds_bytes_and_keeps_their_order(wire: Wire) -> None:
    wire.network.block("a", None, Direction.BOTH)
    for number in range(3):
        wire.connection.send(number, number)
    wire.run_to(1_000)
    assert wire.broker.seen == []
    wire.network.unblock("a", None, Direction.BOTH)
    wire.run_to(2_000)
    assert [request for _, request in wire.broker.seen] == [0, 1, 2]
    assert wire.broker.seen[0][0] == 105 + 200 + 400 + 800 + 5  # with the third retransmission


@pytest.mark.parametrize(
    ("now_ms", "again_ms"), [(0, 200), (200, 200), (201, 600), (6_300, 12_600), (900_000, 924_600)]
)
def test_a_lost_packet_is_sent_again_ever_less_often(now_ms: int, again_ms: int) -> None:
    assert retransmission_at_ms(0, now_ms, 200) == again_ms


def test_a_partition_towards_the_client_lets_requests_through(wire: Wire) -> None:
    wire.network.block("a", 0, Direction.TO_CLIENT)
    wire.connection.send(1, "ping")
    wire.run_to(1_000)
    assert wire.broker.seen == [(105, "ping")]
    assert wire.owner.words == ["connected"]


def test_a_partition_from_one_broker_leaves_the_others_in_reach(wire: Wire) -> None:
    wire.network.block("a", 1, Direction.BOTH)
    wire.network.block("b", None, Direction.BOTH)
    wire.connection.send(1, "ping")
    wire.run_to(200)
    assert wire.owner.words[-1] == "answer to ping"


def test_partitions_that_overlap_end_with_the_last_of_them(wire: Wire) -> None:
    wire.network.block("a", None, Direction.BOTH)
    wire.network.block("a", 0, Direction.TO_BROKER)
    wire.connection.send(1, "ping")
    wire.network.unblock("a", None, Direction.BOTH)
    wire.run_to(1_000)
    assert wire.broker.seen == []
    wire.network.unblock("a", 0, Direction.TO_BROKER)
    wire.run_to(2_000)
    assert len(wire.broker.seen) == 1


def test_a_connection_through_a_partition_fails_after_the_setup_timeout(wire: Wire) -> None:
    wire.network.block("a", None, Direction.TO_CLIENT)
    wire.connect()
    wire.run_to(20_000)
    assert wire.owner.events[1:] == [(100 + 10_000, "closed")]


def test_a_connection_comes_about_if_the_partition_ends_in_time(wire: Wire) -> None:
    wire.network.block("a", None, Direction.BOTH)
    wire.connect()
    wire.run_to(3_000)
    wire.network.unblock("a", None, Direction.BOTH)
    wire.run_to(20_000)
    # A handshake of 110 ms is repeated a second, 3 s and 7 s after that.
    assert wire.owner.events[1:] == [(110 + 3_000 + 10, "connected")]


def test_a_dead_broker_refuses_a_connection(wire: Wire) -> None:
    wire.broker.is_alive = False
    wire.connect()
    wire.run_to(1_000)
    assert wire.owner.events[1:] == [(110, "closed")]


def test_a_dying_broker_is_noticed_behind_its_last_answer(wire: Wire) -> None:
    wire.connection.send(1, "ping")
    wire.run_to(106)
    wire.connection.abandon()
    wire.run_to(1_000)
    assert wire.owner.words == ["connected", "answer to ping", "closed"]


def test_a_dead_broker_handles_nothing_that_still_arrives(wire: Wire) -> None:
    wire.connection.send(1, "ping")
    wire.connection.abandon()
    wire.run_to(1_000)
    assert wire.broker.seen == []


def test_a_slowdown_multiplies_latencies(wire: Wire) -> None:
    wire.network.link("a").factor = 10
    wire.connection.send(1, "ping")
    wire.run_to(1_000)
    assert wire.broker.seen == [(150, "ping")]


def test_a_slow_way_to_one_broker_slows_no_other(wire: Wire) -> None:
    link = wire.network.link("a")
    link.slow_down(3, 1)
    link.slow_down(5, 1)
    link.slow_down(2, None)
    assert [link.delay_ms(0, node_id) for node_id in range(3)] == [10, 150, 10]
    link.speed_up(3, 1)
    link.speed_up(2, None)
    assert [link.delay_ms(0, node_id) for node_id in range(3)] == [5, 25, 5]
    link.speed_up(5, 1)
    assert [link.delay_ms(0, node_id) for node_id in range(3)] == [5, 5, 5]


def test_a_connection_that_crawls_is_given_up_after_the_setup_timeout(wire: Wire) -> None:
    wire.network.link("a").factor = 5_000
    wire.connect()
    wire.run_to(60_000)
    assert wire.owner.events[1:] == [(100 + 10_000, "closed")]
