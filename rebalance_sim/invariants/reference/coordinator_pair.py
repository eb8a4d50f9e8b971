"""A coordinator with one reference or several beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from functools import partial
from typing import Any, Protocol

from rebalance_sim.invariants.reference.take_over import take_over
from rebalance_sim.invariants.reference.tree import Tree
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.outcome import (
    Completion,
    Continuation,
    Outcome,
    TimerCommand,
    TimerKey,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage

_COMPARED = ("response", "records", "timers", "completions")


class Watch(Protocol):
    """What collects where a reference differs."""

    is_over: bool
    """Nothing is to be compared any more."""

    def note_coordinator(
        self, pair: CoordinatorPair, event: Any, what: str, decided: Any, reference: Any
    ) -> None:
        """The coordinator, the input, what differs, what was decided and what the reference has."""


class Beside:
    """One reference of a coordinator, with what it is known again by."""

    def __init__(self, *, watch: Watch, tree: Tree, **settings: Any) -> None:
        self.watch = watch
        self.drawn: deque[str] = deque()
        """Ids of members that the coordinator has drawn, and the reference has not."""
        own_ids = {"new_member_id": lambda: self.drawn.popleft() if self.drawn else "not drawn"}
        self.machine = tree.coordinator(**settings | own_ids)
        self.tree = tree
        self.has_differed = False
        self.compared = 0
        self._continuations: dict[int, tuple[Continuation, Any]] = {}
        self._records: dict[int, tuple[Record, Record]] = {}

    def catch_up(self, pair: CoordinatorPair) -> None:
        """After a difference: take over the state in which the coordinator is by now."""
        self.drawn.clear()
        if self.has_differed:
            take_over(pair, self.machine, self.tree)
            self.has_differed = False

    def continuation(self, on_commit: Continuation) -> Any:
        """What the reference gave in the same place; None if it gave nothing."""
        return self._continuations.pop(id(on_commit), (None, None))[1]

    def own(self, record: Record) -> Record:
        """The record that the reference made in the same place: a group knows its own again."""
        return self._records.pop(id(record), (record, record))[1]

    def compare(self, pair: CoordinatorPair, event: Any, decided: Any, reference: Any) -> None:
        """Hold two decisions against each other."""
        self.compared += 1
        if isinstance(decided, Exception) or isinstance(reference, Exception):
            if type(decided).__name__ != type(reference).__name__:
                self.differ(pair, event, "what comes of it", decided, reference)
            return
        for name in _COMPARED:
            mine, theirs = getattr(decided, name), getattr(reference, name)
            if mine != theirs:
                self.differ(pair, event, name, mine, theirs)
                return
        for mine, theirs in zip(decided.records, reference.records, strict=True):
            self._records[id(mine)] = (mine, theirs)
        mine, theirs = decided.on_commit, reference.on_commit
        if (mine is None) != (theirs is None):
            self.differ(pair, event, "what waits for the commit", mine, theirs)
        elif mine is not None:
            self._continuations[id(mine)] = (mine, theirs)

    def differ(
        self, pair: CoordinatorPair, event: Any, what: str, decided: Any, reference: Any
    ) -> None:
        """The two have decided differently."""
        self.has_differed = True
        self.watch.note_coordinator(pair, event, what, decided, reference)


class CoordinatorPair(GroupCoordinator):
    """Decides as it would without references, and has these fed the same.

    After a difference a reference takes over the state that this coordinator is in by then, and the
    comparison continues from there.
    """

    def __init__(
        self, besides: Sequence[Beside], *, new_member_id: Callable[[], str], **settings: Any
    ) -> None:
        self._besides = tuple(besides)

        def draw() -> str:
            drawn = new_member_id()
            for one in self._besides:
                one.drawn.append(drawn)
            return drawn

        super().__init__(new_member_id=draw, **settings)
        self._is_deciding = False

    def _compared(self) -> tuple[Beside, ...]:
        """The references that are compared; those that are not are forgotten."""
        if any(one.watch.is_over for one in self._besides):
            self._besides = tuple(one for one in self._besides if not one.watch.is_over)
        return self._besides

    # -- decisions -------------------------------------------------------------------------

    def handle(self, request: Any, **settings: Any) -> Outcome:
        """As of ``GroupCoordinator``."""
        return self._decide(
            request,
            partial(super().handle, request, **settings),
            lambda one: partial(one.machine.handle, request, **settings),
        )

    def fire(self, key: TimerKey, *, epoch: int = 0, now_ms: int) -> Outcome:
        """As of ``GroupCoordinator``."""
        times = {"epoch": epoch, "now_ms": now_ms}
        return self._decide(
            key,
            partial(super().fire, key, **times),
            lambda one: lambda: one.machine.fire(one.tree.timer_key(key), **times),
        )

    def committed(self, on_commit: Continuation, *, now_ms: int) -> Outcome:
        """As of ``GroupCoordinator``."""

        def theirs(one: Beside) -> Callable[[], Any] | None:
            own = one.continuation(on_commit)
            return None if own is None else partial(one.machine.committed, own, now_ms=now_ms)

        return self._decide(on_commit, partial(super().committed, on_commit, now_ms=now_ms), theirs)

    def write_failed(
        self, on_commit: Continuation, error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """As of ``GroupCoordinator``."""
        settings: dict[str, Any] = {"is_undone": is_undone, "now_ms": now_ms}

        def theirs(one: Beside) -> Callable[[], Any] | None:
            own = one.continuation(on_commit)
            return (
                None if own is None else partial(one.machine.write_failed, own, error, **settings)
            )

        return self._decide(
            on_commit, partial(super().write_failed, on_commit, error, **settings), theirs
        )

    def read(self, request: Any) -> Any:
        """As of ``GroupCoordinator``."""
        if self._is_deciding:
            return super().read(request)
        return self._both(
            request, partial(super().read, request), lambda one: partial(one.machine.read, request)
        )

    def _decide(
        self,
        event: Any,
        mine: Callable[[], Outcome],
        theirs: Callable[[Beside], Callable[[], Any] | None],
    ) -> Outcome:
        besides = self._compared()
        for one in besides:
            one.catch_up(self)
        self._is_deciding = True
        decided, problem = _called(mine)
        self._is_deciding = False
        for one in besides:
            decide = theirs(one)
            if decide is None:
                one.has_differed = True  # from before: nothing to compare with
            else:
                reference, their_problem = _called(decide)
                one.compare(self, event, problem or decided, their_problem or reference)
        if problem is not None:
            raise problem
        outcome: Outcome = decided
        return outcome

    # -- the rest ----------------------------------------------------------------

    def _both(
        self, event: Any, mine: Callable[[], Any], theirs: Callable[[Beside], Callable[[], Any]]
    ) -> Any:
        """Do the same in all, and compare what comes of it; a reference is left out if it takes
        everything over anyway."""
        decided, problem = _called(mine)
        for one in self._compared():
            do = theirs(one)
            if one.has_differed:
                continue
            reference, their_problem = _called(do)
            one.compared += decided is not None
            if decided != reference or type(problem).__name__ != type(their_problem).__name__:
                one.differ(
                    self, event, "what comes of it", problem or decided, their_problem or reference
                )
        if problem is not None:
            raise problem
        return decided

    def replay(self, record: Record, *, strict: bool = True, offset: int | None = None) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            record,
            partial(super().replay, record, strict=strict, offset=offset),
            lambda one: partial(one.machine.replay, one.own(record), strict=strict, offset=offset),
        )

    def replay_batch(self, records: Sequence[Record], *, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            records[0] if records else None,
            partial(super().replay_batch, records, offset=offset),
            lambda one: partial(
                one.machine.replay_batch, tuple(map(one.own, records)), offset=offset
            ),
        )

    def commit_to(self, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            None,
            partial(super().commit_to, offset),
            lambda one: partial(one.machine.commit_to, offset),
        )

    def revert_to(self, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            None,
            partial(super().revert_to, offset),
            lambda one: partial(one.machine.revert_to, offset),
        )

    def update_configs(self, configs: ConfigsInForce) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            None,
            partial(super().update_configs, configs),
            lambda one: partial(one.machine.update_configs, configs),
        )

    def set_wall_clock(self, offset_ms: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            None,
            partial(super().set_wall_clock, offset_ms),
            lambda one: partial(one.machine.set_wall_clock, offset_ms),
        )

    def timers_after_revert(
        self, armed: Container[TimerKey], *, now_ms: int
    ) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        found: tuple[TimerCommand, ...] = self._both(
            "revert",
            partial(super().timers_after_revert, armed, now_ms=now_ms),
            lambda one: partial(one.machine.timers_after_revert, armed, now_ms=now_ms),
        )
        return found

    def update_image(self, image: MetadataImage, *, now_ms: int = 0) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        found: tuple[TimerCommand, ...] = self._both(
            "topics",
            partial(super().update_image, image, now_ms=now_ms),
            lambda one: partial(one.machine.update_image, image, now_ms=now_ms),
        )
        return found

    def on_loaded(self, *, now_ms: int) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        found: tuple[TimerCommand, ...] = self._both(
            "load",
            partial(super().on_loaded, now_ms=now_ms),
            lambda one: partial(one.machine.on_loaded, now_ms=now_ms),
        )
        return found

    def on_unloaded(self, *, now_ms: int) -> tuple[Completion, ...]:
        """As of ``GroupCoordinator``."""
        found: tuple[Completion, ...] = self._both(
            "unload",
            partial(super().on_unloaded, now_ms=now_ms),
            lambda one: partial(one.machine.on_unloaded, now_ms=now_ms),
        )
        return found


def _called(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a function answers, and what it raised."""
    try:
        return function(), None
    except Exception as problem:
        return None, problem
