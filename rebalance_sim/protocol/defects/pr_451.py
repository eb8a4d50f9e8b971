"""PR-451: A member whose SyncGroup waited continues with the session that began before that, or
with none if it ended meanwhile."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="PR-451",
    title="Session is not restarted when a SyncGroup is answered",
    source="apache/kafka#451",
    versions="0.9.0 candidate line; fixed in 0.9.0",
    rules=(wrong(ClassicGroupRules, renews_sessions_of_synced=False),),
)
