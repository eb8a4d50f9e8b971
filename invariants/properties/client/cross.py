"""Clients against each other, and against what the coordinator has on record.

Sources: client §11.3, §12, O1-O4; coordinator E1.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.client_entry import ClientEntry, is_registered
from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import ClientState, GroupMember
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 260


_RELEASING = (
    ClientState.FENCED,
    ClientState.STALE,
    ClientState.FATAL,
    ClientState.PREPARE_LEAVING,
    ClientState.LEAVING,
)


class ExclusiveConsumption(Property):
    """client O1, and with it coordinator E1. Who goes on with what was granted by a record that is
    lost is a member in good standing as soon as its epoch comes again."""

    id = "cross.exclusive_consumption"
    sentence = "No two members that are registered at their present epoch may fetch a partition."
    clauses = ("client O1", "coordinator E1", "defects S1", "TLA+ NoDoubleClientAssignment")
    violated_by = ("mut-early-grant", "KAFKA-16147", "KAFKA-16258")

    def on_ownership(self, step: Step) -> Finding | None:
        """Look at the partitions that more than one client may fetch."""
        ledger = self.model.acting_ledger()
        if ledger is None:
            return None
        for partition in sorted(self.model.contested):
            names = [
                name
                for name in sorted(self.model.fetchers[partition])
                if name in self.model.clients
                and is_registered(self.model.clients[name].member, ledger)
                and not self._is_from_lost_commit(name, partition)
            ]
            if len(names) > 1:
                return self._found(partition, names)
        return None

    def _is_from_lost_commit(self, name: str, partition: TopicPartition) -> bool:
        return self.model.is_from_lost_commit(self.model.clients[name].member_id, partition)

    def _found(self, partition: TopicPartition, names: list[str]) -> Finding:
        return Finding(
            f"{self.model.name_of(partition)} is fetched by {' and '.join(names)}, and all of them "
            "are members in good standing",
            partition=partition,
        )


class OnlyZombiesShare(Property):
    """client O2. Whoever fetches without being registered does not know it yet, or is giving up."""

    id = "cross.only_zombies_share"
    sentence = (
        "Of several clients that may fetch a partition, all but one have been removed and "
        "do not know it yet, or are giving their partitions up."
    )
    clauses = ("client O2", "defects S1")
    violated_by = ("KAFKA-16258",)

    def on_ownership(self, step: Step) -> Finding | None:
        """Look at the partitions that more than one client may fetch."""
        ledger = self.model.acting_ledger()
        if ledger is None:
            return None
        for partition in sorted(self.model.contested):
            for name in sorted(self.model.fetchers[partition]):
                if name not in self.model.clients:
                    continue  # Of the classic protocol, which has a property of its own.
                member = self.model.clients[name].member
                if is_registered(member, ledger) or member.state in _RELEASING:
                    continue
                if member.member_epoch <= 0:
                    others = sorted(self.model.fetchers[partition].keys() - {name})
                    return Finding(
                        f"{name} is {member.state.value} at epoch {member.member_epoch} and still "
                        f"fetches {self.model.name_of(partition)}, as does {others[0]}",
                        partition=partition,
                        client=name,
                    )
        return None


class AssignedIsHeld(Property):
    """client O4."""

    id = "cross.assigned_is_held"
    outlives_lost_commits = False
    sentence = (
        "What a registered client at the coordinator's epoch is assigned is held for it by the "
        "coordinator."
    )
    clauses = ("client O4", "defects S1")
    violated_by = (
        "mut-ack-before-stop",
        "KAFKA-16258",
        "mut-client-rejoins-before-lost",
        "mut-client-reports-target",
        "mut-client-second-reconciliation",
    )

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Judge the client that moved."""
        ledger = self.model.acting_ledger()
        return None if ledger is None else self._judge(entry, ledger)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Judge the clients whose member was touched."""
        if self.model.acting_ledger() is not change.ledger:
            return None
        for member_id in change.members:
            entry = self.model.by_member_id.get(member_id)
            if entry is not None:
                finding = self._judge(entry, change.ledger)
                if finding is not None:
                    return finding
        return None

    def _judge(self, entry: ClientEntry, ledger: GroupLedger) -> Finding | None:
        member = entry.member
        assigned = member.assigned.keys()
        if not assigned or not is_registered(member, ledger):
            return None
        held = ledger.members[member.member_id].held()
        if assigned <= held:
            return None
        return self._found(entry.name, member, set(assigned - held))

    def _found(self, name: str, member: GroupMember, extra: set[TopicPartition]) -> Finding:
        return Finding(
            f"{name} is assigned {self.model.names_of(extra)} at epoch {member.member_epoch}; the "
            "coordinator does not hold that for it",
            client=name,
        )


class CurrentFitsTarget(Property):
    """ValidMemberEpoch of the TLA+ model, at the moment the client adopts epoch or assignment."""

    id = "cross.current_fits_target"
    outlives_lost_commits = False
    sentence = (
        "A client that adopts the target epoch has reconciled nothing that the target gives to "
        "another member."
    )
    clauses = ("client §11.3", "TLA+ ValidMemberEpoch")
    violated_by = (
        "mut-client-reports-target",
        "mut-client-second-reconciliation",
    )

    def on_moved(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Compare the current assignment with the target."""
        member = entry.member
        if member.member_epoch == entry.member_epoch and member.current is entry.current:
            return None
        ledger = self.model.acting_ledger()
        if ledger is None or member.member_epoch != ledger.target_epoch:
            return None
        if not is_registered(member, ledger):
            return None
        for partition in sorted(member.current.partitions):
            owner = ledger.target_owner.get(partition)
            if owner is not None and owner != member.member_id:
                return Finding(
                    f"{entry.name} came to the target epoch {member.member_epoch} with "
                    f"{self.model.name_of(partition)}, which the target gives to "
                    f"{self.model.who(owner)}",
                    client=entry.name,
                    partition=partition,
                )
        return None
