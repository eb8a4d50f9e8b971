"""Heartbeats: when one is sent, what it contains, and what its answer means.

Source: client §2.1-§2.3, §3.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.effects import SendHeartbeat
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import (
    NO_ASSIGNMENT,
    LocalAssignment,
    nobody_listens,
)
from rebalance_sim.protocol.clients.java.consumer.consumer_core import ConsumerCore
from rebalance_sim.protocol.clients.java.consumer.membership import Membership
from rebalance_sim.protocol.clients.java.coordinator_search import CoordinatorSearch
from rebalance_sim.protocol.wire.assignment_messages import ClientAssignor
from rebalance_sim.protocol.wire.consumer_messages import (
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

MAX_ROUND_MS = 5_000
"""The client's network thread waits no longer than this for anything."""

_JOINING = ClientState.JOINING
_LEAVING = ClientState.LEAVING
_UNSUBSCRIBED = ClientState.UNSUBSCRIBED


class ErrorClass(Enum):
    """What an error answer to a heartbeat means for the member (client §2.3)."""

    COORDINATOR_LOST = "coordinator lost"
    RETRIABLE = "retriable"
    FENCED = "fenced"
    FATAL = "fatal"


_ERROR_CLASSES: Mapping[ErrorCode, ErrorClass] = {
    ErrorCode.NOT_COORDINATOR: ErrorClass.COORDINATOR_LOST,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorClass.COORDINATOR_LOST,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorClass.RETRIABLE,
    ErrorCode.FENCED_MEMBER_EPOCH: ErrorClass.FENCED,
    ErrorCode.UNKNOWN_MEMBER_ID: ErrorClass.FENCED,
}


def classify_error(error_code: ErrorCode) -> ErrorClass:
    """The class of an error answer; whatever is not listed is fatal."""
    return _ERROR_CLASSES.get(error_code, ErrorClass.FATAL)


class _SentFields:
    """What the coordinator knows from heartbeats: recorded when built, not when answered."""

    def __init__(self) -> None:
        self.has_timeout = False
        self.topic_names: frozenset[str] | None = None
        self.regex: str | None = None
        self.assignor: str | None = None
        self.client_assignors: tuple[ClientAssignor, ...] = ()
        self.is_admitted = False  # A join was accepted, and a target is still to be computed.
        self.assignment: LocalAssignment | None = None


