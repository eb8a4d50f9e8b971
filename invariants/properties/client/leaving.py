"""The end of a membership, as the application sees it. Source: client C28."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Kind, Late, Property

ORDER = 330


class LeaveCompletes(Property):
    """client C28."""

    id = "client.leave.completes"
    sentence = "unsubscribe and close return within their timeouts."
    clauses = ("client C28",)
    violated_by = ("mut-client-leave-needs-success",)
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Clients that still wait."""
        for name, entry in sorted(self.model.clients.items()):
            member = entry.member
            if (
                member.leave_is_pending
                and member.blocked_in is not None
                and member.running_callback is None
            ):
                yield Late(name, f"still waits for its leave in {member.state.value}")
