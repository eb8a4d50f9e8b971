"""Shows the steps of classic groups, and their answers, to the invariants that listen to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rebalance_sim.invariants.engine.listeners import Listener
from rebalance_sim.invariants.engine.step import ClientView, ShardView, Step, shard_of
from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.classic_model import CLASSIC_REQUESTS, ClassicBook
from rebalance_sim.invariants.model.shadow_model import Books
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients import JoinGroupAnswered
from rebalance_sim.protocol.clients.common.kinds import LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.wire.classic_messages import (
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

__all__ = ["ClassicWatch"]

Ask = Callable[..., None]
"""Puts a question to listeners, and reports what they find."""


class ClassicWatch:
    """Keeps the books of classic groups for a checker; a group that never was one costs nothing."""

    def __init__(self, books: Books, on: Mapping[str, tuple[Listener, ...]], ask: Ask) -> None:
        self._books = books
        self._on = on
        self._ask = ask

    def on_request(self, step: Step, shard: ShardView) -> None:
        """A shard handled a request about the group, classic or not."""
        book = self.on_step(step, shard)
        request = step.request
        if type(request) not in CLASSIC_REQUESTS:
            return
        if book is None:
            book = self._books.classic.setdefault(shard.name, ClassicBook())
        if step.response is None and isinstance(request, (JoinGroupRequest, SyncGroupRequest)):
            book.parked[step.operation] = request
        self._ask(self._on["on_classic_request"], step, book)

    def on_step(self, step: Step, shard: ShardView) -> ClassicBook | None:
        """A shard did something that may have touched the group."""
        group = self._books.classic_group_in(shard)
        book = self._books.classic.get(shard.name)
        if book is None:
            if group is None:
                return None
            book = self._books.classic[shard.name] = ClassicBook()
        if (
            group is not None
            and step.records
            and isinstance(step.request, JoinGroupRequest)
            and group.state is ClassicGroupState.STABLE
        ):
            self._books.quiet_returns.add(group.generation_id)
        if group is not None or book.group is not None:
            self._ask(self._on["on_classic"], step, book.look(step, shard, group))
        return book

    def on_loaded(self, step: Step, shard: ShardView) -> None:
        """A term begins."""
        self._books.classic.pop(shard.name, None)
        book = self.on_step(step, shard)
        if book is not None:
            book.note_loaded(book.group)

    def on_answer(self, step: Step) -> None:
        """An answer to a classic request was let go."""
        book = self._books.classic.get(shard_of(step).name)
        if book is None:
            return
        if isinstance(step.response, JoinGroupResponse) and step.response.generation_id >= 0:
            told = (step.response.member_id, step.response.generation_id)
            self._books.told_in_term[told] = shard_of(step).leader_epoch
        if book.parked.pop(step.operation, None) is not None:
            # A consumer group answers with the outcome; by the time it is let go, the group may be
            # another one.
            self._ask(self._on["on_classic_answer"], step, book)

    # -- clients ---------------------------------------------------------------------------

    def on_client_started(self, client: ClientView) -> None:
        """A process of the classic protocol has started."""
        self.on_client_gone(client.name)
        self._books.classic_clients[client.name] = ClassicClientEntry(client)

    def on_client_gone(self, name: str) -> None:
        """A process has ended, if it was one of the classic protocol."""
        entry = self._books.classic_clients.pop(name, None)
        if entry is not None:
            self._books.refresh_fetchers(entry, frozenset())

    def on_client_event(self, step: Step, client: ClientView) -> None:
        """A client of the classic protocol took an event."""
        books = self._books
        entry = books.classic_clients.get(client.name)
        if entry is None or entry.incarnation != client.incarnation:
            self.on_client_started(client)
            entry = books.classic_clients[client.name]
        member = client.member
        if member.ownership_version != entry.version:
            entry.version = member.ownership_version
            if member.fetchable is not entry.fetchable:
                books.refresh_fetchers(entry, member.fetchable)
            entry.outlived &= member.assigned.keys()
        if (
            type(step.event) is JoinGroupAnswered
            and member.kind == LIBRDKAFKA_CLASSIC
            and step.event.response.error_code is ErrorCode.UNKNOWN_MEMBER_ID
        ):
            entry.outlived = frozenset(member.assigned)
        self._ask(self._on["on_classic_client"], step, entry)
        if books.contested:
            self._ask(self._on["on_ownership"], step)

    # -- commits ---------------------------------------------------------------------------

    def on_commit(self, step: Step, shard: ShardView) -> None:
        """Offsets of a classic group were committed, or refused."""
        book = self.on_step(step, shard)
        stored = [p for p, code in step.response.errors.items() if not code]
        if stored and book is not None:
            self._ask(self._on["on_classic_commit"], step, stored, book)
