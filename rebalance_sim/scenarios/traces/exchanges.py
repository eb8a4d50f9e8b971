"""Requests and their answers in a trace, put together: sent, handled, let go, received."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rebalance_sim.scenarios.traces.run_trace import TraceStep

ADMIN = "admin"
"""Sender of a request that no client has sent."""


@dataclass(slots=True, kw_only=True)
class Exchange:
    """One request, with the steps in which something happened to it; None where nothing did, as
    when it was lost on its way."""

    client: str
    request: Mapping[str, Any]
    sent: TraceStep | None = None
    handled: TraceStep | None = None
    released: TraceStep | None = None
    received: TraceStep | None = None

    @property
    def response(self) -> Any:
        """What the broker let go, or what it was going to; None if it had no answer yet."""
        for step in (self.released, self.handled):
            if step is not None and "response" in step:
                return step["response"]
        return None

    @property
    def steps(self) -> tuple[TraceStep, ...]:
        """The steps that are there, in order."""
        found = (self.sent, self.handled, self.released, self.received)
        return tuple(step for step in found if step is not None)


def exchanges_of(steps: Iterable[TraceStep]) -> list[Exchange]:
    """Every request of the trace, in the order of sending.

    A broker's step does not name the sender. A request is the last equal one that was sent: a
    client rarely has two such in flight, and of two the first is more likely to be lost. Two that
    were sent in one step arrive in their order.
    """
    pairing = _Pairing()
    for step in steps:
        pairing.take(step)
    return pairing.found


class _Pairing:
    def __init__(self) -> None:
        self.found: list[Exchange] = []
        self._on_its_way: defaultdict[str, list[Exchange]] = defaultdict(list)
        self._asked: dict[tuple[str, int, int], Exchange] = {}
        self._handled: dict[tuple[str, int], Exchange] = {}

    def take(self, step: TraceStep) -> None:
        match step["kind"]:
            case "client.event":
                self._on_client(step)
            case "coordinator.request":
                exchange = self._arrived(step)
                exchange.handled = step
                if "operation" in step:
                    self._handled[step["shard"], step["operation"]] = exchange
            case "response.released":
                key = (step["shard"], step.get("operation", 0))
                exchange = self._handled.pop(key) if key in self._handled else self._arrived(step)
                exchange.released = step

    def _on_client(self, step: TraceStep) -> None:
        event = step.get("event")
        if isinstance(event, dict) and "response" in event and "correlation_id" in event:
            key = (step["client"], step["incarnation"], event["correlation_id"])
            exchange = self._asked.pop(key, None)
            if exchange is not None:
                exchange.received = step
        for effect in step.get("effects", ()):
            if "request" in effect and "correlation_id" in effect:
                exchange = Exchange(client=step["client"], request=effect["request"], sent=step)
                self.found.append(exchange)
                self._on_its_way[_key(effect["request"])].append(exchange)
                key = (step["client"], step["incarnation"], effect["correlation_id"])
                self._asked[key] = exchange

    def _arrived(self, step: TraceStep) -> Exchange:
        waiting = self._on_its_way.get(_key(step["request"]))
        if waiting:
            last = waiting[-1].sent
            return waiting.pop(next(n for n, one in enumerate(waiting) if one.sent is last))
        exchange = Exchange(client=ADMIN, request=step["request"])
        self.found.append(exchange)
        return exchange


def _key(request: Mapping[str, Any]) -> str:
    return json.dumps(request, sort_keys=True)
