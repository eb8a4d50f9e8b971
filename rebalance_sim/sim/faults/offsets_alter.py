"""Committed offsets are set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.protocol.wire.offset_messages import NO_MEMBER_EPOCH, OffsetCommitRequest
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.admin_request import OffsetsRequest
from rebalance_sim.sim.faults.fault import bound
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAlter(OffsetsRequest):
    """An administrator sets committed offsets of a topic (alterConsumerGroupOffsets).

    A commit without membership: refused while a group of consumers has members; a group that does
    not exist comes into being.
    """

    offset: int = field(default=0, metadata=bound(0))

    def request(self, world: FaultWorld, group_id: str) -> Any:
        return OffsetCommitRequest(
            group_id=group_id,
            member_id="",
            generation_id_or_member_epoch=NO_MEMBER_EPOCH,
            offsets=dict.fromkeys(self.partitions_in(world), self.offset),
            wire_topics={self.topic: self.topic},
        )

    @classmethod
    def drawn_further(cls, draw: Draw) -> Mapping[str, Any]:
        return {"offset": draw.between((0, 100))}
