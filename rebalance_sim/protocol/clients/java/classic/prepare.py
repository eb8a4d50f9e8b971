"""*Prepare*: what happens before a JoinGroup: commit, then give up what the mode asks for.

Source: classic §3.2. All of it happens inside ``poll``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application, CallbackTask
from rebalance_sim.protocol.clients.common.classic_topics import TopicCatalogue
from rebalance_sim.protocol.clients.common.values import CallbackKind, nobody_listens
from rebalance_sim.protocol.clients.java.classic.classic_commits import ClassicCommits, is_retriable
from rebalance_sim.protocol.clients.java.classic.classic_core import ClassicCore
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_NOTHING: frozenset[TopicPartition] = frozenset()
_TOPIC_IS_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def call_back(
    core: ClassicCore,
    application: Application,
    kind: CallbackKind,
    partitions: frozenset[TopicPartition],
    on_done: Callable[[bool], None],
    *,
    before: Callable[[], None] | None = None,
) -> None:
    """Let the application run a callback in this ``poll``; without a listener none runs.

    ``before`` is called when it begins, and ``on_done``, with whether it has failed, at its end.
    """
    if not core.subscription.has_listener:
        if before is not None:
            before()
        on_done(False)
        return

    may_start = None if before is None else partial(_begin_with, before)
    application.queue_callback(CallbackTask(kind, partitions, on_done, may_start=may_start))


def _begin_with(before: Callable[[], None]) -> bool:
    """What is called as a callback begins, which it does in any case."""
    before()
    return True


class _Step(Enum):
    """How far it has come."""

    IDLE = "idle"
    COMMITTING = "the commit is under way"
    WAITING = "the commit has failed, and waits for its next attempt"
    COMMITTED = "nothing is to be committed any more"
    CALLING_BACK = "the application gives up what it owns"


# Each event asks for it: to look an enum's member up takes as long as a call.
_IDLE = _Step.IDLE


class Prepare:
    """One *prepare* after the other. ``on_over`` is called at the end of each, with whether the
    application's callback has failed."""

    def __init__(
        self,
        core: ClassicCore,
        application: Application,
        commits: ClassicCommits,
        catalogue: TopicCatalogue,
    ) -> None:
        self._core = core
        self._application = application
        self._commits = commits
        self._catalogue = catalogue
        self._step = _IDLE
        self._deadline_ms = 0
        self._retry_due_ms = 0
        self.on_over: Callable[[bool], None] = nobody_listens

    def is_idle(self) -> bool:
        """Whether none is under way."""
        return self._step is _IDLE

    @property
    def poll_due_ms(self) -> int:
        """From when on a ``poll`` continues with it."""
        if self._step is _Step.COMMITTING:
            return self._deadline_ms
        return self._retry_due_ms if self._step is _Step.WAITING else self._core.now_ms

    def abandon(self) -> None:
        """The application unsubscribes or closes."""
        self._step = _IDLE

    def run(self) -> None:
        """Begin, or continue, as far as possible."""
        core = self._core
        if self._step is _IDLE:
            self._begin()
        elif self._step is _Step.WAITING and core.now_ms >= self._retry_due_ms:
            self._commit()
        if self._step is _Step.COMMITTING and core.now_ms >= self._deadline_ms:
            self._step = _Step.COMMITTED
        if self._step is _Step.COMMITTED:
            self._step = _Step.CALLING_BACK
            # A reset during the callback asks for another one, which comes with the next JoinGroup:
            # the one in hand leaves as it is.
            core.needs_prepare = False
            self._give_up()

    # --- the commit -------------------------------------------------------------------------------

    def _begin(self) -> None:
        core = self._core
        self._deadline_ms = core.now_ms + core.config.max_poll_interval_ms
        if not core.config.enable_auto_commit:
            self._step = _Step.COMMITTED
            return
        if not core.config.is_cooperative and core.rules.stops_fetching_before_commit:
            core.subscription.mark_pending_revocation(frozenset(core.subscription.assigned))
        self._commit()

    def _commit(self) -> None:
        self._step = _Step.COMMITTING
        if not self._core.rules.limits_preparation:
            self._deadline_ms = self._core.now_ms + self._core.config.max_poll_interval_ms
        self._commits.commit_consumed(self._after_commit)

    def _after_commit(self, error_code: ErrorCode | None) -> None:
        core = self._core
        if self._step is not _Step.COMMITTING:
            return  # the time was over, or the application has left
        is_lost = core.rules.gives_up_lost_topics and error_code in _TOPIC_IS_GONE
        if is_retriable(error_code) and not is_lost and core.now_ms < self._deadline_ms:
            self._step = _Step.WAITING
            self._retry_due_ms = core.now_ms + core.config.retry_backoff_ms
        else:
            self._step = _Step.COMMITTED

    # --- the callback -----------------------------------------------------------------------------

    def _give_up(self) -> None:
        """Revoke what the mode asks for, or lose all that a reset generation has left."""
        core = self._core
        owned = frozenset(core.subscription.assigned)
        if not core.has_generation:
            self._hand_back(CallbackKind.LOST, owned, kept=_NOTHING, if_any=True)
        elif not core.config.is_cooperative:
            self._hand_back(CallbackKind.REVOKED, owned, kept=_NOTHING, if_any=False)
        else:
            names = core.subscription.topic_names
            gone = frozenset(p for p in owned if self._catalogue.name_of(p) not in names)
            self._hand_back(CallbackKind.REVOKED, gone, kept=owned - gone, if_any=True)

    def _hand_back(
        self,
        kind: CallbackKind,
        partitions: frozenset[TopicPartition],
        *,
        kept: frozenset[TopicPartition],
        if_any: bool,
    ) -> None:
        done = partial(self._after_callback, partitions, kept)
        if if_any and not partitions:
            done(False)
        else:
            call_back(self._core, self._application, kind, partitions, done)

    def _after_callback(
        self, partitions: frozenset[TopicPartition], kept: frozenset[TopicPartition], failed: bool
    ) -> None:
        """The application has given these up, and continues with what is kept."""
        core = self._core
        if partitions:
            core.subscription.assign(kept, added_await_callback=False)
        core.is_leader = False
        self._step = _IDLE
        self.on_over(failed)
