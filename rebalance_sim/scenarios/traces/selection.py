"""Which part of a trace to show: around a step, of some clients, of some kinds of step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.traces.exchanges import ADMIN, exchanges_of
from rebalance_sim.scenarios.traces.run_trace import RunTrace, TraceStep

VIOLATION = "violation"
"""Instead of the number of a step: the first that violated a property."""

_FOR_EVERYBODY = ("fault", "coordinator.loaded", "coordinator.unloaded", "log.truncated")
"""Kinds of step that concern every client."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """``around`` is the number of a step, or None for the whole trace; of what is shown,
    ``context`` items stand before it and as many after it. ``clients`` and ``kinds`` are names,
    empty for all; a kind may be the first part of one, as ``client``."""

    around: int | None = None
    context: int = 20
    clients: Collection[str] = ()
    kinds: Collection[str] = ()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left out."""
        return self.around is None and not self.clients and not self.kinds

    def of(self, trace: RunTrace, items: Sequence[T], step_of: Callable[[T], int]) -> list[T]:
        """Those of the items, each with the number of its step, that are selected.

        A step that violates a property is always among them. Raises ScenarioError for a client,
        kind or step that the trace does not have.
        """
        self._check(trace)
        shown = {step["step"] for step in self._steps(trace)}
        kept = [item for item in items if step_of(item) in shown]
        if self.around is None:
            return kept
        before = [item for item in kept if step_of(item) < self.around]
        at = [item for item in kept if step_of(item) == self.around]
        after = [item for item in kept if step_of(item) > self.around]
        return [*before[len(before) - self.context if self.context < len(before) else 0 :],
                *at, *after[: self.context]]  # fmt: skip

    def _steps(self, trace: RunTrace) -> Iterable[TraceStep]:
        whose = _client_of_step(trace) if self.clients else {}
        for step in trace.steps:
            is_kind = not self.kinds or any(_is_kind(step["kind"], kind) for kind in self.kinds)
            is_client = (
                not self.clients
                or step["kind"] in _FOR_EVERYBODY
                or whose.get(step["step"]) in self.clients
            )
            if (is_kind and is_client) or trace.violated_at(step["step"]):
                yield step

    def _check(self, trace: RunTrace) -> None:
        known = {step["client"] for step in trace.steps if "client" in step} | {ADMIN}
        for name in self.clients:
            if name not in known:
                raise ScenarioError(
                    f"no client {name!r} in this trace; {did_you_mean(name, known)}"
                )
        kinds = {kind.value for kind in StepKind}
        kinds |= {kind.partition(".")[0] for kind in kinds}
        for name in self.kinds:
            if name not in kinds:
                raise ScenarioError(f"no kind of step {name!r}; {did_you_mean(name, kinds)}")
        last = trace.steps[-1]["step"] if trace.steps else 0
        if self.around is not None and not 1 <= self.around <= last:
            raise ScenarioError(f"no step {self.around}: the trace has steps 1 to {last}")


def step_named(trace: RunTrace, name: str) -> int:
    """The step that ``--around`` names: a number, or ``violation``. Raises ScenarioError."""
    if name.isdecimal():
        return int(name)
    if name != VIOLATION:
        raise ScenarioError(f"{name!r} is no step: give a number, or {VIOLATION!r}")
    if not trace.violations:
        raise ScenarioError(f"the trace violates nothing (it ends {trace.outcome or 'unknown'})")
    return trace.violations[0].step


def _is_kind(kind: str, name: str) -> bool:
    return kind == name or kind.startswith(f"{name}.")


def _client_of_step(trace: RunTrace) -> dict[int, str]:
    """Step -> the client that took it, or whose request it was about."""
    whose = {step["step"]: step["client"] for step in trace.steps if "client" in step}
    for exchange in exchanges_of(trace.steps):
        for step in exchange.steps:
            whose[step["step"]] = exchange.client
    return whose
