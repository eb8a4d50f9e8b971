"""A group is deleted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.wire.consumer_messages import DeleteGroupsRequest
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.admin_request import AdminRequest
from rebalance_sim.sim.faults.client_close import ClientClose
from rebalance_sim.sim.faults.coordinator_move import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.log_compaction import LogCompaction
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets

_OUTAGE_SHARE = 0.7
_CLOSING_MS = (500, 10_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDelete(AdminRequest):
    """An administrator deletes a group with its offsets (deleteConsumerGroups).

    Refused while the group has members.
    """

    def request(self, world: FaultWorld, group_id: str) -> Any:
        return DeleteGroupsRequest(group_id=group_id)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """Mostly of a group whose members are all away; then a log may be cleaned of it, or
        move."""
        yield from cls.trouble(draw, at_ms)
        group = targets.group(draw)
        if draw.chance(_OUTAGE_SHARE):
            closed_ms = max(0, at_ms - draw.between(_CLOSING_MS))
            down_ms = at_ms - closed_ms + draw.between(rule.duration_ms)
            for client in targets.team(group):
                yield ClientClose(at_ms=closed_ms, client=client.name, down_ms=down_ms)
        yield cls(at_ms=at_ms, group=group)
        if draw.chance(0.4):
            again_ms = targets.within(at_ms + draw.between((1, 3_000)))
            yield cls(at_ms=again_ms, group=group)
        if draw.chance(0.5):
            later_ms = targets.within(at_ms + draw.between((0, 3_000)))
            yield LogCompaction(at_ms=later_ms, drops_tombstones=draw.chance(0.6))
        if draw.chance(0.3):
            later_ms = targets.within(at_ms + draw.between((0, 100)))
            yield CoordinatorMove(at_ms=later_ms, keeps_tail=draw.chance(0.5))
