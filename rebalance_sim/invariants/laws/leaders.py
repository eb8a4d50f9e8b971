"""What a client hands out as the leader of a classic group; the coordinator takes anything.

Sources: classic §3.5, §5, C10, C11.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.classic_model import ClassicLook
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition, ungrouped
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS
from rebalance_sim.protocol.wire.classic_messages import SyncGroupRequest
from rebalance_sim.protocol.wire.embedded import Assignment, Subscription

_Shares = Mapping[str, list[NamedPartition]]
_Claims = Mapping[str, Subscription]


class _OfLeader(Property):
    """Judged when the coordinator takes the assignment of the leader's SyncGroup."""

    interest = Interest(is_in_changes=True)
    client_kinds = CLASSIC_KINDS

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Judge an assignment that clients of this package have made for each other."""
        group, request = look.group, step.request
        if (
            group is None
            or step.kind is not StepKind.COORDINATOR_REQUEST
            or not isinstance(request, SyncGroupRequest)
            or not step.records
            or group.protocol_name not in CLASSIC_ASSIGNORS
            or not self.model.is_client(request.member_id)
        ):
            return None
        claims, shares = {}, {}
        for member_id, member in sorted(group.members.items()):
            metadata = member.metadata_for(group.protocol_name or "")
            given = request.assignments.get(member_id) or Assignment()
            if not isinstance(metadata, Subscription) or not isinstance(given, Assignment):
                return None
            claims[member_id], shares[member_id] = metadata, ungrouped(given.partitions)
        return self._judge(group, shares, claims)

    def _judge(self, group: ClassicGroup, shares: _Shares, claims: _Claims) -> Finding | None:
        raise NotImplementedError


class ClassicDisjointAssignment(_OfLeader):
    """classic C11. How many partitions a topic has is the leader's own knowledge, so that a gap
    counts and a short end does not."""

    id = "classic.assignment_complete"
    sentence = (
        "A client that leads a classic group gives each partition to one subscriber, and leaves "
        "none out but those that somebody has still to give up."
    )
    clauses = ("classic C11", "classic §5", "defects S8")
    violated_by = ("test:classic-double-assignment",)

    def _judge(self, group: ClassicGroup, shares: _Shares, claims: _Claims) -> Finding | None:
        owner: dict[NamedPartition, str] = {}
        ends: dict[str, int] = {}
        for member_id, share in shares.items():
            for partition in share:
                topic, number = partition
                ends[topic] = max(ends.get(topic, 0), number)
                other = owner.setdefault(partition, member_id)
                if other != member_id:
                    return Finding(f"{topic}-{number} is given to {other} and to {member_id}")
                if topic not in claims[member_id].topics:
                    return Finding(f"{topic}-{number} is given to {member_id}, no subscriber")
        held = {p for claim in claims.values() for p in ungrouped(claim.owned_partitions)}
        for topic, end in sorted(ends.items()):
            for partition in (NamedPartition(topic, number) for number in range(end)):
                if partition not in owner and partition not in held:
                    left_out = f"{topic}-{partition.partition}"
                    return Finding(f"{left_out} is given to no member, {topic}-{end} is")
        return None


class CooperativeTransfer(_OfLeader):
    """classic C10, by the claims that the leader has before it."""

    id = "classic.cooperative_transfer"
    sentence = (
        "In a cooperative classic group, a client that leads gives no member what another member "
        "claims to own, unless it claims that as well."
    )
    clauses = ("classic C10", "classic §3.5", "classic §5.4")
    violated_by = ("KAFKA-14639", "KAFKA-15170")

    def _judge(self, group: ClassicGroup, shares: _Shares, claims: _Claims) -> Finding | None:
        assignors = [
            CLASSIC_ASSIGNORS.get(name)
            for member in group.members.values()
            for name in member.protocol_names()
        ]
        if not all(assignor and assignor.supports_cooperative for assignor in assignors):
            return None
        claimants: dict[NamedPartition, list[str]] = {}
        for member_id, claim in claims.items():
            for partition in ungrouped(claim.owned_partitions):
                claimants.setdefault(partition, []).append(member_id)
        for member_id, share in shares.items():
            for partition in share:
                owners = claimants.get(partition, [member_id])
                if member_id not in owners:
                    return Finding(
                        f"{partition.topic}-{partition.partition} is given to {member_id}, and "
                        f"{owners[0]} claims to own it"
                    )
        return None
