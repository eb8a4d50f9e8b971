"""``rebalance-sim generate``: the scenario of a seed, as TOML."""

from __future__ import annotations

from cli.exit_codes import OK
from cli.options import ProfileName, Seed, SemanticsName, with_semantics
from cli.output import say

__all__ = ["generate"]


def generate(profile: ProfileName, seed: Seed, semantics: SemanticsName = None) -> int:
    """Print the scenario of a profile and a seed as TOML; edit it and run the file."""
    from scenarios.generate import generate as generate_scenario
    from scenarios.scenario import dump_scenario

    scenario = generate_scenario(with_semantics(profile, semantics), seed)
    say(dump_scenario(scenario).rstrip("\n"))
    return OK
