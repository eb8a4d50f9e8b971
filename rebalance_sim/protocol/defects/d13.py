"""`D13`: An offset of a deleted topic is stored for its successor.

Commits name the topic that has the name when they are sent, so a position in a topic that
is gone is stored for the one that has its name by now (coordinator D13; docs/findings.md).
"""

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="D13",
    title="An offset of a deleted topic is stored for its successor",
    source="docs/findings.md",
    versions="4.1.2, 4.3.1; librdkafka 2.16.0",
    rules=(wrong(CommitRules, names_topics_of_commits=True),),
    properties=("coordinator D13",),
)
