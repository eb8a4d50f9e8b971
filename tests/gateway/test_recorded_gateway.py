"""The recorder of real brokers asks the gateway random requests: what comes back over the wire is
what the model answers.

The sockets are real, the clock is not: recorder and gateway have one that stands still while either
works, so that no answer is late on a busy machine, and no sleep takes its time.
"""

from __future__ import annotations

import asyncio
import json
import select
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rebalance_sim as rs
from rebalance_sim.cli.main import invoke
from rebalance_sim.conformance.member_order import real_suffix
from rebalance_sim.conformance.record import operations, session, topics, transactions, wire
from rebalance_sim.conformance.record.broker import DEFAULTS
from rebalance_sim.gateway.host import _new_member_id
from rebalance_sim.gateway.server import Server
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig

_FIELDS = {name.replace(".", "_"): value for name, value in DEFAULTS.items()}
COORDINATOR = {
    "group_consumer_assignment_interval_ms": 0,
    **{name: value for name, value in _FIELDS.items() if name in CoordinatorConfig.__slots__},
}
"""What the recorder supposes of a broker."""


_EACH_S = 0.001
"""What each request takes: what happens in one millisecond has no order in a trace."""

VERSIONS = (
    Path(__file__).parents[2] / "conformance/traces/kafka-4.3.1-transactions" / "version_4.json"
)


class OneClock:
    """Of a gateway, as its loop's, and of the recorder, as the module ``time``.

    It goes on where the recorder sleeps, and where it waits for an answer that the gateway holds
    back: until the gateway's next timer."""

    def __init__(self, broker: rs.Gateway) -> None:
        self._broker = broker
        self._now_s = 0.0
        self.time = self.monotonic

        def take_over(server: Server) -> None:
            server.host._loop, server.host._began = self, 0.0  # type: ignore[assignment]

        broker._call(take_over)

    def monotonic(self) -> float:
        return self._now_s

    def call_at(self, at_s: float, act: Callable[[], object]) -> asyncio.Handle:
        """Nothing comes by itself: ``sleep`` lets all that is due happen."""
        return asyncio.Handle(act, (), self._broker._loop)

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds
        self._broker._call(lambda server: server.host.advance())

    def wait_for(self, connection: wire.Connection, most_s: float) -> bool:
        """Whether the response comes within this time of the clock."""
        end_s = self._now_s + most_s
        while not _has_begun(connection):
            next_ms = self._broker._call(lambda server: _holds_back(server, connection))
            if next_ms is not None and not _has_begun(connection):
                if self._now_s >= end_s:
                    break
                # Always: a sum of floats may lie just before the millisecond of a timer.
                self.sleep(max(_EACH_S, min(end_s, next_ms / 1000) - self._now_s))
        has_begun = _has_begun(connection)
        self.sleep(_EACH_S)
        return has_begun


def _has_begun(connection: wire.Connection) -> bool:
    return bool(select.select([connection._socket], [], [], 0.001)[0])


def _holds_back(server: Server, connection: wire.Connection) -> float | None:
    """When that may change, if the gateway has the request and has not answered it."""
    asked = (connection._client_id.decode(), connection._correlation_id)
    requests = [call.request for call in server._open]
    if asked not in [(one.client_id, one.correlation_id) for one in requests]:
        return None
    return float(server.host._due[0][0] if server.host._due else "inf")


def _record(patch: pytest.MonkeyPatch, folder: Path, version: str, *asked: object) -> None:
    with rs.Gateway(semantics=f"kafka-{version}", coordinator=COORDINATOR) as broker:
        clock = OneClock(broker)
        for module in (operations, session, topics, transactions):
            patch.setattr(module, "time", clock)
        receive = wire.Connection.receive

        def receive_in_time(connection: wire.Connection) -> Any:
            assert clock.wait_for(connection, most_s=wire._TIMEOUT_S)
            return receive(connection)

        patch.setattr(wire.Connection, "receive", receive_in_time)

        def has_answer(connection: wire.Connection, wait_s: float = 0.0) -> bool:
            return clock.wait_for(connection, wait_s)

        patch.setattr(wire.Connection, "has_answer", has_answer)
        options = ["--version", f"{version}.0", "--bootstrap", broker.bootstrap, "--jobs", "1"]
        code = invoke(["record", *options, "--out", str(folder), *map(str, asked)])
        assert list(folder.iterdir())
        broker.assert_ok()
        assert code == 0


def _asks_as_of_a_broker(
    patch: pytest.MonkeyPatch, folder: Path, seeds: str, steps: int, version: str
) -> None:
    wide = ["--wide", "--seed", seeds, "--steps", steps, "--check", "--minimise", 0]
    _record(patch, folder, version, *wide)


def test_random_requests_over_the_wire_are_answered_as_by_the_model(tmp_path, monkeypatch):
    _asks_as_of_a_broker(monkeypatch, tmp_path / "recorded", "3", 40, "4.4")


def test_a_request_is_sent_in_the_version_that_the_script_says(tmp_path, monkeypatch):
    """Versions 0, 2 to 5 of TxnOffsetCommit, 3 to 5 of EndTxn: Kafka 4.3.1 answers each otherwise,
    TRANSACTION_ABORTABLE from version 4 on."""
    _record(monkeypatch, tmp_path, "4.3", VERSIONS)
    recorded, asked = (
        [step.get("response") for step in json.loads(path.read_text())["steps"]]
        for path in (VERSIONS, tmp_path / VERSIONS.name)
    )
    assert {"errors": {"foo": {"0": "transaction_abortable"}}} in recorded
    assert asked == recorded


@pytest.mark.slow
@pytest.mark.parametrize("version", ["4.1", "4.3", "4.4"])
def test_so_are_many_of_every_version(tmp_path, monkeypatch, version):
    _asks_as_of_a_broker(monkeypatch, tmp_path / "recorded", "0:6", 150, version)


def test_a_replay_takes_over_what_the_gateway_made_of_an_id():
    """It decides the order of members, and with that who gets what."""
    for _ in range(100):
        made = _new_member_id()
        assert real_suffix(made) == real_suffix(f"instance-0-{made}") == made
