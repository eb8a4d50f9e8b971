"""What members have after a consumer group has become a classic one.

Source: classic §7.8.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest
from rebalance_sim.protocol.wire.classic_records import ClassicGroupValue
from rebalance_sim.protocol.wire.embedded import Assignment, partitions_by_name
from rebalance_sim.protocol.wire.records import GroupMetadata
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 201


class TargetsInherited(Property):
    """classic §7.8, "Steps". Nobody is asked to sync again where no rebalance follows, so that what
    is missing here is worked on by nobody."""

    id = "conversion.targets_inherited"
    sentence = (
        "In a classic group that was a consumer group every member begins with its target as its "
        "assignment, and the successor of a static member with that of its predecessor."
    )
    clauses = ("classic §7.8", "classic H7")
    violated_by = ("test:downgrade-loses-partitions",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the record of the classic group."""
        if not change.is_group_removed or not change.targets:
            return None
        record = change.records[-1]
        if (
            type(record) is not GroupMetadata
            or record.group_id != change.ledger.group_id
            or record.value is None
        ):
            return None
        return self._judge(step, change, record.value)

    def _judge(self, step: Step, change: Change, value: ClassicGroupValue) -> Finding | None:
        image = step.shard.coordinator.image
        of_instances = {
            before.instance_id: member_id
            for member_id, (before, _) in change.members.items()
            if before is not None and before.instance_id is not None
        }
        for row in value.members:
            member_id = row.member_id
            target = _target(change, member_id)
            if target is None:
                target = (
                    _target(change, of_instances.get(row.group_instance_id or "", ""))
                    or frozenset()
                )
            expected = partitions_by_name(target, image)
            assignment = row.assignment
            given = assignment.partitions if isinstance(assignment, Assignment) else ()
            if given != expected:
                return Finding(
                    f"{self.model.who(member_id)} was to have {self.model.names_of(target)} in the "
                    "consumer group, and begins the classic one with something else",
                    {"member": member_id},
                )
        return None


def _target(change: Change, member_id: str) -> frozenset[TopicPartition] | None:
    return change.targets.get(member_id, (None, None))[0]


class DowngradeRebalances(Property):
    """classic §7.8, "Follow-up". A static member that is replaced is another matter: whether the
    group rebalances then depends on the version."""

    id = "conversion.downgrade_rebalances"
    sentence = (
        "A consumer group that becomes a classic one because a member goes rebalances at once, so "
        "that what that member had is given to others."
    )
    clauses = ("classic §7.8", "classic §1.4")
    violated_by = ("test:downgrade-stays-stable",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the group that stands for its new record."""
        if not change.is_group_removed or type(step.request) is JoinGroupRequest:
            return None
        record = change.records[-1]
        if (
            type(record) is not GroupMetadata
            or record.group_id != change.ledger.group_id
            or record.value is None
            or not record.value.members
        ):
            return None
        group = self.model.classic_group_in(step.shard)
        if group is None or group.state is ClassicGroupState.PREPARING_REBALANCE:
            return None
        return Finding(
            f"the group is a classic one now at generation {group.generation_id}, with "
            f"{len(group.members)} members, and is {group.state.value}"
        )
