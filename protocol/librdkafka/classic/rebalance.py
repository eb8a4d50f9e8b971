"""Rebalances of a classic member: what it gives up before it joins, and what it takes over after.

Source: the traces ``classic_eager``, ``classic_cooperative`` and ``classic_session_timeout``. With
eager assignors everything is given up before a JoinGroup; with cooperative ones a JoinGroup goes
out at once, the assignment that it leads to says what is to be given up, and if that is anything,
the member joins once more when it has taken over what came with it.
"""

from __future__ import annotations

from protocol.errors import ErrorCode
from protocol.librdkafka.classic.core import LibrdkafkaClassicCore
from protocol.librdkafka.rebalance import Rebalance
from protocol.librdkafka.states import JoinState
from protocol.member.values import CallbackKind
from protocol.topics import TopicPartition

__all__ = ["ClassicRebalance"]

_J = JoinState


class ClassicRebalance(Rebalance):
    """Drives the join state; see ``Rebalance``."""

    __slots__ = ()

    _core: LibrdkafkaClassicCore

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What callbacks have been asked for, run or not."""
        return self._group_assignment

    # --- the next generation ----------------------------------------------------------------------

    def join_next_generation(self) -> None:
        """The group rebalances: join, after giving up what the assignors want given up. A rebalance
        that runs already ends in a JoinGroup, or in a state that asks again."""
        if self._core.join_state is not _J.STEADY:
            return
        if self._core.config.is_cooperative:
            self._rejoin()
        else:
            self.give_up_and_rejoin(is_lost=False)

    def join_again(self) -> None:
        """A JoinGroup or a SyncGroup was in vain."""
        self._rejoin()

    def take_over(self, target: frozenset[TopicPartition]) -> None:
        """A SyncGroup was answered with this."""
        self._core.received = target
        self._core.note_assignments()
        added = target - self._group_assignment
        revoked = self._group_assignment - target
        if revoked:
            self._to_assign = added
            self._call_back(CallbackKind.REVOKED, revoked, rejoins=True)
        else:
            self._call_back(CallbackKind.ASSIGNED, added, rejoins=False)

    def _after_unassign(self, partitions: frozenset[TopicPartition], failed: bool) -> None:
        """With eager assignors everything is unassigned, and the next JoinGroup follows."""
        if self._core.config.is_cooperative:
            super()._after_unassign(partitions, failed)
            return
        self._open_calls -= 1
        self._to_assign = None
        self._unassign_all()
        self._assignment.serve()
        self._core.is_lost = False

    def _rejoin(self) -> None:
        self._core.join_due_ms = self._core.now_ms
        super()._rejoin()

    def on_assignment_done(self) -> None:
        """See ``Rebalance``; one that is about to join has nothing to finish before it leaves."""
        if self._core.join_state in (_J.WAIT_METADATA, _J.WAIT_JOIN, _J.WAIT_SYNC):
            self._leave_if_wanted()
        else:
            super().on_assignment_done()

    # --- failures, and the end --------------------------------------------------------------------

    def fail(self, error_code: ErrorCode, message: str) -> None:
        """Another process has this instance id, or the like: nothing is sent any more."""
        self._core.is_fatal = True
        self._application.queue_error(error_code, message)
        self.give_up_and_rejoin(is_lost=True)

    def on_polls_missed(self) -> None:
        """The application has been away from ``poll`` for too long: leave at once, but give up what
        is assigned, and join again, when it is back (inferred; a static member does not leave)."""
        core = self._core
        if core.config.group_instance_id is None and core.member_id and not core.will_leave:
            core.is_leaving = True
            self.send_leave()
        core.forget_identity()
        self.give_up_and_rejoin(is_lost=True)

    def unsubscribe(self) -> None:
        """Leave, once everything is given up. A static member that closes does not leave."""
        core = self._core
        self.watch_polls(False)
        core.subscription.cancel()
        self._next_subscription = None
        if core.will_leave:
            return
        core.poll_expired = False
        stays = core.is_terminating and core.config.group_instance_id is not None
        if core.member_id and not stays:
            core.leave_when_unassigned()
        self.give_up_and_rejoin(is_lost=False)
