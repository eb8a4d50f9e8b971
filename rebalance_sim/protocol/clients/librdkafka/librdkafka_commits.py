"""Offset commits: on the interval, of what is given up, and those of the application.

Source: client §7, §10.1. A failed request is sent again as it was, with the epoch it had, twice at
most; a commit that finds no coordinator, or a stale epoch, is put off and signed again. While any
commit is open no offsets are looked up and no unassignment is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.commit_queue import CommitQueue, Offsets, OnDone
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import SendCommit
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST, Loss
from rebalance_sim.protocol.clients.common.values import nobody_listens
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    NO_MEMBER_EPOCH,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

_MAX_RETRIES = 2

_RETRIED = COORDINATOR_LOST | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
}


@dataclass(slots=True, eq=False)
class _Commit:
    """A commit from its creation to its end."""

    offsets: Offsets
    on_done: OnDone
    _: KW_ONLY
    number: int
    is_manual: bool
    request: OffsetCommitRequest | None = None
    retries: int = 0
    retry_due_ms: int = 0
    give_up_ms: int | None = None  # set when it is put off for the first time


class Commits(CommitQueue):
    """All commits of a consumer, and which offsets are stored and committed.

    ``stored``: what the application has been handed, since the partition was assigned; only that is
    ever committed. ``on_all_over`` is called when the last open commit has ended.
    """

    _core: LibrdkafkaCore

    def __init__(
        self,
        core: LibrdkafkaCore,
        application: Application,
        link: CoordinatorLink,
        *,
        jitter: Callable[[], float],
    ) -> None:
        super().__init__(core, application)
        self._jitter = jitter
        self._link = link
        self._retrying: list[_Commit] = []
        self._deferred: list[_Commit] = []
        self._open_count = 0
        self._newest: dict[TopicPartition, int] = {}  # number of the youngest commit sent so far
        self._stored: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self.on_all_over: Callable[[], None] = nobody_listens

    # --- positions --------------------------------------------------------------------------------

    def store(self, positions: Mapping[TopicPartition, int]) -> None:
        """The application has been handed records up to these positions."""
        for partition, position in positions.items():
            state = self._core.subscription.assigned.get(partition)
            if state is not None and state.has_valid_position and position > state.position:
                self._stored[partition] = position

    def set_committed(self, partition: TopicPartition, offset: int) -> None:
        """What the coordinator has for a partition; -1 for nothing."""
        self._committed[partition] = offset

    def take_stored(self, partitions: frozenset[TopicPartition]) -> dict[TopicPartition, int]:
        """The stored offsets of partitions that are given up, committed or not; forgotten here."""
        return {p: self._stored.pop(p) for p in sorted(partitions) if p in self._stored}

    def _moved(self) -> dict[TopicPartition, int]:
        """Stored offsets of assigned partitions that are past what is committed."""
        return {
            partition: self._stored[partition]
            for partition in sorted(self._core.subscription.assigned)
            if self._stored.get(partition, -1) > self._committed.get(partition, -1)
        }

    # --- asking for commits -----------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a commit has not ended yet."""
        return self._open_count > 0

    def commit_removed(self, offsets: Offsets) -> None:
        """Auto-commit of what has just been unassigned."""
        if offsets and self._core.config.enable_auto_commit:
            self._add(offsets, nobody_listens, is_manual=False)

    def _all_consumed(self) -> Offsets:
        """Of what has been consumed, librdkafka commits what has moved."""
        return self._moved()

    def _commit_for_application(
        self, offsets: Offsets, on_done: OnDone, deadline_ms: int | None
    ) -> None:
        """librdkafka does not look at the time of its application: attempts are counted."""
        self._add(offsets, on_done, is_manual=True)

    def _run_interval(self) -> None:
        """The interval commit is due; a tick that meets a rebalance is skipped."""
        core = self._core
        interval_ms = core.config.auto_commit_interval_ms
        missed = (core.now_ms - self._interval_due_ms) // interval_ms
        self._interval_due_ms += (missed + 1) * interval_ms
        if (core.subscription.exists and core.join_state is not JoinState.STEADY) or core.is_lost:
            return
        offsets = self._moved()
        if offsets:
            self._add(offsets, nobody_listens, is_manual=False)

    def _add(self, offsets: Offsets, on_done: OnDone, *, is_manual: bool) -> None:
        commit = _Commit(offsets, on_done, number=self._next_number(), is_manual=is_manual)
        self._open_count += 1
        self._send_or_defer(commit)

    # --- the manager ------------------------------------------------------------------------------

    def run(self) -> None:
        """Send what is due, give up what has been put off for too long."""
        core = self._core
        if core.now_ms >= self._interval_due_ms and core.config.enable_auto_commit:
            self._run_interval()
        if not self._retrying and not self._deferred:
            return
        if self._link.is_up():
            # What is repeated waits on the connection itself, so it is out before anything else.
            if self._retrying:
                for commit in [c for c in self._retrying if c.retry_due_ms <= core.now_ms]:
                    self._retrying.remove(commit)
                    self._transmit(commit)
            if self._deferred:
                deferred, self._deferred = self._deferred, []
                for commit in deferred:
                    self._send_or_defer(commit)
        else:
            for commit in [c for c in self._deferred if (c.give_up_ms or 0) <= core.now_ms]:
                self._deferred.remove(commit)
                self._finish(commit, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        if not self._retrying and not self._deferred:
            return self.interval_due_ms()
        if self._link.is_up():
            waiting = [commit.retry_due_ms for commit in self._retrying]
        else:
            waiting = [commit.give_up_ms or 0 for commit in self._deferred]
        return earliest(self.interval_due_ms(), *waiting)

    def _send_or_defer(self, commit: _Commit) -> None:
        """Sign the commit and send it, or put it off until there is a coordinator."""
        core = self._core
        if core.is_fatal:
            self._finish(commit, ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if not self._link.is_up():
            if not self._defer(commit, once=commit.give_up_ms is not None):
                self._finish(commit, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        identity = core.commit_identity
        commit.request = OffsetCommitRequest(
            group_id=core.config.group_id,
            member_id=core.member_id,
            generation_id_or_member_epoch=(
                NO_MEMBER_EPOCH if identity is None else identity.member_epoch
            ),
            group_instance_id=core.config.group_instance_id,
            offsets=commit.offsets,
            wire_topics=(
                core.wire_topics_of(commit.offsets) if core.rules.names_topics_of_commits else {}
            ),
        )
        commit.retries = 0
        self._transmit(commit)

    def _transmit(self, commit: _Commit) -> None:
        assert commit.request is not None
        if not self._core.rules.repeats_overtaken_commits:
            offsets = self._not_overtaken(commit.number, commit.request.offsets)
            if not offsets:
                self._finish(commit, None)
                return
            if offsets is not commit.request.offsets:
                commit.request = replace(commit.request, offsets=offsets)
            self._note_sent(commit.number, offsets)
        self._core.requests.send(
            SendCommit,
            request=commit.request,
            on_answered=partial(self._on_answered, commit),
            on_lost=partial(self._on_lost, commit),
        )

    def _not_overtaken(self, number: int, offsets: Offsets) -> Offsets:
        """The part for which no commit younger than ``number`` has been sent: that one is repeated
        as often, and later."""
        newest = self._newest
        for partition in offsets:
            if newest.get(partition, 0) > number:
                return {p: offset for p, offset in offsets.items() if newest.get(p, 0) <= number}
        return offsets

    def _note_sent(self, number: int, offsets: Offsets) -> None:
        """Commit ``number`` is sent."""
        for partition in offsets:
            self._newest[partition] = number

    def _defer(self, commit: _Commit, *, once: bool) -> bool:
        """Put a commit off, if that is still allowed."""
        now_ms = self._core.now_ms
        if once or (commit.give_up_ms is not None and now_ms >= commit.give_up_ms):
            return False
        if commit.give_up_ms is None:
            commit.give_up_ms = now_ms + self._core.commit_deferral_ms
        self._deferred.append(commit)
        return True

    # --- answers ----------------------------------------------------------------------------------

    def _on_answered(self, commit: _Commit, response: OffsetCommitResponse) -> None:
        """Only if every partition failed is the commit repeated."""
        errors = [code for _, code in sorted((p, c) for p, c in response.errors.items() if c)]
        for partition, code in response.errors.items():
            if not code and partition in commit.offsets:
                self._committed[partition] = commit.offsets[partition]
        if not errors:
            self._finish(commit, None)
        elif len(errors) < len(response.errors):
            self._end(commit, errors[-1])
        else:
            self._fail(commit, errors)

    def _on_lost(self, commit: _Commit, loss: Loss) -> None:
        if loss is Loss.TRANSPORT:
            self._link.mark_dead()
        if not self._retry(commit):
            if loss is Loss.TRANSPORT and self._defer(commit, once=commit.give_up_ms is not None):
                return
            self._finish(commit, ErrorCode.REQUEST_TIMED_OUT)

    def _fail(self, commit: _Commit, errors: list[ErrorCode]) -> None:
        codes = frozenset(errors)
        if ErrorCode.FENCED_INSTANCE_ID in codes:
            self._core.is_fatal = True
            self._application.queue_error(ErrorCode.FENCED_INSTANCE_ID, "OffsetCommit failed")
        elif codes & COORDINATOR_LOST:
            self._link.mark_dead()
        elif ErrorCode.REQUEST_TIMED_OUT in codes:
            self._link.search()
        if not (codes <= _RETRIED and self._retry(commit)):
            self._end(commit, errors[-1])

    def _retry(self, commit: _Commit) -> bool:
        """Send the very same request again after a backoff, unless it has been twice."""
        if commit.retries >= _MAX_RETRIES:
            return False
        backoff_ms = self._core.draw_backoff_ms(commit.retries, self._jitter)
        commit.retry_due_ms = self._core.now_ms + backoff_ms
        commit.retries += 1
        self._retrying.append(commit)
        return True

    def _end(self, commit: _Commit, error_code: ErrorCode) -> None:
        """An error that is not retried: what else follows from it."""
        self._core.note_refused_commit(error_code)
        if error_code is ErrorCode.STALE_MEMBER_EPOCH and not commit.is_manual:
            if self._defer(commit, once=False):
                return
        elif error_code in COORDINATOR_LOST and self._defer(
            commit, once=commit.give_up_ms is not None
        ):
            return
        self._finish(commit, error_code)

    def _finish(self, commit: _Commit, error_code: ErrorCode | None) -> None:
        self._open_count -= 1
        commit.on_done(error_code)
        if not self._open_count:
            # Not from inside of whatever asked for the commit: the operation queue comes between.
            self._core.later.append(self._report_all_over)

    def _report_all_over(self) -> None:
        if not self._open_count:
            self.on_all_over()
