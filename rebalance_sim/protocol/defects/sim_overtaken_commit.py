"""sim-overtaken-commit: Found by this simulator, in the code of librdkafka 2.16.0 and, rarely,
kafka-clients 4.3.1.

A commit that has failed is repeated behind a younger one, and takes the committed offset back
(docs/findings.md).
"""

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="sim-overtaken-commit",
    title="A client takes its committed offset back",
    source="docs/findings.md",
    versions="librdkafka 2.16.0; kafka-clients 4.3.1",
    rules=(wrong(CommitRules, repeats_overtaken_commits=True),),
    properties=("defects S4",),
)
