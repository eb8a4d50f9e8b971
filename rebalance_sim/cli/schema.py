"""``rebalance-sim schema``: the JSON schema of scenario files."""

from __future__ import annotations

from rebalance_sim.cli.exit_codes import OK
from rebalance_sim.cli.output import say


def schema() -> int:
    """Print the JSON schema of scenario files, with which editors complete and check them."""
    import json

    from rebalance_sim.scenarios.keys import json_schema

    say(json.dumps(json_schema(), indent=2))
    return OK
