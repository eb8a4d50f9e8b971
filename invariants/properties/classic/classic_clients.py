"""What clients of the classic protocol do with partitions, by themselves and among all others.

Source: classic §3.2, §4.1, §10, C9, C10, H12.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.classic_model import ClassicLook
from rebalance_sim.invariants.property import (
    Finding,
    Interest,
    Property,
)
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition, ungrouped
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients import ClientState, GroupMember
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS, EVERY_KIND
from rebalance_sim.protocol.wire.classic_messages import SyncGroupRequest
from rebalance_sim.protocol.wire.embedded import Assignment, Subscription
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 180


class EagerRevokesFirst(Property):
    """classic C9, where it can be seen: at the member that sends JoinGroup."""

    id = "classic.eager_revokes_first"
    sentence = (
        "An eager member owns nothing from its JoinGroup until its SyncGroup is answered "
        "(clients of the classic protocol)."
    )
    clauses = ("classic C9", "classic §3.2")
    violated_by = ("test:classic-eager-keeps",)
    client_kinds = CLASSIC_KINDS

    def on_classic_client(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Judge the client that moved."""
        return self._judge(entry.name, entry.member)

    def _judge(self, name: str, member: GroupMember) -> Finding | None:
        view = member.classic if member.assigned else None
        if view is None or view.is_cooperative or not view.is_rebalancing:
            return None
        return Finding(
            f"{name} is {view.state.value} and still has {self.model.names_of(member.assigned)}"
        )


class ExclusiveAmongKinds(Property):
    """classic C9, C10, H12, as records see them."""

    id = "classic.exclusive_consumption"
    sentence = (
        "No two clients may fetch a partition of a topic that there is, and be members at their "
        "present generation or epoch to the coordinator, if either speaks the classic protocol; "
        "who missed a generation of a classic group is one again when it has settled."
    )
    clauses = ("classic C9", "classic C10", "classic H12", "defects S1")
    violated_by = (
        "classic-forgotten-owners",
        "classic-recreated-topic",
        "classic-reused-generation",
        "classic-unheard-removal",
    )
    client_kinds = EVERY_KIND
    judges_mixed = True

    def on_ownership(self, step: Step) -> Finding | None:
        """Look at the partitions that more than one client may fetch."""
        if not self.model.classic_clients:
            return None
        for partition in sorted(self.model.contested):
            names = sorted(self.model.fetchers[partition])
            if any(name in self.model.classic_clients for name in names):
                users = {name: self.model.member_of(name) for name in names}
                finding = self._judge(partition, users)
                if finding is not None:
                    return finding
        return None

    def _judge(
        self, partition: TopicPartition, users: Mapping[str, GroupMember | None]
    ) -> Finding | None:
        model = self.model
        shard = model.acting_shard()
        if shard is not None and partition.topic_id not in shard.coordinator.image.by_id:
            return None  # Nobody gets records of a topic that is gone, whoever asks for them.
        standing = {
            name: member.member_id
            for name, member in users.items()
            if member is not None
            and not self._has_missed_a_generation(name, member)
            and self._is_in_good_standing(member, partition)
        }
        if len(standing) < 2:
            return None
        return Finding(
            f"{model.name_of(partition)} is fetched by {' and '.join(standing)}, and all of "
            "them are members in good standing",
            partition=partition,
        )

    def _has_missed_a_generation(self, name: str, member: GroupMember) -> bool:
        """Whether others may have got what it has while it was away from its classic group, and it
        has not been told so: its claims were too old to count (classic §5.3). Who goes on with
        what it had under another member id has been told."""
        entry = self.model.classic_clients.get(name)
        if entry is None or entry.settled is None or member.state is ClientState.STABLE:
            return False
        member_id, generation = entry.settled
        if member_id != member.member_id or generation >= member.member_epoch - 1:
            return False
        shard = self.model.acting_shard()
        return shard is not None and self.model.classic_group_in(shard) is not None

    def _is_in_good_standing(self, member: GroupMember, partition: TopicPartition) -> bool:
        """Whether the coordinator has it, at exactly the number that the client is at, and has ever
        given it the partition. A term has generations of its own, but not epochs."""
        shard = self.model.acting_shard()
        if shard is None or member.member_epoch <= 0:
            return False
        classic = self.model.classic_group_in(shard)
        if classic is not None:
            return (
                member.member_id in classic.members and member.member_epoch == classic.generation_id
            )
        group = self.model.group_in(shard)
        stored = None if group is None else group.members.get(member.member_id)
        return (
            stored is not None
            and stored.member_epoch == member.member_epoch
            and not self.model.is_from_lost_commit(member.member_id, partition)
        )


