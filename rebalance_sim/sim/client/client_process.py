"""One client process: an application thread and a network thread around a pure member.

Source: client §0.1. The process hands events to the member and carries out what it wants;
``application.py`` has what the application does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

from rebalance_sim.protocol.clients import (
    AssignmentReceived,
    CallbackCompleted,
    CallbackKind,
    CallReturned,
    ClientState,
    Close,
    CloseConnection,
    CommitReturned,
    ComputeAssignment,
    ConnectCoordinator,
    CoordinatorConnected,
    CoordinatorConnectionClosed,
    Disconnected,
    Event,
    FindCoordinator,
    MetadataKnown,
    PatternMatched,
    PollingResumed,
    PositionsKnown,
    RaiseError,
    RequestMetadata,
    ResetPositions,
    RunCallback,
    SendJoinGroup,
    Subscribe,
    Tick,
    ValidatePositions,
)
from rebalance_sim.protocol.clients import Call as BlockingCall
from rebalance_sim.protocol.clients.common.effects import SendRequest
from rebalance_sim.protocol.wire.classic_messages import JoinGroupResponse
from rebalance_sim.re2_engine import compile_re2
from rebalance_sim.sim.client.application import Application
from rebalance_sim.sim.client.client_answers import event_of
from rebalance_sim.sim.client.client_assignors import AssignorHost
from rebalance_sim.sim.client.client_conditions import ClientConditions
from rebalance_sim.sim.client.client_connections import NEVER_MS, ClientConnections
from rebalance_sim.sim.client.client_kinds import (
    looks_at_topics,
    make_member,
    runs_by_wall_clock,
)
from rebalance_sim.sim.client.client_spec import ClientSpec, OffsetReset
from rebalance_sim.sim.client.environment import ClientEnvironment
from rebalance_sim.sim.client.metadata_refresh import TopicWatch
from rebalance_sim.sim.client.ports import Supervisor
from rebalance_sim.sim.clock import Call
from rebalance_sim.sim.delays import DelaySpec
from rebalance_sim.sim.network.cluster_requests import (
    FindCoordinatorRequest,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from rebalance_sim.sim.network.network import Purpose
from rebalance_sim.sim.streams import Streams, delay_sampler

_TICK = Tick()

_APPLICATION_FIRST_SHARE = 0.5
"""How often the application is the first to run after a pause, where that matters."""

_LOOKUP_RETRY_MS = 100
"""``retry.backoff.ms``, for the host's own requests."""


