"""mut-classic-static-leaves: A static member gives its place up when its application is away."""

from __future__ import annotations

from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.defects.defect import Defect


class LeavesAnyway(ClassicMemberRules):
    static_members_stay = False


DEFECT = Defect(
    id="mut-classic-static-leaves",
    title="Static member leaves when its application is away",
    rules=(LeavesAnyway,),
    properties=("classic §4.5",),
)
