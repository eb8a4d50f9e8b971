"""KAFKA-20254: Offsets make a group a classic one, whatever the records after them say."""

from rebalance_sim.protocol.classic.classic_rules import ClassicGroupRules
from rebalance_sim.protocol.defects.defect import Defect, wrong

DEFECT = Defect(
    id="KAFKA-20254",
    title="Committed offsets that precede group records block the load",
    source="apache/kafka#21641",
    versions="4.2.0 (streams groups); fixed in 4.2.x, for consumer groups in 4.0 (KAFKA-17306)",
    rules=(wrong(ClassicGroupRules, replaces_simple_group=False),),
    properties=("defects L6",),
)
