"""Run every defect with the mix, and see which are noticed.

In rounds: the runs without a defect first, then those of every defect that is not finished. So the
result does not depend on the number of processes, and what is printed early covers all defects.

The reference looks first, for all defects in one run. Where a defect decides nothing otherwise, the
run is the same with it, and the laws need not look. Each oracle is done with a defect by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.quiet import length_s
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario
from rebalance_sim.scenarios.shrinking.shrink import shrink
from rebalance_sim.scenarios.version import code_version
from rebalance_sim.spark.detection.figures import (
    DefectFigures,
    ShrunkSize,
    figures_of,
    is_noticed,
)
from rebalance_sim.spark.detection.mix import MIX, profile_of, scenario_of
from rebalance_sim.spark.detection.oracles import (
    Judged,
    Oracle,
    by_laws,
    by_reference,
    is_in_sight,
)
from rebalance_sim.spark.detection.rows import REFUSED, Key, MeasuredRun, RunStore
from rebalance_sim.spark.detection.rules_asked import NOTING, defects_asked, note_rules
from rebalance_sim.spark.errors import SweepError, SweepInterrupted
from rebalance_sim.spark.pool import run_calls
from rebalance_sim.spark.progress import OnProgress, Progress, ignore
from rebalance_sim.spark.supervised import Limits, supervised

SEEDS = 2_000
ENOUGH = 20
ROUND = len(MIX)
"""Runs of a defect before it is looked at again: each profile once."""
TASK = 16
"""Runs of one task of a process."""
SHRINK_RUNS = 300
_WHAT_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureOptions:
    """The first ``seeds`` runs of the mix for each defect and each of ``oracles``, fewer once
    ``enough`` of them (0: never) noticed it; of these only those of ``profiles``, if any is named.
    ``processes``: default, one per core. ``shrinks``: whether the first run in which laws noticed
    it is made small, which takes a minute each. Raises SweepError for numbers that make no sense,
    for no oracle, and for a profile that is not in the mix."""

    seeds: int = SEEDS
    enough: int = ENOUGH
    oracles: tuple[Oracle, ...] = tuple(Oracle)
    profiles: tuple[str, ...] = ()
    processes: int | None = None
    shrinks: bool = False
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.seeds < 1:
            raise SweepError(f"{self.seeds} seeds for each defect: give at least 1")
        if self.enough < 0:
            raise SweepError(f"enough after {self.enough} seeds: give 0 or more")
        if not self.oracles:
            raise SweepError("no oracle: give at least one")
        for name in self.profiles:
            if name not in MIX:
                raise SweepError(f"no profile {name!r} in the mix; {did_you_mean(name, MIX)}")
        if self.processes is not None and self.processes < 1:
            raise SweepError(f"{self.processes} processes: give at least 1")


DEFAULTS = MeasureOptions()


def measure_defects(
    ids: Sequence[str] = (),
    *,
    out: Path | None = None,
    options: MeasureOptions = DEFAULTS,
    on_progress: OnProgress = ignore,
) -> tuple[DefectFigures, ...]:
    """Measure these defects, or all. With ``out``, runs are kept there, and not run again.

    Raises ScenarioError for an unknown defect, SweepError if the folder is of something else, and
    SweepInterrupted on Ctrl-C.
    """
    for one in ids:
        if one not in DEFECTS:
            raise ScenarioError(f"no defect {one!r}; {did_you_mean(one, DEFECTS)}")
    begun_with = {"code": code_version(), "mix": list(MIX)}
    measurement = _Measurement(
        tuple(dict.fromkeys(ids)) or tuple(DEFECTS), RunStore(out, begun_with), options, on_progress
    )
    try:
        measurement.run()
        return measurement.figures(_shrunk(measurement, out) if options.shrinks else {})
    except KeyboardInterrupt:
        raise SweepInterrupted(
            batches_done=measurement.done, batches_planned=measurement.planned
        ) from None


class _Measurement:
    def __init__(
        self,
        ids: tuple[str, ...],
        store: RunStore,
        options: MeasureOptions,
        on_progress: OnProgress,
    ) -> None:
        self.done = 0
        self.ids = ids
        self.options = options
        asked = tuple((one, oracle) for one in ids for oracle in options.oracles)
        self._noticed = dict.fromkeys(asked, 0)
        self._store = store
        self._on_progress = on_progress
        self._runs = dict.fromkeys(asked, 0)
        """How far in the mix each defect is, by oracle."""

    @property
    def planned(self) -> int:
        """Runs, if no more defects are noticed than by now."""
        return self.done + sum(
            len(self._indices(self._runs[one], self.options.seeds)) for one in self._unfinished()
        )

    def run(self) -> None:
        for index in range(ROUND):
            scenario_of(index)  # what is loaded for it is there in every process that is forked
        for first in range(0, self.options.seeds, ROUND):
            unfinished = self._unfinished()
            if not unfinished:
                break
            end = min(first + ROUND, self.options.seeds)
            self._round(unfinished, self._indices(first, end))
            for one in unfinished:
                self._runs[one] = end
                self._noticed[one] = sum(is_noticed(*pair) for pair in self._pairs(*one))
        self._report()

    def _round(self, unfinished: Sequence[tuple[str, Oracle]], indices: Sequence[int]) -> None:
        """Judge these defects in these runs of the mix."""
        self._carry_out((_Task(index) for index in indices), TASK)
        bases = [self._store[_without_defect(index)] for index in indices]
        ids = list(dict.fromkeys(defect_id for defect_id, _ in unfinished))
        self._keep_unchanged(Oracle.REFERENCE, ids, bases)
        self._carry_out(
            (_Task(index, self._missing(Oracle.REFERENCE, ids, index)) for index in indices), 1
        )
        of_laws = [defect_id for defect_id, oracle in unfinished if oracle is Oracle.LAWS]
        self._keep_unchanged(Oracle.LAWS, of_laws, bases)
        self._carry_out(
            (_Task(index, (one,), Oracle.LAWS) for one in of_laws for index in indices), TASK
        )

    def _missing(self, oracle: Oracle, ids: Sequence[str], index: int) -> tuple[str, ...]:
        """The defects that are still to be judged in a run."""
        return tuple(one for one in ids if (one, index, oracle) not in self._store)

    def _keep_unchanged(
        self, oracle: Oracle, ids: Sequence[str], bases: Sequence[MeasuredRun]
    ) -> None:
        """Where a defect changes nothing, an oracle finds what it finds without."""
        self._store.add(
            _unchanged(base, defect_id, oracle)
            for base in bases
            if base.digest
            for defect_id in self._missing(oracle, ids, base.index)
            if self._is_unchanged(base, defect_id, oracle)
        )

    def _is_unchanged(self, base: MeasuredRun, defect_id: str, oracle: Oracle) -> bool:
        if defect_id not in base.asked:
            return True
        if oracle is Oracle.REFERENCE:
            return False
        beside = self._store[defect_id, base.index, Oracle.REFERENCE]
        return beside.outcome == "ok" and is_in_sight(defect_id)

    def _pairs(self, defect_id: str, oracle: Oracle) -> list[tuple[MeasuredRun, MeasuredRun]]:
        """The runs of a defect, each after the same one without it."""
        store = self._store
        return [
            (store[_without_defect(index)], store[defect_id, index, oracle])
            for index in self._indices(0, self._runs[defect_id, oracle])
        ]

    def figures(self, shrunk: dict[str, ShrunkSize]) -> tuple[DefectFigures, ...]:
        return tuple(
            DefectFigures(
                defect=one,
                by_oracle={
                    oracle: figures_of(self._pairs(one, oracle)) for oracle in self.options.oracles
                },
                shrunk=shrunk.get(one),
            )
            for one in self.ids
        )

    def _unfinished(self) -> list[tuple[str, Oracle]]:
        enough = self.options.enough or self.options.seeds + 1
        return [
            one
            for one, runs in self._runs.items()
            if self._noticed[one] < enough and runs < self.options.seeds
        ]

    def _carry_out(self, tasks: Iterator[_Task], at_a_time: int) -> None:
        todo = [task for task in tasks if not all(key in self._store for key in task.keys)]
        run_calls(
            [
                partial(_run_tasks, tuple(todo[at : at + at_a_time]), self.options.limits)
                for at in range(0, len(todo), at_a_time)
            ],
            processes=self.options.processes,
            on_result=self._keep,
            report_progress=self._report,
        )

    def _indices(self, first: int, end: int) -> list[int]:
        """The runs of a part of the mix that are asked for."""
        profiles = self.options.profiles or MIX
        return [index for index in range(first, end) if profile_of(index) in profiles]

    def _keep(self, runs: Sequence[MeasuredRun]) -> None:
        self._store.add(runs)
        self.done += len(runs)

    def _report(self) -> None:
        self._on_progress(
            Progress(
                batches_done=self.done,
                batches_planned=self.planned,
                seeds_planned=self.options.seeds,
            )
        )


def _without_defect(index: int) -> Key:
    """The run of the mix that a defect is held against."""
    return "", index, Oracle.LAWS


@dataclass(frozen=True, slots=True)
class _Task:
    """A run of the mix: without a defect, with one that laws judge, or with the machines of several
    beside it."""

    index: int
    defects: tuple[str, ...] = ("",)
    oracle: Oracle = Oracle.REFERENCE

    @property
    def keys(self) -> list[Key]:
        """What it is to give."""
        if self.defects == ("",):
            return [_without_defect(self.index)]
        return [(defect, self.index, self.oracle) for defect in self.defects]


def _unchanged(base: MeasuredRun, defect_id: str, oracle: Oracle) -> MeasuredRun:
    """What an oracle says of a defect that a run is the same with."""
    run = replace(base, defect=defect_id, oracle=oracle, asked=())
    return run if oracle is Oracle.LAWS else replace(run, outcome="ok", what="")


def _run_tasks(tasks: Sequence[_Task], limits: Limits) -> list[MeasuredRun]:
    rows = []
    for attempt in supervised(_run, tasks, limits):
        failed = Judged(attempt.failure, "", attempt.reason), ()
        for key in attempt.unit.keys:
            run, asked = attempt.result[key] if attempt.result else failed
            defect, index, oracle = key
            rows.append(
                MeasuredRun(
                    defect=defect,
                    index=index,
                    oracle=oracle,
                    outcome=run.outcome,
                    digest=run.digest,
                    what=run.what[:_WHAT_SHOWN],
                    asked=asked,
                )
            )
    return rows


def _run(task: _Task) -> dict[Key, tuple[Judged, tuple[str, ...]]]:
    index, defects, oracle = task.index, task.defects, task.oracle
    if defects == ("",):
        note_rules()
        found = by_laws(scenario_of(index, defect_id=NOTING))
        return {_without_defect(index): (found, defects_asked())}
    scenarios, judged = {}, {}
    for defect in defects:
        try:
            scenarios[defect] = scenario_of(index, defect_id=defect)
        except ValueError as problem:  # a world that the defect cannot be in notices nothing
            judged[defect] = Judged(REFUSED, "", str(problem))
    if oracle is Oracle.LAWS:
        judged |= {defect: by_laws(scenario) for defect, scenario in scenarios.items()}
    else:
        judged |= by_reference(scenario_of(index), scenarios)
    return {(defect, index, oracle): (found, ()) for defect, found in judged.items()}


def _shrunk(measurement: _Measurement, out: Path | None) -> dict[str, ShrunkSize]:
    """The small scenario of each defect that was noticed; in ``out/shrunk`` as files."""
    sizes: dict[str, ShrunkSize] = {}

    def keep(found: tuple[str, ShrunkSize, str]) -> None:
        defect_id, size, text = found
        sizes[defect_id] = size
        if out is not None:
            folder = out / "shrunk"
            folder.mkdir(exist_ok=True)
            (folder / f"{defect_id}.toml").write_text(text, encoding="utf-8")

    calls: list[Callable[[], tuple[str, ShrunkSize, str]]] = []
    for figures in measurement.figures({}):
        of_laws = figures.by_oracle.get(Oracle.LAWS)
        if of_laws is not None and of_laws.first is not None:
            scenario = scenario_of(of_laws.first, defect_id=figures.defect)
            calls.append(partial(_shrink, figures.defect, scenario))
    run_calls(
        calls,
        processes=measurement.options.processes,
        on_result=keep,
        report_progress=lambda: None,
    )
    return sizes


def _shrink(defect_id: str, scenario: Scenario) -> tuple[str, ShrunkSize, str]:
    small = shrink(scenario, max_runs=SHRINK_RUNS)
    world = small.scenario.world
    size = ShrunkSize(
        faults=len(world.faults),
        clients=len(world.clients),
        topics=len(world.topics),
        seconds=length_s(world),
        steps=small.result.steps,
    )
    return defect_id, size, dump_scenario(small.scenario)
