"""Shows the steps of classic groups, and their answers, to the invariants that listen to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance_sim.invariants.engine.listeners import Listeners
from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.classic_model import CLASSIC_REQUESTS, ClassicModel
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.step import ClientView, ShardView, Step, shard_of
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients import (
    ClassicHeartbeatAnswered,
    CommitReturned,
    Poll,
    Tick,
)
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest

Ask = Callable[..., None]
"""Puts a question to listeners, and reports what they find."""


class ClassicWatch:
    """Keeps the shadow model of classic groups for a checker; a group that never was one costs
    nothing. ``listeners`` by kind of client, ``of_group``: those of all kinds."""

    def __init__(
        self,
        model: ShadowModel,
        listeners: Mapping[str, Listeners],
        of_group: Listeners,
        ask: Ask,
        ask_about: Ask,
    ) -> None:
        self._model = model
        self._listeners = listeners
        self._on = of_group.of
        self._on_untouched = of_group.on_untouched
        self._on_request = of_group.on_classic_request
        self._ask = ask
        self._ask_about = ask_about

    def on_request(self, step: Step, shard: ShardView, group: ClassicGroup | None) -> None:
        """A shard handled a request about the group, classic or not; ``group``: what it is now."""
        classic_model = self._look(step, shard, group)
        request = step.request
        if type(request) is OffsetCommitRequest and group is not None:
            stored = [p for p, code in step.response.errors.items() if not code]
            if stored:
                self._ask(self._on["on_classic_commit"], step, stored, classic_model)
        if type(request) not in CLASSIC_REQUESTS:
            return
        if classic_model is None:
            classic_model = self._model.classic.setdefault(shard.name, ClassicModel())
        if step.response is None and isinstance(request, (JoinGroupRequest, SyncGroupRequest)):
            classic_model.parked[step.operation] = request
        self._ask_about(self._on_request[type(request)], step, classic_model)

    def on_step(self, step: Step, shard: ShardView) -> ClassicModel | None:
        """A shard did something that may have touched the group."""
        return self._look(step, shard, self._model.classic_group_in(shard))

    def _look(
        self, step: Step, shard: ShardView, group: ClassicGroup | None
    ) -> ClassicModel | None:
        classic_model = self._model.classic.get(shard.name)
        if classic_model is None:
            if group is None:
                return None
            classic_model = self._model.classic[shard.name] = ClassicModel()
        if group is not None or classic_model.group is not None:
            look = classic_model.look(step, shard, group)
            changes = self._on["on_classic"]
            self._ask_about(self._on_untouched if look.is_untouched else changes, step, look)
        return classic_model

    def on_loaded(self, step: Step, shard: ShardView) -> None:
        """A term begins."""
        self._model.classic.pop(shard.name, None)
        classic_model = self.on_step(step, shard)
        if classic_model is not None:
            classic_model.note_loaded(classic_model.group)

    def on_answer(self, step: Step) -> None:
        """An answer to a classic request was let go."""
        classic_model = self._model.classic.get(shard_of(step).name)
        if classic_model is None:
            return
        if classic_model.parked.pop(step.operation, None) is not None:
            # A consumer group answers with the outcome; by the time it is let go, the group may be
            # another one.
            self._ask_about(self._on["on_classic_answer"], step, classic_model)

    # -- clients ---------------------------------------------------------------------------

    def on_client_started(self, step: Step, client: ClientView) -> ClassicClientEntry:
        """A process of the classic protocol has started."""
        self.forget(client.name)
        entry = self._model.classic_clients[client.name] = ClassicClientEntry(client, step.at_ms)
        listeners = self._listeners[entry.kind]
        listeners.forget_process(entry.name)
        self._ask_about(listeners.of["on_client_started"], step, entry)
        return entry

    def on_client_gone(self, step: Step, name: str) -> None:
        """A process has crashed, if it was one of the classic protocol."""
        entry = self._model.classic_clients.get(name)
        if entry is not None:
            self._ask_about(self._listeners[entry.kind].of["on_client_gone"], step, entry)
        self.forget(name)

    def forget(self, name: str) -> None:
        """A process has ended, or there is another one, if it was one of the classic protocol."""
        entry = self._model.classic_clients.pop(name, None)
        if entry is not None:
            self._model.refresh_fetchers(entry, frozenset())

    def on_client_event(self, step: Step, client: ClientView) -> None:
        """A client of the classic protocol took an event."""
        model = self._model
        entry = model.classic_clients.get(client.name)
        if entry is None or entry.incarnation != client.incarnation:
            entry = self.on_client_started(step, client)
        kind = type(step.event)
        is_routine = kind is Tick or kind is Poll
        if kind is ClassicHeartbeatAnswered:
            error_code = step.event.response.error_code
            is_routine = not error_code
        has_moved = entry.has_moved()
        if has_moved or step.effects or not is_routine:
            self._client_moved(step, entry, is_routine=is_routine, has_moved=has_moved)
        if model.contested:
            self._ask(self._on["on_ownership"], step)

    def _client_moved(
        self, step: Step, entry: ClassicClientEntry, *, is_routine: bool, has_moved: bool
    ) -> None:
        """An event has led to something, or was out of the ordinary."""
        model, member, kind = self._model, entry.member, type(step.event)
        listeners = self._listeners[entry.kind]
        if not is_routine:
            entry.note_event(step.event, step.at_ms)
            asked = listeners.of_event(step.event)
            self._ask_about(asked.on_event[kind], step, entry)
        if step.effects:
            entry.note_effects(step)
            for effect in step.effects:
                if type(effect) is CommitReturned:
                    model.note_commit_returned(entry, effect.commit_id)
            kinds = tuple(map(type, step.effects))
            self._ask_about(listeners.on_effects[kinds], step, entry)
        version = member.ownership_version
        if version != entry.version:
            entry.version = version
            if member.fetchable is not entry.fetchable:
                model.refresh_fetchers(entry, member.fetchable)
        if has_moved or step.effects:
            self._ask_about(self._on["on_classic_client"], step, entry)
            entry.catch_up()
