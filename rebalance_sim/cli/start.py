"""Where the script ``rebalance-sim`` begins: what has to be so before anything is imported."""

from __future__ import annotations

import gc
import sys

from rebalance_sim.cli.exit_codes import INTERRUPTED

_OBJECTS_BETWEEN_COLLECTIONS = 100_000
"""How many new objects let Python look for cycles. With its usual 700 a tenth of the time until a
run begins is spent looking at modules and classes, which all stay."""


def main() -> None:
    """Entry point of the script. A Ctrl-C while modules are imported ends it like any other."""
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS, *gc.get_threshold()[1:])
    try:
        from rebalance_sim.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    run()
