"""mut-silent-leader: A static leader that has not joined leads the next generation as well."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="mut-silent-leader",
    title="A static leader that has not joined leads the next generation",
    rules=(wrong(ClassicGroupRules, silent_leader_gives_way=False),),
)
