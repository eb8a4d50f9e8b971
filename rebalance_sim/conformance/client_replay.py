"""Replay of traces recorded from real clients against the member machine.

A member gets the answers, faults and application calls of the trace; its requests, callbacks and
state changes must be those of the real client (client §13).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rebalance_sim.conformance.client_compare import Comparison, compare, recorded_items
from rebalance_sim.conformance.client_trace import (
    JAVA_CLIENT,
    LIBRDKAFKA,
    ClientTrace,
    load_client_trace,
)
from rebalance_sim.conformance.host_choice import drive
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import COORDINATOR_STATE, JOIN_STATE

__all__ = ["ClientReplayReport", "load_client_trace", "replay_client_trace"]

_REQUESTS = (
    "ConsumerGroupHeartbeat",
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
)
_COMMITS = ("OffsetCommit", "OffsetFetch")
_STATES = {JAVA_CLIENT: ("state",), LIBRDKAFKA: (JOIN_STATE, COORDINATOR_STATE)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReplayReport:
    """What a replay met: ``requests`` are heartbeats and searches, ``commits`` both offset APIs.

    ``needs`` is there because reports of broker traces have it: no process of a client is left out.
    """

    name: str
    requests_ok: int
    requests_total: int
    callbacks_ok: int
    callbacks_total: int
    states_ok: int
    states_total: int
    commits_ok: int
    commits_total: int
    first_difference: str | None
    needs: str | None = None

    @property
    def is_met(self) -> bool:
        """Whether everything replayed was met, commits included."""
        return self.first_difference is None

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)


def replay_client_trace(trace: ClientTrace) -> ClientReplayReport:
    """Drive a member through every process, and compare."""
    requests: list[Comparison] = []
    callbacks: list[Comparison] = []
    states: list[Comparison] = []
    commits: list[Comparison] = []
    for process in trace.processes:
        expected, got = recorded_items(process), drive(process)
        requests += [compare(api, process, expected, got) for api in _REQUESTS]
        callbacks.append(compare("callback", process, expected, got))
        states += [compare(what, process, expected, got) for what in _STATES.get(trace.client, ())]
        commits += [compare(api, process, expected, got) for api in _COMMITS]
    everything = [*requests, *callbacks, *states, *commits]
    return ClientReplayReport(
        name=trace.name,
        requests_ok=sum(c.ok for c in requests),
        requests_total=sum(c.total for c in requests),
        callbacks_ok=sum(c.ok for c in callbacks),
        callbacks_total=sum(c.total for c in callbacks),
        states_ok=sum(c.ok for c in states),
        states_total=sum(c.total for c in states),
        commits_ok=sum(c.ok for c in commits),
        commits_total=sum(c.total for c in commits),
        first_difference=next((c.first_difference for c in everything if c.first_difference), None),
    )
