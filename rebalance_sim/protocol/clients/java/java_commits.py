"""Offset commits of the Java client that wait for a coordinator, back off, or are in flight.

Source: client §7, classic §4.3. A commit is signed when it is sent, not when it is asked for, so
that a retry carries the newest epoch or generation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.commit_queue import CommitQueue, Offsets, OnDone
from rebalance_sim.protocol.clients.common.commit_rules import CommitRules
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import SendCommit
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.java.coordinator_search import CoordinatorSearch
from rebalance_sim.protocol.clients.java.wire_topics import WireTopics
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetCommitResponse
from rebalance_sim.protocol.wire.topics import TopicPartition


@dataclass(slots=True, eq=False)
class Commit:
    """A commit from its creation to its end. ``deadline_ms`` None: never tried twice."""

    offsets: Offsets
    on_done: OnDone
    pacer: RequestPacer
    _: KW_ONLY
    number: int
    deadline_ms: int | None
    is_over: bool = False  # no one waits for it any more

    def finish(self, error_code: ErrorCode | None) -> None:
        """Complete the commit, once; None means success."""
        if not self.is_over:
            self.is_over = True
            self.on_done(error_code)


_C = TypeVar("_C", bound=Commit)


class JavaCommits(CommitQueue, Generic[_C]):
    """All commits of a consumer. ``waiting``: those that ``run`` would look at; it need not be
    called while there are none."""

    def __init__(
        self,
        core: MemberCore,
        application: Application,
        search: CoordinatorSearch,
        wire_topics: WireTopics,
        *,
        rules: CommitRules,
    ) -> None:
        super().__init__(core, application)
        self._rules = rules
        self._search = search
        self._wire_topics = wire_topics
        self.waiting: list[_C] = []
        self._stored: dict[TopicPartition, int] = {}
        """Number of the youngest commit that has succeeded."""
        self._sent: dict[TopicPartition, int] = {}
        """Number of the youngest commit that has been sent; and the offsets of these."""
        self._sent_offsets: dict[TopicPartition, int] = {}

    def _is_retried(self, *, is_sync: bool) -> bool:
        return self._rules.retries_commit(is_sync=is_sync)

    @property
    def deadline_ms(self) -> int | None:
        """When a waiting commit may be retried, or runs out of time."""
        has_coordinator = self._core.coordinator_id is not None
        return earliest(
            *(c.pacer.backoff_until_ms for c in self.waiting if has_coordinator),
            *(c.deadline_ms for c in self.waiting if self._can_time_out(c)),
        )

    def run(self) -> None:
        """Send what may be sent, give up what has run out of time."""
        core = self._core
        waiting, self.waiting = self.waiting, []
        kept: list[_C] = []
        for commit in waiting:
            is_late = commit.deadline_ms is not None and core.now_ms >= commit.deadline_ms
            if is_late and self._can_time_out(commit):
                commit.finish(ErrorCode.REQUEST_TIMED_OUT)
                if self._stays_after_timeout(commit):
                    kept.append(commit)
            elif core.coordinator_id is None or not self._may_send(commit):
                kept.append(commit)
            else:
                self._send_newest(commit)
        # What a finished commit led to comes first: retries queue behind fresh commits.
        self.waiting.extend(kept)

    def _can_time_out(self, commit: _C) -> bool:
        return True

    def _stays_after_timeout(self, commit: _C) -> bool:
        return False

    def _may_send(self, commit: _C) -> bool:
        return commit.pacer.may_send(self._core.now_ms)

    def _send_newest(self, commit: _C) -> None:
        """Send a commit but for what a younger one has stored of the same partitions. Where no one
        knows whether a younger one was, its offset is sent again: it may not be repeated itself.
        """
        if not self._rules.repeats_overtaken_commits:
            number = commit.number
            stored, sent, newer = self._stored, self._sent, self._sent_offsets
            is_youngest = number == self._made_count
            if not is_youngest and any(sent.get(p, 0) > number for p in commit.offsets):
                commit.offsets = {
                    p: newer[p] if sent.get(p, 0) > number else offset
                    for p, offset in commit.offsets.items()
                    if stored.get(p, 0) <= number
                }
            if not commit.offsets:
                commit.finish(None)
                return
        self._send(commit)

    def _note_sent(self, commit: _C) -> None:
        for partition, offset in commit.offsets.items():
            if self._sent.get(partition, 0) <= commit.number:
                self._sent[partition] = commit.number
                self._sent_offsets[partition] = offset

    def _note_stored(self, commit: _C, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._stored[partition] = max(self._stored.get(partition, 0), commit.number)

    def _send(self, commit: _C) -> None:
        """Sign the commit and send it, unless it has become pointless."""
        raise NotImplementedError

    def _transmit(self, commit: _C, request: OffsetCommitRequest, signed: Any = None) -> None:
        """Send a signed commit; ``_fail`` gets ``signed`` back."""
        commit.pacer.on_sent()
        if not self._rules.repeats_overtaken_commits:
            self._note_sent(commit)
        self._core.requests.send(
            SendCommit,
            request=request,
            on_answered=partial(self._on_answered, commit, signed),
            on_lost=partial(self._on_lost, commit),
        )

    def _on_answered(self, commit: _C, signed: Any, response: OffsetCommitResponse) -> None:
        """The coordinator has answered; the first failing partition decides."""
        failed = [partition for partition, code in response.errors.items() if code]
        if not self._rules.repeats_overtaken_commits:
            self._note_stored(commit, (p for p, code in response.errors.items() if not code))
        if not failed:
            self._succeed(commit)
            return
        error_code = response.errors[min(failed)]
        if error_code is ErrorCode.UNKNOWN_TOPIC_ID:
            # A client finds that out at its next fetch, too, and then looks for the topic again.
            self._wire_topics.refresh()
        self._fail(commit, error_code, signed)

    def _on_lost(self, commit: _C, loss: Loss) -> None:
        if loss is Loss.TRANSPORT:
            self._search.mark_unknown()
        self._retry(commit, ErrorCode.REQUEST_TIMED_OUT)

    def _succeed(self, commit: _C) -> None:
        commit.finish(None)

    def _fail(self, commit: _C, error_code: ErrorCode, signed: Any) -> None:
        raise NotImplementedError

    def _retry(self, commit: _C, error_code: ErrorCode) -> None:
        """Queue the commit again, unless its kind or its time forbids it."""
        raise NotImplementedError
