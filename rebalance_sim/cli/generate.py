"""``rebalance-sim generate``: the scenario of a seed, as TOML."""

from __future__ import annotations

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.exit_codes import OK
from rebalance_sim.cli.output import say


def generate(
    profile: cli_options.ProfileName,
    seed: cli_options.Seed,
    semantics: cli_options.SemanticsName = None,
    repair: cli_options.Repairs = None,
    set_: cli_options.Settings = None,
) -> int:
    """Print the scenario of a profile and a seed as TOML; edit it and run the file."""
    from rebalance_sim.scenarios.generate.generator import generate as generate_scenario
    from rebalance_sim.scenarios.scenario import dump_scenario

    scenario = generate_scenario(cli_options.variant_of(profile, semantics, repair, set_), seed)
    say(dump_scenario(scenario).rstrip("\n"))
    return OK
