"""A broker loses the end of its log with its host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.sim.faults.broker_host_loss import BrokerHostLoss
from rebalance_sim.sim.faults.fault import End, drawn_by, size
from rebalance_sim.sim.faults.ports import FaultWorld

LOST_BATCHES = drawn_by(lambda draw, *_: draw.between((1, 20)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTailLoss(BrokerHostLoss):
    """The host of a broker is lost, and what was not flushed yet: the last ``lost_batches`` of each
    log are gone when it is back.

    Kafka acknowledges without fsync, and relies on the other replicas. Where others were in sync,
    they have everything, and the broker fetches it from them: it is in sync again only then
    (KIP-966). Where it was the last one in sync it leads again, and committed records are lost.
    """

    may_lose_committed: ClassVar[bool] = True

    lost_batches: int = field(metadata=size(1) | LOST_BATCHES)

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        end = BrokerHostLoss.begin(self, world)
        if broker is None or not callable(end):
            return end
        broker.has_lost_tail = True
        for replica in broker.replicas:
            replica.lose_tail(self.lost_batches)
        return end
