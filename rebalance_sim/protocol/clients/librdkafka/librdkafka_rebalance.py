"""Rebalances: from a received assignment to callbacks and back, rejoining, leaving, the end.

Source: client §10, §10.1. One assignment is taken over after the other: what goes is revoked first,
then what comes is assigned, even if nothing does; then the member is steady, and acknowledges. A
callback that has to run stands in the application's queue, and what follows from its end follows in
whatever state the member is by then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application, CallbackTask
from rebalance_sim.protocol.clients.common.events import Subscribe
from rebalance_sim.protocol.clients.common.values import CallbackKind, nobody_listens
from rebalance_sim.protocol.clients.librdkafka.assignment import Assignment
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.topics import TopicPartition

_J = JoinState
_NOTHING: frozenset[TopicPartition] = frozenset()


class Rebalance:
    """Drives the join state.

    ``send_leave`` sends the leave, ``watch_polls`` begins to watch the poll timer.
    """

    def __init__(
        self,
        core: LibrdkafkaCore,
        application: Application,
        assignment: Assignment,
        link: CoordinatorLink,
    ) -> None:
        self._core = core
        self._application = application
        self._assignment = assignment
        self._link = link
        self._group_assignment = _NOTHING  # as callbacks have been asked for, run or not
        self._to_assign: frozenset[TopicPartition] | None = None  # after the revocation under way
        self._rejoins = False  # after the unassignment under way
        self._open_calls = 0  # callbacks that have been asked for and have not returned
        self._next_subscription: Subscribe | None = None
        self.send_leave: Callable[[], None] = nobody_listens
        self.watch_polls: Callable[[bool], None] = nobody_listens

    @property
    def is_running(self) -> bool:
        """Whether partitions are being taken over or given up."""
        return self._core.join_state.is_in_between or self._to_assign is not None or self._rejoins

    # --- callbacks --------------------------------------------------------------------------------

    def _hand_over(self, target: frozenset[TopicPartition], *, rejoins: bool) -> None:
        """Revoke what is not in ``target``, then assign what is new there; ``rejoins``: if anything
        is revoked, the member joins again after that."""
        added = target - self._group_assignment
        revoked = self._group_assignment - target
        if revoked:
            self._to_assign = added
            self._call_back(CallbackKind.REVOKED, revoked, rejoins=rejoins)
        else:
            self._call_back(CallbackKind.ASSIGNED, added, rejoins=False)

    def _call_back(
        self, kind: CallbackKind, partitions: frozenset[TopicPartition], *, rejoins: bool
    ) -> None:
        """Let the application take partitions over, or give them up. Nothing is fetched until it
        has: neither these partitions nor any other."""
        core = self._core
        self._rejoins = rejoins
        is_assigning = kind is CallbackKind.ASSIGNED
        if is_assigning:
            self._group_assignment |= partitions
        else:
            self._group_assignment -= partitions
        if core.is_fatal:
            self._assignment.clear()
            self._assignment.serve()
            return
        core.set_join_state(_J.WAIT_ASSIGN_CALL if is_assigning else _J.WAIT_UNASSIGN_CALL)
        self._open_calls += 1
        self._pause(True)
        on_done = self._after_assign if is_assigning else self._after_unassign
        if not core.subscription.has_listener:
            core.later.append(lambda: on_done(partitions, False))
            return
        task = CallbackTask(kind, partitions, partial(on_done, partitions))
        if not is_assigning:
            task.may_start = partial(self._name_callback, task)
        self._application.queue_callback(task)

    def _name_callback(self, task: CallbackTask) -> bool:
        """Whether partitions are revoked or lost is decided when the callback begins."""
        task.kind = CallbackKind.LOST if self._core.is_lost else CallbackKind.REVOKED
        return True

    def _after_assign(self, partitions: frozenset[TopicPartition], failed: bool) -> None:
        """The assigned callback has returned, or thrown: the partitions are assigned."""
        core = self._core
        self._open_calls -= 1
        if core.is_fatal or core.is_terminating:
            self._to_assign = None
            if core.join_state is _J.WAIT_ASSIGN_CALL:
                core.set_join_state(_J.WAIT_UNASSIGN_CALL)
            self._unassign_all()
        else:
            self._assignment.add(partitions)
            if core.join_state is _J.WAIT_ASSIGN_CALL:
                self._pause(False)
                core.set_join_state(_J.STEADY)
                self._become_steady()
        core.is_lost = False
        self._assignment.serve()

    def _after_unassign(self, partitions: frozenset[TopicPartition], failed: bool) -> None:
        """The revoked or lost callback has returned, or thrown: the partitions are unassigned. If
        everything has to go meanwhile, a second such callback follows before anything else."""
        core = self._core
        self._open_calls -= 1
        if core.is_fatal or core.is_terminating:
            self._to_assign = None
            self._unassign_all()
        else:
            self._assignment.remove(partitions)
            if core.join_state is _J.WAIT_UNASSIGN_CALL and not self._open_calls:
                self._pause(False)
                core.set_join_state(_J.WAIT_INCR_UNASSIGN_TO_COMPLETE)
        self._assignment.serve()
        core.is_lost = False

    def _unassign_all(self) -> None:
        self._assignment.clear()
        if self._core.join_state is _J.WAIT_UNASSIGN_CALL:
            self._pause(False)
            self._core.set_join_state(_J.WAIT_UNASSIGN_TO_COMPLETE)

    def _become_steady(self) -> None:
        if self._core.subscription.exists:
            self.watch_polls(True)

    def _pause(self, is_paused: bool) -> None:
        if is_paused is not self._core.is_paused:
            self._core.is_paused = is_paused
            self._core.subscription.version += 1

    # --- what follows when no operation is under way ----------------------------------------------

    def on_assignment_done(self) -> None:
        """No commit and no look-up is open."""
        core = self._core
        state = core.join_state
        if state is _J.WAIT_UNASSIGN_TO_COMPLETE:
            self._leave_if_wanted()
            self._rejoin()
        elif state is _J.WAIT_INCR_UNASSIGN_TO_COMPLETE:
            self._after_unassignment()
        elif state is _J.INIT or state is _J.STEADY:
            has_left = self._leave_if_wanted()
            if core.is_terminating:
                return
            if state is _J.STEADY and self._rejoins:
                self._rejoins = False
                self._rejoin()
            elif not has_left:
                self._on_rest()

    def _on_rest(self) -> None:
        """Nothing is left to be taken over or given up, and the member stays."""

    def _after_unassignment(self) -> None:
        core = self._core
        if core.is_terminating:
            self._to_assign = None
            self._unassign_all()
            self._leave_if_wanted()
        elif self._to_assign is not None:
            added, self._to_assign = self._to_assign, None
            self._call_back(CallbackKind.ASSIGNED, added, rejoins=self._rejoins)
        elif self._rejoins:
            self._rejoins = False
            self._rejoin()
        else:
            core.set_join_state(_J.STEADY)
            self._become_steady()

    # --- giving everything up ---------------------------------------------------------------------

    def give_up_and_rejoin(self, *, is_lost: bool) -> None:
        """Fenced, away for too long, unsubscribed or closed: give up everything, then restart,
        or leave. What a rebalance under way was to assign after its revocation is off."""
        core = self._core
        self._to_assign = None
        if self._group_assignment:
            core.is_lost = is_lost
            rejoins = not core.is_terminating
            self._call_back(CallbackKind.REVOKED, self._group_assignment, rejoins=rejoins)
        elif self._open_calls:
            self._rejoins = not core.is_terminating
        elif not core.is_terminating:
            self._rejoin()

    def _rejoin(self) -> None:
        """Back to the beginning; the leave, if one is due, goes out first."""
        core = self._core
        self._leave_if_wanted()
        core.forget_membership()
        self._pause(False)
        core.set_join_state(_J.INIT)
        core.expedite_heartbeat()

    # --- subscriptions ----------------------------------------------------------------------------

    @property
    def has_subscription(self) -> bool:
        """Whether the application is subscribed to anything, applied already or not."""
        return self._core.subscription.exists or self._next_subscription is not None

    def subscribe(self, event: Subscribe) -> None:
        """The application subscribes; during a leave that waits until the member restarts."""
        if self._core.is_fatal:
            self.unsubscribe()
            return
        self._next_subscription = event
        if not self._core.will_leave:
            self.apply_next_subscription()

    def apply_next_subscription(self) -> bool:
        """Apply a subscription that has waited. Whether there was one."""
        event, self._next_subscription = self._next_subscription, None
        if event is None or self._core.is_terminating:
            return False
        self._core.subscription.subscribe(event)
        self._core.change_count += 1
        self._core.expedite_heartbeat()
        return True

    def unsubscribe(self) -> None:
        """Leave, once everything is given up."""
        core = self._core
        self.watch_polls(False)
        core.subscription.cancel()
        self._next_subscription = None
        if not core.will_leave and self._begins_to_leave():
            self.give_up_and_rejoin(is_lost=False)

    def _begins_to_leave(self) -> bool:
        """Note that a leave is due, if the group knows the member. Whether it gives up all."""
        raise NotImplementedError

    def on_polls_missed(self) -> None:
        """The application has been away from ``poll`` for too long."""
        raise NotImplementedError

    def _leave_if_wanted(self) -> bool:
        """Send the leave if it has waited for this. Whether it had."""
        core = self._core
        if not core.leaves_when_unassigned:
            return False
        core.leaves_when_unassigned = False
        if not core.is_leaving:
            core.is_leaving = True
            self.send_leave()
        return True

    def on_left(self) -> None:
        """The leave was answered, well or badly, or could not be sent."""
        self._core.is_leaving = False
        self._core.poll_expired = False
        self._core.forget_membership()

    # --- the end ----------------------------------------------------------------------------------

    def terminate(self) -> None:
        """``close``: give up everything, leave, and then nothing."""
        core = self._core
        core.is_terminating = True
        if core.subscription.exists or self._next_subscription is not None:
            self.unsubscribe()
        if not core.join_state.waits_for_application:
            self._assignment.clear()
        self._assignment.serve()

    @property
    def is_over(self) -> bool:
        """Whether a member that is closing has nothing left to do."""
        core = self._core
        return not (
            core.join_state.waits_for_application
            or self._assignment.is_in_progress
            or core.is_leaving
            or core.subscription.assigned
        )
