"""What a client reconciles to: what the last answer gave it, and nothing else.

Source: client §0.2, §1.3.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import NO_ASSIGNMENT, HeartbeatAnswered
from rebalance_sim.protocol.clients.kinds import JAVA

ORDER = 215


class TargetAsReceived(Property):
    """client §0.2, and row 5 of client §1.3: the empty first assignment has its place, too."""

    id = "client.target.as_received"
    sentence = (
        "What a Java client reconciles to is the assignment of the last answer that had one, an "
        "empty one as well, until its membership is over."
    )
    clauses = ("client §0.2", "client §1.3")
    violated_by = ("KAFKA-16185", "KAFKA-16198")
    client_kinds = (JAVA,)

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Look at a new target, and at an answer that should have led to one."""
        member, event = entry.member, step.event
        received = event.response.assignment if type(event) is HeartbeatAnswered else None
        if received is None:
            if member.target == entry.target or member.target == NO_ASSIGNMENT:
                return None
            return Finding(
                f"{entry.name} has the target {self.model.names_of(member.target.partitions)} "
                f"after {self.model.names_of(entry.target.partitions)}, and no answer gave it that",
                {"client": entry.name},
            )
        if not (
            entry.state.takes_assignments
            and member.state.takes_assignments
            and member.member_epoch == event.response.member_epoch
        ):
            return None
        if member.target != NO_ASSIGNMENT and member.target.partitions == received:
            return None
        target = self.model.names_of(member.target.partitions)
        return Finding(
            f"{entry.name} was assigned {self.model.names_of(received)} at epoch "
            f"{member.member_epoch}, and has the target "
            f"{'none' if member.target == NO_ASSIGNMENT else target}",
            {"client": entry.name},
        )
