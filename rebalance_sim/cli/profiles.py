"""``rebalance-sim profiles``: the kinds of scenarios that can be generated."""

from __future__ import annotations

from rebalance_sim.cli.exit_codes import OK
from rebalance_sim.cli.output import say


def profiles() -> int:
    """List the profiles that scenarios are generated from."""
    from rebalance_sim.scenarios.profile import load_profile
    from rebalance_sim.scenarios.profile_file import PROFILES

    width = max(len(name) for name in PROFILES)
    for name in PROFILES:
        say(f"{name:<{width}}  {load_profile(name).description}")
    return OK
