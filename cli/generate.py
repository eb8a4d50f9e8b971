"""``rebalance-sim generate``: the scenario of a seed, as TOML."""

from __future__ import annotations

from cli.exit_codes import OK
from cli.options import ProfileName, Seed
from cli.output import say

__all__ = ["generate"]


def generate(profile: ProfileName, seed: Seed) -> int:
    """Print the scenario of a profile and a seed as TOML; edit it and run the file."""
    from scenarios.generate import generate as generate_scenario
    from scenarios.scenario import dump_scenario

    say(dump_scenario(generate_scenario(profile, seed)).rstrip("\n"))
    return OK
