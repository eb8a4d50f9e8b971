"""Offset commits of a classic member: on the interval, in *prepare*, on close, and the
application's own.

Source: classic §3.2, §4.2, §4.3, §8.4. A commit leaves the client only while it is STABLE; it is
signed with the generation of the moment in which it is sent. Without a subscription it leaves in
any state, with neither a generation nor an instance id
(``ConsumerCoordinator.sendOffsetCommitRequest``; the asynchronous client keeps the instance id).
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.commit_queue import Offsets, OnDone
from rebalance_sim.protocol.clients.java.classic.classic_core import NONE, ClassicCore, Generation
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.java.classic.reactions import Api, Reset, Then, reaction_to
from rebalance_sim.protocol.clients.java.java_commits import Commit, JavaCommits
from rebalance_sim.protocol.wire.errors import ErrorCode


def is_retriable(error_code: ErrorCode | None) -> bool:
    """Whether another attempt of a commit that has ended so may succeed."""
    return (
        error_code is not None and reaction_to(Api.OFFSET_COMMIT, error_code).then is Then.BACK_OFF
    )


class ClassicCommits(JavaCommits[Commit]):
    """All commits of a consumer that are waiting, backing off or in flight."""

    _core: ClassicCore

    # --- asking for commits -----------------------------------------------------------------------

    def on_poll(self) -> None:
        """The end of a ``poll`` that found the member in the group."""
        due_ms = self.interval_due_ms()
        if due_ms is not None and self._core.now_ms >= due_ms:
            self.restart_interval()
            self.commit_consumed(self._after_interval_commit)

    def _after_interval_commit(self, error_code: ErrorCode | None) -> None:
        if is_retriable(error_code):
            self._interval_due_ms = self._core.now_ms + self._core.config.retry_backoff_ms

    def commit_consumed(self, on_done: OnDone, *, deadline_ms: int | None = None) -> None:
        """All that is consumed, until it succeeds or the time is over; None: one attempt."""
        offsets = self._core.subscription.consumed()
        if offsets:
            self._commit_for_application(offsets, on_done, deadline_ms)
        else:
            on_done(None)

    def _commit_for_application(
        self, offsets: Offsets, on_done: OnDone, deadline_ms: int | None
    ) -> None:
        core, number = self._core, self._next_number()
        pacer = RequestPacer(core.config, core.jitter)
        commit = Commit(offsets, on_done, pacer, number=number, deadline_ms=deadline_ms)
        if core.coordinator_id is None:
            self.waiting.append(commit)
        else:
            self._send_newest(commit)

    # --- sending ----------------------------------------------------------------------------------

    def on_search_failed(self) -> None:
        """No coordinator was found: commits that are tried once only have failed."""
        waiting, self.waiting = self.waiting, []
        for commit in waiting:
            if commit.deadline_ms is None:
                commit.finish(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            else:
                self.waiting.append(commit)

    def _send(self, commit: Commit) -> None:
        core = self._core
        is_in_group = core.subscription.exists
        if is_in_group and core.classic_state is not ClassicState.STABLE:
            # CommitFailedException has no code of its own: the client is not in a group.
            is_rebalancing = core.classic_state.is_rebalancing
            commit.finish(
                ErrorCode.REBALANCE_IN_PROGRESS if is_rebalancing else ErrorCode.UNKNOWN_MEMBER_ID
            )
            return
        # Who subscribes to nothing commits as no one. With an instance id the group would answer
        # FENCED_INSTANCE_ID, which is fatal, where UNKNOWN_MEMBER_ID is only refused.
        generation = core.generation if is_in_group else NONE
        request = self._wire_topics.commit_request(
            commit.offsets,
            member_id=generation.member_id,
            member_epoch=generation.generation_id,
            instance_id=core.config.group_instance_id if is_in_group else None,
        )
        self._transmit(commit, request, generation)

    # --- answers ----------------------------------------------------------------------------------

    def _fail(self, commit: Commit, error_code: ErrorCode, signed: Generation) -> None:
        core = self._core
        reaction = reaction_to(Api.OFFSET_COMMIT, error_code)
        if reaction.forgets_coordinator:
            self._search.mark_unknown()
        if reaction.then is Then.BACK_OFF:
            self._retry(commit, error_code)
            return
        is_outdated = signed != core.generation
        is_preparing = core.classic_state is ClassicState.PREPARING_REBALANCE
        if is_outdated and is_preparing and reaction.then is not Then.REJOIN:
            # It is about a generation that is over; the rebalance under way takes care.
            if reaction.reset is not Reset.NOTHING or reaction.then is Then.RAISE:
                error_code = ErrorCode.REBALANCE_IN_PROGRESS
        elif reaction.then is Then.REJOIN:
            core.request_rejoin("offset commit failed since group is already rebalancing")
        elif reaction.then is Then.RAISE and not is_outdated:
            core.is_fatal = True
            self._application.queue_error(error_code, "the commit was refused")
        elif core.rules.learns_from_refused_commits:
            core.reset(
                reaction.reset, reason=f"encountered {error_code.name} from OFFSET_COMMIT response"
            )
        commit.finish(error_code)

    def _retry(self, commit: Commit, error_code: ErrorCode) -> None:
        if commit.deadline_ms is None:
            commit.finish(error_code)
            return
        commit.pacer.on_failure(self._core.now_ms)
        self.waiting.append(commit)
