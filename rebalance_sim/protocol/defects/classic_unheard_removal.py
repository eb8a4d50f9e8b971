"""classic-unheard-removal: A consumer group takes a classic member under any id that it brings,
also one that was removed, which keeps what it owned (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, always, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-unheard-removal",
    title="A consumer group lets a removed classic member in again without a word",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(wrong(MigrationRules, is_former_member=always(False)),),
    properties=("classic H12", "defects S1", "defects S4"),
)
