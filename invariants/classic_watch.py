"""Shows the steps of classic groups, and their answers, to the invariants that listen to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from invariants.books import Books
from invariants.classic_book import CLASSIC_REQUESTS, ClassicBook
from invariants.listeners import Listener
from invariants.step import ShardView, Step, shard_of
from protocol.messages_classic import JoinGroupRequest, SyncGroupRequest

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
        book.parked.pop(step.operation, None)
        self._ask(self._on["on_classic_answer"], step, book)

    def on_commit(self, step: Step, shard: ShardView) -> None:
        """Offsets of a classic group were committed, or refused."""
        book = self.on_step(step, shard)
        stored = [p for p, code in step.response.errors.items() if not code]
        if stored and book is not None:
            self._ask(self._on["on_classic_commit"], step, stored, book)
