"""What a hunt picks, keeps and reports, with evaluations that are made up."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.hunt.evaluation import Evaluation, evaluate
from rebalance_sim.scenarios.hunt.gains import LEAST_SHARE
from rebalance_sim.scenarios.hunt.hunt import (
    FINDINGS_KEPT,
    Candidate,
    Corpus,
    Hunt,
    Kept,
    fresh_of,
)
from rebalance_sim.scenarios.scenario import Scenario


def fresh(seed: int) -> Scenario:
    return generate("calm", seed)


def made_up(candidate: Candidate) -> Evaluation:
    """Situations that depend on the scenario alone: a common one, and one of some hundred."""
    own = int(candidate.scenario.hash, 16) % 300
    return Evaluation(outcome="ok", steps=100, reached=("common", f"own {own}"))


def hunted(rounds: int, *, learns: bool = True, start_seed: int = 0) -> Corpus:
    hunt = Hunt(Corpus(), fresh, start_seed=start_seed, learns=learns)
    for _ in range(rounds):
        candidates = hunt.next_round(8)
        hunt.merge(candidates, map(made_up, candidates))
    return hunt.corpus


def test_equal_plans_make_equal_corpora() -> None:
    assert hunted(4) == hunted(4)
    assert hunted(4) != hunted(4, start_seed=1)


def test_the_first_round_has_seeds_and_later_ones_mutants_too() -> None:
    hunt = Hunt(Corpus(), fresh)
    first = hunt.next_round(8)
    assert [one.made for one in first] == [f"seed {n}" for n in range(8)]
    hunt.merge(first, map(made_up, first))
    made = [one.made for one in hunt.next_round(40)]
    seeds = [one for one in made if one.startswith("seed ")]
    assert 5 < len(seeds) < 30
    assert all(" of " in one for one in made if one not in seeds)


def test_of_seeds_and_mutants_those_are_more_that_bring_more() -> None:
    def after(news_of_mutants: int, news_of_seeds: int) -> float:
        hunt = Hunt(Corpus(), fresh)
        serial = count()
        for _ in range(4):
            candidates = hunt.next_round(8)
            news = [news_of_mutants if one.is_mutant else news_of_seeds for one in candidates]
            reached = [tuple(f"new {next(serial)}" for _ in range(n)) for n in news]
            evaluations = [Evaluation(outcome="ok", steps=100, reached=one) for one in reached]
            hunt.merge(candidates, evaluations)
        return hunt.corpus.share_of_seeds

    assert after(0, 5) > 0.75
    assert after(5, 1) < 0.4
    assert LEAST_SHARE <= after(50, 1) < after(0, 50) <= 1 - LEAST_SHARE


def test_a_hunt_that_does_not_learn_runs_seeds_alone() -> None:
    corpus = hunted(4, learns=False)
    assert corpus.fresh == corpus.runs == 32


def test_what_reached_something_new_is_kept_and_nothing_else() -> None:
    corpus = hunted(5)
    assert corpus.reached["common"] == corpus.runs == 40
    assert len(corpus.kept) == len(corpus.reached) - 1
    assert corpus.kept[0].first_to[0] == "common"
    assert all(kept.first_to != ("common",) for kept in corpus.kept[1:])


def test_rare_coverage_is_preferred() -> None:
    kept = [
        Kept(scenario=fresh(seed), made=f"seed {seed}", steps=100, first_to=(name,), intervals=())
        for seed, name in enumerate(("often", "seldom"))
    ]
    reached = Counter({"often": 90, "seldom": 1})
    corpus = Corpus(kept=kept, reached=reached, fresh=2, runs=2, steps=200)
    made = [one.made for one in Hunt(corpus, fresh).next_round(60)]
    parents = Counter(one.rpartition(" ")[2] for one in made if " of " in one)
    assert parents[kept[1].scenario.hash] > 5 * parents[kept[0].scenario.hash]


def test_findings_are_counted_and_the_first_are_kept() -> None:
    hunt = Hunt(Corpus(), fresh)
    candidates = hunt.next_round(8)
    bad = Evaluation(outcome="violation", what="some.property", reason="because", reached=("a",))
    found = hunt.merge(candidates, [bad] * 8)
    assert len(found) == FINDINGS_KEPT
    assert hunt.corpus.findings == {("violation", "some.property"): 8}
    assert not hunt.corpus.kept


def test_seeds_that_are_refused_are_left_out_until_too_many_are() -> None:
    def only_even(seed: int) -> Scenario:
        if seed % 2:
            raise ScenarioError("odd")
        return fresh(seed)

    hunt = Hunt(Corpus(), only_even)
    assert [one.made for one in hunt.next_round(3)] == ["seed 0", "seed 2", "seed 4"]
    assert hunt.corpus.discarded == 2

    def never(seed: int) -> Scenario:
        raise ScenarioError("never")

    with pytest.raises(ScenarioError, match="never"):
        Hunt(Corpus(), never).next_round(1)


def test_profiles_take_turns() -> None:
    chosen = fresh_of([lambda seed: generate("calm", seed), lambda seed: generate("faulty", seed)])
    assert [chosen(seed).profile for seed in range(4)] == ["calm", "faulty", "calm", "faulty"]
    with pytest.raises(ScenarioError, match="needs a profile"):
        fresh_of([])


def test_a_known_issue_is_no_finding_and_a_violation_is() -> None:
    scenario = generate("faulty", 3)
    assert not evaluate(scenario).is_finding
    outcomes = [Evaluation(outcome=one).is_finding for one in ("known", "budget", "timeout")]
    assert outcomes == [False] * 3
    assert Evaluation(outcome="stuck").is_finding
