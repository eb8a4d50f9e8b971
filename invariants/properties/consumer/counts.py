"""Derived counts and indices of a group against a recount.

Sources: coordinator §1.1, §2.5, §2.7, §14.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step, WorldView
from rebalance_sim.protocol.assignors.server import SubscriptionType
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup

ORDER = 60


class StaticMembers(Property):
    """coordinator C13. Brokers before 4.4 keep a former instance id mapped to its member
    (KAFKA-20747)."""

    id = "coordinator.static_members"
    sentence = "Each instance id is mapped to the one member that has it."
    clauses = ("coordinator C13", "defects S7")
    violated_by = ("test:corrupt-counts",)
    relies_on = ("former_instances",)
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

    def full(self, view: WorldView) -> Finding | None:
        """Recount over all members."""
        group = self.model.acting_group()
        if group is None:
            return None
        holders: dict[str, str] = {}
        for member_id, member in sorted(group.members.items()):
            if member.instance_id is not None:
                other = holders.setdefault(member.instance_id, member_id)
                if other != member_id:
                    return Finding(f"{other} and {member_id} both have {member.instance_id}")
        return self._judge(group, holders)

    def _judge(self, group: ConsumerGroup, expected: Mapping[str, str]) -> Finding | None:
        if group.static_members == expected:
            return None
        odd = min(i for i, _ in group.static_members.items() ^ expected.items())
        return Finding(
            f"instance id {odd} is mapped to {group.static_members.get(odd, 'nobody')}, "
            f"and {expected.get(odd, 'nobody')} has it",
            {"instance_id": odd, "instance_changed": self.model.former_instances.get(odd)},
        )


class Counts(Property):
    """coordinator C14."""

    id = "coordinator.counts"
    sentence = "Subscriber counts, assignor votes and subscription type equal a recount."
    clauses = ("coordinator C14",)
    violated_by = ("test:corrupt-counts",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare the touched names and votes, and the sizes."""
        group, ledger = change.group, change.ledger
        if group is None:
            return None
        names, votes = group.subscribed_topic_names, group.server_assignors
        if group.client_assignors != ledger.offer_count:
            return self._found_offers(group, ledger.offer_count)
        expected_names, expected_votes = ledger.subscriber_count, ledger.vote_count
        is_wrong = len(names) != len(expected_names) or len(votes) != len(expected_votes)
        for before, after in change.members.values():
            old, new = before.metadata if before else None, after.metadata if after else None
            if is_wrong or old is new:
                continue
            for value in (old, new):
                if value is not None:
                    for name in value.subscribed_topic_names:
                        if names.get(name) != expected_names.get(name):
                            is_wrong = True
                    vote = value.server_assignor
                    if vote is not None and votes.get(vote) != expected_votes.get(vote):
                        is_wrong = True
        if not is_wrong:
            return None
        return self._judge(group, expected_names, expected_votes, len(ledger.members))

    def full(self, view: WorldView) -> Finding | None:
        """Recount over all members."""
        group = self.model.acting_group()
        if group is None:
            return None
        members = group.members.values()
        names: dict[str, int] = {}
        votes: dict[str, int] = {}
        offers: dict[str, int] = {}
        for member in members:
            for name in member.subscribed_topic_names:
                names[name] = names.get(name, 0) + 1
            if member.server_assignor is not None:
                votes[member.server_assignor] = votes.get(member.server_assignor, 0) + 1
            for offer in member.client_assignors:
                offers[offer.name] = offers.get(offer.name, 0) + 1
        if group.client_assignors != offers:
            return self._found_offers(group, offers)
        return self._judge(group, names, votes, len(group.members))

    @staticmethod
    def _found_offers(group: ConsumerGroup, offers: Mapping[str, int]) -> Finding:
        return Finding(
            f"client-side assignors are {group.client_assignors}, should be {dict(offers)}"
        )

    @staticmethod
    def _judge(
        group: ConsumerGroup, names: Mapping[str, int], votes: Mapping[str, int], members: int
    ) -> Finding | None:
        if group.subscribed_topic_names != names:
            return _miscounted("subscribers", group.subscribed_topic_names, names)
        if group.server_assignors != votes:
            return _miscounted("votes", group.server_assignors, votes)
        if group.subscribed_regexes or group.resolved_regexes:
            return None  # Patterns have a rule of their own (coordinator §7.2).
        is_homogeneous = all(count == members for count in names.values())
        if (group.subscription_type is SubscriptionType.HOMOGENEOUS) != is_homogeneous:
            alike = "all" if is_homogeneous else "not all"
            return Finding(
                f"the subscription type is {group.subscription_type.name}; {alike} of the "
                f"{members} members subscribe alike"
            )
        return None


def _miscounted(what: str, found: Mapping[str, int], expected: Mapping[str, int]) -> Finding:
    odd = min(n for n in {*found, *expected} if found.get(n, 0) != expected.get(n, 0))
    return Finding(
        f"{found.get(odd, 0)} {what} of {odd} are counted, there are {expected.get(odd, 0)}"
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
