"""Shows what clients do to the invariants that listen to them, and keeps their shadow model.

Which listeners a client has depends on its kind; members of the classic protocol have a shadow
model of their own (``classic_dispatch.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance_sim.invariants.engine.classic_dispatch import ClassicWatch
from rebalance_sim.invariants.engine.listeners import Listener, Listeners
from rebalance_sim.invariants.model.client_entry import ClientEntry, OpenCommit
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.step import ClientView, Step
from rebalance_sim.protocol.clients import (
    AssignorMetadataChanged,
    ClientState,
    CloseConnection,
    CommitOffsets,
    CommitReturned,
    Disconnected,
    HeartbeatAnswered,
    Poll,
    RaiseError,
    RequestExpired,
    RunCallback,
    SendCommit,
    SendHeartbeat,
    StateChanged,
    Tick,
)
from rebalance_sim.protocol.clients.kinds import CLIENT_KINDS
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest


class ClientWatch:
    """Keeps the shadow model of clients for a checker. ``listeners`` by kind; ``ask`` puts a
    question to some of them, and reports what they find, ``ask_about`` one with one subject."""

    def __init__(
        self,
        model: ShadowModel,
        quiet: QuietPeriod,
        listeners: Mapping[str, Listeners],
        on: Mapping[str, tuple[Listener, ...]],
        classic: ClassicWatch,
        ask: Callable[..., None],
        ask_about: Callable[..., None],
    ) -> None:
        self._model = model
        self._quiet = quiet
        self._listeners = listeners
        self._on = on
        self._classic = classic
        self._ask = ask
        self._ask_about = ask_about
        self._entries = model.clients

    def on_event(self, step: Step) -> None:
        """A client took an event in."""
        client = step.client
        if client is None:
            raise ValueError("a client.event step must name its client")
        entry = self._entries.get(client.name)
        if entry is None or entry.incarnation != client.incarnation:
            if client.member.kind not in CLIENT_KINDS:
                self._classic.on_client_event(step, client)
                return
            entry = self._open_client(step, client)
        kind = type(step.event)
        is_routine = kind is Tick or kind is Poll
        is_good_heartbeat = False
        if kind is HeartbeatAnswered:
            entry.note_answer(step.event.correlation_id, step.event.response, step)
            is_good_heartbeat = not step.event.response.error_code
            is_routine = is_good_heartbeat and not step.effects
        elif not is_routine:
            self._note_event(step, entry, kind)
        asked = None if is_routine else self._listeners[entry.kind].of_event(step.event)
        if asked is not None and not is_good_heartbeat:
            self._ask_about(asked.on_event[kind], step, entry)
        if step.effects:
            self._effects(step, entry)
        if entry.has_moved():
            self._moved(step, entry)
            entry.catch_up()
        if asked is not None:
            self._ask_about(asked.on_handled[kind], step, entry)

    def on_started(self, step: Step) -> None:
        """A process began."""
        if step.client is not None:
            # A process that comes back in the quiet period, as a supervisor sees to after a fatal
            # error, has all the time that a rebalance may take.
            self._quiet.note_client_start(step.client.name, step.at_ms)
            self._classic.forget(step.client.name)
            if step.client.member.kind in CLIENT_KINDS:
                self._open_client(step, step.client)
            else:
                self._close_client(step.client.name)
                self._classic.on_client_started(step, step.client)

    def on_crashed(self, step: Step) -> None:
        """A process is gone."""
        if step.client is None:
            return
        entry = self._model.clients.get(step.client.name)
        if entry is not None:
            self._ask_about(self._listeners[entry.kind].of["on_client_gone"], step, entry)
        self._close_client(step.client.name)
        self._classic.on_client_gone(step, step.client.name)

    def _note_event(self, step: Step, entry: ClientEntry, kind: type) -> None:
        """Enter what happened before anything is judged."""
        if kind is AssignorMetadataChanged:
            self._quiet.note_disturbance(step.at_ms)
        elif kind is Disconnected or kind is RequestExpired:
            for correlation_id in step.event.correlation_ids:
                if entry.forget_request(correlation_id):
                    entry.has_failed = True
                    entry.failure_count += 1
                    if kind is Disconnected:
                        entry.lost_ms = step.at_ms
        elif kind is CommitOffsets:
            entry.commits_itself = True
            entry.open_commits[step.event.commit_id] = OpenCommit(step.at_ms, step.event.is_sync)

    def _effects(self, step: Step, entry: ClientEntry) -> None:
        state = entry.state
        for effect in step.effects:
            if type(effect) is SendHeartbeat:
                self._sent(step, entry, effect, state)
            elif type(effect) is StateChanged:
                state = effect.to_state
                if state is not effect.from_state:
                    entry.state_since_ms = step.at_ms
            elif type(effect) is SendCommit:
                entry.committed_ms = step.at_ms
            elif type(effect) is RaiseError:
                entry.raised_ms = step.at_ms
            elif type(effect) is RunCallback:
                entry.callback_kind = effect.kind
            elif type(effect) is CommitReturned:
                self._model.note_commit_returned(entry, effect.commit_id)
            elif type(effect) is CloseConnection:
                entry.forget_all_requests()
        if len(step.effects) > 1 or type(step.effects[0]) is not SendHeartbeat:
            kinds = tuple(map(type, step.effects))
            self._ask_about(self._listeners[entry.kind].on_effects[kinds], step, entry)

    def _sent(
        self, step: Step, entry: ClientEntry, effect: SendHeartbeat, state: ClientState
    ) -> None:
        request = effect.request
        member = entry.member
        is_repeated = (
            request is entry.last_request
            and state is entry.state
            and state is ClientState.STABLE
            and not entry.in_flight
            and not entry.has_failed
            and request.topic_partitions is None
            and request.member_epoch == member.member_epoch
            and step.at_ms - entry.last_sent_ms >= member.heartbeat_interval_ms
            and member.is_polling
            and not entry.has_new_subscription
        )
        if not is_repeated:
            self._judge_sent(step, entry, request, state)
        entry.note_sent(effect.correlation_id, request, step.at_ms)
        if request.member_epoch <= JOIN_EPOCH:
            self._quiet.note_sent(request, step.at_ms)

    def _judge_sent(
        self,
        step: Step,
        entry: ClientEntry,
        request: ConsumerGroupHeartbeatRequest,
        state: ClientState,
    ) -> None:
        self._ask(self._listeners[entry.kind].of["on_sent"], step, entry, request, state)
        if request.topic_partitions is not None:
            self._ask(self._listeners[entry.kind].of["on_sent_owned"], step, entry, request)
        if request.member_epoch == JOIN_EPOCH:
            self._ask(self._listeners[entry.kind].of["on_joining"], step, entry, request)
        elif request.member_epoch < JOIN_EPOCH:
            self._ask(self._listeners[entry.kind].of["on_leaving"], step, entry, request)

    def _moved(self, step: Step, entry: ClientEntry) -> None:
        model = self._model
        member = entry.member
        if member.member_id != entry.member_id:
            model.by_member_id.pop(entry.member_id, None)
            model.by_member_id[member.member_id] = entry
        self._ask_about(self._listeners[entry.kind].of["on_moved"], step, entry)
        if member.ownership_version != entry.version:
            if member.assigned is not entry.assigned:
                entry.had_assigned.update(member.assigned)
            fetchable = member.fetchable
            if fetchable is not entry.fetchable:
                model.refresh_fetchers(entry, fetchable)
        if model.contested:
            self._ask(self._on["on_ownership"], step)

    def _open_client(self, step: Step, client: ClientView) -> ClientEntry:
        model = self._model
        self._close_client(client.name)
        entry = model.clients[client.name] = ClientEntry(
            client,
            step.at_ms,
            ignores_former_answers=model.ignores_former_answers[client.member.kind],
        )
        if entry.member_id:
            model.by_member_id[entry.member_id] = entry
        model.refresh_fetchers(entry, client.member.fetchable)
        listeners = self._listeners[entry.kind]
        listeners.forget_process(entry.name)
        self._ask_about(listeners.of["on_client_started"], step, entry)
        return entry

    def _close_client(self, name: str) -> None:
        entry = self._model.clients.pop(name, None)
        if entry is None:
            return
        self._model.refresh_fetchers(entry, frozenset())
        if self._model.by_member_id.get(entry.member_id) is entry:
            del self._model.by_member_id[entry.member_id]
