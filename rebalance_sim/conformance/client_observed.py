"""What a member did, in the words of a trace; and the recorded requests that it is held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_sim.conformance.client_trace import ClientProcess, TraceEvent

SAME_REQUEST_WINDOW_MS = 700
_SAME_CONNECT_MS = 10  # requests so close to the first on a connection have waited with it

APIS = (
    "ConsumerGroupHeartbeat",
    "FindCoordinator",
    "OffsetCommit",
    "OffsetFetch",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
)
"""What is compared of a member's requests."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Something that the member did. ``what`` is its kind or its api."""

    at_ms: int
    what: str
    content: Mapping[str, Any]


class RecordedRequest:
    """A recorded request and what became of it.

    ``waited_for_connection``: its connection was new, so that the proxy saw it late.
    """

    __slots__ = ("at_ms", "body", "is_taken", "response", "waited_for_connection")

    def __init__(
        self, event: TraceEvent, response: TraceEvent | None, *, waited_for_connection: bool
    ) -> None:
        self.at_ms: int = event["at_ms"]
        self.body: Mapping[str, Any] = event["body"]
        self.response = event if not event.get("delivered", True) else response
        self.is_taken = False
        self.waited_for_connection = waited_for_connection


class RecordedRequests:
    """All recorded requests of one process by api; each can be taken once."""

    def __init__(self, process: ClientProcess) -> None:
        responses = {e["id"]: e for e in process.events if e["kind"] == "response"}
        self._by_api: dict[str, list[RecordedRequest]] = {api: [] for api in APIS}
        first_on_connection: dict[int, int] = {}
        for event in process.events:
            if event["kind"] != "request":
                continue
            at_ms, connection = event["at_ms"], event["conn"]
            first_ms = first_on_connection.setdefault(connection, at_ms)
            if event["api"] in self._by_api:
                self._by_api[event["api"]].append(
                    RecordedRequest(
                        event,
                        responses.get(event["id"]),
                        waited_for_connection=at_ms - first_ms <= _SAME_CONNECT_MS,
                    )
                )

    def waiting(self, api: str) -> list[RecordedRequest]:
        """Requests of this api that no request of the member stands for yet."""
        return [recorded for recorded in self._by_api[api] if not recorded.is_taken]

    def take(self, api: str, body: Mapping[str, Any], at_ms: int) -> RecordedRequest | None:
        """The recorded request that this one stands for: equal and near, else the next."""
        waiting = self.waiting(api)
        if not waiting:
            return None
        chosen = waiting[0]
        for recorded in waiting:
            if abs(recorded.at_ms - at_ms) <= SAME_REQUEST_WINDOW_MS and recorded.body == body:
                chosen = recorded
                break
        chosen.is_taken = True
        return chosen
