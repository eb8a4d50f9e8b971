"""Committed offsets of what the group has given: one look-up in a session, of all of it.

Source: franz §5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rebalance_sim.protocol.clients.common.committed_offsets import apply_committed_offsets
from rebalance_sim.protocol.clients.common.effects import SendOffsetFetch
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import nobody_listens
from rebalance_sim.protocol.clients.franz.coordinator_requests import Coordinator
from rebalance_sim.protocol.clients.franz.franz_core import (
    COORDINATOR_ERRORS,
    RETRIES,
    FranzCore,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    NO_MEMBER_EPOCH,
    NO_OFFSET,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

_LIMIT_MS = 30_000
_WAIT_MS = 1_000
_UNKNOWN_TOPIC_RETRIES = 3
_STALE_RETRIES = 10


class OffsetFetches:
    """The look-up of the session under way. ``on_failed`` gets the error that ends the session,
    None if there was no answer; ``force_heartbeat`` has the epoch renewed."""

    def __init__(self, core: FranzCore, coordinator: Coordinator) -> None:
        self._core = core
        self._coordinator = coordinator
        self._due_ms: int | None = None
        self._number = 0
        self._waits_for_heartbeat = False
        self._tries = self._stale_retries = self._unknown_retries = 0
        self._began_ms = 0
        self.on_failed: Callable[[ErrorCode | None], None] = nobody_listens
        self.force_heartbeat: Callable[[], None] = nobody_listens

    def begin(self) -> None:
        """A session has its partitions: look up what it is to start from."""
        if not self._core.fetching:
            return
        self._stale_retries = self._unknown_retries = 0
        self._again(self._core.now_ms)
        self.run()

    def cancel(self) -> None:
        """The session ends; what was not found is looked up in the next one."""
        self._waits_for_heartbeat = False
        self._number += 1
        self._due_ms = None

    def _again(self, at_ms: int) -> None:
        self._tries = 0
        self._began_ms = self._due_ms = at_ms
        self._core.change_count += 1

    def on_heartbeat(self) -> None:
        """A heartbeat was answered: an epoch that was too old may be another by now."""
        if self._waits_for_heartbeat:
            self._waits_for_heartbeat = False
            self._again(self._core.now_ms)

    def run(self) -> None:
        """Send what is due."""
        core = self._core
        if self._due_ms is None or core.now_ms < self._due_ms or not self._coordinator.is_known():
            return
        self._due_ms = None
        self._tries += 1
        identity = core.commit_identity
        core.requests.send(
            SendOffsetFetch,
            request=OffsetFetchRequest(
                group_id=core.config.group_id,
                partitions=core.fetching,
                member_id=core.member_id or None,
                member_epoch=NO_MEMBER_EPOCH if identity is None else identity.member_epoch,
                api_version=core.offsets_version,
                wire_topics=core.wire_topics_of(core.fetching),
            ),
            on_answered=partial(self._on_answered, self._number),
            on_lost=partial(self._on_lost, self._number),
        )

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        due_ms = self._due_ms
        return None if due_ms is None else self._coordinator.ready_ms(due_ms)

    # --- answers ----------------------------------------------------------------------------------

    def _on_lost(self, number: int, loss: Loss) -> None:
        self._coordinator.note_lost()
        if number == self._number and not self._retry():
            self._fail(None)

    def _on_answered(self, number: int, response: OffsetFetchResponse) -> None:
        code = response.error_code
        self._coordinator.note_answered(code)
        if number != self._number:
            return
        if code is ErrorCode.STALE_MEMBER_EPOCH and self._stale_retries < _STALE_RETRIES:
            self._stale_retries += 1
            self._waits_for_heartbeat = True
            self.force_heartbeat()
        elif code in COORDINATOR_ERRORS and self._retry():
            pass
        elif code is not ErrorCode.NONE:
            self._fail(code)
        elif not self._waits_for_partitions(response):
            self._take(response)

    def _waits_for_partitions(self, response: OffsetFetchResponse) -> bool:
        """Whether a partition has an error that passes, so that all are asked for again."""
        codes = {code for code in response.errors.values() if code}
        is_unknown = ErrorCode.UNKNOWN_TOPIC_ID in codes
        passes = ErrorCode.UNSTABLE_OFFSET_COMMIT in codes or (
            is_unknown and self._unknown_retries < _UNKNOWN_TOPIC_RETRIES
        )
        self._unknown_retries += is_unknown
        if passes:
            self._again(self._core.now_ms + _WAIT_MS)
        return passes

    def _take(self, response: OffsetFetchResponse) -> None:
        """Consuming starts there; of partitions with an error it does not start at all."""
        core = self._core
        bad = frozenset(p for p, code in response.errors.items() if code)
        found = sorted(core.fetching - bad)
        core.fetching = frozenset()
        self.cancel()
        apply_committed_offsets(core, {p: response.offsets.get(p, NO_OFFSET) for p in found})

    def _retry(self) -> bool:
        now_ms = self._core.now_ms
        at_ms = now_ms + self._core.retry_backoff_ms(self._tries)
        if self._tries > RETRIES or at_ms - self._began_ms > _LIMIT_MS:
            return False
        self._due_ms = at_ms
        return True

    def _fail(self, code: ErrorCode | None) -> None:
        self.cancel()
        self.on_failed(code)
