"""The target is computed by the assignor that the members have voted for.

Range has one result for each group, so that its targets can be computed anew; which assignor is to
compute follows from the votes.
Sources: coordinator §5.2, §5.3, §5.7; assignors §3.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.heartbeat_case import HeartbeatCase
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupTargetAssignmentMember,
    MemberMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

ORDER = 52


class RangeAsVoted(Property):
    """coordinator §5.3 with the result of ``range``, worked out anew."""

    id = "target.range_as_voted"
    sentence = (
        "Where the votes choose range, the new target is that of range: of each topic, its "
        "subscribers get even runs of partitions, those with an instance id first."
    )
    clauses = ("coordinator §5.3", "coordinator §5.7", "assignors §3")
    violated_by = ("KAFKA-16944", "test:vote-ignored")
    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """In the KIP's text who names none votes as well (coordinator §12.2)."""
        return semantics.coordinator.assigns_in_heartbeat

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Compare member by member. Members with patterns are not judged: which of them the
        assignor sees as alike is sim-stale-subscription-type."""
        if not case.is_accepted or case.written_target is None or not self._is_range(case):
            return None
        members = _members_after(case)
        if any(metadata.subscribed_topic_regex for metadata in members.values()):
            return None
        expected = _range(members, case.shard.coordinator.image)
        shares = dict(case.ledger.targets)
        for record in step.records:
            if (
                type(record) is ConsumerGroupTargetAssignmentMember
                and record.group_id == case.ledger.group_id
                and record.value is not None
            ):
                shares[record.member_id] = record.value
        for member_id in sorted(members):
            share = shares.get(member_id) or frozenset()
            if share != expected[member_id]:
                return Finding(
                    f"range was chosen, and the target of {self.model.who(member_id)} is "
                    f"{self.model.names_of(share)}; range gives it "
                    f"{self.model.names_of(expected[member_id])}",
                    {"member": member_id},
                )
        return None

    @staticmethod
    def _is_range(case: HeartbeatCase) -> bool:
        return case.preferred_assignors[1] == "range"


def _members_after(case: HeartbeatCase) -> Mapping[str, MemberMetadataValue]:
    """What all members say of themselves with this request."""
    members = {
        member_id: entry.metadata
        for member_id, entry in case.ledger.members.items()
        if entry.metadata is not None and member_id != case.predecessor
    }
    members[case.sender] = case.merged
    return members


def _range(
    members: Mapping[str, MemberMetadataValue], image: MetadataImage
) -> Mapping[str, frozenset[TopicPartition]]:
    """coordinator §5.7."""
    order = sorted(
        members, key=lambda m: (members[m].instance_id is None, members[m].instance_id or "", m)
    )
    shares: dict[str, set[TopicPartition]] = {member_id: set() for member_id in members}
    for name, topic in image.by_name.items():
        subscribers = [m for m in order if name in members[m].subscribed_topic_names]
        first = 0
        for place, member_id in enumerate(subscribers):
            size, extra = divmod(topic.partition_count, len(subscribers))
            end = first + size + (place < extra)
            shares[member_id] |= {TopicPartition(topic.topic_id, n) for n in range(first, end)}
            first = end
    return {member_id: frozenset(share) for member_id, share in shares.items()}
