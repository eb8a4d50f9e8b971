"""Offset commits, as far as all clients make them alike: the interval, the application's own.

Source: client §7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import CommitReturned
from rebalance_sim.protocol.clients.common.events import CommitOffsets
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

OnDone = Callable[[ErrorCode | None], None]
"""Called with how a commit has ended; None means success."""

Offsets = Mapping[TopicPartition, int]


class CommitQueue:
    """What commits of all kinds of client have in common.

    ``open_async_count``: commits of ``commitAsync`` that have not ended.
    """

    def __init__(self, core: MemberCore, application: Application) -> None:
        self._core = core
        self._application = application
        self._interval_due_ms = core.now_ms + core.config.auto_commit_interval_ms
        self._interval_is_held = False  # no interval commit is made meanwhile
        self.open_async_count = 0
        self._made_count = 0

    def _next_number(self) -> int:
        """Of a commit that is made now: one that is younger has a greater one."""
        self._made_count += 1
        return self._made_count

    def interval_due_ms(self) -> int | None:
        """When the next interval commit is due; None while nothing is to be committed by itself."""
        core = self._core
        if self._interval_is_held or not core.config.enable_auto_commit:
            return None
        if not core.subscription.assigned:
            return None
        return self._interval_due_ms

    def restart_interval(self) -> None:
        """The interval runs in full from now on."""
        self._interval_due_ms = self._core.now_ms + self._core.config.auto_commit_interval_ms

    def commit(self, event: CommitOffsets) -> None:
        """``commitSync`` or ``commitAsync`` of the application."""
        offsets = self._all_consumed() if event.offsets is None else dict(event.offsets)
        timeout_ms = event.timeout_ms
        if timeout_ms is None:
            timeout_ms = self._core.config.default_api_timeout_ms
        self.open_async_count += not event.is_sync

        done = partial(self._return_to_application, event)
        if offsets:
            is_retried = self._is_retried(is_sync=event.is_sync)
            deadline_ms = self._core.now_ms + timeout_ms if is_retried else None
            self._commit_for_application(offsets, done, deadline_ms)
        else:
            done(None)

    def _is_retried(self, *, is_sync: bool) -> bool:
        """Whether a commit of the application that failed is tried again while its time lasts."""
        return is_sync

    def _return_to_application(self, event: CommitOffsets, error_code: ErrorCode | None) -> None:
        """A commit of the application is over."""
        result = CommitReturned(commit_id=event.commit_id, error_code=error_code)
        if event.is_sync:
            self._core.effects.append(result)
        else:
            self.open_async_count -= 1
            self._application.queue_async_result(result)

    def _all_consumed(self) -> Offsets:
        """What a commit without offsets is about."""
        return self._core.subscription.consumed()

    def _commit_for_application(
        self, offsets: Offsets, on_done: OnDone, deadline_ms: int | None
    ) -> None:
        """Commit these offsets; past ``deadline_ms`` no one waits (None: one attempt only)."""
        raise NotImplementedError
