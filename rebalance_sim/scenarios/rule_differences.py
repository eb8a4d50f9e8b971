"""Where two sets of rules decide differently in the same runs.

Each run has the first rules; a reference of the second is fed the same (``invariants.
reference``). So a difference is one decision, not what follows from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from operator import methodcaller
from pathlib import Path
from typing import Any

from rebalance_sim.invariants.reference.difference import Difference
from rebalance_sim.invariants.reference.lock_step import LockStep, LockSteps
from rebalance_sim.invariants.reference.tree import Place, Tree, frozen_tree, places_of
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import simulated
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.scenarios.world_of import world_of

_FORM = re.compile(r"(?P<name>[^~+]+)(?P<changes>([~+][^~+]+)*)")


@dataclass(frozen=True, slots=True)
class Rules:
    """A version, the rules that are switched on in it (``defects``, those of plug-ins too), and
    the known issues that are repaired. Its text is ``kafka-4.4~KAFKA-20601+my-rule``."""

    name: str
    defects: tuple[str, ...] = ()
    repairs: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str) -> Rules:
        """Rules from their text. Raises ScenarioError for a version, rule or issue that there is
        not."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise ScenarioError(
                f"{text!r} names no rules: write a version, ~ before an issue to repair, and + "
                "before a rule to switch on, as in kafka-4.4~KAFKA-20601+my-rule"
            )
        changes = re.findall(r"([~+])([^~+]+)", match["changes"])
        rules = cls(
            match["name"],
            defects=tuple(name for sign, name in changes if sign == "+"),
            repairs=tuple(name for sign, name in changes if sign == "~"),
        )
        try:
            simulated(rules.name, defects=rules.defects, repairs=rules.repairs)
        except ValueError as problem:
            raise ScenarioError(f"{text!r}: {problem}") from None
        return rules

    def __str__(self) -> str:
        repairs = "".join(f"~{issue}" for issue in self.repairs)
        return f"{self.name}{repairs}{''.join(f'+{rule}' for rule in self.defects)}"


@dataclass(slots=True)
class Decision:
    """A kind of decision in which the rules differ: what machine takes it, given what, and which
    part of it. ``count``: how often they differ, ``runs``: in how many runs, ``seed`` and
    ``example``: where first."""

    machine: str
    given: str
    what: str
    seed: int
    example: Difference
    count: int = 0
    runs: int = 0


@dataclass(slots=True)
class RuleDifferences:
    """What ``diff_rules`` has found. ``compared``: decisions of coordinators and members in all
    runs; ``differing_runs``: runs with any difference; ``count``: differences in all."""

    first: Rules
    second: Rules
    runs: int
    differing_runs: int
    compared: int
    count: int
    decisions: tuple[Decision, ...]


def diff_rules(
    first: str,
    second: str,
    *,
    profile: Variant | str,
    seeds: Iterable[int],
    tree: Path | None = None,
    on_run: Callable[[int], object] = lambda seed: None,
) -> RuleDifferences:
    """Run each seed by the first rules, and say where the second ones decide differently.

    ``tree``: a folder with a protocol, such as that of another checkout, whose machines take the
    second rules. A member that has differed is not compared any more in its life; a coordinator is,
    from its present state on. Raises ScenarioError for rules, profile or tree that there is not.
    """
    from rebalance_sim.scenarios.generate.generator import generate  # a file needs none

    mine, theirs = Rules.of(first), Rules.of(second)
    frozen = None if tree is None else _tree(tree)
    found: dict[tuple[str, str, str], Decision] = {}
    runs = differing = compared = count = 0
    variant = replace(Variant.of(profile), semantics=mine.name, repairs=mine.repairs)
    for seed in seeds:
        scenario = generate(variant, seed)
        world = replace(scenario.world, defects=mine.defects)
        lock_step = watched_by(replace(scenario, world=world), theirs, frozen)
        runs += 1
        differing += lock_step.count > 0
        compared += lock_step.decisions_compared
        count += lock_step.count
        for one in lock_step.differences:
            kind = found.setdefault(one.decision, Decision(*one.decision, seed, one))
            kind.count += lock_step.counts[one.decision]
            kind.runs += 1
        on_run(seed)
    decisions = tuple(sorted(found.values(), key=lambda one: (-one.runs, -one.count)))
    return RuleDifferences(mine, theirs, runs, differing, compared, count, decisions)


def watched_by(
    scenario: Scenario,
    rules: Rules | None,
    tree: Tree | None = None,
    on_difference: Callable[[Difference], object] = lambda one: None,
) -> LockStep:
    """A run of a scenario with a reference in lock-step; ``rules``: those of the reference, None
    for the run's own as they were released. The run is the same one with and without.
    ``on_difference`` is called with every decision that differs."""

    def semantics_of(semantics: Any) -> Any:
        chosen = rules or Rules(semantics.name, repairs=semantics.repairs)
        make = simulated if tree is None else tree.simulated
        return make(chosen.name, defects=chosen.defects, repairs=chosen.repairs)

    lock_step = LockStep(semantics_of, tree, on_difference)
    world_of(scenario, make_checker=lambda view: lock_step, machines=lock_step).run()
    return lock_step


def first_differences(scenario: Scenario, defects: Iterable[str]) -> dict[str, Difference | None]:
    """Of each defect: the first decision that is another one with it, None where all are the same.

    The run is that without any of them; until a decision differs, the one with the defect is the
    same. It ends once all have differed, or its world is at rest after the last fault. What only a
    host decides is not seen (``reference.tree``).
    """
    beside: dict[str, LockStep] = {}
    of_coordinators, of_members = [], []
    for defect in defects:
        with_it = methodcaller("with_defects", defect)
        beside[defect] = one = LockStep(with_it, ends_at_difference=True)
        places = places_of(DEFECTS[defect].rules)
        if Place.COORDINATOR in places:
            of_coordinators.append(one)
        if Place.CLIENT in places:
            of_members.append(one)
    watch = LockSteps(of_coordinators, of_members, on_over=lambda: world.clock.stop())
    world = world_of(scenario, make_checker=lambda view: watch, machines=watch)
    world.run(owes_nothing=lambda: True)
    return {name: next(iter(one.differences), None) for name, one in beside.items()}


def _tree(folder: Path) -> Tree:
    try:
        return frozen_tree(folder)
    except (ValueError, ImportError, SyntaxError) as problem:
        raise ScenarioError(f"no reference from {folder}: {problem}") from problem
