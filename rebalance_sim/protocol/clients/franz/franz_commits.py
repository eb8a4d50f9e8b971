"""Offset commits: what the application was handed before its last poll, one commit after the other.

Source: franz §6. A commit is signed when it is made; only a stale epoch has it signed again. By the
time that it is sent the member may have given up what it names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.commit_queue import CommitQueue, Offsets, OnDone
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import SendCommit
from rebalance_sim.protocol.clients.common.values import nobody_listens
from rebalance_sim.protocol.clients.franz.coordinator_requests import Coordinator, RetriedRequest
from rebalance_sim.protocol.clients.franz.franz_core import FranzCore
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import (
    NO_MEMBER_EPOCH,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

COMMIT_LIMIT_MS = 30_000
"""Up to when a commit is repeated."""

_STALE_WAIT_MS = 500
_STALE_RETRIES = 10


@dataclass(slots=True, eq=False)
class _Commit:
    """A commit from its making to its end; ``deadline_ms``: past it no one waits."""

    request: OffsetCommitRequest
    on_done: OnDone
    _: KW_ONLY
    deadline_ms: int | None = None
    is_of_interval: bool = False
    is_let_in: bool = True  # a join waits for it; else it waits for the join, and is signed then
    stale_retries: int = 0
    sign_again_ms: int | None = None  # after a stale epoch, when to look for a newer one


class FranzCommits(CommitQueue):
    """All commits of a consumer, and which offsets are to be committed.

    ``may_send`` says whether commits may go out now, ``joins_wait`` whether a join waits for those
    that may: what they name is no one else's then. ``on_membership_lost`` is called when one was
    refused because the group does not know the member, or its generation.
    """

    _core: FranzCore

    def __init__(self, core: FranzCore, application: Application, coordinator: Coordinator) -> None:
        super().__init__(core, application)
        self._request = RetriedRequest(core, coordinator, limit_ms=COMMIT_LIMIT_MS)
        self._queue: deque[_Commit] = deque()
        self._dirty: dict[TopicPartition, int] = {}  # handed out
        self._head: dict[TopicPartition, int] = {}  # handed out before the last poll
        self._committed: dict[TopicPartition, int] = {}  # or where consuming started
        self.may_send: Callable[[], bool] = _always
        self.joins_wait = False
        self.on_membership_lost: Callable[[], None] = nobody_listens

    # --- positions --------------------------------------------------------------------------------

    def store(self, positions: Mapping[TopicPartition, int]) -> None:
        """The application has been handed records up to these positions."""
        for partition, position in positions.items():
            state = self._core.subscription.assigned.get(partition)
            if state is not None and state.has_valid_position:
                self._dirty[partition] = position
                if self._core.config.greedy_auto_commit:
                    self._head[partition] = position

    def promote(self) -> None:
        """A poll begins: the application is done with what it was handed."""
        self._head.update(self._dirty)

    def start(self, positions: Mapping[TopicPartition, int]) -> None:
        """Where consuming starts there is nothing to commit yet."""
        for partition, position in positions.items():
            if partition in self._core.subscription.assigned:
                self._committed.setdefault(partition, position)

    def forget(self, partitions: frozenset[TopicPartition]) -> None:
        """These are another's from now on."""
        for offsets in (self._dirty, self._head, self._committed):
            for partition in partitions & offsets.keys():
                del offsets[partition]
        if self._core.rules.leaves_given_up_out_of_commits:
            for commit in self._queue:
                if not (commit.is_let_in and self.joins_wait):
                    self._restrict(commit, commit.request.offsets.keys() - partitions)

    def _moved(self, offsets: Offsets) -> dict[TopicPartition, int]:
        return {p: offsets[p] for p in sorted(offsets) if offsets[p] != self._committed.get(p)}

    # --- asking for commits -----------------------------------------------------------------------

    @property
    def next_interval_ms(self) -> int | None:
        """When the next interval commit can be made."""
        return None if self._core.is_leaving or not self.may_send() else self.interval_due_ms()

    def commit_on_interval(self) -> None:
        """The interval commit, if it is due; one that meets another cause's is left out."""
        core = self._core
        due_ms = self.next_interval_ms
        if due_ms is None or core.now_ms < due_ms:
            return
        interval_ms = core.config.auto_commit_interval_ms
        self._interval_due_ms += ((core.now_ms - due_ms) // interval_ms + 1) * interval_ms
        moved = self._moved(self._head)
        if moved and not self._is_blocked:
            self._add(moved, nobody_listens, is_of_interval=True)

    def commit_revoked(self, then: Callable[[], None]) -> None:
        """What kgo does where the application has no callback of its own for a revocation: commit,
        and go on when that is over."""
        moved = self._moved(self._head) if self._core.config.enable_auto_commit else {}
        if moved:
            self._add(moved, partial(_go_on, then))
        else:
            then()

    def _is_retried(self, *, is_sync: bool) -> bool:
        return True

    def _all_consumed(self) -> Offsets:
        return self._moved(self._dirty)

    def _commit_for_application(
        self, offsets: Offsets, on_done: OnDone, deadline_ms: int | None
    ) -> None:
        self._add(offsets, on_done, deadline_ms=deadline_ms)

    def _add(
        self,
        offsets: Offsets,
        on_done: OnDone,
        *,
        deadline_ms: int | None = None,
        is_of_interval: bool = False,
    ) -> None:
        core = self._core
        request = OffsetCommitRequest(
            group_id=core.config.group_id,
            member_id=core.member_id,
            generation_id_or_member_epoch=self._epoch(),
            group_instance_id=core.config.group_instance_id,
            offsets=offsets,
            api_version=core.offsets_version,
        )
        self._queue.append(
            _Commit(
                request,
                on_done,
                deadline_ms=deadline_ms,
                is_of_interval=is_of_interval,
                is_let_in=self.may_send(),
            )
        )
        core.change_count += 1

    def _epoch(self) -> int:
        identity = self._core.commit_identity
        return NO_MEMBER_EPOCH if identity is None else identity.member_epoch

    @property
    def _is_blocked(self) -> bool:
        """Whether a commit of another cause is under way: no interval commit is made then."""
        return any(not commit.is_of_interval for commit in self._queue)

    # --- the goroutines that commit ---------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a commit has not ended yet."""
        return bool(self._queue)

    @property
    def has_let_in(self) -> bool:
        """Whether a join has to wait for a commit."""
        return any(commit.is_let_in for commit in self._queue)

    def run(self) -> None:
        """Send the first that waits, and give up what has run out of time."""
        if not self._queue:
            return
        now_ms = self._core.now_ms
        for commit in [c for c in self._queue if c.deadline_ms is not None]:
            if now_ms >= (commit.deadline_ms or 0):
                if commit is self._queue[0]:
                    self._request.drop()
                self._finish(commit, ErrorCode.REQUEST_TIMED_OUT)
        if not self._queue:
            return
        first = self._queue[0]
        if not first.request.offsets and not self._request.is_in_flight:
            self._request.drop()
            self._finish(first, ErrorCode.REBALANCE_IN_PROGRESS)
            return
        if first.sign_again_ms is not None:
            if now_ms >= first.sign_again_ms:
                first.sign_again_ms = None
                self._sign_again(first)
        elif not self._request.is_open and (first.is_let_in or self.may_send()):
            if not first.is_let_in:
                first.is_let_in = True
                first.request = self._signed(first.request)
            self._send(first)
        self._request.run()

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        if not self._queue:
            return None
        return earliest(
            self._request.deadline_ms,
            self._queue[0].sign_again_ms,
            *(commit.deadline_ms for commit in self._queue),
        )

    def _send(self, commit: _Commit) -> None:
        self._request.send(SendCommit, commit.request, self._on_over)

    def _on_over(self, response: OffsetCommitResponse | None) -> None:
        commit = self._queue[0]
        if response is None:
            self._finish(commit, ErrorCode.REQUEST_TIMED_OUT)
            return
        codes = {response.errors[p] for p in sorted(response.errors) if response.errors[p]}
        if ErrorCode.STALE_MEMBER_EPOCH in codes and commit.stale_retries < _STALE_RETRIES:
            commit.stale_retries += 1
            commit.sign_again_ms = self._core.now_ms + _STALE_WAIT_MS
            return
        self._conclude(commit, response)

    def _conclude(self, commit: _Commit, response: OffsetCommitResponse) -> None:
        errors = response.errors
        assigned = self._core.subscription.assigned
        for partition, code in errors.items():
            if not code and partition in commit.request.offsets and partition in assigned:
                self._committed[partition] = commit.request.offsets[partition]
        failed = [errors[p] for p in sorted(errors) if errors[p]]
        lost = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION)
        self._finish(commit, failed[0] if failed else None)
        if any(code in lost for code in failed):
            self.on_membership_lost()

    def _sign_again(self, commit: _Commit) -> None:
        """After a stale epoch: only with a newer one, and only what the member still has."""
        if self._epoch() == commit.request.generation_id_or_member_epoch:
            self._finish(commit, ErrorCode.STALE_MEMBER_EPOCH)
            return
        commit.request = self._signed(commit.request)
        self._restrict(commit, self._core.now_assigned or ())
        if commit.request.offsets:
            self._send(commit)

    def _restrict(self, commit: _Commit, kept: Collection[TopicPartition]) -> None:
        """From now on it names nothing but these."""
        offsets = {p: offset for p, offset in commit.request.offsets.items() if p in kept}
        if len(offsets) < len(commit.request.offsets):
            commit.request = replace(commit.request, offsets=offsets)
            if self._request.is_open and commit is self._queue[0]:
                self._request.request = commit.request
            self._core.change_count += 1

    def _signed(self, request: OffsetCommitRequest) -> OffsetCommitRequest:
        return replace(
            request,
            member_id=self._core.member_id,
            generation_id_or_member_epoch=self._epoch(),
        )

    def _finish(self, commit: _Commit, error_code: ErrorCode | None) -> None:
        self._queue.remove(commit)
        self._core.change_count += 1
        commit.on_done(error_code)


def _go_on(then: Callable[[], None], error_code: ErrorCode | None) -> None:
    """A commit is over, well or badly."""
    then()


def _always() -> bool:
    return True
