"""A hunt from its plan to its end: rounds, until as much is run as was asked for."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.hunt.hunt import ROUND, Corpus, Found, Hunt, fresh_of
from rebalance_sim.scenarios.plugin_names import loaded_plugins, plugin_options
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.scenarios.version import code_version
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.hunt.folder import HuntFolder, RoundRow, rows_of
from rebalance_sim.spark.hunt.rounds import RunCalls, run_round
from rebalance_sim.spark.options import BACKENDS
from rebalance_sim.spark.store.store import Location
from rebalance_sim.spark.supervised import Limits

SEEDS_TRIED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class HuntOptions:
    """``runs``: in all, those of earlier calls included, to whole rounds. ``seconds``: of this
    call; the round that is under way then is finished. One of them has to be given.
    ``round_size``: scenarios of a round. ``learns`` False: seeds only, none is changed. Raises
    SweepError for numbers that make no sense."""

    runs: int | None = None
    seconds: float | None = None
    start_seed: int = 0
    round_size: int = ROUND
    learns: bool = True
    backend: str = "pool"
    processes: int | None = None
    master: str | None = None
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    stop_after: int | None = None

    def __post_init__(self) -> None:
        if self.runs is None and self.seconds is None:
            raise SweepError("a hunt needs an end: give --minutes, --runs, or both")
        if self.backend not in BACKENDS:
            raise SweepError(f"backend {self.backend!r}: choose one of {', '.join(BACKENDS)}")
        if self.backend != "spark" and (self.master is not None or self.spark_settings):
            raise SweepError("a master and settings of Spark go with the backend spark: name it")
        for name in ("runs", "round_size", "processes", "stop_after"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SweepError(f"{name.replace('_', ' ')} {value}: give at least 1")
        if self.seconds is not None and not self.seconds > 0:
            raise SweepError("minutes: give more than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunted:
    """What a hunt has come to. ``files`` says where the scenario of each kept finding is."""

    corpus: Corpus
    rows: tuple[RoundRow, ...]
    files: Mapping[str, str]

    def kinds(self) -> Iterator[tuple[Found, int, str]]:
        """Of each kind of finding the first, how many runs there are of it, and what runs it."""
        for (outcome, what), count in sorted(self.corpus.findings.items()):
            found = self.corpus.found
            first = next(one for one in found if (one.outcome, one.what) == (outcome, what))
            words = shlex.join((self.files[first.scenario.hash], *plugin_options()))
            yield first, count, f"rebalance-sim run {words}"


class HuntInterrupted(Exception):
    """The user stopped the hunt. Rounds that have ended are kept."""

    def __init__(self, rounds: int) -> None:
        super().__init__(f"interrupted after {rounds} round{'' if rounds == 1 else 's'}")


def hunt(
    variants: tuple[Variant, ...],
    corpus_folder: Location,
    options: HuntOptions,
    *,
    on_round: Callable[[RoundRow, list[Found]], None] = lambda row, found: None,
    on_note: Callable[[str], None] = lambda note: None,
) -> Hunted:
    """Hunt, or continue hunting, in a folder. Several variants take turns.

    Raises ScenarioError for what is wrong with a variant, SweepError if the folder is of another
    hunt or a backend cannot be used, and HuntInterrupted on Ctrl-C.
    """
    folder = HuntFolder(corpus_folder)
    plan = plan_of(variants, options)
    for variant in variants:
        _check(variant, options.start_seed)
    corpus = folder.load(plan)
    fresh = fresh_of([partial(generate, variant) for variant in variants])
    search = Hunt(corpus, fresh, start_seed=options.start_seed, learns=options.learns)
    begun_s = monotonic()
    try:
        with _backend(options, on_note) as run_calls:
            while not _is_enough(corpus, options, monotonic() - begun_s):
                row, found = _round(search, folder, options, run_calls, on_note)
                folder.save(plan, corpus, row)
                on_round(row, found)
    except KeyboardInterrupt:
        raise HuntInterrupted(corpus.rounds) from None
    files = {one.scenario.hash: folder.location_of(one) for one in corpus.found}
    return Hunted(corpus=corpus, rows=tuple(folder.rows), files=files)


def plan_of(variants: tuple[Variant, ...], options: HuntOptions) -> dict[str, Any]:
    """Everything that the rounds of a hunt follow from."""
    return {
        "profile": [variant.options for variant in variants],
        "profile files": [variant.digest for variant in variants],
        "start seed": options.start_seed,
        "round size": options.round_size,
        "learns": options.learns,
        "code": code_version(),
    }


def _check(variant: Variant, first: int) -> None:
    """Raises ScenarioError for an unknown profile, version or setting. A seed alone may be refused:
    that of a version which cannot have a defect that is switched on."""
    for seed in range(first, first + SEEDS_TRIED):
        try:
            generate(variant, seed)
        except ScenarioError:
            if seed == first + SEEDS_TRIED - 1:
                raise
        else:
            return


def _is_enough(corpus: Corpus, options: HuntOptions, seconds: float) -> bool:
    if options.runs is not None and corpus.runs >= options.runs:
        return True
    if options.stop_after is not None and corpus.findings.total() >= options.stop_after:
        return True
    return options.seconds is not None and seconds >= options.seconds


def _round(
    search: Hunt,
    folder: HuntFolder,
    options: HuntOptions,
    run_calls: RunCalls,
    on_note: Callable[[str], None],
) -> tuple[RoundRow, list[Found]]:
    begun_s = monotonic()
    candidates = search.next_round(options.round_size)
    evaluated = run_round(
        candidates,
        run_calls=run_calls,
        limits=options.limits,
        plugins=loaded_plugins(),
        on_note=on_note,
    )
    found = search.merge(candidates, [one.evaluation for one in evaluated])
    cpu_s, wall_s = rows_of(folder.rows)
    corpus = search.corpus
    row = RoundRow(
        round=corpus.rounds,
        runs=corpus.runs,
        steps=corpus.steps,
        cpu_s=round(cpu_s + sum(one.cpu_s for one in evaluated), 3),
        wall_s=round(wall_s + monotonic() - begun_s, 3),
        reached=len(corpus.reached),
        kept=len(corpus.kept),
        findings=corpus.findings.total(),
    )
    return row, found


@contextmanager
def _backend(options: HuntOptions, on_note: Callable[[str], None]) -> Iterator[RunCalls]:
    """What carries out the calls of a round."""
    if options.backend == "pool":
        from rebalance_sim.spark.pool import run_calls

        yield partial(run_calls, processes=options.processes)
        return
    from rebalance_sim.spark.calls import calls_on_spark

    with calls_on_spark(options.master, options.spark_settings, on_note) as run:
        yield run
