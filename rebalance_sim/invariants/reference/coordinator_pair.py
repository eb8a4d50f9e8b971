"""A coordinator with its reference beside it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any

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

Report = Callable[["CoordinatorPair", Any, str, Any, Any], None]
"""Takes the coordinator, the input, what differs, what was decided and what the reference has."""

_COMPARED = ("response", "records", "timers", "completions")


class CoordinatorPair(GroupCoordinator):
    """Decides as it would without a reference, and has that fed the same.

    After a difference the reference takes over the state that this coordinator is in by then, and
    the comparison continues from there.
    """

    def __init__(
        self,
        *,
        tree: Tree,
        reference_semantics: Any,
        report: Report,
        new_member_id: Callable[[], str],
        **settings: Any,
    ) -> None:
        drawn: deque[str] = deque()

        def draw() -> str:
            drawn.append(new_member_id())
            return drawn[-1]

        super().__init__(new_member_id=draw, **settings)
        self._tree = tree
        self._report = report
        self._drawn = drawn
        self._reference = tree.coordinator(
            **settings | {"semantics": reference_semantics},
            new_member_id=lambda: drawn.popleft() if drawn else "not drawn",
        )
        self._has_differed = False
        self._is_deciding = False
        self._continuations: dict[int, tuple[Continuation, Any]] = {}
        self._records: dict[int, tuple[Record, Record]] = {}
        self.compared = 0

    # -- decisions -------------------------------------------------------------------------

    def handle(self, request: Any, **settings: Any) -> Outcome:
        """As of ``GroupCoordinator``."""
        return self._decide(
            request,
            lambda: super(CoordinatorPair, self).handle(request, **settings),
            lambda: self._reference.handle(request, **settings),
        )

    def fire(self, key: TimerKey, *, epoch: int = 0, now_ms: int) -> Outcome:
        """As of ``GroupCoordinator``."""
        return self._decide(
            key,
            lambda: super(CoordinatorPair, self).fire(key, epoch=epoch, now_ms=now_ms),
            lambda: self._reference.fire(self._tree.timer_key(key), epoch=epoch, now_ms=now_ms),
        )

    def committed(self, on_commit: Continuation, *, now_ms: int) -> Outcome:
        """As of ``GroupCoordinator``."""
        theirs = self._continuation(on_commit)
        return self._decide(
            on_commit,
            lambda: super(CoordinatorPair, self).committed(on_commit, now_ms=now_ms),
            None if theirs is None else lambda: self._reference.committed(theirs, now_ms=now_ms),
        )

    def write_failed(
        self, on_commit: Continuation, error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """As of ``GroupCoordinator``."""
        theirs = self._continuation(on_commit)
        settings: dict[str, Any] = {"is_undone": is_undone, "now_ms": now_ms}
        return self._decide(
            on_commit,
            lambda: super(CoordinatorPair, self).write_failed(on_commit, error, **settings),
            None
            if theirs is None
            else lambda: self._reference.write_failed(theirs, error, **settings),
        )

    def _continuation(self, on_commit: Continuation) -> Any:
        """What the reference gave in the same place; None if it gave nothing."""
        return self._continuations.pop(id(on_commit), (None, None))[1]

    def read(self, request: Any) -> Any:
        """As of ``GroupCoordinator``."""
        if self._is_deciding:
            return super().read(request)
        return self._both(
            request,
            lambda: super(CoordinatorPair, self).read(request),
            lambda: self._reference.read(request),
        )

    def _decide(
        self, event: Any, mine: Callable[[], Outcome], theirs: Callable[[], Any] | None
    ) -> Outcome:
        self._catch_up()
        self._drawn.clear()
        decided: Outcome
        self._is_deciding = True
        decided, problem = _called(mine)
        self._is_deciding = False
        if theirs is None:
            self._has_differed = True  # from before: nothing to compare with
        else:
            reference, their_problem = _called(theirs)
            self._compare(event, problem or decided, their_problem or reference)
        if problem is not None:
            raise problem
        return decided

    def _catch_up(self) -> None:
        if self._has_differed:
            take_over(self, self._reference, self._tree)
            self._has_differed = False

    def _compare(self, event: Any, decided: Any, reference: Any) -> None:
        self.compared += 1
        if isinstance(decided, Exception) or isinstance(reference, Exception):
            if type(decided).__name__ != type(reference).__name__:
                self._differ(event, "what comes of it", decided, reference)
            return
        for name in _COMPARED:
            if getattr(decided, name) != getattr(reference, name):
                self._differ(event, name, getattr(decided, name), getattr(reference, name))
                return
        for mine, theirs in zip(decided.records, reference.records, strict=True):
            self._records[id(mine)] = (mine, theirs)
        if (decided.on_commit is None) != (reference.on_commit is None):
            self._differ(event, "what waits for the commit", decided.on_commit, reference.on_commit)
        elif decided.on_commit is not None:
            self._continuations[id(decided.on_commit)] = (decided.on_commit, reference.on_commit)

    def _differ(self, event: Any, what: str, decided: Any, reference: Any) -> None:
        self._has_differed = True
        self._report(self, event, what, decided, reference)

    # -- the rest ----------------------------------------------------------------

    def _both(self, event: Any, mine: Callable[[], Any], theirs: Callable[[], Any]) -> Any:
        """Do the same in both, and compare what comes of it; the reference is left out if it takes
        everything over anyway."""
        decided, problem = _called(mine)
        if not self._has_differed:
            reference, their_problem = _called(theirs)
            self.compared += decided is not None
            if decided != reference or type(problem).__name__ != type(their_problem).__name__:
                self._differ(
                    event, "what comes of it", problem or decided, their_problem or reference
                )
        if problem is not None:
            raise problem
        return decided

    def _own(self, record: Record) -> Record:
        """The record that the reference made in the same place: a group knows its own again."""
        return self._records.pop(id(record), (record, record))[1]

    def replay(self, record: Record, *, strict: bool = True, offset: int | None = None) -> None:
        """As of ``GroupCoordinator``."""
        own = self._own(record)
        self._both(
            record,
            lambda: super(CoordinatorPair, self).replay(record, strict=strict, offset=offset),
            lambda: self._reference.replay(own, strict=strict, offset=offset),
        )

    def replay_batch(self, records: Sequence[Record], *, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        own = tuple(map(self._own, records))
        self._both(
            records[0] if records else None,
            lambda: super(CoordinatorPair, self).replay_batch(records, offset=offset),
            lambda: self._reference.replay_batch(own, offset=offset),
        )

    def commit_to(self, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            None,
            lambda: super(CoordinatorPair, self).commit_to(offset),
            lambda: self._reference.commit_to(offset),
        )

    def revert_to(self, offset: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            None,
            lambda: super(CoordinatorPair, self).revert_to(offset),
            lambda: self._reference.revert_to(offset),
        )

    def update_configs(self, configs: ConfigsInForce) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            None,
            lambda: super(CoordinatorPair, self).update_configs(configs),
            lambda: self._reference.update_configs(configs),
        )

    def set_wall_clock(self, offset_ms: int) -> None:
        """As of ``GroupCoordinator``."""
        self._both(
            None,
            lambda: super(CoordinatorPair, self).set_wall_clock(offset_ms),
            lambda: self._reference.set_wall_clock(offset_ms),
        )

    def timers_after_revert(
        self, armed: Container[TimerKey], *, now_ms: int
    ) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        found: tuple[TimerCommand, ...] = self._both(
            "revert",
            lambda: super(CoordinatorPair, self).timers_after_revert(armed, now_ms=now_ms),
            lambda: self._reference.timers_after_revert(armed, now_ms=now_ms),
        )
        return found

    def update_image(self, image: MetadataImage, *, now_ms: int = 0) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        found: tuple[TimerCommand, ...] = self._both(
            "topics",
            lambda: super(CoordinatorPair, self).update_image(image, now_ms=now_ms),
            lambda: self._reference.update_image(image, now_ms=now_ms),
        )
        return found

    def on_loaded(self, *, now_ms: int) -> tuple[TimerCommand, ...]:
        """As of ``GroupCoordinator``."""
        found: tuple[TimerCommand, ...] = self._both(
            "load",
            lambda: super(CoordinatorPair, self).on_loaded(now_ms=now_ms),
            lambda: self._reference.on_loaded(now_ms=now_ms),
        )
        return found

    def on_unloaded(self, *, now_ms: int) -> tuple[Completion, ...]:
        """As of ``GroupCoordinator``."""
        found: tuple[Completion, ...] = self._both(
            "unload",
            lambda: super(CoordinatorPair, self).on_unloaded(now_ms=now_ms),
            lambda: self._reference.on_unloaded(now_ms=now_ms),
        )
        return found


def _called(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """What a function answers, and what it raised."""
    try:
        return function(), None
    except Exception as problem:
        return None, problem
