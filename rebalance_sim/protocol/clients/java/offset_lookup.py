"""Committed offsets of assigned partitions: from OffsetFetch to a position to look up.

Source: client §7 (offset fetch) and client §8. Lookups begin inside ``poll`` only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.committed_offsets import apply_committed_offsets
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import SendOffsetFetch
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST, Loss
from rebalance_sim.protocol.clients.java.coordinator_search import CoordinatorSearch
from rebalance_sim.protocol.clients.java.wire_topics import WireTopics
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    NO_MEMBER_EPOCH,
    NO_OFFSET,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

RETRIABLE = COORDINATOR_LOST | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNSTABLE_OFFSET_COMMIT,
}
"""Errors after which the same lookup is tried again."""


@dataclass(slots=True, eq=False)
class Lookup:
    """One set of partitions whose committed offsets are being asked for."""

    partitions: frozenset[TopicPartition]
    pacer: RequestPacer
    deadline_ms: int


class OffsetLookup:
    """All offset fetches of a consumer that are waiting, backing off or in flight."""

    def __init__(
        self,
        core: MemberCore,
        application: Application,
        search: CoordinatorSearch,
        wire_topics: WireTopics,
        *,
        is_signed: bool = True,
        takes_stale_epoch_for_no_offset: bool = False,
        retried: frozenset[ErrorCode] = RETRIABLE,
    ) -> None:
        self._core = core
        self._application = application
        self._search = search
        self._wire_topics = wire_topics
        self._takes_stale_epoch_for_no_offset = takes_stale_epoch_for_no_offset
        self._retried = retried
        self._is_signed = is_signed  # with member id and epoch; classic members do not
        self.waiting: list[Lookup] = []
        """Lookups that ``run`` would look at; it need not be called while there are none."""
        self._in_flight: list[Lookup] = []

    def wants_poll(self) -> bool:
        """Whether a ``poll`` would begin a lookup."""
        partitions = self._core.subscription.initializing
        return bool(partitions) and not self._is_pending(partitions)

    def on_poll(self) -> None:
        """The poll event: look up what has no position; a pending lookup of the same set serves."""
        core = self._core
        partitions = core.subscription.initializing
        if not partitions or self._is_pending(partitions):
            return
        config = core.config
        deadline_ms = core.now_ms + max(config.max_poll_interval_ms, config.default_api_timeout_ms)
        self.waiting.append(Lookup(partitions, RequestPacer(config, core.jitter), deadline_ms))

    def stop(self) -> None:
        """``close``: queued lookups are dropped."""
        self.waiting.clear()

    def _is_pending(self, partitions: frozenset[TopicPartition]) -> bool:
        return any(lookup.partitions == partitions for lookup in (*self.waiting, *self._in_flight))

    # --- the manager ------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When a waiting lookup may be retried."""
        if self._core.coordinator_id is None:
            return None
        return earliest(*(lookup.pacer.backoff_until_ms for lookup in self.waiting))

    def run(self) -> None:
        """Send what may be sent."""
        core = self._core
        if core.coordinator_id is None:
            return
        waiting, self.waiting = self.waiting, []
        for lookup in waiting:
            if lookup.pacer.may_send(core.now_ms):
                self._send(lookup)
            else:
                self.waiting.append(lookup)

    def _send(self, lookup: Lookup) -> None:
        core = self._core
        identity = core.commit_identity if self._is_signed else None
        lookup.pacer.on_sent()
        self._in_flight.append(lookup)
        api_version, wire_topics = self._wire_topics.of(lookup.partitions)
        core.requests.send(
            SendOffsetFetch,
            request=OffsetFetchRequest(
                group_id=core.config.group_id,
                partitions=lookup.partitions,
                member_id=None if identity is None else identity.member_id,
                member_epoch=NO_MEMBER_EPOCH if identity is None else identity.member_epoch,
                api_version=api_version,
                wire_topics=wire_topics,
            ),
            on_answered=partial(self._on_answered, lookup),
            on_lost=partial(self._on_lost, lookup),
        )

    # --- answers ----------------------------------------------------------------------------------

    def _on_answered(self, lookup: Lookup, response: OffsetFetchResponse) -> None:
        """The coordinator has answered; the first failing partition decides."""
        self._in_flight.remove(lookup)
        error_code = response.error_code
        if error_code is ErrorCode.NONE and response.errors:
            error_code = response.errors[min(response.errors)]
        if error_code is ErrorCode.NONE:
            lookup.pacer.on_success(self._core.now_ms)
            apply_committed_offsets(
                self._core,
                {p: response.offsets.get(p, NO_OFFSET) for p in sorted(lookup.partitions)},
            )
        else:
            self._fail(lookup, error_code)

    def _on_lost(self, lookup: Lookup, loss: Loss) -> None:
        self._in_flight.remove(lookup)
        if loss is Loss.TRANSPORT:
            self._search.mark_unknown()
        self._retry(lookup)

    def _fail(self, lookup: Lookup, error_code: ErrorCode) -> None:
        core = self._core
        if error_code in COORDINATOR_LOST:
            self._search.mark_unknown()
        if error_code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._wire_topics.refresh()
        if error_code in self._retried:
            self._retry(lookup)
        elif error_code is ErrorCode.STALE_MEMBER_EPOCH:
            if self._takes_stale_epoch_for_no_offset:
                apply_committed_offsets(core, dict.fromkeys(sorted(lookup.partitions), NO_OFFSET))
            elif core.commit_identity is not None:
                self._retry(lookup)
            else:
                self._application.queue_error(error_code, "the offset fetch failed")
        else:
            self._application.queue_error(error_code, "the offset fetch failed")

    def _retry(self, lookup: Lookup) -> None:
        """Try again after a backoff; past the deadline the next ``poll`` starts over."""
        lookup.pacer.on_failure(self._core.now_ms)
        if self._core.now_ms < lookup.deadline_ms:
            self.waiting.append(lookup)
