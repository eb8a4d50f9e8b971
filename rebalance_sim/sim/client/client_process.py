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

from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.effects import (
    AssignmentReceived,
    CallReturned,
    CloseConnection,
    CommitReturned,
    ComputeAssignment,
    ConnectCoordinator,
    FindCoordinator,
    RaiseError,
    RequestMetadata,
    ResetPositions,
    RunCallback,
    SendJoinGroup,
    SendRequest,
    ValidatePositions,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import Call as BlockingCall
from rebalance_sim.protocol.wire.classic_messages import JoinGroupResponse
from rebalance_sim.sim.client.application import Application
from rebalance_sim.sim.client.callback_runs import CallbackRuns
from rebalance_sim.sim.client.client_answers import event_of
from rebalance_sim.sim.client.client_assignors import AssignorHost
from rebalance_sim.sim.client.client_conditions import ClientConditions
from rebalance_sim.sim.client.client_connections import NEVER_MS, ClientConnections
from rebalance_sim.sim.client.client_kinds import (
    make_member,
    runs_by_wall_clock,
)
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.client.environment import ClientEnvironment
from rebalance_sim.sim.client.lookups import Lookups
from rebalance_sim.sim.client.ports import Supervisor
from rebalance_sim.sim.client.process_clock import ProcessClock
from rebalance_sim.sim.delays import DelaySpec
from rebalance_sim.sim.network.cluster_requests import (
    FindCoordinatorRequest,
)
from rebalance_sim.sim.network.network import Purpose
from rebalance_sim.sim.streams import Streams, delay_sampler

_TICK = events.Tick()

_APPLICATION_FIRST_SHARE = 0.5
"""How often the application is the first to run after a pause, where that matters."""


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
        ahead_ms = conditions.clock_ahead_ms if runs_by_wall_clock(spec) else 0
        self.own_clock = ProcessClock(environment.clock, ahead_ms) if ahead_ms else None
        self._lines = ClientConnections(environment.network, self, rack=spec.rack)
        jitter = streams.get(f"jitter/{name}").random
        self.member = environment.machines.member(
            partial(
                make_member,
                spec,
                group_id=environment.group_of(spec),
                member_id=_new_member_id(streams.get(f"member-id/{name}"), name, incarnation),
                semantics=environment.semantics,
                now_ms=self.now_ms,
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
        self._reports_positions = self.intake is not None or self.member.commits_without_poll
        assignors = spec.client_assignors
        self._assignors = None if assignors is None else AssignorHost(environment, self, assignors)
        self._race = streams.get(f"resume/{name}").random
        self._deadline_ms: int | None = None
        self._tick_at_ms: int | None = None
        self._deferred: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._lookups = Lookups(self, conditions, environment.clock, self._lines)
        self._callbacks = CallbackRuns(self, self.application, conditions, environment.clock)
        self._effects: tuple[Any, ...] = ()

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
        return self._lookups.are_open

    # --- life -------------------------------------------------------------------------------------

    def start(self, topics: tuple[str, ...]) -> None:
        """The application subscribes and polls."""
        # An application that has changed over to names by now starts with those.
        regex = None if topics else self.spec.topic_regex
        if self._assignors is not None:
            self._assignors.start()
        if topics:
            self.take(self.subscription(events.Subscribe(topic_names=frozenset(topics))))
        elif regex is not None:
            self.take(self.subscription(events.Subscribe(topic_regex=regex)))
        self.take(events.PollingResumed())
        self._lookups.begin()

    def end(self) -> None:
        """The process is gone, and its connections with it."""
        self.application.end()
        if self._assignors is not None:
            self._assignors.end()
        self.is_alive = False
        self._lines.close()
        self._deferred.clear()

    def call(self, event: events.Event) -> None:
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
        """By the clock of the process."""
        own_clock = self.own_clock
        return self._clock.now_ms if own_clock is None else own_clock.now_ms

    @property
    def clock_was_set(self) -> bool:
        """Whether that clock has ever been another than the world's."""
        return self.own_clock is not None

    def step_clock(self, step_ms: int) -> bool:
        """The wall clock of the host is set; False: the process does not use it.

        The Java clients time everything by it (``Time.milliseconds``, ``Timer``). A step forward is
        a pause as far as they can tell: what was to happen meanwhile is overdue, and the network
        thread may look at the poll timer before the application polls again.
        """
        if not runs_by_wall_clock(self.spec):
            return False
        is_running = not self._conditions.is_paused
        if is_running and step_ms > 0:
            self.fall_asleep()
        if self.own_clock is None:
            self.own_clock = ProcessClock(self._clock, 0)
        self.own_clock.set(step_ms)
        self._lines.on_clock_stepped(step_ms)
        if is_running and step_ms > 0:
            self.wake_up()
        if self.is_alive:
            self._arm_tick()
        return True

    # --- events in, effects out -------------------------------------------------------------------

    def take(self, event: events.Event) -> None:
        """Hand one event to the member, carry out what it wants, and see when it is due next."""
        if self._reports_positions and self.member.reads_positions(event, now_ms=self.now_ms):
            self.application.report_positions()
        self.apply(event)
        if self.is_alive:
            self._arm_tick()
            self.application.after_event()

    def apply(self, event: events.Event) -> None:
        """The first half of ``take``, for an event that another one follows at once."""
        effects = self.member.on_event(event, now_ms=self.now_ms)
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
        if self.own_clock is not None:
            deadline_ms = self.own_clock.world_ms(deadline_ms)
        self._deadline_ms = deadline_ms
        at_ms = self._tick_at_ms
        if at_ms is None or deadline_ms < at_ms:
            self._schedule_tick(max(deadline_ms, self._clock.now_ms))

    def _schedule_tick(self, at_ms: int) -> None:
        self._tick_at_ms = at_ms
        self._clock.call_at(at_ms, self.tie_break(), self._on_tick, at_ms)

    def _on_tick(self, at_ms: int) -> None:
        if at_ms != self._tick_at_ms or self.defers(self._on_tick, at_ms):
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
            self._lookups.on_answer(correlation_id, response)
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
                self._lookups.on_lost(correlation_id)
        if of_member:
            self.take(events.Disconnected(correlation_ids=of_member))

    def on_coordinator_connected(self) -> None:
        """The connection that ``ConnectCoordinator`` asked for is there."""
        self.take(events.CoordinatorConnected())

    def on_coordinator_closed(self, *, is_isolated: bool) -> None:
        """That connection is gone, or was not established."""
        self.take(events.CoordinatorConnectionClosed(is_isolated=is_isolated))

    # --- what its application and its assignors ask of it -----------------------------------------

    def refresh_metadata(self) -> None:
        """Ask for metadata, unless they have been asked for."""
        self._lookups.refresh_metadata()

    def crash(self) -> None:
        """End without a word, as a record has it; a supervisor starts another process."""
        self._supervisor.crash(self.name, self.spec.restart_after_fatal_ms)

    def forget_pattern(self) -> None:
        """The application has subscribed to something else."""
        self._lookups.forget_pattern()

    def subscription(self, event: events.Subscribe) -> events.Subscribe:
        """What the member learns of a call of ``subscribe``; whether there is a listener, too."""
        self._data_plane.on_subscribed(self.member.config.group_id, event)
        if not self.spec.listener:
            event = replace(event, has_listener=False)
        return self._lookups.match(event)

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
        self._lookups.ask_metadata()

    def _validate(self, effect: ValidatePositions) -> None:
        self.application.on_positions_asked(are_committed=True)
        self._lookups.validate(effect)

    def _reset(self, effect: ResetPositions) -> None:
        self.application.on_positions_asked(are_committed=False)
        self._lookups.reset(effect)

    def _run_callback(self, effect: RunCallback) -> None:
        self._callbacks.run(effect)

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
            self.application.give_up(events.Close(timeout_ms=self.spec.close_timeout_ms))

    def _on_returned(self, effect: CallReturned) -> None:
        self.application.is_blocked = False
        if effect.call is BlockingCall.CLOSE:
            self._supervisor.on_process_end(self)

    def _on_commit_returned(self, effect: CommitReturned) -> None:
        if self.application.on_commit_returned(effect.commit_id):
            self._callbacks.on_commit_returned()


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
