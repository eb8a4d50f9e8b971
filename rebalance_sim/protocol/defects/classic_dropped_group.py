"""classic-dropped-group: A refused JoinGroup makes the coordinator forget an empty consumer group.

A JoinGroup with a member id, sent to a consumer group without members, is answered
UNKNOWN_MEMBER_ID, but the group has been taken out of memory by then and nothing is written. Who
joins next makes another group of the id: a consumer group starts at epoch 2, below the epoch in the
log, and a classic one is written beside the consumer group (docs/findings.md).
"""

from rebalance_sim.protocol.defects.defect import Defect, wrong
from rebalance_sim.protocol.migration.migration_rules import MigrationRules

DEFECT = Defect(
    id="classic-dropped-group",
    title="A refused JoinGroup makes the coordinator forget an empty group",
    source="docs/findings.md",
    versions="4.3.1, 4.4.0",
    rules=(wrong(MigrationRules, keeps_empty_group_of_refused=False),),
    properties=("classic §2.2",),
)
