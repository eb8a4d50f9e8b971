"""Begins each fault at its time, ends its window, and ends all windows before the quiet period."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import FaultWorld


class FaultSteps(Protocol):
    """Where faults are shown."""

    @property
    def count(self) -> int:
        """How many steps there have been."""

    def fault(self, fault: Fault, detail: str, *, is_new: bool) -> None:
        """A fault began or ended; ``is_new``: it has just taken effect."""


class _Window:
    """A fault that lasts: the steps from its beginning to its end, and what ends it."""

    __slots__ = ("end", "fault", "first_step", "last_step")

    def __init__(self, fault: Fault, end: End, first_step: int) -> None:
        self.fault = fault
        self.end = end
        self.first_step = first_step
        self.last_step: int | None = None  # None while it is open


class Injector:
    """Begins faults, and owns their windows. After ``end_all`` nothing new begins."""

    def __init__(
        self, world: FaultWorld, clock: Clock, steps: FaultSteps, tie_break: Callable[[], float]
    ) -> None:
        self._world = world
        self._clock = clock
        self._steps = steps
        self._tie_break = tie_break
        self._windows: list[_Window] = []
        self._is_quiet = False

    def schedule(self, planned: tuple[Fault, ...]) -> None:
        """Let every fault begin at its time."""
        for fault in planned:
            self._plan(fault.at_ms, self._on_begin, fault)

    def later(
        self, delay_ms: int, action: Callable[[], object], *, when_quiet: bool = False
    ) -> None:
        """Do something after a while, unless the quiet period has come by then; ``when_quiet``:
        even so."""

        def on_call(_: None) -> None:
            if when_quiet or not self._is_quiet:
                action()

        at_ms = self._clock.simulated_ms + delay_ms
        self._plan(at_ms, on_call, is_of_faults=not when_quiet)

    def end_all(self) -> None:
        """The quiet period begins."""
        self._is_quiet = True
        self._clock.end_faults()
        for window in self._windows:
            self._end(window)

    @property
    def holds_up(self) -> bool:
        """Whether a fault is open that something waits for, or will."""
        return any(one.last_step is None and one.fault.holds_up for one in self._windows)

    def open_at(self, step_index: int) -> tuple[str, ...]:
        """The faults whose windows were open at a step, as ``client_pause(a) since 20000 ms``."""
        return tuple(
            f"{window.fault} since {window.fault.at_ms} ms"
            for window in self._windows
            if window.first_step <= step_index
            and (window.last_step is None or step_index <= window.last_step)
        )

    def _plan(
        self,
        at_ms: int,
        function: Callable[[Any], None],
        argument: object = None,
        *,
        is_of_faults: bool = True,
    ) -> None:
        tie_break = self._tie_break()
        self._clock.plan_at(at_ms, tie_break, function, argument, is_of_faults=is_of_faults)

    def _on_begin(self, fault: Fault) -> None:
        if self._is_quiet:
            return
        first_step = self._steps.count + 1
        end = fault.begin(self._world)
        if callable(end):
            window = _Window(fault, end, first_step)
            self._windows.append(window)
            self._show(fault, " begins", is_new=True)
            at_ms = fault.at_ms + getattr(fault, "duration_ms", 0)
            self._plan(at_ms, self._end, window)
        elif end:
            self._show(fault, "", is_new=True)

    def _end(self, window: _Window) -> None:
        if window.last_step is None:
            window.last_step = self._steps.count
            window.end()
            self._show(window.fault, " ends", is_new=False)

    def _show(self, fault: Fault, what: str, *, is_new: bool) -> None:
        of_target = f" of {fault.target}" if fault.target else ""
        self._steps.fault(fault, f"{fault.kind}{what}{of_target}", is_new=is_new)
