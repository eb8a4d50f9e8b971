"""Changes of membership: joining, targets received, fencing, fatal errors, leaving.

Source: client §1.3; "row" in a docstring is a row of its table. Which changes are legal stands in
``member_states``; here stands why they happen, and what goes with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rebalance_sim.protocol.clients.common.application import (
    Application,
    CallbackTask,
    nobody_waits,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import (
    NO_ASSIGNMENT,
    CallbackKind,
    MembershipOperation,
)
from rebalance_sim.protocol.clients.java.consumer.client_reconciliation import Reconciler
from rebalance_sim.protocol.clients.java.consumer.consumer_core import ConsumerCore
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_S = ClientState

# Members of enums that every event asks for: to look one up takes as long as a call.
_UNSUBSCRIBED, _STALE, _LEAVING = _S.UNSUBSCRIBED, _S.STALE, _S.LEAVING
_ACKNOWLEDGING = _S.ACKNOWLEDGING


class Membership:
    """Drives the state of one member; heartbeats and the application report what happened."""

    def __init__(
        self, core: ConsumerCore, application: Application, reconciler: Reconciler
    ) -> None:
        self._core = core
        self._application = application
        self._reconciler = reconciler
        self._is_released = True  # of a STALE member: the lost callback has ended
        self.subscription_changed = False
        self.leave_is_pending = False  # unsubscribe or close waits for the answer to the leave
        self.operation = MembershipOperation.DEFAULT
        self.join_count = 0

    # --- joining ----------------------------------------------------------------------------------

    def wants_poll(self) -> bool:
        """Whether a ``poll`` would make the member join."""
        state = self._core.state
        return (state is _UNSUBSCRIBED and self.subscription_changed) or (
            state is _STALE and self._is_released
        )

    @property
    def partitions_in_hand(self) -> frozenset[TopicPartition]:
        """All that the member works on, or is about to: what it was given last, what it is taking
        over, and what is not given up yet."""
        core = self._core
        return core.target.partitions.union(
            core.subscription.assigned, self._reconciler.being_taken_over
        )

    def on_poll(self) -> None:
        """The poll event: rows 1 and 33."""
        core = self._core
        if core.state is _STALE and self._is_released:
            core.poll_expired = False
            self._join()
        changed, self.subscription_changed = self.subscription_changed, False
        if changed and core.state is _S.UNSUBSCRIBED:
            self._join()

    def _join(self) -> None:
        """Rows 1, 17, 33: joining begins from nothing, with the same member id."""
        core = self._core
        self.join_count += 1
        self._reconciler.on_rejoin()
        core.adopt_epoch(core.rules.epoch_to_join_with(core.member_epoch))
        core.target = NO_ASSIGNMENT
        core.change_state(_S.JOINING)

    # --- answers to heartbeats --------------------------------------------------------------------

    def on_heartbeat_success(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """Rows 5 to 9, 15, 30, 36."""
        core = self._core
        state = core.state
        if not core.rules.accepts_epoch(response.member_epoch) or (
            state is _UNSUBSCRIBED
            and self.leave_is_pending
            and (response.member_epoch < 0 or core.rules.any_answer_completes_leave)
        ):
            self._complete_leave()
            return
        if not core.rules.accepts_answers_in(state):
            return
        if response.member_id and not core.member_id:
            core.member_id = response.member_id
        core.adopt_epoch(response.member_epoch)
        if response.assignment is not None and state.takes_assignments:
            self._on_assignment(response.assignment)

    def on_late_success(self, response: ConsumerGroupHeartbeatResponse) -> None:
        """A heartbeat from before the last join was answered: all that counts is that a leave is
        over."""
        if not self._core.rules.accepts_epoch(response.member_epoch):
            self._complete_leave()

    def _on_assignment(self, received: frozenset[TopicPartition]) -> None:
        core = self._core
        core.target = core.rules.next_target(received, core.target, core.current)
        if core.target != core.current:
            core.change_state(_S.RECONCILING)
        elif core.state in (_S.JOINING, _S.RECONCILING):
            core.change_state(_S.STABLE)

    def on_heartbeat_generated(self) -> None:
        """Rows 14 and 28: the heartbeat counts as soon as it is built."""
        core = self._core
        if core.state is _ACKNOWLEDGING:
            is_done = core.target == core.current
            core.change_state(_S.STABLE if is_done else _S.RECONCILING)
        elif core.state is _LEAVING:
            core.change_state(_S.STALE if core.poll_expired else _S.UNSUBSCRIBED)

    def on_heartbeat_failure(self) -> None:
        """Any failure answers a leave as well as a success does (row 30)."""
        if self._core.state is _S.UNSUBSCRIBED and self._core.rules.failure_completes_leave:
            self._complete_leave()

    def on_fenced(self) -> None:
        """FENCED_MEMBER_EPOCH or UNKNOWN_MEMBER_ID: rows 16, 19, 20, 21, 36, 37."""
        core = self._core
        if core.state is _S.PREPARE_LEAVING:
            self._begin_leaving()
            core.current = NO_ASSIGNMENT
            core.change_state(_S.UNSUBSCRIBED)
            self._complete_leave()
        elif core.state is _S.LEAVING:
            core.change_state(_S.UNSUBSCRIBED)
            self._complete_leave()
        elif core.state is _S.UNSUBSCRIBED:
            self._complete_leave()
        elif core.state.takes_assignments:
            core.change_state(_S.FENCED)
            identity = core.commit_identity
            core.adopt_epoch(0)
            core.member_id = core.rules.member_id_after_fence(core.member_id)
            if core.rules.keeps_identity_on_fence:
                core.commit_identity = identity
            if core.rules.rejoins_before_lost_callback:
                self._release_lost(nobody_waits)
                self._join()
            else:
                self._release_lost(self._after_lost)

    def on_fatal(self, error_code: ErrorCode, message: str) -> None:
        """An error that cannot be retried: rows 22, 23, 24, 37."""
        core = self._core
        state = core.state
        if state in (_S.FENCED, _S.STALE, _S.FATAL):
            return  # row 37: the answer belongs to a membership that is over
        self._application.queue_error(error_code, message)
        core.change_state(_S.FATAL)
        core.commit_identity = None
        if state.takes_assignments:
            self._release_lost(self._after_lost)
        else:
            self._complete_leave()

    # --- giving partitions up without being asked -------------------------------------------------

    def _release_lost(self, on_done: Callable[[bool], None]) -> None:
        """Run onPartitionsLost for all that is assigned, then ``on_done``."""
        core = self._core
        partitions = frozenset(core.subscription.assigned)
        if not partitions or not core.subscription.has_listener:
            on_done(False)
            return
        core.subscription.mark_pending_revocation(partitions)
        kind = core.rules.callback_of_loss
        self._application.queue_callback(CallbackTask(kind, partitions, on_done))

    def _after_lost(self, failed: bool) -> None:
        """Rows 17, 22, 32: the lost callback has ended, well or badly."""
        core = self._core
        if core.state is _S.FENCED:
            self._clear()
            self._join()
        elif core.state is _S.STALE:
            self._clear()
            self._is_released = True
        elif core.state is _S.FATAL:
            self._clear()

    def _clear(self) -> None:
        self._core.forget_assignments()
        self._reconciler.topic_names.forget()

    # --- leaving ----------------------------------------------------------------------------------

    def leave(self) -> None:
        """``unsubscribe``: rows 18, 25, 27, 34, 35."""
        core = self._core
        if core.state.takes_assignments:
            self._prepare_leaving()
            self.run_leave_callback(self._after_leave_callback, now=False)
        elif not core.state.is_in_group:
            self._leave_from_outside()

    def leave_after_callback(self) -> None:
        """``close``, whose callback has run already: rows 25a and 26, or 18, 34, 35."""
        if self._core.state.takes_assignments:
            self._prepare_leaving()
            self._after_leave_callback(False)
        elif not self._core.state.is_in_group:
            self._leave_from_outside()

    def run_leave_callback(self, on_done: Callable[[bool], None], *, now: bool) -> None:
        """The callback for all that is assigned; ``on_done`` at once if there is none to run."""
        core = self._core
        partitions = frozenset(core.subscription.assigned)
        if partitions:
            core.subscription.mark_pending_revocation(partitions)
        if not partitions or not core.subscription.has_listener:
            on_done(False)
            return
        kind = CallbackKind.REVOKED if core.member_epoch > 0 else CallbackKind.LOST
        task = CallbackTask(
            kind,
            partitions,
            on_done,
            is_obsolete=partial(self._has_been_removed, kind),
        )
        if now:
            self._application.run_callback_now(task)
        else:
            self._application.queue_callback(task)

    def _has_been_removed(self, kind: CallbackKind) -> bool:
        """Whether a leave callback of this kind is about a membership that has ended meanwhile."""
        return kind is CallbackKind.REVOKED and self._core.member_epoch <= 0

    def _prepare_leaving(self) -> None:
        self._core.change_state(_S.PREPARE_LEAVING)
        self.leave_is_pending = True

    def _after_leave_callback(self, failed: bool) -> None:
        """Row 26; after a fence (row 19) only the assignment remains to be dropped."""
        self._core.subscription.drop()
        self._clear()
        if self._core.state is _S.PREPARE_LEAVING:
            self._begin_leaving()

    def _begin_leaving(self) -> None:
        core = self._core
        core.adopt_epoch(core.rules.leave_epoch(core.config.group_instance_id, self.operation))
        core.change_state(_S.LEAVING)

    def _leave_from_outside(self) -> None:
        """Nothing is sent for a member that is not in the group."""
        core = self._core
        if core.state is _S.FENCED:
            self._clear()
            core.change_state(_S.UNSUBSCRIBED)
        core.subscription.drop()

    def give_up_leave(self) -> None:
        """Row 29: the coordinator is unknown, so nothing is sent."""
        self._core.change_state(_S.UNSUBSCRIBED)
        self._complete_leave()

    def leave_on_poll_expiry(self, send_leave: Callable[[], None]) -> None:
        """Row 31: leave first; the partitions are given up when the application polls."""
        core = self._core
        core.poll_expired = True
        core.change_state(_S.PREPARE_LEAVING)
        core.current = NO_ASSIGNMENT
        self._begin_leaving()
        send_leave()
        self._is_released = False
        if core.rules.releases_on_poll_expiry:
            self._release_lost(self._after_lost)
        else:
            self._is_released = True

    def _complete_leave(self) -> None:
        self.leave_is_pending = False
