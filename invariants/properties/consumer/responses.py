"""What a coordinator answers: the truth, enough of it, and no refusal without a cause.

Sources: coordinator §1.4, §2.5-§2.9, §2.11.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import MemberEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 130


class ResponseTruthful(Property):
    """coordinator §1.4, against the shadow model."""

    id = "response.truthful"
    sentence = (
        "A successful answer carries the member's stored epoch and, if any, exactly its "
        "assigned partitions; the answer to a leave repeats its epoch and nothing else."
    )
    clauses = ("coordinator §1.4", "coordinator H13", "defects S6")
    violated_by = ("KAFKA-19274",)

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Compare answer and shadow model."""
        request: ConsumerGroupHeartbeatRequest = step.request
        response: ConsumerGroupHeartbeatResponse = step.response
        if request.member_epoch < JOIN_EPOCH:
            said = response.member_epoch, response.heartbeat_interval_ms, response.assignment
            if said == (request.member_epoch, 0, None):
                return None
            return Finding(
                f"a leave of {self.model.who(request.member_id)} at epoch {request.member_epoch} "
                f"was answered with epoch {response.member_epoch}, interval "
                f"{response.heartbeat_interval_ms} ms and "
                f"{self._assignment(response.assignment)}"
            )
        if response.member_id is None:
            return Finding("a successful answer lacks the member id")
        entry = self.model.ledger_of(step.shard).members.get(response.member_id)
        if entry is None:
            return Finding(f"{response.member_id} was answered with success and is no member")
        if response.member_epoch != entry.epoch:
            return Finding(
                f"{self.model.who(response.member_id)} was told epoch {response.member_epoch} and "
                f"is at {entry.epoch}",
                member=response.member_id,
            )
        assigned = entry.current.assigned.keys() if entry.current else frozenset()
        if response.assignment is None or response.assignment == assigned:
            return None
        return Finding(
            f"{self.model.who(response.member_id)} was told "
            f"{self.model.names_of(response.assignment)} and is assigned "
            f"{self.model.names_of(assigned)}",
            member=response.member_id,
        )

    def _assignment(self, partitions: frozenset[TopicPartition] | None) -> str:
        if partitions is None:
            return "no assignment"
        return f"the assignment {self.model.names_of(partitions)}"
