"""classic-early-conversion: A group in its first join phase has no protocol name, and cannot be
converted; parked requests have been answered by then, and no timer watches their senders
(docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-early-conversion",
    title="A conversion in the first join phase fails half way",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(
        wrong(
            MigrationRules, converts_in_first_join_phase=False, answers_parked_if_converted=False
        ),
    ),
    properties=("classic C12", "defects L1"),
)
