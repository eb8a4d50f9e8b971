"""A client's state machine: legal changes, and what each state says about epoch and assignment.

Sources: client §0.2, §1.2, §12.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.property import (
    Finding,
    Property,
)
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    GroupMember,
)
from rebalance_sim.protocol.wire.consumer_messages import LEAVE_EPOCH, STATIC_LEAVE_EPOCH

ORDER = 210


_S = ClientState
_JOINED = (_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE)
_LEAVE_EPOCHS = (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


class _StateProperty(Property):
    """A property about a client as it stands: judged when it moves, and for all on request."""

    def judge(self, member: GroupMember) -> str | None:
        """What is wrong with this client; None if nothing is."""
        raise NotImplementedError

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge the client that moved."""
        return self._finding(entry.name, entry.member)

    def _finding(self, name: str, member: GroupMember) -> Finding | None:
        what = self.judge(member)
        if what is None:
            return None
        return Finding(
            f"{name} is {member.state.value} at epoch {member.member_epoch} and {what}", client=name
        )


class StableMeansEqual(_StateProperty):
    """client C7."""

    id = "client.stable.means_equal"
    sentence = "A stable client has reconciled its target, and is assigned exactly that."
    clauses = ("client C7",)
    violated_by = ("KAFKA-16185", "mut-ack-before-stop", "mut-client-ack-before-apply")

    def judge(self, member: GroupMember) -> str | None:
        """See ``_StateInvariant``."""
        if member.state is not _S.STABLE:
            return None
        if member.target != member.current:
            return self.model.target_and_current(member)
        if member.is_reconciling:
            return "is not done with its reconciliation"
        if member.assigned.keys() != member.current.partitions:
            names_of = self.model.names_of
            return (
                f"is assigned {names_of(member.assigned)}; it has reconciled "
                f"{names_of(member.current.partitions)}"
            )
        return None


class EpochRises(Property):
    """client C3."""

    id = "client.epoch.monotonic"
    sentence = "The epoch of a client falls only to 0 or below."
    clauses = ("client C3", "defects S3", "TLA+ ClientSideMemberEpochIsMonotonic")
    violated_by = ("test:epoch-regress",)

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare with what was seen last."""
        epoch = entry.member.member_epoch
        if epoch >= entry.member_epoch or epoch <= 0:
            return None
        return Finding(
            f"{entry.name} fell from epoch {entry.member_epoch} to {epoch}", client=entry.name
        )


class IdStable(Property):
    """client C5."""

    id = "client.id.stable"
    sentence = "A client process keeps its member id for life."
    clauses = ("client C5", "client §5", "defects S7")
    violated_by = ("mut-client-clears-id-on-fence",)

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare with what was seen last; "" may become an id of the coordinator's."""
        if entry.member.member_id == entry.member_id or not entry.member_id:
            return None
        return Finding(
            f"{entry.name} was {entry.member_id} and is {entry.member.member_id or 'nobody'}",
            client=entry.name,
        )
