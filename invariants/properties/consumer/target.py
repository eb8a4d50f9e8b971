"""The target assignment: who is to have what, and whether it fits members and topics.

Sources: coordinator §5, §14.1.
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

ORDER = 40


class TargetExclusive(Property):
    """First clause of coordinator C10."""

    id = "target.exclusive"
    sentence = "The target assigns a partition to at most one member."
    clauses = ("coordinator C10", "defects S8", "TLA+ LegalTargetAssignment")
    violated_by = ("test:double-target",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Does a partition stand in two targets?"""
        rivals = change.ledger.target_rivals
        if not rivals:
            return None
        partition = min(rivals)
        return self._found(partition, change.ledger.target_owner[partition], rivals[partition][0])

    def _found(self, partition: TopicPartition, one: str, other: str) -> Finding:
        return Finding(
            f"{self.model.name_of(partition)} is in the targets of {one} and of {other}",
            partition=partition,
        )


class TargetMembersOnly(Property):
    """Third clause of coordinator C10."""

    id = "target.members_only"
    sentence = "Only members of the group have a target."
    clauses = ("coordinator C10",)
    violated_by = ("mut-install-keeps-leavers",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the targets and the members that were touched."""
        ledger = change.ledger
        for member_id, (_, target) in change.targets.items():
            if target is not None and member_id not in ledger.members:
                return Finding(f"{member_id} has a target and is no member")
        for member_id, (_, entry) in change.members.items():
            if entry is None and member_id in ledger.targets:
                return Finding(f"{member_id} has a target and is no member any more")
        return None


class TargetSubscribed(Property):
    """Second clause of coordinator C10, at the moment a target is installed."""

    id = "target.subscribed_only"
    sentence = "A new target gives a member only existing partitions of topics it subscribes to."
    clauses = ("coordinator C10", "defects S6", "defects S8")
    violated_by = ("test:target-of-other-topic",)
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._to_recheck: dict[str, set[str] | None] = {}
        """Shard -> members whose kept target may not fit any more; None: all of them."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """After a load, topics may have changed unseen."""
        self._to_recheck[step.shard.name] = None
        return None

    def on_metadata(self, step: Step) -> Finding | None:
        """Topics have changed: every kept target is suspect."""
        self._to_recheck[step.shard.name] = None
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at changed targets, and at kept ones where subscription or topics have changed."""
        shard, ledger = step.shard, change.ledger
        to_recheck = self._to_recheck.setdefault(shard.name, set())
        if to_recheck is not None:
            for member_id, (before, after) in change.members.items():
                if before and after and _subscribes_differently(before, after):
                    to_recheck.add(member_id)
            if change.patterns:
                self._to_recheck[shard.name] = to_recheck = None
        if change.is_by_client:
            self._to_recheck[shard.name] = None
        if not change.is_new_target or change.is_by_client or ledger.has_converted_target:
            return None
        if to_recheck is None:
            ids = set(ledger.targets)
        else:
            ids = {m for m in (*to_recheck, *change.targets) if m in ledger.targets}
        self._to_recheck[shard.name] = set()
        image = shard.coordinator.image
        counts: dict[tuple[str, ...], dict[str, int]] = {}
        for member_id in sorted(ids):
            entry = ledger.members.get(member_id)
            if entry is None:
                continue
            names = tuple(ledger.names_of(entry))
            allowed = counts.get(names)
            if allowed is None:
                allowed = counts[names] = _partition_counts(names, image)
            for partition in ledger.targets[member_id]:
                if partition.partition >= allowed.get(partition.topic_id, 0):
                    return Finding(
                        f"the target of {self.model.who(member_id)} has "
                        f"{self.model.name_of(partition)}; it subscribes to "
                        f"{', '.join(names) or 'nothing'}",
                        partition=partition,
                        member=member_id,
                    )
        return None


class TargetComplete(Property):
    """coordinator C11, by counting: nothing twice, nothing foreign, and as many of each topic as
    there are."""

    id = "target.complete"
    sentence = "A new target has every partition of every subscribed topic exactly once."
    clauses = ("coordinator C11", "defects S8", "TLA+ LegalTargetAssignment")
    violated_by = ("sim-stale-subscription-type",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Count a target when it is installed."""
        if not change.is_new_target or change.is_by_client:
            return None
        if change.ledger.has_converted_target:
            return None
        return _incomplete(change.ledger, change.records, step.shard.coordinator.image)


class TargetCurrent(Property):
    """defects L8 where it can be seen at once: the first heartbeat after a change of topics.

    A pattern that is not resolved yet raises no epoch (coordinator §7.2): until it is, its member
    keeps the target of the pattern that it had, or that its static predecessor had.
    """

    id = "target.current"
    sentence = (
        "After a change of subscribed topics, a load, or the end of a member, the next "
        "heartbeat finds the group with a target to compute, or computes it."
    )
    clauses = ("coordinator §7.3", "coordinator §4.2", "defects L8", "defects L2")
    violated_by = (
        "mut-no-bump-on-metadata",
        "mut-no-bump-on-leave",
        "KAFKA-18916",
        "sim-stale-subscription-type",
    )
    judges_mixed = True
    interest = Interest(requests=(ConsumerGroupHeartbeatRequest,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._outdated: dict[str, None] = {}

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Topics may have changed while nobody looked (coordinator §7.3)."""
        self._outdated[step.shard.name] = None
        return None

    def on_metadata(self, step: Step) -> Finding | None:
        """Topics have changed."""
        self._outdated[step.shard.name] = None
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """A member has gone."""
        if change.members and change.removed():
            self._outdated[step.shard.name] = None
        return None

    def on_request(self, step: Step) -> Finding | None:
        """The first heartbeat that is accepted after a change must have noticed it."""
        if not self._outdated:
            return None
        shard = step.shard
        if shard.name not in self._outdated or not self.model.is_heartbeat_success(step):
            return None
        del self._outdated[shard.name]
        ledger = self.model.ledger_of(shard)
        if ledger.group_epoch > ledger.target_epoch or not ledger.members:
            return None
        if ledger.has_converted_target:
            return None
        image = shard.coordinator.image
        finding = _incomplete(ledger, step.records, image)
        if finding is not None and _is_of_former_patterns(ledger, image):
            self._outdated[shard.name] = None
            return None
        return finding


def _incomplete(
    ledger: GroupLedger, records: Iterable[Record], image: MetadataImage
) -> Finding | None:
    """What the target lacks, or has too much of, topic by topic."""
    expected = _partition_counts(ledger.all_names(), image)
    found = ledger.target_count
    if found == expected:
        return None
    for topic_id in sorted({*found, *expected}):
        have, want = found.get(topic_id, 0), expected.get(topic_id, 0)
        if have != want:
            topic = image.by_id.get(topic_id)
            return Finding(
                f"the target of epoch {ledger.target_epoch} has {have} partitions of "
                f"{topic.name if topic else topic_id}, there are {want}"
            )
    return None


def _is_of_former_patterns(ledger: GroupLedger, image: MetadataImage) -> bool:
    """Whether a target that is not complete lacks nothing, and what it has too much is all given to
    members that wait for their pattern to be resolved."""
    expected = _partition_counts(ledger.all_names(), image)
    found = ledger.target_count
    if any(found.get(topic_id, 0) != want for topic_id, want in expected.items()):
        return False
    for partition, member_id in ledger.target_owner.items():
        if partition.topic_id not in expected:
            entry = ledger.members.get(member_id)
            metadata = entry.metadata if entry else None
            pattern = metadata.subscribed_topic_regex if metadata else ""
            if not pattern or pattern in ledger.resolved or partition.topic_id not in image.by_id:
                return False
    return True


def _partition_counts(names: Iterable[str], image: MetadataImage) -> dict[str, int]:
    """Topic id -> number of partitions, of the topics that exist under these names."""
    topics = (image.by_name.get(name) for name in names)
    return {t.topic_id: t.partition_count for t in topics if t is not None and t.partition_count}


def _subscribes_differently(before: MemberEntry, after: MemberEntry) -> bool:
    old, new = before.metadata, after.metadata
    if old is None or new is None:
        return old is not new
    return (old.subscribed_topic_names, old.subscribed_topic_regex) != (
        new.subscribed_topic_names,
        new.subscribed_topic_regex,
    )
