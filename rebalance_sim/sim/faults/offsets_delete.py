"""Committed offsets are deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.wire.offset_messages import OffsetDeleteRequest
from rebalance_sim.sim.faults.admin_request import OffsetsRequest
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDelete(OffsetsRequest):
    """An administrator deletes committed offsets of a topic (deleteConsumerGroupOffsets).

    Refused for topics that a member of the group subscribes to.
    """

    def request(self, world: FaultWorld, group_id: str) -> Any:
        return OffsetDeleteRequest(
            group_id=group_id,
            partitions=frozenset(self.partitions_in(world)),
            wire_topics={self.topic: self.topic},
        )