class OfLeaderAssignment(Property):
    """A property about what a client hands out as a leader, judged when the coordinator takes it;
    the coordinator itself takes anything."""

    interest = Interest(is_in_changes=True)

    def on_classic(self, step: Step, look: ClassicLook) -> Finding | None:
        """Judge the assignment of the leader's SyncGroup."""
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
        shares: dict[str, list[NamedPartition]] = {}
        for member_id in sorted(group.members):
            given = request.assignments.get(member_id)
            if given is not None and not isinstance(given, Assignment):
                return None
            shares[member_id] = [] if given is None else ungrouped(given.partitions)
        claims: dict[str, Subscription] = {}
        for member_id, member in group.members.items():
            metadata = member.metadata_for(group.protocol_name or "")
            if not isinstance(metadata, Subscription):
                return None
            claims[member_id] = metadata
        return self._judge_shares(group, shares, claims)

    def _judge_shares(
        self,
        group: ClassicGroup,
        shares: dict[str, list[NamedPartition]],
        claims: dict[str, Subscription],
    ) -> Finding | None:
        raise NotImplementedError


class ClassicDisjointAssignment(OfLeaderAssignment):
    """classic C11. How many partitions a topic has is the leader's own knowledge, so that a gap
    counts and a short end does not."""

    id = "classic.assignment_complete"
    sentence = (
        "A client that leads gives each partition to one member that subscribes to its topic, and "
        "leaves none out but those that somebody has still to give up."
    )
    clauses = ("classic C11", "classic §5", "defects S8")
    violated_by = ("test:classic-double-assignment",)
    client_kinds = CLASSIC_KINDS

    def _judge_shares(
        self,
        group: ClassicGroup,
        shares: dict[str, list[NamedPartition]],
        claims: dict[str, Subscription],
    ) -> Finding | None:
        owner: dict[NamedPartition, str] = {}
        for member_id, share in shares.items():
            for partition in share:
                topic, number = partition
                other = owner.setdefault(partition, member_id)
                if other != member_id:
                    return Finding(f"{topic}-{number} is given to {other} and to {member_id}")
                if topic not in claims[member_id].topics:
                    return Finding(
                        f"{topic}-{number} is given to {member_id}, which does not subscribe to it"
                    )
        held = {p for claim in claims.values() for p in ungrouped(claim.owned_partitions)}
        ends: dict[str, int] = {}
        for topic, number in owner:
            ends[topic] = max(ends.get(topic, 0), number)
        for topic, end in sorted(ends.items()):
            for number in range(end):
                partition = NamedPartition(topic, number)
                if partition not in owner and partition not in held:
                    return Finding(f"{topic}-{number} is given to nobody, {topic}-{end} is")
        return None


class CooperativeTransfer(OfLeaderAssignment):
    """classic C10, by the claims that the leader has before it."""

    id = "classic.cooperative_transfer"
    sentence = (
        "Where all members keep partitions through a rebalance, nobody is given what another "
        "member claims to own, unless it claims that as well."
    )
    clauses = ("classic C10", "classic §3.5", "classic §5.4")
    violated_by = (
        "KAFKA-14639",
        "KAFKA-15170",
    )
    client_kinds = CLASSIC_KINDS

    def _judge_shares(
        self,
        group: ClassicGroup,
        shares: dict[str, list[NamedPartition]],
        claims: dict[str, Subscription],
    ) -> Finding | None:
        if not all(
            name in CLASSIC_ASSIGNORS and CLASSIC_ASSIGNORS[name].supports_cooperative
            for member in group.members.values()
            for name in member.protocol_names()
        ):
            return None
        claimants: dict[NamedPartition, list[str]] = {}
        for member_id, claim in claims.items():
            for partition in ungrouped(claim.owned_partitions):
                claimants.setdefault(partition, []).append(member_id)
        for member_id, share in shares.items():
            for partition in share:
                owners = claimants.get(partition, [])
                if owners and member_id not in owners:
                    return Finding(
                        f"{partition.topic}-{partition.partition} is given to {member_id}, and "
                        f"{owners[0]} claims to own it"
                    )
        return None
