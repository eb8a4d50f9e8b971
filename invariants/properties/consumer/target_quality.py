"""What a good target looks like: balanced, sticky, co-partitioned.

Judged only where all votes agree, so that it is certain which assignor computed the target, and
where all members subscribe alike, so that the best result is a formula.
Sources: coordinator §5.3, §5.7; assignors §3, §5, §9.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step, shard_of
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

ORDER = 50


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
        counts = _partition_counts(ledger, shard_of(step).coordinator.image)
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
        by_name = shard_of(step).coordinator.image.by_name
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
    votes = ledger.vote_count
    if change.is_by_client or len(votes) > 1 or ledger.pattern_count or not ledger.targets:
        return False
    chosen = next(iter(votes)) if votes else model.config.group_consumer_assignors[0]
    if chosen != assignor or len(ledger.targets) != len(ledger.members):
        return False
    return all(count == len(ledger.members) for count in ledger.subscriber_count.values())


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
