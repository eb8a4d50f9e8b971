"""A coordinator with one reference or several beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any, Protocol, TypeVar, cast

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

_T = TypeVar("_T")
_COMPARED = ("response", "records", "timers", "completions", "markers")


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

    def own(self, argument: Any) -> Any:
        """For records those that the reference made in the same place: a group knows its own again;
        anything else as it is."""
        if type(argument) in (tuple, list):
            return tuple(map(self.own, argument))
        return self._records.pop(id(argument), (argument, argument))[1]

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
        return self._decide(request, super().handle, lambda one: request, **settings)

    def fire(self, key: TimerKey, *, epoch: int = 0, now_ms: int) -> Outcome:
        """As of ``GroupCoordinator``."""
        return self._decide(
            key, super().fire, lambda one: one.tree.timer_key(key), epoch=epoch, now_ms=now_ms
        )

    def committed(self, on_commit: Continuation, *, now_ms: int) -> Outcome:
        """As of ``GroupCoordinator``."""
        return self._decide(
            on_commit, super().committed, lambda one: one.continuation(on_commit), now_ms=now_ms
        )

    def write_failed(
        self, on_commit: Continuation, error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """As of ``GroupCoordinator``."""
        return self._decide(
            on_commit,
            super().write_failed,
            lambda one: one.continuation(on_commit),
            error=error,
            is_undone=is_undone,
            now_ms=now_ms,
        )

    def _decide(
        self,
        event: Any,
        mine: Callable[..., Outcome],
        event_of: Callable[[Beside], Any],
        **settings: Any,
    ) -> Outcome:
        """``event_of``: the event as a reference is to have it; None: it has no such."""
        besides = self._compared()
        for one in besides:
            one.catch_up(self)
        self._is_deciding = True
        decided, problem = _called(mine, event, **settings)
        self._is_deciding = False
        for one in besides:
            own, their_problem = _called(event_of, one)
            if own is not None:
                decide = getattr(one.machine, mine.__name__)
                reference, their_problem = _called(decide, own, **settings)
            elif their_problem is None:
                one.has_differed = True  # from before: nothing to compare with
                continue
            one.compare(self, event, problem or decided, their_problem or reference)
        if problem is not None:
            raise problem
        outcome: Outcome = decided
        return outcome

    # -- the rest ----------------------------------------------------------------

    def read(self, request: Any) -> Any:
        """As of ``GroupCoordinator``."""
        if self._is_deciding:
            return super().read(request)
        return self._both(request, super().read, request)

    def replay(self, record: Record, *, strict: bool = True, offset: int | None = None) -> None:
        """As of ``GroupCoordinator``."""
        self._both(record, super().replay, record, strict=strict, offset=offset)

    def replay_batch(self, records: Sequence[Record], *, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(records[0] if records else None, super().replay_batch, records, offset=offset)

    def commit_to(self, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(None, super().commit_to, offset)

    def revert_to(self, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(None, super().revert_to, offset)

    def update_configs(self, configs: ConfigsInForce) -> None:
        """As of ``GroupCoordinator``."""
        self._both(None, super().update_configs, configs)

    def set_wall_clock(self, offset_ms: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(None, super().set_wall_clock, offset_ms)

    def timers_after_revert(
        self, armed: Container[TimerKey], *, now_ms: int
    ) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        return self._both("revert", super().timers_after_revert, armed, now_ms=now_ms)

    def update_image(self, image: MetadataImage, *, now_ms: int = 0) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        return self._both("topics", super().update_image, image, now_ms=now_ms)

    def on_loaded(self, *, now_ms: int) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        return self._both("load", super().on_loaded, now_ms=now_ms)

    def on_unloaded(self, *, now_ms: int) -> tuple[Completion, ...]:
        """As of ``GroupCoordinator``."""
        return self._both("unload", super().on_unloaded, now_ms=now_ms)

    def _both(self, event: Any, mine: Callable[..., _T], *args: Any, **settings: Any) -> _T:
        """Do the same in all, and compare what comes of it; a reference is left out if it takes
        everything over anyway."""
        decided, problem = _called(mine, *args, **settings)
        for one in self._compared():
            own = [one.own(argument) for argument in args]
            if one.has_differed:
                continue
            do = getattr(one.machine, mine.__name__)
            reference, their_problem = _called(do, *own, **settings)
            one.compared += decided is not None
            if decided != reference or type(problem).__name__ != type(their_problem).__name__:
                one.differ(
                    self, event, "what comes of it", problem or decided, their_problem or reference
                )
        if problem is not None:
            raise problem
        return cast(_T, decided)


def _called(function: Callable[..., Any], *args: Any, **settings: Any) -> tuple[Any, Any]:
    """What a function answers, and the exception that it raised."""
    try:
        return function(*args, **settings), None
    except Exception as problem:
        return None, problem
