"""For tests of other projects: scenarios as parameters of pytest, and what to assert of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.failure_screen import describe, led_to, replay_command
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.plugin_names import plugin_options
from rebalance_sim.scenarios.result import PASSING, RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario
from rebalance_sim.scenarios.variant import Variant

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

_SEED_MAX = 2**31


def each_scenario(
    *, profile: Variant | Path | str, seeds: Iterable[int]
) -> Callable[[Callable[..., Any]], Any]:
    """A decorator: pytest calls the test once for each seed, with its ``scenario``.

    Needs pytest. Raises ScenarioError for a profile that there is not, and for no seeds.
    """
    import pytest

    variant = Variant.of(profile)
    if isinstance(seeds, str):
        raise ScenarioError(f"seeds {seeds!r}: give numbers, as in range(50)")
    rows = [pytest.param(generate(variant, seed), id=f"{variant}-{seed}") for seed in seeds]
    if not rows:
        raise ScenarioError("no seed: a test of none would pass; give some, as in range(50)")
    return pytest.mark.parametrize("scenario", rows)


def scenarios_from(profile: Variant | Path | str) -> SearchStrategy[Scenario]:
    """A Hypothesis strategy of the scenarios of a profile; small seeds are simpler to it.

    A failing one is made small by ``rebalance_sim.shrink``, which knows what a scenario is made of.
    Needs Hypothesis.
    """
    from hypothesis import strategies

    variant = Variant.of(profile)
    generate(variant, 0)  # Raises ScenarioError, here and not in the test.
    return strategies.integers(0, _SEED_MAX).map(lambda seed: generate(variant, seed))


def assert_ok(scenario: Scenario | Path | str, result: RunResult | None = None) -> RunResult:
    """Run a scenario, unless its result is given, and assert that it passes.

    Raises AssertionError with the first screen of the failure: property, what was seen, what led to
    it, and the command that replays it.
    """
    if not isinstance(scenario, Scenario):
        from rebalance_sim.scenarios.scenario import load_scenario

        scenario = load_scenario(scenario)
    result = run(scenario) if result is None else result
    if result.outcome not in PASSING:
        story = led_to(scenario, result)
        lines = describe(result, replay_command=_command(scenario), story=story)
        raise AssertionError("\n".join(lines))
    return result


def _command(scenario: Scenario) -> str:
    """The command that runs it again: by profile and seed if they make it, else from its text."""
    plugins = "".join(f" {option}" for option in plugin_options())
    words = f"--profile {scenario.profile}{plugins} --seed {scenario.seed}"
    if scenario.profile and _is_made_by(scenario):
        return replay_command(words)
    text = dump_scenario(scenario, defaults=False)
    return f"{replay_command(f'scenario.toml{plugins}')}, with scenario.toml:\n\n{text}"


def _is_made_by(scenario: Scenario) -> bool:
    try:
        return generate(scenario.profile, scenario.seed).hash == scenario.hash
    except ValueError:  # its profile is a file, or a label of somebody's own
        return False
