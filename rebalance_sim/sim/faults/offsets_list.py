"""Committed offsets are listed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.admin_request import AdminRequest
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsList(AdminRequest):
    """An administrator asks for all committed offsets of a group (listConsumerGroupOffsets).

    ``require_stable`` waits for what is not committed yet; without it the answer is immediate, from
    committed state.
    """

    require_stable: bool = False

    def request(self, world: FaultWorld, group_id: str) -> Any:
        return OffsetFetchRequest(
            group_id=group_id, partitions=None, require_stable=self.require_stable
        )

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        yield from cls.trouble(draw, at_ms)
        stable = draw.chance(0.3)
        yield cls(at_ms=at_ms, require_stable=stable, group=cls.any_group(draw, targets))
