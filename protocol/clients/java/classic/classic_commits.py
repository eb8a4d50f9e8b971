"""Offset commits of a classic member: on the interval, in *prepare*, on close, and the
application's own.

Source: classic §3.2, §4.2, §4.3, §8.4. A commit leaves the client only while it is STABLE; it is
signed with the generation of the moment in which it is sent. Without a subscription it leaves in
any state, with neither a generation nor an instance id
(``ConsumerCoordinator.sendOffsetCommitRequest``; the asynchronous client keeps the instance id).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER, backoff_ms
from rebalance_sim.protocol.clients.common.effects import CommitReturned, SendCommit
from rebalance_sim.protocol.clients.common.events import CommitOffsets
from rebalance_sim.protocol.clients.java.classic.classic_core import NONE, ClassicCore, Generation
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.java.classic.classic_search import ClassicCoordinatorSearch
from rebalance_sim.protocol.clients.java.classic.reactions import Api, Reset, Then, reaction_to
from rebalance_sim.protocol.clients.java.wire_topics import WireTopics
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

__all__ = ["ClassicCommits", "CommitResult"]


class CommitResult(Enum):
    """How a commit has ended, as far as whoever asked for it cares."""

    DONE = "committed"
    RETRIABLE = "failed, another attempt may succeed"
    FAILED = "failed for good"


OnDone = Callable[[CommitResult, ErrorCode | None], None]


class _Commit:
    """A commit from its creation to its end. ``deadline_ms`` None: never tried twice."""

    __slots__ = ("attempts", "deadline_ms", "offsets", "on_done", "retry_due_ms", "sent_in")

    def __init__(
        self, offsets: Mapping[TopicPartition, int], on_done: OnDone, *, deadline_ms: int | None
    ) -> None:
        self.offsets = offsets
        self.on_done = on_done
        self.deadline_ms = deadline_ms
        self.attempts = 0
        self.retry_due_ms: int | None = None  # None: as soon as there is a coordinator
        self.sent_in: Generation | None = None


class ClassicCommits:
    """All commits of a consumer that are waiting, backing off or in flight."""

    __slots__ = (
        "_application",
        "_core",
        "_in_flight",
        "_interval_due_ms",
        "_search",
        "_waiting",
        "_wire_topics",
        "open_async_count",
    )

    def __init__(
        self,
        core: ClassicCore,
        application: Application,
        search: ClassicCoordinatorSearch,
        wire_topics: WireTopics,
    ) -> None:
        self._core = core
        self._application = application
        self._search = search
        self._wire_topics = wire_topics
        self._waiting: list[_Commit] = []
        self._in_flight: dict[int, _Commit] = {}
        self._interval_due_ms = core.now_ms + core.config.auto_commit_interval_ms
        self.open_async_count = 0
        """Commits that ``close`` waits for: of ``commitAsync``."""

    @property
    def is_wanted(self) -> bool:
        """Whether a commit waits for a coordinator, or for its next attempt."""
        return bool(self._waiting)

    # --- asking for commits -----------------------------------------------------------------------

    @property
    def interval_poll_due_ms(self) -> int | None:
        """From when on a ``poll`` makes an interval commit; None: nothing is to be committed."""
        core = self._core
        if not core.config.enable_auto_commit or not core.subscription.assigned:
            return None
        return self._interval_due_ms

    def on_poll(self) -> None:
        """The end of a ``poll`` that found the member in the group."""
        due_ms = self.interval_poll_due_ms
        if due_ms is not None and self._core.now_ms >= due_ms:
            self.restart_interval()
            self._add(self._core.subscription.consumed(), self._after_interval_commit)

    def restart_interval(self) -> None:
        """The interval runs in full from now on."""
        self._interval_due_ms = self._core.now_ms + self._core.config.auto_commit_interval_ms

    def _after_interval_commit(self, result: CommitResult, error_code: ErrorCode | None) -> None:
        if result is CommitResult.RETRIABLE:
            self._interval_due_ms = self._core.now_ms + self._core.config.retry_backoff_ms

    def commit_in_prepare(self, on_done: OnDone) -> None:
        """All that is consumed, before a JoinGroup; one attempt."""
        self._add(self._core.subscription.consumed(), on_done)

    def commit_on_close(self, *, deadline_ms: int, on_done: OnDone) -> None:
        """All that is consumed, until it succeeds or the time is over."""
        self._add(self._core.subscription.consumed(), on_done, deadline_ms=deadline_ms)

    def commit(self, event: CommitOffsets) -> None:
        """``commitSync`` or ``commitAsync`` of the application."""
        core = self._core
        offsets = core.subscription.consumed() if event.offsets is None else dict(event.offsets)
        if event.is_sync:
            timeout_ms = event.timeout_ms
            if timeout_ms is None:
                timeout_ms = core.config.default_api_timeout_ms

            def done(result: CommitResult, error_code: ErrorCode | None) -> None:
                core.effects.append(
                    CommitReturned(commit_id=event.commit_id, error_code=error_code)
                )

            self._add(offsets, done, deadline_ms=core.now_ms + timeout_ms)
            return

        self.open_async_count += 1

        def done_later(result: CommitResult, error_code: ErrorCode | None) -> None:
            self.open_async_count -= 1
            self._application.queue_async_result(
                CommitReturned(commit_id=event.commit_id, error_code=error_code)
            )

        self._add(offsets, done_later)

    def _add(
        self,
        offsets: Mapping[TopicPartition, int],
        on_done: OnDone,
        *,
        deadline_ms: int | None = None,
    ) -> None:
        if not offsets:
            on_done(CommitResult.DONE, None)
            return
        commit = _Commit(offsets, on_done, deadline_ms=deadline_ms)
        if self._core.coordinator_id is None:
            self._waiting.append(commit)
        else:
            self._send(commit)

    # --- the manager ------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When a waiting commit may be tried again, or runs out of time."""
        has_coordinator = self._core.coordinator_id is not None
        return min(
            (
                at_ms
                for commit in self._waiting
                for at_ms in (commit.retry_due_ms if has_coordinator else None, commit.deadline_ms)
                if at_ms is not None
            ),
            default=None,
        )

    def run(self) -> None:
        """Send what may be sent, give up what has run out of time."""
        core = self._core
        waiting, self._waiting = self._waiting, []
        for commit in waiting:
            if commit.deadline_ms is not None and core.now_ms >= commit.deadline_ms:
                commit.on_done(CommitResult.FAILED, ErrorCode.REQUEST_TIMED_OUT)
            elif core.coordinator_id is not None and (
                commit.retry_due_ms is None or core.now_ms >= commit.retry_due_ms
            ):
                self._send(commit)
            else:
                self._waiting.append(commit)

    def on_search_failed(self) -> None:
        """No coordinator was found: commits that are tried once only have failed."""
        waiting, self._waiting = self._waiting, []
        for commit in waiting:
            if commit.deadline_ms is None:
                commit.on_done(CommitResult.RETRIABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self._waiting.append(commit)

    def _send(self, commit: _Commit) -> None:
        core = self._core
        is_in_group = core.subscription.exists
        if is_in_group and core.classic_state is not ClassicState.STABLE:
            # CommitFailedException has no code of its own: the client is not in a group.
            is_rebalancing = core.classic_state.is_rebalancing
            code = (
                ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.UNKNOWN_MEMBER_ID
            )
            commit.on_done(CommitResult.FAILED, code)
            return
        # Who subscribes to nothing commits as nobody. With an instance id the group would answer
        # FENCED_INSTANCE_ID, which is fatal, where UNKNOWN_MEMBER_ID is only refused.
        generation = core.generation if is_in_group else NONE
        commit.sent_in = generation
        correlation_id = core.new_correlation_id()
        self._in_flight[correlation_id] = commit
        request = self._wire_topics.commit_request(
            commit.offsets,
            member_id=generation.member_id,
            member_epoch=generation.generation_id,
            instance_id=core.config.group_instance_id if is_in_group else None,
        )
        core.effects.append(SendCommit(correlation_id=correlation_id, request=request))

    # --- answers ----------------------------------------------------------------------------------

    def on_answered(self, correlation_id: int, response: OffsetCommitResponse) -> None:
        """The coordinator has answered; the first failing partition decides."""
        commit = self._in_flight.pop(correlation_id, None)
        if commit is None:
            raise ProtocolBug(f"an answer to commit {correlation_id}, which is not in flight")
        failed = [partition for partition, code in response.errors.items() if code]
        if failed:
            self._fail(commit, response.errors[min(failed)])
        else:
            commit.on_done(CommitResult.DONE, None)

    def lose_all(self) -> None:
        """The client itself has closed the connection."""
        for correlation_id in list(self._in_flight):
            self.on_lost(correlation_id)

    def on_lost(self, correlation_id: int) -> bool:
        """A request was lost, or never sent. Whether it was a commit."""
        commit = self._in_flight.pop(correlation_id, None)
        if commit is None:
            return False
        self._retry(commit, ErrorCode.REQUEST_TIMED_OUT)
        return True

    def _fail(self, commit: _Commit, error_code: ErrorCode) -> None:
        core = self._core
        reaction = reaction_to(Api.OFFSET_COMMIT, error_code)
        if reaction.forgets_coordinator:
            self._search.mark_unknown()
        if error_code is ErrorCode.UNKNOWN_TOPIC_ID:
            self._wire_topics.refresh()
        if reaction.then is Then.BACK_OFF:
            self._retry(commit, error_code)
            return
        is_outdated = commit.sent_in != core.generation
        is_preparing = core.classic_state is ClassicState.PREPARING_REBALANCE
        if (
            is_outdated
            and is_preparing
            and reaction.then is not Then.REJOIN
            and core.rules.overlooks_outdated_commit_errors()
        ):
            # It is about a generation that is over; the rebalance under way takes care.
            if reaction.reset is not Reset.NOTHING or reaction.then is Then.RAISE:
                error_code = ErrorCode.REBALANCE_IN_PROGRESS
        elif reaction.then is Then.REJOIN:
            core.request_rejoin("offset commit failed since group is already rebalancing")
        elif reaction.then is Then.RAISE and not is_outdated:
            core.is_fatal = True
            self._application.queue_error(error_code, "the commit was refused")
        else:
            core.reset(
                reaction.reset, reason=f"encountered {error_code.name} from OFFSET_COMMIT response"
            )
        commit.on_done(CommitResult.FAILED, error_code)

    def _retry(self, commit: _Commit, error_code: ErrorCode) -> None:
        """Queue the commit again, unless its kind or its time forbids it."""
        core = self._core
        if commit.deadline_ms is None:
            commit.on_done(CommitResult.RETRIABLE, error_code)
            return
        config = core.config
        commit.retry_due_ms = core.now_ms + backoff_ms(
            commit.attempts,
            initial_ms=config.retry_backoff_ms,
            max_ms=config.retry_backoff_max_ms,
            jitter=core.jitter() * BACKOFF_JITTER,
        )
        commit.attempts += 1
        self._waiting.append(commit)
