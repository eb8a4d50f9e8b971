"""What a good target looks like: balanced, sticky, co-partitioned.

Judged only where all votes agree, so that it is certain which assignor computed the target, and
mostly where all members subscribe alike, so that the best result is a formula.
Sources: coordinator §5.3, §5.7; assignors §3, §5, §6, §9.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

ORDER = 50

_FEW_TOPICS = 8
"""Half as many as there are rounds of balancing (assignors §6.4)."""


class BalancedTarget(Property):
    """defects S8 for ``uniform``."""

    id = "assignor.balanced"
    sentence = (
        "Where all members subscribe alike, the uniform assignor gives no member two "
        "partitions more than another."
    )
    clauses = ("coordinator §5.7", "defects S8")
    violated_by = ("test:unbalanced-target",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare the sizes of all shares of a new target."""
        ledger = change.ledger
        if not change.is_new_target or not _is_certain(self.model, change, "uniform"):
            return None
        sizes = {member_id: len(target) for member_id, target in ledger.targets.items()}
        most = max(sorted(sizes), key=sizes.__getitem__)
        least = min(sorted(sizes), key=sizes.__getitem__)
        if sizes[most] - sizes[least] <= 1:
            return None
        return Finding(
            f"{self.model.who(most)} gets {sizes[most]} partitions, "
            f"{self.model.who(least)} {sizes[least]}"
        )


