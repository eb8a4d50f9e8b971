"""Heartbeats: when one is sent, what it says, what its answer means, when it is given up.

Source: client §10.1. One request does for joining, acknowledging, subscribing and staying alive:
what it carries follows from flags that only a good answer clears.
"""

from __future__ import annotations

from functools import partial

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.effects import SendHeartbeat
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.requests import COORDINATOR_LOST, Loss
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer_core import (
    LibrdkafkaConsumerCore,
)
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer_rebalance import (
    ConsumerRebalance,
)
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.clients.librdkafka.poll_timer import PollWatch
from rebalance_sim.protocol.wire.consumer_messages import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_FIRST_TIMEOUT_MS = 45_000
"""``session.timeout.ms``: how long an answer may take while no interval is known."""

_MAX_RETRIES = 2

_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_RETRIED = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT})

# Members of enums that every event asks for: to look one up takes as long as a call.
_INIT = JoinState.INIT
_STEADY = JoinState.STEADY


class Heartbeats:
    """The heartbeats of one member, and its leaves."""

    def __init__(
        self,
        core: LibrdkafkaConsumerCore,
        application: Application,
        link: CoordinatorLink,
        rebalance: ConsumerRebalance,
        polls: PollWatch,
    ) -> None:
        self._core = core
        self._application = application
        self._link = link
        self._rebalance = rebalance
        self._polls = polls
        self._request: ConsumerGroupHeartbeatRequest | None = None  # in flight, or to be repeated
        self._retries = 0
        self._retry_due_ms: int | None = None

    # --- when -------------------------------------------------------------------------------------

    @property
    def is_in_transit(self) -> bool:
        """Whether a heartbeat is in flight, or waits to be repeated: no other is sent then."""
        return self._request is not None

    @property
    def _may_send(self) -> bool:
        core = self._core
        return (
            core.subscription.exists
            and self._request is None
            and not core.is_fatal
            and not core.is_rejoining
            and not (core.must_rejoin and self._rebalance.is_running)
            and not (core.has_missed_polls and self._polls.is_overdue)
            and not core.will_leave
        )

    @property
    def due_ms(self) -> int | None:
        """When the next heartbeat is due; None while none may be sent."""
        if self._core.coordinator_id is None:
            return None
        if self._request is not None:
            return self._retry_due_ms
        return self._core.heartbeat_due_ms if self._may_send else None

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        return self.due_ms

    def run(self) -> None:
        """Begin to rejoin if need be, send what is due."""
        core = self._core
        if core.coordinator_id is None or core.is_fatal:
            return
        if core.must_rejoin:
            if self._rebalance.is_running:
                return
            core.must_rejoin = False
            core.is_rejoining = True
            self._rebalance.give_up_and_rejoin(is_lost=True)
        is_full = core.sends_full_request
        if core.join_state is _INIT:
            core.is_rejoining = core.has_left_early = False
            self._rebalance.apply_next_subscription()
            is_full = True
        if self._retry_due_ms is not None and core.now_ms >= self._retry_due_ms:
            self._retry_due_ms = None
            if core.is_terminating and self._rebalance.is_over:
                self._request = None  # The client is gone in this very moment, and its queue, too.
            else:
                self._transmit()
        elif core.now_ms >= core.heartbeat_due_ms and self._may_send:
            is_ack = core.join_state is _STEADY and core.waits_for_ack
            self._send(is_full=is_full, is_ack=is_ack)

    def _send(self, *, is_full: bool, is_ack: bool) -> None:
        core = self._core
        core.has_missed_polls = False
        core.is_sending_ack = core.is_sending_ack or is_ack
        self._request = self._build(is_full=is_full, is_ack=is_ack)
        self._retries = 0
        core.heartbeat_attempts += 1
        core.last_heartbeat_ms = core.now_ms
        core.heartbeat_backoff_ms = 0
        self._transmit()

    def _transmit(self) -> None:
        assert self._request is not None
        self._core.show_state()
        self._emit(self._request)

    def _emit(self, request: ConsumerGroupHeartbeatRequest, *, is_leave: bool = False) -> None:
        core = self._core
        core.requests.send(
            SendHeartbeat,
            request=request,
            on_answered=self._on_left if is_leave else self._on_answered,
            on_lost=partial(self._on_lost, is_leave=is_leave),
            late_ms=core.now_ms + (core.heartbeat_interval_ms or _FIRST_TIMEOUT_MS),
        )

    # --- what -------------------------------------------------------------------------------------

    def _build(self, *, is_full: bool, is_ack: bool) -> ConsumerGroupHeartbeatRequest:
        core = self._core
        config = core.config
        if core.has_new_subscription and not self._rebalance.is_running:
            core.has_new_subscription = False
            core.is_sending_subscription = True
        names: tuple[str, ...] | None = None
        regex: str | None = None
        if is_full or core.is_sending_subscription:
            subscription = core.subscription
            names = tuple(sorted(subscription.topic_names))
            # Patterns are joined by "|", each in parentheses; here there is one at most.
            pattern = subscription.topic_regex
            regex = "" if pattern is None else f"({pattern})"
        return ConsumerGroupHeartbeatRequest(
            group_id=config.group_id,
            member_id=core.member_id,
            member_epoch=max(core.member_epoch, 0),
            instance_id=config.group_instance_id if is_full else None,
            rack_id=(config.client_rack or None) if is_full else None,
            rebalance_timeout_ms=config.max_poll_interval_ms if is_full else UNCHANGED_TIMEOUT_MS,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            server_assignor=config.group_remote_assignor if is_full else None,
            topic_partitions=self._owned(is_full=is_full, is_ack=is_ack),
        )

    def _owned(self, *, is_full: bool, is_ack: bool) -> frozenset[TopicPartition] | None:
        """What the request says that the member owns, if it says so."""
        core = self._core
        if is_full and not core.rules.omits_unfinished_from_full_request:
            return core.partitions_in_hand
        return core.current.partitions if is_full or is_ack else None

    def send_leave(self) -> None:
        """Leave: nothing but the id, and a static member's instance. Without a coordinator, and
        after a fatal error, nothing is sent, and the member is gone all the same."""
        core = self._core
        if not self._link.is_up() or core.is_fatal:
            core.later.append(self._rebalance.on_left)
            return
        config = core.config
        core.show_state(ClientState.LEAVING)
        is_static = config.group_instance_id is not None
        self._emit(
            ConsumerGroupHeartbeatRequest(
                group_id=config.group_id,
                member_id=core.member_id,
                member_epoch=STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH,
                instance_id=config.group_instance_id,
            ),
            is_leave=True,
        )

    # --- answers ----------------------------------------------------------------------------------

    def _on_answered(self, response: ConsumerGroupHeartbeatResponse) -> None:
        if response.error_code is ErrorCode.NONE:
            self._on_success(response)
        else:
            self._on_error(response.error_code, response.error_message)

    def _on_left(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self._rebalance.on_left()

    def _on_lost(self, loss: Loss, *, is_leave: bool) -> None:
        """After an answer that was late the next heartbeat is due by now, goes out over the next
        connection, and is full."""
        request = self._request
        if loss is Loss.CUT:
            self._request = self._retry_due_ms = None
            self._core.sends_full_request |= self._core.rules.says_everything_after_late_answer
        if is_leave:
            self._rebalance.on_left()
        elif loss is not Loss.CUT:
            self._request = None
            self._look_again(request)

    def _on_success(self, response: ConsumerGroupHeartbeatResponse) -> None:
        core = self._core
        request, self._request = self._request, None
        core.adopt_epoch(response.member_epoch)
        if core.will_leave:
            return
        if response.heartbeat_interval_ms > 0:
            core.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            core.receive(response.assignment)
        if core.join_state is _STEADY and core.waits_for_ack and core.reconciling is not None:
            if core.is_sending_ack:
                core.acked, core.reconciling = core.reconciling, None
                core.waits_for_ack = False
                core.note_assignments()
            elif core.subscription.exists:
                core.expedite_heartbeat()
        self._rebalance.look_at_next_target()
        if core.has_new_subscription and not self._rebalance.is_running:
            core.expedite_heartbeat()
        core.is_sending_subscription = False
        core.sends_full_request = self._has_reported_too_much(request)
        core.is_sending_ack = False
        core.heartbeat_attempts = 0

    def _has_reported_too_much(self, request: ConsumerGroupHeartbeatRequest | None) -> bool:
        """Whether a full request named what was given and is taken back, unbegun: nothing else
        would tell the coordinator that the member does not have it."""
        core = self._core
        if (
            request is None
            or not request.topic_partitions
            or request.subscribed_topic_names is None
        ):
            return False
        if core.rules.omits_unfinished_from_full_request or core.next_target or core.waits_for_ack:
            return False
        return not request.topic_partitions <= core.partitions_in_hand

    def _on_error(self, error_code: ErrorCode, message: str | None) -> None:
        core = self._core
        request, self._request = self._request, None
        if error_code in _FENCED:
            core.must_rejoin = True
        elif error_code is ErrorCode.GROUP_ID_NOT_FOUND and core.is_leaving:
            return
        elif error_code in COORDINATOR_LOST:
            self._look_again(request)
        elif error_code in _RETRIED:
            self._repeat(request)
        elif not core.rules.is_fatal(error_code):
            if not core.heartbeat_interval_ms:
                self._repeat(request)
        else:
            core.is_fatal = True
            self._application.queue_error(error_code, message or error_code.name)
            if not self._rebalance.is_running:
                self._rebalance.give_up_and_rejoin(is_lost=True)

    def _look_again(self, request: ConsumerGroupHeartbeatRequest | None) -> None:
        """The coordinator could not be reached, or has moved: ask for it, and say everything in the
        next heartbeat, which comes on the interval. While there is none, the request is repeated.
        """
        self._core.sends_full_request = True
        self._link.search()
        if not self._core.heartbeat_interval_ms:
            self._repeat(request)

    def _repeat(self, request: ConsumerGroupHeartbeatRequest | None) -> None:
        """Send the very same request again after a backoff, if its time is not over."""
        core = self._core
        timeout_ms = core.heartbeat_interval_ms or _FIRST_TIMEOUT_MS
        due_ms = core.now_ms + core.draw_backoff_ms(self._retries)
        may_repeat = (
            request is not None
            and core.subscription.exists
            and not core.will_leave
            and self._retries < _MAX_RETRIES
            and due_ms < core.last_heartbeat_ms + timeout_ms
        )
        self._request = request if may_repeat else None
        self._retry_due_ms = due_ms if may_repeat else None
        self._retries += 1
