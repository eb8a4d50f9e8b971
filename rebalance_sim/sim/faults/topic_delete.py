"""A topic is deleted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import FaultWorld


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDelete(Fault):
    """An administrator deletes a topic. Ignored if it does not exist."""

    changes_topics: ClassVar[bool] = True
    ends_topic: ClassVar[bool] = True

    topic: str

    def begin(self, world: FaultWorld) -> End | bool:
        return world.topics.delete(self.topic)