class StickyTarget(Property):
    """defects S8, L7 for ``uniform``: the number of partitions that could have stayed is a
    formula."""

    id = "assignor.sticky"
    sentence = (
        "Where all members subscribe alike, the uniform assignor moves no more partitions than "
        "balance demands."
    )
    clauses = ("coordinator §5.7", "defects S8", "defects L7")
    violated_by = ("KAFKA-18688",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Count what stayed, and what could have stayed."""
        ledger = change.ledger
        if not change.is_new_target or not _is_certain(self.model, change, "uniform"):
            return None
        counts = _partition_counts(ledger, step.shard.coordinator.image)
        total = sum(map(len, ledger.targets.values()))
        quota, extras = divmod(total, len(ledger.targets))
        stayed = could_stay = 0
        for member_id, target in ledger.targets.items():
            before = _former_target(change, member_id)
            if before is target:
                valid = len(target)
                stayed += valid
            else:
                kept = {p for p in before if p.partition < counts.get(p.topic_id, 0)}
                valid = len(kept)
                stayed += len(kept & target)
            could_stay += min(valid, quota)
            if valid > quota and extras:
                extras -= 1
                could_stay += 1
        if stayed >= could_stay:
            return None
        return Finding(
            f"the target of epoch {ledger.target_epoch} keeps {stayed} partitions where they "
            f"were; {could_stay} could have stayed",
            {"epoch": ledger.target_epoch},
        )


class LocallyBalancedTarget(Property):
    """assignors §6.4. Long chains of overlapping subscriptions may need more rounds than it takes:
    each round brings a partition one topic further."""

    id = "assignor.locally_balanced"
    sentence = (
        "Where members subscribe differently, to few topics, the uniform assignor leaves no "
        "partition with a member that has two partitions more than another subscriber of the topic."
    )
    clauses = ("assignors §6.4", "coordinator §5.7", "defects S8")
    violated_by = ("test:uniform-moves-nothing",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare givers and receivers, topic by topic."""
        ledger = change.ledger
        if (
            not change.is_new_target
            or not _is_computed_by(self.model, change, "uniform")
            or _may_have_former_type(change)
        ):
            return None
        subscribers: dict[str, list[str]] = {}
        for member_id, entry in ledger.members.items():
            for name in _topics_of(ledger, entry):
                subscribers.setdefault(name, []).append(member_id)
        if not 1 < len(subscribers) <= _FEW_TOPICS or all(
            len(members) == len(ledger.members) for members in subscribers.values()
        ):
            return None
        sizes = {member_id: len(target) for member_id, target in ledger.targets.items()}
        by_name = step.shard.coordinator.image.by_name
        for name, members in sorted(subscribers.items()):
            topic = by_name.get(name)
            if topic is None or len(members) < 2:
                continue
            least = min(members, key=lambda m: (sizes[m], m))
            for number in range(topic.partition_count):
                owner = ledger.target_owner.get(TopicPartition(topic.topic_id, number))
                if owner is not None and sizes[owner] - sizes[least] > 1:
                    return Finding(
                        f"{name}-{number} goes to {self.model.who(owner)}, which gets "
                        f"{sizes[owner]} partitions, and not to {self.model.who(least)}, which "
                        f"gets {sizes[least]}",
                        {"epoch": ledger.target_epoch},
                    )
        return None


class CoPartitionedTarget(Property):
    """defects S8 for ``range``."""

    id = "assignor.co_partitioned"
    sentence = (
        "Where all members subscribe alike, the range assignor gives partition i of all topics "
        "of one size to the same member."
    )
    clauses = ("coordinator §5.7", "defects S8")
    violated_by = ("KAFKA-16944",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare topics of equal size, partition by partition."""
        ledger = change.ledger
        if not change.is_new_target or not _is_certain(self.model, change, "range"):
            return None
        by_name = step.shard.coordinator.image.by_name
        first: dict[int, str] = {}
        for name in sorted(ledger.subscriber_count):
            topic = by_name.get(name)
            if topic is None:
                continue
            model = first.setdefault(topic.partition_count, topic.topic_id)
            for number in range(topic.partition_count):
                one = TopicPartition(model, number)
                other = TopicPartition(topic.topic_id, number)
                if ledger.target_owner.get(one) != ledger.target_owner.get(other):
                    return Finding(
                        f"{self.model.name_of(one)} goes to {self._owner(ledger, one)}, "
                        f"{self.model.name_of(other)} to {self._owner(ledger, other)}",
                        {"partitions": (one, other)},
                    )
        return None

    def _owner(self, ledger: GroupLedger, partition: TopicPartition) -> str:
        owner = ledger.target_owner.get(partition)
        return "nobody" if owner is None else self.model.who(owner)


def _is_certain(model: ModelView, change: Change, assignor: str) -> bool:
    """Whether ``assignor`` computed this target, for members that all subscribe alike."""
    ledger = change.ledger
    return (
        not ledger.pattern_count
        and _is_computed_by(model, change, assignor)
        and all(count == len(ledger.members) for count in ledger.subscriber_count.values())
    )


def _is_computed_by(model: ModelView, change: Change, assignor: str) -> bool:
    """Whether ``assignor`` computed this target, for the members that there are."""
    ledger = change.ledger
    votes = ledger.vote_count
    if change.is_by_client or len(votes) > 1 or not ledger.targets:
        return False
    chosen = next(iter(votes)) if votes else model.config.group_consumer_assignors[0]
    return chosen == assignor and len(ledger.targets) == len(ledger.members)


def _may_have_former_type(change: Change) -> bool:
    """Whether members subscribe to something else by a request that does not bump: how they differ
    was seen before it (coordinator §7.2, "Subscription type with regexes")."""
    before, after = change.group_epoch
    return before == after and any(
        old is None or new is None or old.metadata is not new.metadata
        for old, new in change.members.values()
    )


def _topics_of(ledger: GroupLedger, entry: MemberEntry) -> frozenset[str]:
    names = frozenset(entry.topic_names)
    if not ledger.pattern_count or entry.metadata is None:
        return names
    return names.union(ledger.resolved.get(entry.metadata.subscribed_topic_regex, ()))


def _former_target(change: Change, member_id: str) -> frozenset[TopicPartition]:
    """The target before this batch; a static heir goes on with its predecessor's
    (coordinator §5.4)."""
    if member_id not in change.targets:
        return change.ledger.targets[member_id]
    before = change.targets[member_id][0]
    if before is not None:
        return before
    entry = change.ledger.members.get(member_id)
    if entry is not None and entry.instance_id is not None:
        for old_id in change.removed():
            old = change.members[old_id][0]
            if old is not None and old.instance_id == entry.instance_id:
                return change.targets.get(old_id, (None, None))[0] or frozenset()
    return frozenset()


def _partition_counts(ledger: GroupLedger, image: MetadataImage) -> dict[str, int]:
    """Topic id -> number of partitions, of the subscribed topics that exist."""
    topics = (image.by_name.get(name) for name in ledger.subscriber_count)
    return {topic.topic_id: topic.partition_count for topic in topics if topic is not None}
