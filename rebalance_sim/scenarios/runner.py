"""Running a scenario: a world, everything that watches over it, a budget of steps, and a verdict.

A run never raises for what happens inside it. A violated property is an outcome; so is an exception
of our own code, which then stands in ``reason``. Running out of memory is the machine's affair and
no outcome.
"""

from __future__ import annotations

import gc
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Protocol

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.engine.discovery import every_property
from rebalance_sim.invariants.property import Property, Replaced, Stuck, Violation
from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.scenarios.counterfactual import Prove, prove_known
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.result import RunResult, Suspected, ViolationRow
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, load_scenario
from rebalance_sim.scenarios.vacuity import is_vacuous
from rebalance_sim.scenarios.version import code_version
from rebalance_sim.scenarios.world_of import world_of
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.observe.rebalances import Episode
from rebalance_sim.sim.observe.sampling import check_interval
from rebalance_sim.sim.phases import PhaseSpan
from rebalance_sim.sim.streams import Branch
from rebalance_sim.sim.trace import FullTrace, Trace
from rebalance_sim.sim.world import World

FRAMES_SHOWN = 3
"""Innermost frames of an exception in ``reason``: enough to find the place."""

JUDGED = "liveness.judged"
"""Coverage: every bound had passed at the end in every group, so that silence means something. A
client that starts in the quiet period restarts them, for example."""

_OBJECTS_BETWEEN_COLLECTIONS = 200_000
"""How many new objects let Python look for cycles during a run. A usual run makes fewer, and its
cycles end with it; of a long one the memory stays bounded."""

TIES = "schedule.tie"
"""Coverage: events of the same instant whose order was drawn by lot."""


class LivenessCheck(Protocol):
    """What judges the quiet period: ``invariants.engine.liveness``."""

    def on_quiet_period_start(self, at_ms: int) -> None:
        """Nothing is disturbed from this time on."""

    def verdict(self, at_ms: int) -> Sequence[Stuck]:
        """What is late at this time, with the reason."""

    def owes_nothing(self, at_ms: int) -> bool:
        """Whether nothing has to happen that a world at rest may still bring about."""
        ...

    @property
    def due_ms(self) -> int:
        """From when on all liveness properties are judged, as far as is known now; -1: never."""

    def not_judged(self, at_ms: int) -> str:
        """Why not all liveness properties are judged at this time; empty: they are."""


class Watcher(Protocol):
    """What looks at each step and at the end, and says what it found:
    ``invariants.engine.checker``."""

    @property
    def violations(self) -> Sequence[Violation]:
        """Violations that no known issue can be the reason of, in the order in which they were
        found."""

    @property
    def suspected(self) -> Sequence[tuple[Violation, int]]:
        """Violations that a known issue may be the reason of: the first of each property and
        subject, and how often it showed."""

    def after_step(self, step: Step) -> None:
        """A step has just happened."""

    def at_end(self) -> None:
        """The quiet period is over."""

    def coverage(self) -> Mapping[str, int]:
        """What was visited, by name."""

    @property
    def liveness(self) -> LivenessCheck:
        """Judges what has to happen once faults have stopped."""


