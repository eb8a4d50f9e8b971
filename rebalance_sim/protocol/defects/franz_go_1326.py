"""franz-go-1326: A refused commit changes nothing."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="franz-go-1326",
    title="Commit that is refused for good does not let the client join again",
    source="twmb/franz-go#1326",
    versions="franz-go up to 1.21.2",
    rules=(wrong(ClassicMemberRules, learns_from_refused_commits=False),),
    properties=("classic §4.3",),
)
