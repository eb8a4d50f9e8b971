"""What all connections of one client share."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any

from rebalance_sim.sim.network.network_spec import NetworkSpec
from rebalance_sim.sim.streams import Streams, delay_sampler


class Moment(Enum):
    """When a connection breaks, and therefore what is lost with it."""

    NOW = "now"
    """At ``at_ms``, with whatever is on its way in either direction."""
    BEFORE_REQUEST = "before_request"
    """Just before the next request arrives: the broker never sees it."""
    BEFORE_RESPONSE = "before_response"
    """Just before the next answer arrives: the broker has handled what the client never learns."""


class Link:
    """Its latency, and faults that wait for it.

    ``sample_ms`` draws a latency, which ``factor`` multiplies, and of the ways to some brokers
    ``broker_factors`` as well. ``cut`` breaks the connection to the
    coordinator at the next message of its kind; ``cut_at``, if there is one, says of a request
    whether it, or its answer, is meant.
    """

    __slots__ = (
        "_awaited",
        "broker_factors",
        "cut",
        "cut_at",
        "factor",
        "sample_ms",
        "tie_break",
    )

    def __init__(self, spec: NetworkSpec, streams: Streams, client_name: str) -> None:
        stream = streams.get(f"latency/{client_name}")
        self.sample_ms = delay_sampler(spec.latency, stream, least_ms=1)
        self.tie_break = streams.get(f"schedule/network/{client_name}").random
        self.factor = 1
        self.broker_factors: dict[int, int] = {}
        self.cut: Moment | None = None
        self.cut_at: Callable[[Any], bool] | None = None
        self._awaited: int | None = None  # the request whose answer is to get lost

    def break_at(self, moment: Moment, which: Callable[[Any], bool] | None = None) -> None:
        """Let the connection break at the next message, or with the next request of a kind."""
        self.cut, self.cut_at, self._awaited = moment, which, None

    def slow_down(self, factor: int, node_id: int | None) -> None:
        """Multiply all latencies, or those of the way to one broker."""
        if node_id is None:
            self.factor *= factor
        else:
            self.broker_factors[node_id] = self.broker_factors.get(node_id, 1) * factor

    def speed_up(self, factor: int, node_id: int | None) -> None:
        """Take back what ``slow_down`` did."""
        if node_id is None:
            self.factor //= factor
        else:
            self.broker_factors[node_id] //= factor

    def delay_ms(self, extra_ms: int, node_id: int) -> int:
        """Draw the time of one message, one way, with what the way to its broker adds."""
        factors = self.broker_factors
        more = factors.get(node_id, 1) if factors else 1
        return (self.sample_ms() + extra_ms) * self.factor * more

    def is_cut_at_request(self, correlation_id: int, request: Any) -> bool:
        """Whether a cut waits for this request; it is used up."""
        if self.cut_at is not None:
            if not self.cut_at(request):
                return False
            self._awaited = correlation_id
        return self._takes_cut(Moment.BEFORE_REQUEST)

    def is_cut_at_answer(self, correlation_id: int) -> bool:
        """Whether a cut waits for the answer to this request; it is used up."""
        if self.cut_at is not None and self._awaited != correlation_id:
            return False
        return self._takes_cut(Moment.BEFORE_RESPONSE)

    def _takes_cut(self, moment: Moment) -> bool:
        if self.cut is not moment:
            return False
        self.cut = self.cut_at = self._awaited = None
        return True