def run(
    scenario: Scenario | Path | str,
    *,
    trace: Trace | None = None,
    properties: Sequence[type[Property]] | None = None,
    make_watcher: Callable[[WorldView], Watcher] | None = None,
    metrics_interval_ms: int | None = None,
    prove: Prove = Prove.CAUSES,
    leaps: bool = False,
    branch: Branch | None = None,
    ends_at_violation: bool = False,
) -> RunResult:
    """Run a scenario, or that of a file, and check every property after every step.

    A run that violates only what known issues may be the reason of is run again without them
    (``counterfactual.py``), as far as ``prove`` says.

    ``trace`` takes the steps in (``sim.trace.FullTrace`` keeps them); ``properties`` are those that
    are checked, None for all, those of plug-ins included. ``make_watcher``, if given, is called
    with each group of the world instead, and what it returns checks what it likes.
    ``metrics_interval_ms``: how often metrics are sampled, in simulated time; None for never. The
    run is the same one with and without. ``branch``: a moment from which on everything is drawn
    otherwise; nothing is proven of such a run. ``ends_at_violation``: the run ends with the step
    that violates a property, as far as no known issue may be the reason. Raises ValueError for an
    interval below 1, ScenarioError for a file that is no scenario, and else nothing but what stops
    a process, such as KeyboardInterrupt or MemoryError.
    """
    check_interval(metrics_interval_ms)
    scenario = _read(scenario)
    chosen = every_property() if properties is None else properties
    watch = make_watcher or (lambda view: Checker(view, properties=chosen))
    if isinstance(trace, FullTrace) and branch is None:
        trace.scenario = dump_scenario(scenario, defaults=False)
    with rare_collections():
        result = _Run(
            scenario,
            trace or Trace(),
            watch,
            metrics_interval_ms,
            leaps,
            branch,
            ends_at_violation,
        ).result()
    if branch is not None:
        return result

    def run_repaired(repaired: Scenario) -> RunResult:
        with rare_collections():
            return _Run(repaired, Trace(), watch, None, leaps).result()

    return prove_known(scenario, result, run_repaired, prove)


def _read(scenario: Scenario | Path | str) -> Scenario:
    if isinstance(scenario, Path | str):
        return load_scenario(scenario)
    if not isinstance(scenario, Scenario):
        raise ScenarioError(f"{scenario!r} is no scenario: give one, or a file of one")
    return scenario