class Heartbeats:
    """The heartbeat manager of one member."""

    def __init__(
        self,
        core: ConsumerCore,
        application: Application,
        search: CoordinatorSearch,
        membership: Membership,
    ) -> None:
        self._core = core
        self._application = application
        self._search = search
        self._membership = membership
        self._pacer = RequestPacer(
            core.config, core.jitter, jitter_share=core.rules.heartbeat_jitter_share(core.config)
        )
        self._sent = _SentFields()
        self._has_sent_regex = False
        self._steady: ConsumerGroupHeartbeatRequest | None = None
        self.handled_count = 0  # in flight, whose answer will be looked at; not of a poll expiry
        self._interval_deadline_ms = core.now_ms
        self._last_response_ms: int | None = None
        self._sent_since_response = 0
        self._sent_count = 0
        self.interval_ms = 0

    # --- when -------------------------------------------------------------------------------------

    @property
    def deadline_ms(self) -> int | None:
        """When the next heartbeat is due; None while one is in flight, or none is to be sent."""
        core = self._core
        if core.coordinator_id is None or not core.state.sends_heartbeats:
            return None
        if self._pacer.in_flight and self._waits_for_answer():
            return None
        backoff_until_ms = self._pacer.backoff_until_ms
        if core.state.is_urgent and not self._waits_for_epoch():
            return core.now_ms
        if backoff_until_ms is not None and backoff_until_ms > self._interval_deadline_ms:
            return backoff_until_ms
        return self._interval_deadline_ms

    @property
    def poll_check_ms(self) -> int | None:
        """When the poll timer will be seen to have run out; None while the application polls, or
        no one looks at the timer.

        Each round of the network thread looks at it, whatever is in flight. A round begins when the
        heartbeat interval is over, or the backoff, then without a pause while a heartbeat that is
        due may not be sent, and at the latest after ``MAX_ROUND_MS`` (client §0.1, §6.1).
        """
        core = self._core
        if core.coordinator_id is None or not core.state.takes_assignments:
            return None
        runs_out_ms = self._application.poll_timer_deadline_ms
        if runs_out_ms is None:
            return None
        rounds = -(-(runs_out_ms - core.now_ms) // MAX_ROUND_MS)
        round_ms = max(self._interval_deadline_ms, self._pacer.backoff_until_ms or 0)
        return max(runs_out_ms, min(round_ms, core.now_ms + rounds * MAX_ROUND_MS))

    def run(self) -> None:
        """One tick (client §2.1)."""
        core = self._core
        state = core.state
        if core.coordinator_id is None:
            if state is _LEAVING:
                self._membership.give_up_leave()
            return
        if not state.sends_heartbeats:
            return
        if state.takes_assignments:
            poll_deadline_ms = self._application.poll_timer_deadline_ms
            if poll_deadline_ms is not None and core.now_ms >= poll_deadline_ms:
                self._leave_on_poll_expiry()
                return
        # No heartbeat but an urgent one is sent before the interval is over.
        if (state.is_urgent or core.now_ms >= self._interval_deadline_ms) and self._is_due(state):
            self._send(is_handled=True)

    def _is_due(self, state: ClientState) -> bool:
        if state is _LEAVING and not self._core.rules.leave_waits_for_answer:
            return True
        if self._pacer.in_flight and self._waits_for_answer():
            return False
        if state.is_urgent and not self._waits_for_epoch():
            return True
        now_ms = self._core.now_ms
        if now_ms < self._interval_deadline_ms:
            return False
        backoff_until_ms = self._pacer.backoff_until_ms
        return backoff_until_ms is None or now_ms >= backoff_until_ms

    def _waits_for_epoch(self) -> bool:
        """A member that was accepted, and gets its first epoch when some member has computed a
        target, is in no hurry."""
        return self._sent.is_admitted and self._core.state is _JOINING

    def _waits_for_answer(self) -> bool:
        """Of a heartbeat in flight: the client has not forgotten it."""
        return not self._core.rules.forgets_request_in_flight(
            self._core.now_ms, self._last_response_ms, self._sent_since_response
        )

    def _send(self, *, is_handled: bool) -> None:
        core = self._core
        request = self._build()
        self._sent_count += 1
        on_answered = partial(self._on_answered, self._sent_count, self._membership.join_count)
        core.requests.send(
            SendHeartbeat,
            request=request,
            on_answered=on_answered if is_handled else nobody_listens,
            on_lost=partial(self._on_lost, is_handled=is_handled),
        )
        self.handled_count += is_handled
        self._pacer.on_sent()
        self._sent_since_response += 1
        self._membership.on_heartbeat_generated()
        self._interval_deadline_ms = core.now_ms + self.interval_ms

    def _leave_on_poll_expiry(self) -> None:
        """The leave goes out whatever is in flight; no one looks at its answer."""
        self._membership.leave_on_poll_expiry(lambda: self._send(is_handled=False))
        self._pacer.reset()
        self._forget_sent_fields()

    # --- what -------------------------------------------------------------------------------------

    def _build(self) -> ConsumerGroupHeartbeatRequest:
        """The next heartbeat; a steady one is the same value again and again."""
        core = self._core
        sent = self._sent
        subscription = core.subscription
        owned = core.rules.assignment_to_report(core.current, core.target)
        steady = self._steady
        if (
            steady is not None
            and owned is sent.assignment
            and subscription.topic_names is sent.topic_names
            and subscription.topic_regex is sent.regex
            and core.client_assignors is sent.client_assignors
            and steady.member_epoch == core.member_epoch
            and core.state is not _JOINING
        ):
            return steady
        request = self._build_changed(owned)
        self._steady = ConsumerGroupHeartbeatRequest(
            group_id=request.group_id,
            member_id=request.member_id,
            member_epoch=request.member_epoch,
            instance_id=request.instance_id,
            api_version=request.api_version,
        )
        return request

    def _build_changed(self, owned: LocalAssignment) -> ConsumerGroupHeartbeatRequest:
        core = self._core
        config = core.config
        sent = self._sent
        subscription = core.subscription
        is_join = core.state is _JOINING
        if is_join:
            owned = NO_ASSIGNMENT
        has_timeout = is_join or not sent.has_timeout
        names: tuple[str, ...] | None = None
        if is_join or subscription.topic_names != sent.topic_names:
            names = tuple(sorted(subscription.topic_names))
        regex: str | None = None
        if subscription.topic_regex != sent.regex:
            regex = subscription.topic_regex or ""
        elif is_join:
            regex = subscription.topic_regex
        if (
            regex is None
            and names is not None
            and (self._has_sent_regex or (is_join and config.group_instance_id is not None))
            and core.rules.repeats_withdrawn_pattern
        ):
            regex = ""
        if regex:
            self._has_sent_regex = True
        assignor: str | None = None
        if is_join or config.group_remote_assignor != sent.assignor:
            assignor = config.group_remote_assignor
        client_assignors: tuple[ClientAssignor, ...] | None = None
        if core.client_assignors and (is_join or core.client_assignors != sent.client_assignors):
            client_assignors = core.client_assignors
        has_partitions = is_join or owned != sent.assignment
        reported = owned.partitions
        if has_partitions and not is_join and not core.rules.omits_unfinished_from_full_request:
            in_hand = self._membership.partitions_in_hand
            # An acknowledgement says that something was given up.
            is_full = sent.assignment is None
            reported |= in_hand if is_full else core.target.partitions
        sent.has_timeout = True
        sent.topic_names = subscription.topic_names
        sent.regex = subscription.topic_regex
        sent.assignor = config.group_remote_assignor
        sent.client_assignors = core.client_assignors
        sent.assignment = owned
        return ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=core.member_id,
            member_epoch=core.member_epoch,
            instance_id=config.group_instance_id,
            rack_id=(config.client_rack or None) if is_join else None,
            rebalance_timeout_ms=(
                config.max_poll_interval_ms if has_timeout else UNCHANGED_TIMEOUT_MS
            ),
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            server_assignor=assignor,
            topic_partitions=reported if has_partitions else None,
            api_version=core.rules.heartbeat_version,
            client_assignors=client_assignors,
        )

    def _forget_sent_fields(self) -> None:
        self._sent = _SentFields()
        self._steady = None

    # --- answers ----------------------------------------------------------------------------------

    def _on_answered(
        self, number: int, join_count: int, response: ConsumerGroupHeartbeatResponse
    ) -> None:
        """Heartbeat ``number``, of the membership that the ``join_count``-th join began."""
        self.handled_count -= 1
        if (
            join_count != self._membership.join_count
            and not self._core.rules.takes_answers_of_former_memberships
        ):
            self._on_answered_late(number, response)
            return
        now_ms = self._core.now_ms
        self._last_response_ms = now_ms
        self._sent_since_response = 0
        if response.error_code is not ErrorCode.NONE:
            self._on_error(response)
            return
        if response.heartbeat_interval_ms != self.interval_ms:
            self.interval_ms = response.heartbeat_interval_ms
            self._interval_deadline_ms = now_ms + self.interval_ms
        self._pacer.on_success(now_ms)
        self._membership.on_heartbeat_success(response)
        if self._core.client_assignors:
            self._sent.is_admitted = self._core.state is _JOINING

    def _on_answered_late(self, number: int, response: ConsumerGroupHeartbeatResponse) -> None:
        """The membership is over: what the answer says is not about the present one."""
        is_good = response.error_code is ErrorCode.NONE
        if number == self._sent_count:  # Nothing has been sent since, and nothing is in flight.
            if is_good:
                self._pacer.on_success(self._core.now_ms)
            else:
                self._on_failure()
        if is_good:
            self._membership.on_late_success(response)
        elif classify_error(response.error_code) is ErrorClass.COORDINATOR_LOST:
            self._search.mark_unknown()

    def _on_lost(self, loss: Loss, *, is_handled: bool) -> None:
        if not is_handled:
            return  # What becomes of the leave of a poll timer is only logged (client §6.1).
        if loss is Loss.TRANSPORT and self._core.rules.disconnect_loses_coordinator:
            self._search.mark_unknown()
        self.handled_count -= 1
        self._on_failure()

    def _on_failure(self) -> None:
        """After any failure the next heartbeat is due at once, but for the backoff, and full."""
        self._pacer.on_failure(self._core.now_ms)
        self._interval_deadline_ms = self._core.now_ms
        if self._core.rules.resets_sent_fields_on_failure:
            self._forget_sent_fields()
        self._membership.on_heartbeat_failure()

    def _on_error(self, response: ConsumerGroupHeartbeatResponse) -> None:
        error_code = response.error_code
        error_class = classify_error(error_code)
        # A group that is no more has been left, too.
        is_left = error_code is ErrorCode.GROUP_ID_NOT_FOUND and self._core.state is _UNSUBSCRIBED
        self._on_failure()
        if error_class is ErrorClass.COORDINATOR_LOST:
            self._search.mark_unknown()
            self._pacer.reset()
        elif error_class is ErrorClass.FENCED:
            self._pacer.reset()
            self._membership.on_fenced()
        elif error_class is ErrorClass.FATAL and not is_left:
            self._membership.on_fatal(error_code, response.error_message or error_code.name)
        if self._core.rules.stays_in_flight_after_error:
            self._pacer.in_flight = True
