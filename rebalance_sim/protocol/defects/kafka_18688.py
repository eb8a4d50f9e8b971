"""KAFKA-18688: The extra partitions belong to the first members in order.

A balanced target whose extras sit elsewhere is changed for nothing. Does not show when members
join in ascending id.
"""

from rebalance_sim.protocol.assignors.server.uniform import UniformAssignor
from rebalance_sim.protocol.defects.defect import Defect


def extra_goes_to_first(
    *, held_count: int, base: int, extras_left_count: int, members_left_count: int
) -> bool:
    """assignors §5.2, Kafka 4.0: the first members in order, even if others hold an extra now."""
    return True


class MovesExtraToFirst(UniformAssignor):
    takes_extra = staticmethod(extra_goes_to_first)


DEFECT = Defect(
    id="KAFKA-18688",
    title="Balanced assignment is reshuffled",
    versions="4.0 (uniform, homogeneous); fixed in 4.0.x/4.1",
    rules=(MovesExtraToFirst,),
    properties=("defects S8", "defects L7"),
)