@contextmanager
def rare_collections() -> Iterator[None]:
    """Let the collector look for cycles less often than usual, unless somebody has turned it off:
    nearly all that a run makes is in use until its end."""
    usual = gc.get_threshold()
    if usual[0]:
        gc.set_threshold(max(usual[0], _OBJECTS_BETWEEN_COLLECTIONS), *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class _Run:
    """One run: what it is made of, as far as it got."""

    def __init__(
        self,
        scenario: Scenario,
        trace: Trace,
        make_watcher: Callable[[WorldView], Watcher],
        metrics_interval_ms: int | None,
        leaps: bool,
        branch: Branch | None = None,
        ends_at_violation: bool = False,
    ) -> None:
        self._leaps = leaps
        self._ends_at_violation = ends_at_violation
        self._branch = branch
        self._scenario = scenario
        self._trace = trace
        self._metrics_interval_ms = metrics_interval_ms
        self._make_watcher = make_watcher
        self._watchers: dict[str, Watcher] = {}
        self._views: list[WorldView] = []
        self._world: World | None = None
        self._is_complete = False
        self._metrics: Mapping[str, float] = {}
        self._rebalances: tuple[Episode, ...] = ()
        self._phases: tuple[PhaseSpan, ...] = ()
        self._late: list[tuple[str, Stuck]] = []
        self._not_judged = ""

    def result(self) -> RunResult:
        error = ""
        try:
            self._simulate()
        except MemoryError:
            raise
        except Exception as problem:
            error = _describe(problem)
        scenario, world = self._scenario, self._world
        violated = self._violated()
        late = [self._late_row(group, stuck) for group, stuck in self._late if not stuck.suspects]
        suspected = self._suspected()
        outcome, reason = self._verdict(violated, late, suspected, error)
        return RunResult(
            seed=scenario.seed,
            profile=scenario.profile,
            scenario_hash=scenario.hash,
            code_version=code_version(),
            outcome=outcome,
            steps=0 if world is None else world.steps.count,
            simulated_ms=0 if world is None else world.now_ms,
            leaps=() if world is None else _leaps(world.clock),
            digest=self._trace.digest(),
            ties=0 if world is None else world.clock.tie_count,
            violations=(*violated, *late),
            metrics=self._metrics,
            coverage=self._coverage(),
            reason=reason,
            not_judged=self._not_judged,
            replaced=tuple(self._replaced()),
            samples=() if world is None else tuple(world.sampler.samples),
            suspected=suspected,
            rebalances=self._rebalances,
            phases=self._phases,
        )

    def _simulate(self) -> None:
        self._world = world_of(
            self._scenario,
            make_checker=self._watch,
            trace=self._trace,
            metrics_interval_ms=self._metrics_interval_ms,
            branch=self._branch,
        )
        result = self._world.run(self._due_ms, self._owes_nothing if self._leaps else None)
        self._is_complete = result.is_complete
        self._metrics = {
            **result.metrics,
            **{
                f"{one.name}.{name}": v for one, found in result.phases for name, v in found.items()
            },
        }
        self._phases = tuple(one for one, _ in result.phases)
        self._rebalances = tuple(self._world.metrics.rebalances.rows())
        self._judge_quiet_period(self._world.clock.now_ms)

    def _watch(self, view: WorldView) -> Watcher:
        self._views.append(view)
        watcher = self._watchers[view.group_id] = self._make_watcher(view)
        watcher.liveness.on_quiet_period_start(self._scenario.world.duration_ms)
        if self._ends_at_violation and isinstance(watcher, Checker):
            watcher.on_violation = self._stop
        return watcher

    def _stop(self) -> None:
        if self._world is not None:
            self._world.clock.stop()

    def _owes_nothing(self) -> bool:
        """Whether every group that is judged has done all that it has to once faults stop."""
        now_ms = 0 if self._world is None else self._world.clock.now_ms
        return all(
            one.liveness.owes_nothing(now_ms)
            for one in self._watchers.values()
            if not one.violations
        )

    def _judge_quiet_period(self, now_ms: int) -> None:
        """After a violated property the shadow model of its group is closed: it is not judged
        then."""
        if not self._is_complete:
            return
        for group_id, watcher in self._watchers.items():
            if watcher.violations:
                continue
            self._late += [(group_id, stuck) for stuck in watcher.liveness.verdict(now_ms)]
            why = watcher.liveness.not_judged(now_ms)
            if why and not self._not_judged:
                self._not_judged = f"liveness of {group_id} was not judged: {why}"

    def _replaced(self) -> Iterator[str]:
        """What rules replace that have acted."""
        of_several = len(self._watchers) > 1
        for group_id, watcher in self._watchers.items():
            # What somebody else's ``make_watcher`` returns need not know of rules.
            rows: Sequence[Replaced] = [*getattr(watcher, "replaced", {}).values()]
            for (rule, step, at_ms), ones in groupby(rows, key=lambda one: one[1:]):
                ids = ", ".join(one.property for one in ones)
                of_group = f" of group {group_id}" if of_several else ""
                at_ms = at_ms if self._world is None else self._world.clock.simulated_at(at_ms)
                if not watcher.violations:
                    yield (
                        f"not judged by {ids}{of_group} from step {step} ({at_ms} ms) on, "
                        f"where rule {rule} acted"
                    )

    def _is_judged(self) -> bool:
        is_closed = any(watcher.violations for watcher in self._watchers.values())
        return self._is_complete and not is_closed and not self._not_judged

    def _due_ms(self) -> int:
        """When all groups are judged that can be."""
        leapt_ms = 0 if self._world is None else self._world.clock.leapt_ms
        due_ms = (one.liveness.due_ms for one in self._watchers.values() if not one.violations)
        return max(due_ms, default=0) + leapt_ms

    def _verdict(
        self,
        violated: Sequence[ViolationRow],
        late: Sequence[ViolationRow],
        suspected: Sequence[Suspected],
        error: str,
    ) -> tuple[str, str]:
        # A violated property comes before an exception: what follows it is often its consequence.
        if violated:
            after = f"; afterwards {error}" if error else ""
            return "violation", self._sentence(violated[0]) + after
        if late:
            return "stuck", self._sentence(late[0])
        if error:
            return "error", error
        if not self._is_complete:
            return "budget", self._exceeded()
        if suspected:
            return "known", f"known issues may be why {self._sentence(suspected[0].row)}"
        if is_vacuous(self._views):
            return "vacuous", "at the end no client was in a group, though some were to be"
        if self._not_judged:
            return "not-judged", self._not_judged
        if replaced := "; ".join(self._replaced()):
            return "partly-judged", replaced
        return "ok", ""

    def _exceeded(self) -> str:
        scenario, world = self._scenario, self._world
        if world is not None and world.clock.stands_still:
            return (
                f"stopped at {world.now_ms} ms, because time did not pass any more: "
                f"{world.clock.events_now} events there, the last step {world.steps.last()}"
            )
        return f"stopped after max_steps ({scenario.max_steps})"

    def _coverage(self) -> dict[str, int]:
        of_groups: Counter[str] = Counter()
        for watcher in self._watchers.values():
            of_groups.update(watcher.coverage())
        world = {} if self._world is None else self._world.coverage.counts()
        judged = {JUDGED: 1} if self._is_judged() else {}
        ties = {} if self._world is None else {TIES: self._world.clock.tie_count}
        return dict(sorted({**world, **of_groups, **judged, **ties}.items()))

    # -- rows ------------------------------------------------------------------------------------

    def _violated(self) -> list[ViolationRow]:
        """Violated properties of all groups, in the order in which they were violated."""
        rows = [
            self._row(group_id, violation)
            for group_id, watcher in self._watchers.items()
            for violation in watcher.violations
        ]
        return sorted(rows, key=lambda row: row.step)

    def _row(self, group_id: str, violation: Violation) -> ViolationRow:
        step, world = violation.step_index, self._world
        return ViolationRow(
            group_id=group_id,
            property=violation.property.id,
            sentence=violation.property.sentence,
            step=step,
            at_ms=violation.at_ms if world is None else world.clock.simulated_at(violation.at_ms),
            detail=violation.detail,
            open_faults=() if world is None else world.injector.open_at(step),
        )

    def _suspected(self) -> tuple[Suspected, ...]:
        """What known issues may be the reason of, of all groups, in the order in which it
        showed."""
        rows = [
            Suspected(
                row=self._row(group_id, violation),
                subject=violation.subject,
                issues=violation.suspects,
                times=times,
            )
            for group_id, watcher in self._watchers.items()
            for violation, times in watcher.suspected
        ]
        rows += [
            Suspected(
                row=self._late_row(group_id, stuck),
                subject=stuck.subject,
                issues=stuck.suspects,
                is_late=True,
            )
            for group_id, stuck in self._late
            if stuck.suspects
        ]
        return tuple(sorted(rows, key=lambda one: one.row.step))

    def _late_row(self, group_id: str, stuck: Stuck) -> ViolationRow:
        since = ""
        if stuck.since_ms is not None and self._world is not None:
            since = f" since {self._world.clock.simulated_at(stuck.since_ms)} ms"
        return ViolationRow(
            group_id=group_id,
            property=stuck.property.id,
            sentence=stuck.property.sentence,
            step=0 if self._world is None else self._world.steps.count,
            at_ms=0 if self._world is None else self._world.now_ms,
            detail=f"{stuck.subject} {stuck.reason}{since}",
        )

    def _sentence(self, row: ViolationRow) -> str:
        return row.in_a_line(of_several=len(self._watchers) > 1)


def _leaps(clock: Clock) -> tuple[tuple[int, int], ...]:
    return tuple((clock.simulated_at(at_ms) - span_ms, span_ms) for at_ms, span_ms in clock.leaps)


def _describe(problem: Exception) -> str:
    """Type, message and innermost frames in one line, without anything of this machine."""
    frames = []
    for frame, line in traceback.walk_tb(problem.__traceback__):
        module = frame.f_globals.get("__name__", "?")
        frames.append(f"{module}:{line} in {frame.f_code.co_qualname}")
    where = " < ".join(reversed(frames[-FRAMES_SHOWN:]))
    message = " ".join(str(problem).split())
    return f"{type(problem).__name__}: {message} (at {where})"
