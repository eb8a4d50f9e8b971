"""An application closes its consumer."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.sim.faults.fault import End, Fault, away_ms, drawn_by, size
from rebalance_sim.sim.faults.ports import FaultWorld

_DRAWN = (*2 * (MembershipOperation.DEFAULT,), *MembershipOperation)
"""Mostly as usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientClose(Fault):
    """The application calls ``close`` (a deployment stops it); a new process follows after
    ``down_ms`` counted from the call, or when the old one has ended if that is later.

    ``down_ms`` None: it does not come back. ``operation`` is the option of ``close``.
    """

    client: str
    down_ms: int | None = field(default=None, metadata=size(1) | drawn_by(away_ms))
    operation: MembershipOperation = field(
        default=MembershipOperation.DEFAULT, metadata=drawn_by(lambda draw, *_: draw.pick(_DRAWN))
    )

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.close(self.client, self.down_ms, self.operation)
