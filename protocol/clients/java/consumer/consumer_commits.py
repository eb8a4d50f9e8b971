"""Offset commits: on the interval, before a revocation, on close, and those of the application.

Source: client §7. A commit is signed when it is sent, not when it is asked for, so that a retry
carries the newest epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.coordinator_search import CoordinatorSearch
from rebalance_sim.protocol.clients.common.effects import CommitReturned, SendCommit
from rebalance_sim.protocol.clients.common.events import CommitOffsets
from rebalance_sim.protocol.clients.common.values import CommitIdentity
from rebalance_sim.protocol.clients.java.consumer.consumer_core import ConsumerCore
from rebalance_sim.protocol.clients.java.wire_topics import WireTopics
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.offset_messages import NO_MEMBER_EPOCH, OffsetCommitResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["Commits"]

_COORDINATOR_LOST = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_RETRIABLE = _COORDINATOR_LOST | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


class _Kind(Enum):
    """Who asked for a commit."""

    INTERVAL = "interval"
    BEFORE_REVOCATION = "before revocation"
    ON_CLOSE = "on close"
    SYNC = "commitSync"
    ASYNC = "commitAsync"


class _Commit:
    """A commit from its creation to its end. ``deadline_ms`` None: never retried."""

    __slots__ = (
        "deadline_ms",
        "identity_at_creation",
        "is_over",
        "kind",
        "offsets",
        "on_done",
        "pacer",
    )

    def __init__(
        self,
        kind: _Kind,
        offsets: Mapping[TopicPartition, int],
        pacer: RequestPacer,
        *,
        identity: CommitIdentity | None,
        deadline_ms: int | None,
        on_done: Callable[[ErrorCode | None], None],
    ) -> None:
        self.kind = kind
        self.offsets = offsets
        self.pacer = pacer
        self.identity_at_creation = identity
        self.deadline_ms = deadline_ms
        self.on_done = on_done
        self.is_over = False  # nobody waits for it any more

    def finish(self, error_code: ErrorCode | None) -> None:
        """Tell whoever waits, once; None means success."""
        if not self.is_over:
            self.is_over = True
            self.on_done(error_code)


class Commits:
    """All commits of a consumer that are waiting, backing off or in flight."""

    __slots__ = (
        "_application",
        "_core",
        "_in_flight",
        "_interval_commit_is_open",
        "_is_closing",
        "_search",
        "_wire_topics",
        "interval_deadline_ms",
        "waiting",
    )

    def __init__(
        self,
        core: ConsumerCore,
        application: Application,
        search: CoordinatorSearch,
        wire_topics: WireTopics,
    ) -> None:
        self._core = core
        self._application = application
        self._search = search
        self._wire_topics = wire_topics
        self.waiting: list[_Commit] = []
        """Commits that ``run`` would look at; it need not be called while there are none."""
        self._in_flight: dict[int, _Commit] = {}
        self._interval_commit_is_open = False
        self._is_closing = False
        self.interval_deadline_ms = core.now_ms + core.config.auto_commit_interval_ms

    # --- asking for commits -----------------------------------------------------------------------

    @property
    def interval_poll_due_ms(self) -> int | None:
        """From when on a ``poll`` makes an interval commit."""
        if (
            not self._core.config.enable_auto_commit
            or self._interval_commit_is_open
            or self._is_closing
            or not self._core.subscription.assigned
        ):
            return None
        return self.interval_deadline_ms

    def on_poll(self) -> None:
        """The poll event: an interval commit, if its timer has expired and none is under way."""
        due_ms = self.interval_poll_due_ms
        if due_ms is None or self._core.now_ms < due_ms:
            return
        self.restart_interval()
        offsets = self._core.subscription.consumed()
        if offsets:
            self._interval_commit_is_open = True
            self._add(_Kind.INTERVAL, offsets, None, self._after_interval_commit)

    def restart_interval(self) -> None:
        """The interval timer runs in full from now on."""
        self.interval_deadline_ms = self._core.now_ms + self._core.config.auto_commit_interval_ms

    def commit_before_revocation(self, on_done: Callable[[], None]) -> bool:
        """client R4: commit everything consumed. False if there is nothing to wait for."""
        offsets = self._core.subscription.consumed()
        if not offsets:
            return False
        deadline_ms = self._core.now_ms + self._core.config.max_poll_interval_ms
        self._add(_Kind.BEFORE_REVOCATION, offsets, deadline_ms, lambda _: on_done())
        return True

    def commit_on_close(self, *, deadline_ms: int, on_done: Callable[[], None]) -> bool:
        """Commit everything consumed before leaving. False if there is nothing to wait for."""
        offsets = self._core.subscription.consumed()
        if not offsets or not self._core.config.enable_auto_commit:
            return False
        self._add(_Kind.ON_CLOSE, offsets, deadline_ms, lambda _: on_done())
        return True

    def commit(self, event: CommitOffsets) -> None:
        """``commitSync`` or ``commitAsync`` of the application."""
        core = self._core
        offsets = core.subscription.consumed() if event.offsets is None else dict(event.offsets)
        if event.is_sync:
            timeout_ms = event.timeout_ms
            if timeout_ms is None:
                timeout_ms = core.config.default_api_timeout_ms
            kind, deadline_ms = _Kind.SYNC, core.now_ms + timeout_ms
        else:
            kind, deadline_ms = _Kind.ASYNC, None

        def done(error_code: ErrorCode | None) -> None:
            result = CommitReturned(commit_id=event.commit_id, error_code=error_code)
            if event.is_sync:
                core.effects.append(result)
            else:
                self._application.queue_async_result(result)

        if offsets:
            self._add(kind, offsets, deadline_ms, done)
        else:
            done(None)

    def stop_automatic(self) -> None:
        """``close``: queued commits are still sent, but no new one is made by the client."""
        self._is_closing = True

    def _add(
        self,
        kind: _Kind,
        offsets: Mapping[TopicPartition, int],
        deadline_ms: int | None,
        on_done: Callable[[ErrorCode | None], None],
    ) -> None:
        self.waiting.append(
            _Commit(
                kind,
                offsets,
                RequestPacer(self._core.config, self._core.jitter),
                identity=self._core.commit_identity,
                deadline_ms=deadline_ms,
                on_done=on_done,
            )
        )

    def _after_interval_commit(self, error_code: ErrorCode | None) -> None:
        self._interval_commit_is_open = False
        if error_code in _RETRIABLE:
            self.restart_interval()

    @property
    def has_open_async_commit(self) -> bool:
        """Whether a ``commitAsync`` is still to be answered."""
        return any(commit.kind is _Kind.ASYNC for commit in self.waiting) or any(
            commit.kind is _Kind.ASYNC for commit in self._in_flight.values()
        )

    # --- the manager ------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When a waiting commit may be retried, or runs out of time."""
        earliest: int | None = None
        for commit in self.waiting:
            candidates = []
            if self._core.coordinator_id is not None and commit.pacer.backoff_until_ms is not None:
                candidates.append(commit.pacer.backoff_until_ms)
            if commit.deadline_ms is not None and self._can_time_out(commit):
                candidates.append(commit.deadline_ms)
            for at_ms in candidates:
                earliest = at_ms if earliest is None else min(earliest, at_ms)
        return earliest

    def run(self) -> None:
        """Send what may be sent, give up what has run out of time."""
        core = self._core
        waiting, self.waiting = self.waiting, []
        backing_off: list[_Commit] = []
        for commit in waiting:
            if self._has_timed_out(commit):
                commit.finish(ErrorCode.REQUEST_TIMED_OUT)
                if commit.pacer.attempts == 0:
                    backing_off.append(commit)
            elif core.coordinator_id is None:
                backing_off.append(commit)
            elif commit.pacer.may_send(core.now_ms) or self._is_closing:
                self._send(commit)
            else:
                backing_off.append(commit)
        # What a finished commit led to comes first: retries queue behind fresh commits.
        self.waiting.extend(backing_off)

    def _can_time_out(self, commit: _Commit) -> bool:
        """A request expires only after an attempt; the application's own wait expires anyway."""
        return commit.pacer.attempts > 0 or (
            commit.kind in (_Kind.SYNC, _Kind.ON_CLOSE) and not commit.is_over
        )

    def _has_timed_out(self, commit: _Commit) -> bool:
        return (
            commit.deadline_ms is not None
            and self._core.now_ms >= commit.deadline_ms
            and self._can_time_out(commit)
        )

    def _send(self, commit: _Commit) -> None:
        core = self._core
        if commit.kind is _Kind.BEFORE_REVOCATION and commit.pacer.attempts > 0:
            commit.offsets = core.subscription.consumed()
            if not commit.offsets:
                # The member has lost everything meanwhile: nothing is left to commit, and it must
                # not sign its former partitions with a new epoch.
                commit.finish(None)
                return
        identity = core.rules.identity_of_commit(commit.identity_at_creation, core.commit_identity)
        commit.pacer.on_sent()
        correlation_id = core.new_correlation_id()
        self._in_flight[correlation_id] = commit
        request = self._wire_topics.commit_request(
            commit.offsets,
            member_id=core.member_id,
            member_epoch=NO_MEMBER_EPOCH if identity is None else identity.member_epoch,
            instance_id=core.config.group_instance_id,
        )
        core.effects.append(SendCommit(correlation_id=correlation_id, request=request))

    # --- answers ----------------------------------------------------------------------------------

    def on_answered(self, correlation_id: int, response: OffsetCommitResponse) -> None:
        """The coordinator has answered; the first failing partition decides."""
        commit = self._in_flight.pop(correlation_id, None)
        if commit is None:
            raise ProtocolBug(f"an answer to commit {correlation_id}, which is not in flight")
        errors = response.errors
        if any(errors.values()):
            first = min(partition for partition, error_code in errors.items() if error_code)
            self._fail(commit, errors[first])
            return
        commit.pacer.on_success(self._core.now_ms)
        commit.finish(None)

    def on_lost(self, correlation_id: int, *, was_sent: bool) -> bool:
        """A request was lost, or never sent. Whether it was a commit."""
        commit = self._in_flight.pop(correlation_id, None)
        if commit is None:
            return False
        if was_sent:
            self._search.mark_unknown()
        self._retry(commit, ErrorCode.REQUEST_TIMED_OUT)
        return True

    def _fail(self, commit: _Commit, error_code: ErrorCode) -> None:
        if error_code in _COORDINATOR_LOST:
            self._search.mark_unknown()
        if error_code is ErrorCode.UNKNOWN_TOPIC_ID:
            # A client finds that out at its next fetch, too, and then looks for the topic anew.
            self._wire_topics.refresh()
        is_before_revocation = commit.kind is _Kind.BEFORE_REVOCATION
        if error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and is_before_revocation:
            commit.finish(error_code)
        elif error_code in _RETRIABLE or (
            error_code is ErrorCode.STALE_MEMBER_EPOCH
            and is_before_revocation
            and self._core.commit_identity is not None
        ):
            self._retry(commit, error_code)
        else:
            commit.finish(error_code)

    def _retry(self, commit: _Commit, error_code: ErrorCode) -> None:
        """Queue the commit again, behind fresh ones, unless its kind or its time forbids it."""
        commit.pacer.on_failure(self._core.now_ms)
        if commit.deadline_ms is None or self._core.now_ms >= commit.deadline_ms:
            commit.finish(error_code)
        else:
            self.waiting.append(commit)
