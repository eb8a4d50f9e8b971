"""classic-reused-generation: Generations are counted on from the last one in the log, and a former
coordinator may have given the next number away as well (docs/findings.md).
"""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class UsesNumbersAgain(ClassicGroupRules):
    fences_joins = False

    def first_generation(self, term: int) -> int:
        return 0


DEFECT = Defect(
    id="classic-reused-generation",
    title="A generation that is used again hides a former owner",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1",
    rules=(UsesNumbersAgain,),
    properties=("classic C10", "defects S1"),
)
