"""The target assignment: who is to have what, and whether it fits members and topics.

Sources: coordinator §5, §14.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.property import Finding, Interest, Property, notes
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.assignment_messages import ConsumerGroupInstallAssignmentRequest
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.topics import MetadataImage


class TargetComplete(Property):
    """coordinator C10, C11, by counting: nothing twice, nothing foreign, and as many of each topic
    as there are. A target that a member computed, or a classic leader, is of an earlier group."""

    id = "target.complete"
    sentence = (
        "Only members have a target, and none shares a partition; a new one has every partition "
        "of the subscribed topics, each with a member that subscribes to it."
    )
    clauses = (
        *("coordinator C10", "coordinator C11", "defects S6", "defects S8"),
        "TLA+ LegalTargetAssignment",
    )
    violated_by = (
        *("sim-stale-subscription-type", "mut-install-keeps-leavers"),
        *("test:double-target", "test:target-of-other-topic"),
    )
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the targets and the members that were touched, and at all of a new target."""
        ledger, name_of = change.ledger, self.model.name_of
        for member_id in (*change.targets, *change.members):
            if member_id in ledger.targets and member_id not in ledger.members:
                return Finding(f"{member_id} has a target and is no member")
        for partition in sorted(ledger.in_target.rivals):
            one, other = ledger.in_target.owner[partition], ledger.in_target.rivals[partition][0]
            return Finding(
                f"{name_of(partition)} is in the targets of {one} and of {other}",
                partition=partition,
            )
        is_of_earlier_group = (
            type(step.request) is ConsumerGroupInstallAssignmentRequest
            or ledger.has_converted_target
        )
        if not change.is_new_target or is_of_earlier_group:
            return None
        image = step.shard.coordinator.image
        return _incomplete(ledger, image) or self._foreign(change, image)

    def _foreign(self, change: Change, image: MetadataImage) -> Finding | None:
        """Whether a member has something that it does not subscribe to. Where all subscribe to the
        same, only what is new can be."""
        ledger, count = change.ledger, len(change.ledger.members)
        is_uniform = not ledger.pattern_count and all(
            n == count for n in ledger.subscriber_count.values()
        )
        counts: dict[tuple[str, ...], dict[str, int]] = {}
        for member_id in sorted(change.targets if is_uniform else ledger.targets):
            if member_id not in ledger.targets:
                continue
            names = tuple(ledger.names_of(ledger.members[member_id]))
            allowed = counts.get(names)
            if allowed is None:
                allowed = counts[names] = dict(_partition_counts(names, image))
            foreign = [
                partition
                for partition in ledger.targets[member_id]
                if partition.partition >= allowed.get(partition.topic_id, 0)
            ]
            if foreign:
                partition = min(foreign)
                return Finding(
                    f"the target of {self.model.who(member_id)} has "
                    f"{self.model.name_of(partition)}; it subscribes to "
                    f"{', '.join(names) or 'nothing'}",
                    partition=partition,
                    member=member_id,
                )
        return None


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
        *("mut-no-bump-on-metadata", "mut-no-bump-on-leave"),
        *("KAFKA-18916", "sim-stale-subscription-type"),
    )
    judges_mixed = True
    interest = Interest(requests=(ConsumerGroupHeartbeatRequest,))
    _outdated: set[str] = notes(set)

    def on_loaded(self, step: Step, ledger: GroupLedger) -> None:
        """Topics may have changed while no one looked (coordinator §7.3)."""
        self.on_metadata(step)

    def on_metadata(self, step: Step) -> None:
        """Topics have changed."""
        self._outdated.add(step.shard.name)

    def on_change(self, step: Step, change: Change) -> None:
        """A member has gone."""
        if change.members and change.removed():
            self.on_metadata(step)

    def on_request(self, step: Step) -> Finding | None:
        """The first heartbeat that is accepted after a change must have noticed it."""
        shard = step.shard
        if shard.name not in self._outdated or not self.model.is_heartbeat_success(step):
            return None
        self._outdated.remove(shard.name)
        ledger = self.model.ledger_of(shard)
        is_to_compute = ledger.group_epoch > ledger.target_epoch or not ledger.members
        if is_to_compute or ledger.has_converted_target:
            return None
        image = shard.coordinator.image
        finding = _incomplete(ledger, image)
        if finding is not None and _is_of_former_patterns(ledger, image):
            self.on_metadata(step)
            return None
        return finding


def _incomplete(ledger: GroupLedger, image: MetadataImage) -> Finding | None:
    """What the target lacks, or has too much of, topic by topic."""
    found, expected = ledger.target_count, dict(_partition_counts(ledger.all_names(), image))
    if found == expected:
        return None
    topic_id = min(one for one in {*found, *expected} if found.get(one) != expected.get(one))
    topic = image.by_id.get(topic_id)
    return Finding(
        f"the target of epoch {ledger.target_epoch} has {found.get(topic_id, 0)} partitions of "
        f"{topic.name if topic else topic_id}, there are {expected.get(topic_id, 0)}"
    )


def _is_of_former_patterns(ledger: GroupLedger, image: MetadataImage) -> bool:
    """Whether a target that is not complete lacks nothing, and what it has too much is all given to
    members that wait for their pattern to be resolved."""
    expected = dict(_partition_counts(ledger.all_names(), image))
    if any(ledger.target_count.get(topic_id, 0) != n for topic_id, n in expected.items()):
        return False
    for partition, member_id in ledger.in_target.owner.items():
        if partition.topic_id not in expected:
            entry = ledger.members.get(member_id)
            pattern = entry.metadata.subscribed_topic_regex if entry and entry.metadata else ""
            if not pattern or pattern in ledger.resolved or partition.topic_id not in image.by_id:
                return False
    return True


def _partition_counts(names: Iterable[str], image: MetadataImage) -> Iterator[tuple[str, int]]:
    """Topic id and number of partitions, of the topics that exist under these names."""
    for name in names:
        topic = image.by_name.get(name)
        if topic is not None and topic.partition_count:
            yield topic.topic_id, topic.partition_count