class ClientProcess:
    """A process from its start to its end; ``incarnation`` counts them under one name from 1."""

    def __init__(
        self,
        environment: ClientEnvironment,
        spec: ClientSpec,
        conditions: ClientConditions,
        supervisor: Supervisor,
        *,
        number: int,
        incarnation: int,
    ) -> None:
        name = spec.name
        self.name = name
        self.spec = spec
        self.metadata_max_age_ms = spec.metadata_max_age_ms
        transactions = spec.transactions
        self.transaction_timeout_ms = transactions.transaction_timeout_ms if transactions else 0
        self.processing_ms = spec.longest_processing_ms
        self.incarnation = incarnation
        self.number = number * 256 + incarnation % 256
        self.is_alive = True
        streams = environment.streams
        self.tie_break = streams.get(f"schedule/client/{name}").random
        self._steps = environment.steps
        self._supervisor = supervisor
        self._clock = environment.clock
        self._data_plane = environment.data_plane
        self._conditions = conditions
        self.started_ms = environment.clock.simulated_ms
        self._ahead_ms = conditions.clock_ahead_ms if runs_by_wall_clock(spec) else 0
        self._stands_until_ms = -1
        self.clock_was_set = self._ahead_ms != 0
        self._lines = ClientConnections(environment.network, self, rack=spec.rack)
        jitter = streams.get(f"jitter/{name}").random
        self.member = environment.machines.member(
            partial(
                make_member,
                spec,
                group_id=environment.group_of(spec),
                member_id=_new_member_id(streams.get(f"member-id/{name}"), name, incarnation),
                semantics=environment.semantics,
                now_ms=self._clock.now_ms + self._ahead_ms,
            ),
            jitter=lambda: 2.0 * jitter() - 1.0,
            version=spec.version,
            semantics=environment.semantics,
        )
        self.application = Application(
            self,
            conditions,
            environment.clock,
            environment.data_plane,
            poll_phase=streams.get(f"poll-phase/{name}").random(),
            draw_away_ms=_away_sampler(spec, streams),
        )
        self.intake = self.application.intake
        assignors = spec.client_assignors
        self._assignors = None if assignors is None else AssignorHost(environment, self, assignors)
        self._race = streams.get(f"resume/{name}").random
        self._deadline_ms: int | None = None
        self._tick_at_ms: int | None = None
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._own_requests: dict[int, Any] = {}
        self._next_own_id = -1
        self._topic_watch = TopicWatch(self, environment.clock) if looks_at_topics(spec) else None
        self._matches: Callable[[str], bool] | None = None
        self._effects: tuple[Any, ...] = ()
        self._committing_callback: tuple[RunCallback, int] | None = None

    @property
    def misled_until_ms(self) -> int:
        """When it last found a connection to a coordinator dead; now, if it has yet to."""
        return self._lines.misled_until_ms

    @property
    def is_misled(self) -> bool:
        """Whether its connection to a coordinator is dead, and it does not know."""
        return self._lines.is_misled

    @property
    def request_timeout_ms(self) -> int:
        """How long a request may go without an answer."""
        return self.spec.request_timeout_ms

    @property
    def watches_coordinator(self) -> bool:
        """Whether the member wants to know what becomes of that connection."""
        return self.member.watches_connection

    @property
    def may_poll(self) -> bool:
        """Whether nothing keeps its process, or its application, from going on."""
        return not (self._conditions.is_paused or self._conditions.is_stalled)

    def waits_shortly(self, most_ms: int) -> bool:
        """Whether no request of it has waited for longer, and nothing waits for the end of a
        pause."""
        return not self._deferred and self._lines.waits_shortly(most_ms)

    @property
    def asks(self) -> bool:
        """Whether it has asked for something by itself, and has no answer yet."""
        return bool(self._own_requests)

    # --- life -------------------------------------------------------------------------------------

    def start(self, topics: tuple[str, ...]) -> None:
        """The application subscribes and polls."""
        # An application that has changed over to names by now starts with those.
        regex = None if topics else self.spec.topic_regex
        if self._assignors is not None:
            self._assignors.start()
        if topics:
            self.take(self.subscription(Subscribe(topic_names=frozenset(topics))))
        elif regex is not None:
            self.take(self.subscription(Subscribe(topic_regex=regex)))
        self.take(PollingResumed())
        self._ask(MetadataRequest())
        if self._topic_watch is not None:
            self._topic_watch.begin()

    def end(self) -> None:
        """The process is gone, and its connections with it."""
        self.application.end()
        if self._assignors is not None:
            self._assignors.end()
        self.is_alive = False
        self._lines.close()
        self._deferred.clear()

    def call(self, event: Event) -> None:
        """Let the application make a call as soon as it is free to; ``close`` is its last one."""
        self.application.call(event)

    def look_at_conditions(self) -> None:
        """A stall or a pause began or ended."""
        self.application.look_at_conditions()

    # --- a process that does not run (``ClientPause``) --------------------------------------------

    def defers(self, function: Callable[..., None], *arguments: Any) -> bool:
        """Keep a call for later if the process is paused now; drop it if the process is gone."""
        if not self.is_alive:
            return True
        if not self._conditions.is_paused:
            return False
        self._deferred.append((function, arguments))
        return True

    def fall_asleep(self) -> None:
        """A pause begins: the last ``poll`` was just now."""
        self.application.stop_polling()
        if self.intake is not None:
            self.intake.freeze()

    def wake_up(self) -> None:
        """After a pause: everything that was kept happens now, in its order.

        The application comes back to ``poll`` before that; but if the poll timer has run out
        meanwhile, its thread and the one that looks at the timer race.
        """
        if self.intake is not None:
            self.intake.thaw()
        member = self.member
        away_ms = self.now_ms - member.last_poll_at_ms
        is_overdue = not member.is_polling and away_ms >= self.spec.max_poll_interval_ms
        if not is_overdue or self._race() < _APPLICATION_FIRST_SHARE:
            self.application.look_at_conditions()
        while self._deferred and self.is_alive:
            function, arguments = self._deferred.popleft()
            function(*arguments)
        if is_overdue and self.is_alive:
            self.take(_TICK)
        self.application.look_at_conditions()

    # --- a clock that is set (``ClockStep``) ------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """By the clock of the process. One that was set back stands until it is where it was."""
        now_ms = self._clock.now_ms + self._ahead_ms
        return now_ms if now_ms > self._stands_until_ms else self._stands_until_ms

    def world_ms(self, at_ms: int) -> int:
        """When a time by the clock of the process is, or will be."""
        return at_ms - self._ahead_ms if at_ms > self._stands_until_ms else self._clock.now_ms

    def step_clock(self, step_ms: int) -> bool:
        """The wall clock of the host is set; False: the process does not use it.

        The Java clients time everything by it (``Time.milliseconds``, ``Timer``). A step forward is
        a pause as far as they can tell: what was to happen meanwhile is overdue, and the network
        thread may look at the poll timer before the application polls again. After a step back
        nothing is due until the clock is where it was (``Timer.update``).
        """
        if not runs_by_wall_clock(self.spec):
            return False
        self.clock_was_set = True
        is_running = not self._conditions.is_paused
        if is_running and step_ms > 0:
            self.fall_asleep()
        if step_ms < 0:
            self._stands_until_ms = self.now_ms
        self._ahead_ms += step_ms
        self._lines.on_clock_stepped(step_ms)
        if is_running and step_ms > 0:
            self.wake_up()
        if self.is_alive:
            self._arm_tick()
        return True

    # --- events in, effects out -------------------------------------------------------------------

    def take(self, event: Event) -> None:
        """Hand one event to the member, carry out what it wants, and see when it is due next."""
        member, now_ms = self.member, self.now_ms
        if (self.intake is not None or member.commits_without_poll) and member.reads_positions(
            event, now_ms=now_ms
        ):
            self.application.report_positions()
        self._apply(event, now_ms)
        if self.is_alive:
            self._arm_tick()
            self.application.after_event()

    def apply(self, event: Event) -> None:
        """The first half of ``take``, for an event that another one follows at once."""
        self._apply(event, self.now_ms)

    def _apply(self, event: Event, now_ms: int) -> None:
        effects = self.member.on_event(event, now_ms=now_ms)
        self._steps.client_event(self, event, effects)
        self._effects = effects
        for effect in effects:
            carry_out = _EFFECTS[type(effect)]
            if carry_out is not None:
                carry_out(self, effect)

    def _arm_tick(self) -> None:
        """A deadline that moves back costs no event, as with timers of a shard."""
        deadline_ms = self.member.next_deadline_ms
        if deadline_ms is None:
            self._deadline_ms = None
            return
        deadline_ms = self._deadline_ms = self.world_ms(deadline_ms)
        at_ms = self._tick_at_ms
        if at_ms is None or deadline_ms < at_ms:
            self._schedule_tick(max(deadline_ms, self._clock.now_ms))

    def _schedule_tick(self, at_ms: int) -> None:
        self._tick_at_ms = at_ms
        self._clock.call_at(at_ms, self.tie_break(), self._on_tick, at_ms)

    def _on_tick(self, call: Call) -> None:
        if call.argument != self._tick_at_ms or self.defers(self._on_tick, call):
            return
        self._tick_at_ms = None
        deadline_ms = self._deadline_ms
        if deadline_ms is None:
            return
        if deadline_ms > self._clock.now_ms:
            self._schedule_tick(deadline_ms)
            return
        self.take(_TICK)

    # --- answers ----------------------------------------------------------------------------------

    def on_answer(self, correlation_id: int, response: Any) -> None:
        """The answer to a request of the member, or of the host itself."""
        if correlation_id < 0:
            self._on_own_answer(correlation_id, response)
            return
        event = event_of(correlation_id, response)
        is_read_in_poll = self.member.reads_joins_in_poll and type(response) is JoinGroupResponse
        if not is_read_in_poll or not self.application.reads_later(correlation_id, event):
            self.take(event)

    def on_lost(self, correlation_ids: tuple[int, ...]) -> None:
        """These requests will never be answered."""
        of_member = tuple(i for i in correlation_ids if i >= 0)
        for correlation_id in correlation_ids:
            if correlation_id < 0:
                self._ask_again(self._own_requests.pop(correlation_id))
        if of_member:
            self.take(Disconnected(correlation_ids=of_member))

    def on_coordinator_connected(self) -> None:
        """The connection that ``ConnectCoordinator`` asked for is there."""
        self.take(CoordinatorConnected())

    def on_coordinator_closed(self, *, is_isolated: bool) -> None:
        """That connection is gone, or was not established."""
        self.take(CoordinatorConnectionClosed(is_isolated=is_isolated))

    # --- the host's own requests ------------------------------------------------------------------

    def _ask(self, request: Any) -> None:
        correlation_id = self._next_own_id
        self._next_own_id -= 1
        self._own_requests[correlation_id] = request
        self._lines.send_to_any(correlation_id, request)

    def _ask_again(self, request: Any) -> None:
        at_ms = self._clock.now_ms + _LOOKUP_RETRY_MS
        self._clock.call_at(at_ms, self.tie_break(), self._on_retry, request)

    def _on_retry(self, call: Call) -> None:
        if not self.defers(self._on_retry, call):
            self._ask(call.argument)

    def refresh_metadata(self) -> None:
        """Ask for metadata, unless they have been asked for."""
        if not any(isinstance(asked, MetadataRequest) for asked in self._own_requests.values()):
            self._ask(MetadataRequest())

    def crash(self) -> None:
        """End without a word, as a record has it; a supervisor starts another process."""
        self._supervisor.crash(self.name, self.spec.restart_after_fatal_ms)

    def forget_pattern(self) -> None:
        """The application has subscribed to something else."""
        self._matches = None

    def subscription(self, event: Subscribe) -> Subscribe:
        """What the member learns of a call of ``subscribe``: of a pattern that no broker
        matches, only that there is one; and whether there is a listener."""
        self._data_plane.on_subscribed(self.member.config.group_id, event)
        if not self.spec.listener:
            event = replace(event, has_listener=False)
        self._matches = None
        regex = event.topic_regex
        if regex is None or self._topic_watch is None:
            return event
        self._matches = compile_re2(regex)
        return Subscribe(matches_locally=True, has_listener=self.spec.listener)

    def _on_own_answer(self, correlation_id: int, response: Any) -> None:
        request = self._own_requests.pop(correlation_id)
        if isinstance(response, MetadataResponse):
            seen = self._conditions.metadata_seen(response)
            self.take(
                MetadataKnown(
                    topic_names=seen.topic_names,
                    partition_counts=seen.partition_counts,
                    replica_racks=seen.replica_racks,
                )
            )
            if self._matches is not None and self.is_alive:
                names = filter(self._matches, seen.partition_counts)
                self.take(PatternMatched(topic_names=frozenset(names)))
            if self._topic_watch is not None and self.is_alive:
                self._topic_watch.on_metadata(seen.partition_counts)
        elif isinstance(response, ListOffsetsResponse):
            missing = self.member.assigned.keys() - response.positions.keys()
            again = {p: request.positions[p] for p in sorted(request.positions.keys() & missing)}
            if again or request.partitions & missing:
                self._ask_again(
                    replace(request, positions=again, partitions=request.partitions & missing)
                )
            self.take(PositionsKnown(positions=response.positions))

    # --- effects ----------------------------------------------------------------------------------

    def _send(self, effect: Any, timeout_ms: int | None = None) -> None:
        node_id = self.member.coordinator_id
        if node_id is None:
            if any(type(other) is CloseConnection for other in self._effects):
                return  # the member gives the connection up in the same event
            raise RuntimeError(f"{self.name} sends {type(effect).__name__}, but to no one")
        request = effect.request
        purpose = Purpose.COORDINATOR
        if effect.late_ms is not None:
            timeout_ms = NEVER_MS
        self._lines.send(purpose, node_id, effect.correlation_id, request, timeout_ms)

    def _send_join(self, effect: SendJoinGroup) -> None:
        self._send(effect, effect.timeout_ms)

    def _compute_assignment(self, effect: ComputeAssignment) -> None:
        if self._assignors is not None:
            self._assignors.compute(effect)

    def _receive_assignment(self, effect: AssignmentReceived) -> None:
        if self._assignors is not None:
            self._assignors.on_assignment(effect)

    def _find_coordinator(self, effect: FindCoordinator) -> None:
        request = FindCoordinatorRequest(group_id=self.member.config.group_id)
        self._lines.send_to_any(effect.correlation_id, request)

    def _connect_coordinator(self, effect: ConnectCoordinator) -> None:
        self._lines.connect(effect.node_id)

    def _close_connection(self, effect: CloseConnection) -> None:
        self._lines.disconnect(effect.node_id)

    def request_metadata(self, effect: RequestMetadata | None = None) -> None:
        """Refresh the metadata: the member wants it, or the application has subscribed again."""
        self._ask(MetadataRequest())

    def _validate(self, effect: ValidatePositions) -> None:
        self.application.on_positions_asked(are_committed=True)
        self._ask(ListOffsetsRequest(positions=effect.positions))

    def _reset(self, effect: ResetPositions) -> None:
        self.application.on_positions_asked(are_committed=False)
        at_end = self.spec.auto_offset_reset is OffsetReset.LATEST
        self._ask(ListOffsetsRequest(positions={}, partitions=effect.partitions, at_end=at_end))

    def _run_callback(self, effect: RunCallback) -> None:
        now_ms = self._clock.now_ms
        at_ms = now_ms + self._conditions.callback_ms(effect.kind)
        if effect.kind is CallbackKind.REVOKED:
            at_ms = max(at_ms, self.application.drained_ms(effect.partitions))
        call = self._end_callback
        if effect.kind is CallbackKind.REVOKED and self.spec.commits_when_revoked:
            call = self._commit_in_callback
        self._clock.call_at(at_ms, self.tie_break(), call, (effect, now_ms))

    def _commit_in_callback(self, call: Call) -> None:
        """The callback is done but for its commit; it makes none if it throws before."""
        if self.defers(self._commit_in_callback, call):
            return
        effect, _ = call.argument
        if self._conditions.callback_fails(effect.kind):
            self._end_callback(call)
            return
        self._committing_callback = call.argument
        self.application.commit_in_callback()

    def _end_callback(self, call: Call) -> None:
        if self.defers(self._end_callback, call):
            return
        effect, began_ms = call.argument
        kind: CallbackKind = effect.kind
        duration_ms = self._clock.now_ms - began_ms
        self.take(
            CallbackCompleted(
                failed=self._conditions.callback_fails(kind),
                poll_follows=duration_ms >= self.spec.poll_timeout_ms
                and self.application.submits_event
                and not self._conditions.is_stalled,
            )
        )

    def _on_error_raised(self, effect: RaiseError) -> None:
        """After a fatal error the application closes the consumer; other errors it logs."""
        if self.member.state is ClientState.FATAL:
            self._close_and_restart()

    def fail_for_good(self) -> None:
        """Close the consumer, as ``Process`` has it."""
        self._close_and_restart()
        self.application.look_at_conditions()

    def _close_and_restart(self) -> None:
        restart_ms = self.spec.restart_after_fatal_ms
        if restart_ms is not None and not self.application.is_exiting:
            self._supervisor.restart_later(self.name, restart_ms)
            self.application.give_up(Close(timeout_ms=self.spec.close_timeout_ms))

    def _on_returned(self, effect: CallReturned) -> None:
        self.application.is_blocked = False
        if effect.call is BlockingCall.CLOSE:
            self._supervisor.on_process_end(self)

    def _on_commit_returned(self, effect: CommitReturned) -> None:
        if self.application.on_commit_returned(effect.commit_id):
            now_ms = self._clock.now_ms
            argument = self._committing_callback
            self._clock.call_at(now_ms, self.tie_break(), self._end_callback, argument)


