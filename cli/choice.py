"""Which scenario a command is about: that of a file, or that of a profile and a seed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.options import variant_of

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
) -> Choice:
    """What was chosen. Raises BadInput unless it was either a file or a profile with a seed."""
    from rebalance_sim.scenarios.generate.generator import generate
    from rebalance_sim.scenarios.scenario import load_scenario

    if path is not None and profile is None and seed is None:
        if semantics is not None:
            raise BadInput(
                f"{command}: --semantics goes with --profile; a scenario file names its own"
            )
        scenario = load_scenario(path).without(*(repairs or ()))
        return Choice(scenario=scenario, words=" ".join((str(path), *_options_for(repairs))))
    if path is None and profile is not None and seed is not None:
        variant = variant_of(profile, semantics, repairs)
        return Choice(scenario=generate(variant, seed), words=f"--profile {variant} --seed {seed}")
    raise BadInput(f"{command}: give either a scenario file, or both --profile and --seed")


def _options_for(repairs: list[str] | None) -> list[str]:
    return [f"--repair {issue}" for issue in repairs or ()]
