"""Derived counts and indices of a group against a recount.

Sources: coordinator §1.1, §2.5, §2.7, §14.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup

ORDER = 60


class StaticMembers(Property):
    """coordinator C13. Brokers before 4.4 keep a former instance id mapped to its member
    (KAFKA-20747)."""

    id = "coordinator.static_members"
    sentence = "Each instance id is mapped to the one member that has it."
    clauses = ("coordinator C13", "defects S7")
    violated_by = ("test:corrupt-counts",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare the touched instance ids, and the size."""
        group, ledger = change.group, change.ledger
        if group is None or not (ledger.instances or group.static_members):
            return None
        for instance_id in {
            entry.instance_id
            for pair in change.members.values()
            for entry in pair
            if entry is not None and entry.instance_id is not None
        }:
            if group.static_members.get(instance_id) != ledger.instances.get(instance_id):
                return self._judge(group, ledger.instances)
        if len(group.static_members) != len(ledger.instances):
            return self._judge(group, ledger.instances)
        return None

    def _judge(self, group: ConsumerGroup, expected: Mapping[str, str]) -> Finding | None:
        if group.static_members == expected:
            return None
        odd = min(i for i, _ in group.static_members.items() ^ expected.items())
        return Finding(
            f"instance id {odd} is mapped to {group.static_members.get(odd, 'nobody')}, "
            f"and {expected.get(odd, 'nobody')} has it",
            instance_id=odd,
        )


class GroupSize(Property):
    """coordinator C24. What a load brings may exceed a limit that was lowered."""

    id = "coordinator.group_size"
    sentence = "No member joins a group that is full."
    clauses = ("coordinator C24",)
    violated_by = ("test:oversized",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Did the group grow beyond its limit?"""
        limit = self.model.config.group_consumer_max_size
        size = len(change.ledger.members)
        if size <= limit:
            return None
        before = size
        for old, new in change.members.values():
            before += (old is not None) - (new is not None)
        if size <= before:
            return None
        return Finding(f"the group grew from {before} to {size} members, the limit is {limit}")
