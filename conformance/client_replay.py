"""Replay of traces recorded from real clients against the member machine.

A member gets the answers, faults and application calls of the trace; its requests, callbacks and
state changes must be those of the real client (consumer-client.md, section 13).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from conformance.client_compare import Comparison, compare, recorded_items
from conformance.client_drive import can_drive, drive
from conformance.client_trace import (
    JAVA_CLIENT,
    LIBRDKAFKA,
    ClientProcess,
    ClientTrace,
    load_client_trace,
)
from protocol.librdkafka.core import COORDINATOR_STATE, JOIN_STATE

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

    ``needs`` says what would have to be modelled to replay what was left out; with ``needs`` and no
    total above 0, nothing was replayed.
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
    needs: str | None
    first_difference: str | None

    @property
    def is_met(self) -> bool:
        """Whether everything replayed was met, commits included."""
        return self.first_difference is None

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)


def replay_client_trace(trace: ClientTrace) -> ClientReplayReport:
    """Drive a member through every process, and compare."""
    replayed = [process for process in trace.processes if can_drive(process)]
    needs = None if len(replayed) == len(trace.processes) else "classic protocol of librdkafka"
    return _report(trace, replayed, needs)


def _report(
    trace: ClientTrace, processes: list[ClientProcess], needs: str | None
) -> ClientReplayReport:
    requests: list[Comparison] = []
    callbacks: list[Comparison] = []
    states: list[Comparison] = []
    commits: list[Comparison] = []
    for process in processes:
        expected, got = recorded_items(process), drive(process)
        requests += [compare(api, process, expected, got) for api in _REQUESTS]
        callbacks.append(compare("callback", process, expected, got))
        states += [compare(what, process, expected, got) for what in _STATES[trace.client]]
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
        needs=None if needs is None else f"needs: {needs}",
        first_difference=next((c.first_difference for c in everything if c.first_difference), None),
    )
