"""What a hunt runs next, and what it makes of what came back.

A hunt goes in rounds. The scenarios of a round follow from the plan and from what the rounds before
it came to; their evaluations are merged in the order of the round, however they were carried out.
So equal plans make equal corpora, and a round that is lost is run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.hunt.evaluation import Evaluation
from rebalance_sim.scenarios.hunt.gains import Gain, share_of_seeds
from rebalance_sim.scenarios.hunt.mutators import Ground, mutate
from rebalance_sim.scenarios.hunt.pairs import Interval
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.streams import Streams

ROUND = 24
"""Scenarios of a round."""

FINDINGS_KEPT = 5
"""Of findings that violate the same property with the same outcome, so many are kept as files."""

_TRIES = 20
"""Mutants that are discarded before a fresh seed is taken instead, and seeds before the hunt gives
up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A scenario of a round. ``made`` says how: ``seed 17``, or ``move+setting of
    0123456789abcdef``, which names the hash of what it was made from."""

    scenario: Scenario
    made: str
    is_mutant: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A scenario of the corpus. ``first_to`` is what it was the first to reach; ``steps`` is what
    another run like it costs. ``intervals`` are operations under way in its run."""

    scenario: Scenario
    made: str
    steps: int
    first_to: tuple[str, ...]
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A scenario that failed, and as what."""

    scenario: Scenario
    made: str
    round: int
    outcome: str
    what: str
    reason: str


@dataclass(slots=True, kw_only=True)
class Corpus:
    """All that a hunt knows after some rounds.

    ``reached`` says by how many runs each situation was visited, pairs of requests and faults
    included; ``settings`` the same for pairs of settings. ``fresh`` is the next seed. ``found`` has
    the findings that are kept, ``findings`` counts all. ``discarded``: mutants that were no legal
    scenario, or one that had been run before, and not to a limit of the machine (``tried``).
    ``seeds`` and ``mutants``: what they brought.
    """

    rounds: int = 0
    runs: int = 0
    steps: int = 0
    fresh: int = 0
    discarded: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    settings: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)
    kept: list[Kept] = field(default_factory=list)
    found: list[Found] = field(default_factory=list)
    tried: set[str] = field(default_factory=set)
    seeds: Gain = field(default_factory=Gain)
    mutants: Gain = field(default_factory=Gain)

    @property
    def share_of_seeds(self) -> float:
        """How many of the next scenarios are to be new seeds, of those of a hunt that learns."""
        if not self.kept or not self.runs:
            return 1.0
        return share_of_seeds(self.seeds, self.mutants, self.steps / self.runs)


class Hunt:
    """The search over one corpus. ``fresh`` gives the scenario of a seed; with ``learns`` False all
    scenarios are fresh, which is a sweep that counts the same."""

    def __init__(
        self,
        corpus: Corpus,
        fresh: Callable[[int], Scenario],
        *,
        start_seed: int = 0,
        learns: bool = True,
    ) -> None:
        self.corpus = corpus
        self._fresh = fresh
        self._streams = Streams(start_seed)
        self._start_seed = start_seed
        self._learns = learns

    def next_round(self, size: int = ROUND) -> list[Candidate]:
        """The scenarios of the next round."""
        corpus = self.corpus
        draw = Draw(self._streams.get(f"hunt/{corpus.rounds}"))
        weights = self._weights()
        tried: set[str] = set()
        return [self._candidate(draw, weights, tried) for _ in range(size)]

    def merge(
        self, candidates: Sequence[Candidate], evaluations: Iterable[Evaluation]
    ) -> list[Found]:
        """Take in what a round came to; returns its findings, each kind at most ``FINDINGS_KEPT``
        times in all."""
        corpus = self.corpus
        before = len(corpus.found)
        corpus.seeds.fade()
        corpus.mutants.fade()
        for candidate, evaluation in zip(candidates, evaluations, strict=True):
            self._take(candidate, evaluation)
        corpus.rounds += 1
        return corpus.found[before:]

    # -- picking -----------------------------------------------------------------------------------

    def _weights(self) -> list[float]:
        """How much each scenario of the corpus is worth another try: the rarer what it was the
        first to reach is by now, and the fewer steps it takes, the more."""
        reached = self.corpus.reached
        return [
            sum(1 / reached[name] for name in kept.first_to) / max(1, kept.steps)
            for kept in self.corpus.kept
        ]

    def _candidate(self, draw: Draw, weights: Sequence[float], tried: set[str]) -> Candidate:
        kept = self.corpus.kept
        if self._learns and kept and not draw.chance(self.corpus.share_of_seeds):
            for _ in range(_TRIES):
                parent = kept[draw.weighted(weights)]
                donor = draw.pick(kept).scenario
                ground = Ground(parent.intervals, donor, self.corpus.reached)
                mutant = mutate(draw, parent.scenario, ground)
                if mutant is not None:
                    scenario, how = mutant
                    key = scenario.hash
                    if key not in self.corpus.tried and key not in tried:
                        tried.add(key)
                        made = f"{how} of {parent.scenario.hash}"
                        return Candidate(scenario=scenario, made=made, is_mutant=True)
                self.corpus.discarded += 1
        return self._next_fresh()

    def _next_fresh(self) -> Candidate:
        """The next seed whose scenario is legal: with a defect, say, a version may be none."""
        problem: ScenarioError | None = None
        for _ in range(_TRIES):
            seed = self._start_seed + self.corpus.fresh
            self.corpus.fresh += 1
            try:
                return Candidate(scenario=self._fresh(seed), made=f"seed {seed}")
            except ScenarioError as refused:
                self.corpus.discarded += 1
                problem = refused
        raise problem or ScenarioError("no seed gives a scenario")

    # -- merging -----------------------------------------------------------------------------------

    def _take(self, candidate: Candidate, evaluation: Evaluation) -> None:
        corpus = self.corpus
        corpus.runs += 1
        corpus.steps += evaluation.steps
        corpus.outcomes[evaluation.outcome] += 1
        if evaluation.has_ended:
            corpus.tried.add(candidate.scenario.hash)
        first_to = tuple(name for name in evaluation.reached if name not in corpus.reached)
        gain = corpus.mutants if candidate.is_mutant else corpus.seeds
        gain.situations += len(first_to)
        gain.steps += evaluation.steps
        corpus.reached.update(evaluation.reached)
        corpus.settings.update(evaluation.settings)
        if evaluation.is_finding:
            self._find(candidate, evaluation)
        elif first_to:
            corpus.kept.append(
                Kept(
                    scenario=candidate.scenario,
                    made=candidate.made,
                    steps=evaluation.steps,
                    first_to=first_to,
                    intervals=evaluation.intervals,
                )
            )

    def _find(self, candidate: Candidate, evaluation: Evaluation) -> None:
        corpus = self.corpus
        kind = evaluation.outcome, evaluation.what
        corpus.findings[kind] += 1
        if corpus.findings[kind] <= FINDINGS_KEPT:
            corpus.found.append(
                Found(
                    scenario=candidate.scenario,
                    made=candidate.made,
                    round=corpus.rounds,
                    outcome=evaluation.outcome,
                    what=evaluation.what,
                    reason=evaluation.reason,
                )
            )


def fresh_of(variants: Sequence[Callable[[int], Scenario]]) -> Callable[[int], Scenario]:
    """The scenario of a seed where several profiles take turns: seed ``n`` is of profile ``n``
    modulo their number. Raises ScenarioError for none."""
    if not variants:
        raise ScenarioError("a hunt needs a profile")
    return lambda seed: variants[seed % len(variants)](seed)
