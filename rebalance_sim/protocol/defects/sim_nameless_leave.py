"""sim-nameless-leave: Found by this simulator, confirmed with franz-go 1.22.3.

The leave of a static member of the consumer protocol does not name its instance, is refused, and
is not sent again: a member that comes back under that name is refused until the session has ended
(docs/findings.md).
"""

from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-nameless-leave",
    title="A static member leaves without its name, and cannot come back",
    source="docs/findings.md",
    versions="franz-go 1.22.3",
    rules=(wrong(FranzRules, names_instance_in_leave=False),),
    properties=("defects S9",),
)