def _away_sampler(spec: ClientSpec, streams: Streams) -> Callable[[], int] | None:
    """How long an application is away from ``poll``, where each time is drawn."""
    if spec.processing_max_ms is None:
        return None
    delay = DelaySpec(min_ms=spec.processing_ms, max_ms=spec.processing_max_ms)
    return delay_sampler(delay, streams.get(f"away/{spec.name}"), least_ms=1)


def _new_member_id(stream: Random, name: str, incarnation: int) -> str:
    """A member id that a client makes up: random in front, so that ids sort anyhow."""
    return f"{stream.getrandbits(32):08x}-{name}-{incarnation}"


class _ByEffect(dict[type, Callable[[ClientProcess, Any], None] | None]):
    """What carries an effect out; of what is for observers only: None."""

    def __missing__(self, kind: type) -> Callable[[ClientProcess, Any], None] | None:
        self[kind] = ClientProcess._send if issubclass(kind, SendRequest) else None
        return self[kind]


_EFFECTS = _ByEffect()
_EFFECTS |= {
    SendJoinGroup: ClientProcess._send_join,
    ComputeAssignment: ClientProcess._compute_assignment,
    AssignmentReceived: ClientProcess._receive_assignment,
    FindCoordinator: ClientProcess._find_coordinator,
    ConnectCoordinator: ClientProcess._connect_coordinator,
    CloseConnection: ClientProcess._close_connection,
    RequestMetadata: ClientProcess.request_metadata,
    ValidatePositions: ClientProcess._validate,
    ResetPositions: ClientProcess._reset,
    RunCallback: ClientProcess._run_callback,
    RaiseError: ClientProcess._on_error_raised,
    CallReturned: ClientProcess._on_returned,
    CommitReturned: ClientProcess._on_commit_returned,
}
