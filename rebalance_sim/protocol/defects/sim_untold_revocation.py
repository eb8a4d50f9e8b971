"""sim-untold-revocation: Found by this simulator, confirmed with franz-go 1.22.3.

A member leaves when it has been given another assignment and has not begun with it: the application
learns that this one is revoked, and not what it works on (docs/findings.md).
"""

from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-untold-revocation",
    title="A member leaves, and its application does not learn of all that it loses",
    source="docs/findings.md",
    versions="franz-go 1.22.3",
    rules=(wrong(FranzRules, tells_of_what_it_has=False),),
    properties=("client C8",),
)
