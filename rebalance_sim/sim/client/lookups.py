"""What a client process asks of brokers by itself: metadata, and where logs begin and end.

Source: client §0.1. A request that is lost, or answered for a part of its partitions, is made again
after ``retry.backoff.ms``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rebalance_sim.protocol.clients.common.effects import ResetPositions, ValidatePositions
from rebalance_sim.protocol.clients.common.events import (
    MetadataKnown,
    PatternMatched,
    PositionsKnown,
    Subscribe,
)
from rebalance_sim.re2_engine import compile_re2
from rebalance_sim.sim.client.client_conditions import ClientConditions
from rebalance_sim.sim.client.client_connections import ClientConnections
from rebalance_sim.sim.client.client_kinds import looks_at_topics
from rebalance_sim.sim.client.client_spec import OffsetReset
from rebalance_sim.sim.client.metadata_refresh import TopicWatch
from rebalance_sim.sim.client.ports import Process
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.network.cluster_requests import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)

_RETRY_BACKOFF_MS = 100
"""``retry.backoff.ms``."""


class Lookups:
    """The open requests of one process that are not its member's; their ids are below 0."""

    def __init__(
        self,
        process: Process,
        conditions: ClientConditions,
        clock: Clock,
        lines: ClientConnections,
    ) -> None:
        self._process = process
        self._conditions = conditions
        self._clock = clock
        self._lines = lines
        self._open: dict[int, Any] = {}
        self._next_id = -1
        self._topic_watch = TopicWatch(process, clock) if looks_at_topics(process.spec) else None
        self._matches: Callable[[str], bool] | None = None

    @property
    def are_open(self) -> bool:
        """Whether one of them has no answer yet."""
        return bool(self._open)

    def begin(self) -> None:
        """The process starts, and asks for metadata."""
        self.ask_metadata()
        if self._topic_watch is not None:
            self._topic_watch.begin()

    def ask_metadata(self) -> None:
        """Ask for metadata in any case."""
        self._ask(MetadataRequest())

    def refresh_metadata(self) -> None:
        """Ask for metadata, unless they have been asked for."""
        if not any(isinstance(asked, MetadataRequest) for asked in self._open.values()):
            self.ask_metadata()

    def validate(self, effect: ValidatePositions) -> None:
        """Ask the leaders whether these positions are in their logs."""
        self._ask(ListOffsetsRequest(positions=effect.positions))

    def reset(self, effect: ResetPositions) -> None:
        """Ask where ``auto.offset.reset`` leads to."""
        spec = self._process.spec
        self._ask(
            ListOffsetsRequest(
                positions={},
                partitions=effect.partitions,
                at_end=spec.auto_offset_reset is OffsetReset.LATEST,
                isolation_level=spec.isolation_level,
            )
        )

    def match(self, event: Subscribe) -> Subscribe:
        """What the member learns of a subscription: of a pattern that no broker matches, only that
        there is one, and of each metadata what it matches."""
        self.forget_pattern()
        regex = event.topic_regex
        if regex is None or self._topic_watch is None:
            return event
        self._matches = compile_re2(regex)
        return Subscribe(matches_locally=True, has_listener=self._process.spec.listener)

    def forget_pattern(self) -> None:
        """The application has subscribed to something else."""
        self._matches = None

    # --- answers ----------------------------------------------------------------------------------

    def on_answer(self, correlation_id: int, response: Any) -> None:
        """The answer to one of these requests."""
        request = self._open.pop(correlation_id)
        if isinstance(response, MetadataResponse):
            self._on_metadata(response)
        elif isinstance(response, ListOffsetsResponse):
            missing = self._process.member.assigned.keys() - response.positions.keys()
            again = {p: request.positions[p] for p in sorted(request.positions.keys() & missing)}
            if again or request.partitions & missing:
                self._ask_again(
                    replace(request, positions=again, partitions=request.partitions & missing)
                )
            self._process.take(PositionsKnown(positions=response.positions))

    def _on_metadata(self, response: MetadataResponse) -> None:
        process = self._process
        seen = self._conditions.metadata_seen(response)
        process.take(
            MetadataKnown(
                topic_names=seen.topic_names,
                partition_counts=seen.partition_counts,
                replica_racks=seen.replica_racks,
            )
        )
        if self._matches is not None and process.is_alive:
            names = filter(self._matches, seen.partition_counts)
            process.take(PatternMatched(topic_names=frozenset(names)))
        if self._topic_watch is not None and process.is_alive:
            self._topic_watch.on_metadata(seen)

    def on_lost(self, correlation_id: int) -> None:
        """One of these requests will never be answered."""
        self._ask_again(self._open.pop(correlation_id))

    def _ask(self, request: Any) -> None:
        correlation_id = self._next_id
        self._next_id -= 1
        self._open[correlation_id] = request
        self._lines.send_to_any(correlation_id, request)

    def _ask_again(self, request: Any) -> None:
        at_ms = self._clock.now_ms + _RETRY_BACKOFF_MS
        self._clock.call_at(at_ms, self._process.tie_break(), self._on_retry, request)

    def _on_retry(self, request: Any) -> None:
        if not self._process.defers(self._on_retry, request):
            self._ask(request)
