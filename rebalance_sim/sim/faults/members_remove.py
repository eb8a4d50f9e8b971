"""Members of a group are removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rebalance_sim.protocol.wire.classic_messages import LeaveGroupRequest
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.admin_request import AdminRequest
from rebalance_sim.sim.faults.client_crash import ClientCrash
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets

_ALL_SHARE = 0.3
_GONE_SHARE = 0.3
_REASON = "member was removed by an admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class MembersRemove(AdminRequest):
    """An administrator removes members of a group (removeMembersFromConsumerGroup): in one
    LeaveGroup, static ones by instance id, whether they run or not, others by member id.

    ``clients`` of other groups are left out; none named means all.
    """

    clients: tuple[str, ...] = ()

    def request(self, world: FaultWorld, group_id: str) -> Any:
        processes = world.client_processes
        members = processes.identities(self.clients or processes.names, group_id)
        return LeaveGroupRequest(
            group_id=group_id, members=tuple(one._replace(reason=_REASON) for one in members)
        )

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """Some members, or all; of some the process is gone by then, as administrators mean it."""
        yield from cls.trouble(draw, at_ms)
        group = targets.group(draw)
        team = [client.name for client in targets.team(group)]
        chosen = () if draw.chance(_ALL_SHARE) else tuple(draw.some(team, 0.4))
        if chosen and draw.chance(_GONE_SHARE):
            down_ms = draw.between(rule.duration_ms)
            earlier_ms = max(0, at_ms - draw.between((1, down_ms)))
            yield ClientCrash(at_ms=earlier_ms, client=chosen[0], down_ms=down_ms)
        yield cls(at_ms=at_ms, group=group, clients=chosen)
