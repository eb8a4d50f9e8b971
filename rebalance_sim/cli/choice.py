"""Which scenario a command is about: that of a file, or that of a profile and a seed."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.options import variant_of
from rebalance_sim.scenarios.plugin_names import plugin_options

if TYPE_CHECKING:
    from rebalance_sim.scenarios.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A scenario, and the words by which a command line names it again."""

    scenario: Scenario
    words: str


def choose(
    command: str,
    path: Path | None,
    *,
    profile: str | None,
    seed: int | None,
    semantics: str | None,
    repairs: list[str] | None = None,
    settings: list[str] | None = None,
) -> Choice:
    """What was chosen. Raises BadInput unless it was either a file or a profile with a seed."""
    if path is not None and profile is None and seed is None:
        if semantics is not None:
            raise BadInput(
                f"{command}: --semantics goes with --profile; a scenario file names its own"
            )
        from rebalance_sim.scenarios.scenario import load_scenario
        from rebalance_sim.scenarios.settings import Setting

        values = [Setting.parse(text) for text in settings or ()]
        scenario = load_scenario(path, values).without(*(repairs or ()))
        options = [f"--repair={issue}" for issue in repairs or ()]
        options += [f"--set={value}" for value in values]
        options += plugin_options()
        return Choice(scenario=scenario, words=shlex.join((str(path), *options)))
    if path is None and profile is not None and seed is not None:
        from rebalance_sim.scenarios.generate.generator import generate

        variant = variant_of(profile, semantics, repairs, settings)
        words = f"{variant.options} --seed {seed}"
        return Choice(scenario=generate(variant, seed), words=words)
    if path is not None and profile is None:
        raise BadInput(
            f"{command}: --seed goes with --profile; for a scenario file, --set world.seed={seed}"
        )
    raise BadInput(f"{command}: give either a scenario file, or both --profile and --seed")
