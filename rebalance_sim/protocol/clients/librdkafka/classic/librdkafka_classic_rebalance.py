"""Rebalances of a classic member: what it gives up before it joins, and what it takes over after.

Source: the traces ``classic_eager``, ``classic_cooperative`` and ``classic_session_timeout``. With
eager assignors everything is given up before a JoinGroup; with cooperative ones a JoinGroup goes
out at once, the assignment that it leads to says what is to be given up, and if that is anything,
the member joins once more when it has taken over what came with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.events import Subscribe
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.librdkafka.assignment import Assignment
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_core import (
    LibrdkafkaClassicCore,
)
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rebalance import Rebalance
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_J = JoinState


class ClassicRebalance(Rebalance):
    """Drives the join state; see ``Rebalance``."""

    _core: LibrdkafkaClassicCore

    def __init__(
        self,
        core: LibrdkafkaClassicCore,
        application: Application,
        assignment: Assignment,
        link: CoordinatorLink,
    ) -> None:
        super().__init__(core, application, assignment, link)
        self._matched: frozenset[str] | None = None  # topics of a pattern, if there is one
        self._renamed: dict[TopicPartition, TopicPartition] = {}  # while callbacks are open

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

    def lose_and_join_again(self) -> None:
        """Likewise, and the group does not know this member, or not any more: what it has kept
        through the rebalance, as cooperative assignors let it, is lost before it joins."""
        self.give_up_and_rejoin(is_lost=True)

    def lose(self, partitions: frozenset[TopicPartition], *, rejoins: bool) -> None:
        """A part of what is owned is no more; whether the member joins again after that."""
        self._core.is_lost = True
        self._to_assign = None
        self._call_back(CallbackKind.REVOKED, partitions, rejoins=rejoins)

    def take_over(self, target: frozenset[TopicPartition]) -> None:
        """A SyncGroup was answered with this."""
        self._core.received = target
        self._core.note_assignments()
        self._hand_over(target, rejoins=True)

    # --- topics that stand for other ids than before ----------------------------------------------

    def rename(self, renamed: Mapping[TopicPartition, TopicPartition]) -> None:
        """Metadata say other ids of what is owned; callbacks that are open began with the old."""
        core = self._core
        self._renamed = {
            **{old: renamed.get(new, new) for old, new in self._renamed.items()},
            **renamed,
        }
        self._group_assignment = _renamed(self._group_assignment, renamed)
        core.received = _renamed(core.received, renamed)
        if self._to_assign is not None:
            self._to_assign = _renamed(self._to_assign, renamed)
        if not self._open_calls:
            self._renamed.clear()
        core.note_assignments()

    def _end_call(self, partitions: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """What a callback that has returned was about, as it is called by now."""
        present = _renamed(partitions, self._renamed)
        if self._open_calls == 1:
            self._renamed.clear()
        return present

    def _after_assign(self, partitions: frozenset[TopicPartition], failed: bool) -> None:
        super()._after_assign(self._end_call(partitions), failed)

    def _after_unassign(self, partitions: frozenset[TopicPartition], failed: bool) -> None:
        """With eager assignors everything is unassigned, and the next JoinGroup follows."""
        partitions = self._end_call(partitions)
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

    # --- subscriptions ----------------------------------------------------------------------------

    def on_pattern_matched(self, topic_names: frozenset[str]) -> None:
        """Topics that match the pattern last subscribed to; nothing if that were names."""
        if self._matched is None:
            return
        self._matched = topic_names
        if self._core.subscription.exists and self._next_subscription is None:
            self._core.subscription.topic_names = topic_names

    def subscribe(self, event: Subscribe) -> None:
        """See ``Rebalance``."""
        self._matched = frozenset() if event.matches_locally else None
        super().subscribe(event)

    def apply_next_subscription(self) -> bool:
        """See ``Rebalance``; a pattern matches what is known by then."""
        is_news = super().apply_next_subscription()
        if is_news and self._matched is not None:
            self._core.subscription.topic_names = self._matched
        return is_news

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
        """See ``Rebalance``."""
        self._matched = None
        super().unsubscribe()

    def _begins_to_leave(self) -> bool:
        """A static member that closes does not leave, and gives up all the same."""
        core = self._core
        core.poll_expired = False
        stays = core.is_terminating and core.config.group_instance_id is not None
        if core.member_id and not stays:
            core.leave_when_unassigned()
        return True


def _renamed(
    partitions: frozenset[TopicPartition], renamed: Mapping[TopicPartition, TopicPartition]
) -> frozenset[TopicPartition]:
    if renamed.keys().isdisjoint(partitions):
        return partitions
    return frozenset(renamed.get(partition, partition) for partition in partitions)
