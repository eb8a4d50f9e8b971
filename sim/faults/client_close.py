"""An application closes its consumer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import FaultTargets


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientClose(Fault):
    """The application calls ``close`` (a deployment stops it); a new process follows after
    ``down_ms`` counted from the call, or when the old one has ended if that is later.

    ``down_ms`` None: it does not come back. ``operation`` is the option of ``close``.
    """

    client: str
    down_ms: int | None = field(default=None, metadata=size(1))
    operation: MembershipOperation = MembershipOperation.DEFAULT

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.close(self.client, self.down_ms, self.operation)

    @classmethod
    def drawn(
        cls, draw: Draw, rule: DrawRule, targets: FaultTargets, at_ms: int
    ) -> Iterator[Fault]:
        name = targets.client(draw).name
        usual = MembershipOperation.DEFAULT
        yield cls(
            at_ms=at_ms,
            client=name,
            down_ms=targets.down_ms(draw, rule, name),
            operation=draw.pick((usual, usual, *MembershipOperation)),
        )
