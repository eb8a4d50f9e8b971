"""Offset commits: on the interval, before a revocation, on close, and those of the application.

Source: client §7.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.commit_queue import Offsets, OnDone
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST
from rebalance_sim.protocol.clients.common.values import CommitIdentity
from rebalance_sim.protocol.clients.java.consumer.consumer_core import ConsumerCore
from rebalance_sim.protocol.clients.java.coordinator_search import CoordinatorSearch
from rebalance_sim.protocol.clients.java.java_commits import Commit, JavaCommits
from rebalance_sim.protocol.clients.java.wire_topics import WireTopics
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import NO_MEMBER_EPOCH

_COORDINATOR_LOST = COORDINATOR_LOST | {ErrorCode.REQUEST_TIMED_OUT}
_RETRIABLE = _COORDINATOR_LOST | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


@dataclass(slots=True, eq=False, kw_only=True)
class _Commit(Commit):
    identity_at_creation: CommitIdentity | None
    is_before_revocation: bool
    is_of_close: bool


class Commits(JavaCommits[_Commit]):
    """All commits of a consumer that are waiting, backing off or in flight."""

    _core: ConsumerCore

    def __init__(
        self,
        core: ConsumerCore,
        application: Application,
        search: CoordinatorSearch,
        wire_topics: WireTopics,
    ) -> None:
        super().__init__(core, application, search, wire_topics, rules=core.rules)
        self._is_closing = False

    # --- asking for commits -----------------------------------------------------------------------

    def on_poll(self) -> None:
        """The poll event: an interval commit, if its timer has expired and none is under way."""
        due_ms = self.interval_due_ms()
        if due_ms is None or self._core.now_ms < due_ms:
            return
        self.restart_interval()
        offsets = self._core.subscription.consumed()
        if offsets:
            self._interval_is_held = self._core.rules.waits_for_interval_commit
            self._add(offsets, self._after_interval_commit, None)

    def commit_before_revocation(self, on_done: OnDone) -> bool:
        """client R4: commit everything consumed. False if there is nothing to wait for."""
        deadline_ms = self._core.now_ms
        if self._core.rules.repeats_commit_before_revocation:
            deadline_ms += self._core.config.max_poll_interval_ms
        offsets = self._core.subscription.consumed()
        if offsets:
            self._add(offsets, on_done, deadline_ms, is_before_revocation=True)
        return bool(offsets)

    def commit_on_close(self, *, deadline_ms: int, on_done: OnDone) -> bool:
        """Commit everything consumed before leaving. False if there is nothing to wait for."""
        offsets = self._core.subscription.consumed()
        if not offsets or not self._core.config.enable_auto_commit:
            return False
        self._add(offsets, on_done, deadline_ms, is_of_close=True)
        return True

    def stop_automatic(self) -> None:
        """``close``: queued commits are still sent, but no new one is made by the client."""
        self._is_closing = self._interval_is_held = True

    def _add(
        self,
        offsets: Offsets,
        on_done: OnDone,
        deadline_ms: int | None,
        *,
        is_before_revocation: bool = False,
        is_of_close: bool = False,
    ) -> None:
        self.waiting.append(
            _Commit(
                offsets,
                on_done,
                RequestPacer(self._core.config, self._core.jitter),
                number=self._next_number(),
                deadline_ms=deadline_ms,
                identity_at_creation=self._core.commit_identity,
                is_before_revocation=is_before_revocation,
                is_of_close=is_of_close,
            )
        )

    _commit_for_application = _add

    def _after_interval_commit(self, error_code: ErrorCode | None) -> None:
        self._interval_is_held = self._is_closing
        if error_code in _RETRIABLE:
            self.restart_interval()

    # --- sending ----------------------------------------------------------------------------------

    def run(self) -> None:
        """As for all clients; who closes does not wait for a coordinator (KAFKA-19357)."""
        if self._is_closing and self._core.coordinator_id is None:
            waiting, self.waiting = self.waiting, []
            for commit in waiting:
                commit.finish(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        else:
            super().run()

    def _can_time_out(self, commit: _Commit) -> bool:
        """A request expires only after an attempt; the application's own wait expires anyway."""
        return commit.pacer.attempts > 0 or not (commit.is_before_revocation or commit.is_over)

    def _stays_after_timeout(self, commit: _Commit) -> bool:
        return commit.pacer.attempts == 0

    def _may_send(self, commit: _Commit) -> bool:
        return self._is_closing or super()._may_send(commit)

    def _send(self, commit: _Commit) -> None:
        core = self._core
        leaves_out_lost = commit.is_before_revocation or (
            commit.is_of_close and not core.rules.repeats_lost_offsets_in_close
        )
        if leaves_out_lost and commit.pacer.attempts > 0:
            consumed = core.subscription.consumed()
            if not core.rules.retakes_positions_of_retries:
                consumed = {p: at for p, at in commit.offsets.items() if p in consumed}
            commit.offsets = consumed
            if not commit.offsets:
                # The member has lost everything meanwhile: nothing is left to commit, and it must
                # not sign its former partitions with a new epoch.
                commit.finish(None)
                return
        identity = core.rules.identity_of_commit(commit.identity_at_creation, core.commit_identity)
        request = self._wire_topics.commit_request(
            commit.offsets,
            member_id=core.member_id,
            member_epoch=NO_MEMBER_EPOCH if identity is None else identity.member_epoch,
            instance_id=core.config.group_instance_id,
        )
        self._transmit(commit, request)

    # --- answers ----------------------------------------------------------------------------------

    def _succeed(self, commit: _Commit) -> None:
        commit.pacer.on_success(self._core.now_ms)
        commit.finish(None)

    def _fail(self, commit: _Commit, error_code: ErrorCode, signed: None) -> None:
        if error_code in _COORDINATOR_LOST:
            self._search.mark_unknown()
        is_gone = error_code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or (
            error_code is ErrorCode.UNKNOWN_TOPIC_ID
            and not self._core.rules.names_topics_of_commits
        )
        if is_gone and commit.is_before_revocation and self._core.rules.gives_up_lost_topics:
            commit.finish(error_code)
        elif error_code in _RETRIABLE or (
            error_code is ErrorCode.STALE_MEMBER_EPOCH
            and commit.is_before_revocation
            and self._core.commit_identity is not None
        ):
            self._retry(commit, error_code)
        else:
            commit.finish(error_code)

    def _retry(self, commit: _Commit, error_code: ErrorCode) -> None:
        commit.pacer.on_failure(self._core.now_ms)
        if commit.deadline_ms is None or self._core.now_ms >= commit.deadline_ms:
            commit.finish(error_code)
        else:
            self.waiting.append(commit)
