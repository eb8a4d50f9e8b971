"""mut-classic-static-leaves: A static member gives its place up when its application is away."""

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-classic-static-leaves",
    title="Static member leaves when its application is away",
    rules=(wrong(ClassicMemberRules, static_members_stay=False),),
    properties=("classic §4.5",),
)
