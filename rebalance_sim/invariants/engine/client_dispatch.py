"""Shows what clients do to the invariants that listen to them, and keeps their shadow model.

Which listeners a client has depends on its kind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_sim.invariants.engine.listeners import Listener, Listeners, Questions
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.step import ClientView, Step
from rebalance_sim.protocol.clients.common.effects import (
    CloseConnection,
    CommitReturned,
    RaiseError,
    RunCallback,
    SendCommit,
    SendHeartbeat,
    StateChanged,
)
from rebalance_sim.protocol.clients.common.events import (
    AssignorMetadataChanged,
    CallbackCompleted,
    ClassicHeartbeatAnswered,
    CommitOffsets,
    Disconnected,
    HeartbeatAnswered,
    Poll,
    RequestExpired,
    Tick,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH
from rebalance_sim.protocol.wire.errors import ErrorCode


class ClientWatch:
    """Keeps the shadow model of clients for a checker. ``listeners`` by kind."""

    def __init__(
        self,
        model: ShadowModel,
        quiet: QuietPeriod,
        listeners: Mapping[str, Listeners],
        on_ownership: tuple[Listener, ...],
        questions: Questions,
    ) -> None:
        self._model = model
        self._quiet = quiet
        self._listeners = listeners
        self._on_ownership = on_ownership
        self._opened: set[str] = set()
        """Clients of which there has been a process."""
        self._ask = questions.ask
        self._ask_about = questions.ask_about
        self._ask_about_all = questions.ask_about_all

    def on_event(self, step: Step) -> None:
        """A client took an event in."""
        client, model = step.client, self._model
        if client is None:
            raise ValueError("a client.event step must name its client")
        entry = model.entries.get(client.name)
        if entry is None or entry.incarnation != client.incarnation:
            entry = self._open_client(step, client)
        kind = type(step.event)
        if kind is not Tick and kind is not Poll:
            self._take(step, entry, kind)
        effects = step.effects
        if effects:
            self._effects(step, entry, effects)
        if entry.has_moved():
            self._moved(step, entry)
            if model.contested:
                self._ask(self._on_ownership, step)
            entry.catch_up()
        elif entry.is_classic:
            if effects:
                self._ask_about(self._listeners[entry.kind].on_acted, step, entry)
            # What a classic group has come to shows at the next event of a client that fetches.
            if model.contested:
                self._ask(self._on_ownership, step)

    def on_started(self, step: Step) -> None:
        """A process began. One that comes back in the quiet period, as a supervisor sees to after a
        fatal error, has all the time that a rebalance may take."""
        if step.client is not None:
            self._quiet.note_client_start(step.client.name, step.at_ms)
            self._open_client(step, step.client)

    def on_crashed(self, step: Step) -> None:
        """A process is gone."""
        entry = None if step.client is None else self._model.entries.get(step.client.name)
        if entry is not None:
            self._ask_about(self._listeners[entry.kind].of["on_client_gone"], step, entry)
            self._close_client(entry.name)

    def _take(self, step: Step, entry: ClientEntry, kind: type) -> None:
        """An event that is neither a tick nor a poll; a good heartbeat matters to no one."""
        event = step.event
        if kind is HeartbeatAnswered:
            code = event.response.error_code
            is_paced = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            entry.note_end(
                event.correlation_id,
                has_failed=bool(code),
                paced_ms=step.at_ms if is_paced else None,
            )
            if not code:
                is_of_this = event.correlation_id >= entry.joined_by
                entry.was_let_in |= is_of_this and event.response.member_epoch > 0
                return
        elif kind is ClassicHeartbeatAnswered:
            if not event.response.error_code:
                return
        elif kind is CommitOffsets:
            entry.note_commit(event, step.at_ms)
        elif kind is CallbackCompleted:
            self._model.note_returned(entry, entry.callback_since_ms)
        elif kind is AssignorMetadataChanged:
            self._quiet.note_disturbance(step.at_ms)
        elif kind is Disconnected or kind is RequestExpired:
            for correlation_id in event.correlation_ids:
                entry.note_end(correlation_id, has_failed=True, paced_ms=step.at_ms)
        listeners = self._listeners[entry.kind].of_event(event)
        if listeners:
            self._ask_about(listeners, step, entry)

    def _effects(self, step: Step, entry: ClientEntry, effects: tuple[Any, ...]) -> None:
        state = entry.state
        for effect in effects:
            kind = type(effect)
            if kind is SendHeartbeat:
                self._sent(step, entry, effect, state)
            elif kind is StateChanged:
                state = effect.to_state
                if state is not effect.from_state:
                    entry.state_since_ms = step.at_ms
            elif kind is SendCommit:
                entry.committed_ms = step.at_ms
            elif kind is RaiseError:
                entry.raised_ms = step.at_ms
            elif kind is RunCallback:
                entry.callback_since_ms = step.at_ms
            elif kind is CommitReturned:
                self._model.note_commit_returned(entry, effect.commit_id)
            elif kind is CloseConnection:
                entry.forget_requests()
        if len(effects) > 1 or type(effects[0]) is not SendHeartbeat:
            what = type(effects[0]) if len(effects) == 1 else tuple(map(type, effects))
            listeners = self._listeners[entry.kind].on_effects[what]
            if listeners:
                self._ask_about(listeners, step, entry)

    def _sent(
        self, step: Step, entry: ClientEntry, effect: SendHeartbeat, state: ClientState
    ) -> None:
        request = effect.request
        is_repeated = (
            request is entry.last_request
            and state is entry.state
            and state is ClientState.STABLE
            and not entry.in_flight
            and not entry.has_failed
            and request.topic_partitions is None
            and step.at_ms - entry.last_sent_ms >= entry.member.heartbeat_interval_ms
        )
        if not is_repeated:
            listeners = self._listeners[entry.kind].of["on_sent"]
            self._ask_about_all(listeners, step, entry, request, state)
        entry.note_sent(effect.correlation_id, request, step.at_ms)
        if request.member_epoch <= JOIN_EPOCH:
            self._quiet.note_sent(request, step.at_ms)

    def _moved(self, step: Step, entry: ClientEntry) -> None:
        model, member = self._model, entry.member
        if member.member_id != entry.member_id and not entry.is_classic:
            model.by_member_id.pop(entry.member_id, None)
            model.by_member_id[member.member_id] = entry
        self._ask_about(self._listeners[entry.kind].of["on_moved"], step, entry)
        if entry.is_classic and member.member_epoch <= 0 and member.state is ClientState.JOINING:
            # Not before: what it had sent when it heard that it is no member any more is of that.
            entry.had_assigned.clear()
            entry.had_assigned.update(member.assigned)
        if member.ownership_version != entry.version:
            if member.assigned is not entry.assigned:
                entry.had_assigned.update(member.assigned)
            if member.fetchable is not entry.fetchable:
                model.refresh_fetchers(entry, member.fetchable)

    def _open_client(self, step: Step, client: ClientView) -> ClientEntry:
        model = self._model
        self._close_client(client.name)
        entry = model.entries[client.name] = ClientEntry(client, step.at_ms)
        if entry.is_classic:
            model.classic_clients[entry.name] = entry
        else:
            model.clients[entry.name] = entry
            if entry.member_id:
                model.by_member_id[entry.member_id] = entry
        model.refresh_fetchers(entry, client.member.fetchable)
        if entry.name in self._opened:
            self._listeners[entry.kind].forget_process(entry.name)
        self._opened.add(entry.name)
        return entry

    def _close_client(self, name: str) -> None:
        model = self._model
        entry = model.entries.pop(name, None)
        if entry is None:
            return
        del (model.classic_clients if entry.is_classic else model.clients)[name]
        model.refresh_fetchers(entry, frozenset())
        if model.by_member_id.get(entry.member_id) is entry:
            del model.by_member_id[entry.member_id]
