"""What a heartbeat brings about in its group.

Sources: coordinator §2.4, §2.10, §5.3, §7.2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.consumer_messages import JOIN_EPOCH
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    GroupMetadata,
    GroupMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage

ORDER = 35

_TopicsSeen = frozenset[tuple[str, str, int]]
"""Name, id and partition count of topics: what a metadata hash stands for."""


class EpochCause(Property):
    """coordinator H7-H9, §2.10. What a change of topics *must* lead to is ``target.current``; the
    KIP's text has steps of its own (coordinator §13), and so has a conversion."""

    id = "coordinator.epoch_cause"
    sentence = (
        "A heartbeat raises the group epoch by one, and only if the member's subscription has "
        "changed, or the topics of the group's, or which server-side assignor is preferred; the "
        "first always does."
    )
    clauses = ("coordinator §2.4", "coordinator §2.10", "coordinator §5.3", "coordinator §7.2")
    violated_by = ("KAFKA-20434", "tied-assignor-votes")
    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """coordinator §13."""
        return semantics.coordinator.assigns_in_heartbeat

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._topics_of: dict[int, _TopicsSeen] = {0: frozenset()}
        """Metadata hash -> what it stood for when it was first written."""

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Remember what a metadata hash stands for; other topics, another hash."""
        value = _epoch_written(step, self.model.group_id)
        if value is not None and value.metadata_hash not in self._topics_of:
            topics = _topics_seen(change.ledger.all_names(), step.shard.coordinator.image)
            self._topics_of[value.metadata_hash] = topics
        return None

    def before_heartbeat(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Is there a cause, and is there an effect?"""
        request, response = step.request, step.response
        is_conversion = any(type(record) is GroupMetadata for record in step.records)
        if response.error_code or request.member_epoch < JOIN_EPOCH or is_conversion:
            return None
        sender = stored_as = request.member_id or response.member_id or ""
        if request.member_epoch == JOIN_EPOCH:  # A static member goes on as its predecessor.
            stored_as = ledger.instances.get(request.instance_id, sender)
        said = (ledger.members.get(stored_as) or MemberEntry()).metadata
        names = new_names = said.subscribed_topic_names if said else ()
        pattern = new_pattern = said.subscribed_topic_regex if said else ""
        vote = new_vote = said.server_assignor if said else None
        if request.subscribed_topic_names is not None:
            new_names = request.subscribed_topic_names
        if request.subscribed_topic_regex is not None:
            new_pattern = request.subscribed_topic_regex
        if request.server_assignor is not None:
            new_vote = request.server_assignor
        votes = dict(ledger.vote_count)
        for name, by in ((vote, -1), (new_vote, 1)):
            if name is not None:
                votes[name] = votes.get(name, 0) + by
        configured = step.shard.configs.broker.group_consumer_assignors
        former, preferred = (
            _most_voted(ledger.vote_count, configured),
            _most_voted(votes, configured),
        )
        is_resolved = new_pattern in ledger.pattern_count and new_pattern in ledger.resolved
        must = (
            former != preferred
            or {*names} != {*new_names}
            or (pattern != new_pattern and (not new_pattern or is_resolved))
            or ledger.group_epoch == 0
        )
        written, who = _epoch_written(step, ledger.group_id), self.model.who(sender)
        after = dict(ledger.pattern_count)
        after[pattern], after[new_pattern] = after.get(pattern, 0) - 1, 1
        if written is None:
            what = f"{who} changed its subscription or, to {preferred}, the preferred assignor"
            return Finding(f"{what}, and the group epoch stayed", member=sender) if must else None
        raises = (
            f"a heartbeat of {who} took the group epoch {ledger.group_epoch} to {written.epoch}"
        )
        if written.epoch != ledger.group_epoch + 1:
            return Finding(raises)
        counts = ledger.subscriber_count.items()
        seen = {name for name, count in counts if count > (name in names)}.union(new_names)
        seen.update(*(ledger.resolved.get(one, ()) for one, count in after.items() if count > 0))
        topics = _topics_seen(seen, step.shard.coordinator.image)
        if must or self._topics_of.get(ledger.metadata_hash) != topics:
            return None
        return Finding(f"{raises}, and nothing had changed", member=sender)


def _epoch_written(step: Step, group_id: str) -> GroupMetadataValue | None:
    """The last record 3."""
    kind = ConsumerGroupMetadata
    values = [r.value for r in step.records if type(r) is kind and r.group_id == group_id]
    return values[-1] if values else None


def _most_voted(votes: Mapping[str, int], configured: Sequence[str]) -> str:
    """That with the most votes, of several the first in the order uniform, range, others as
    configured; without votes the first that is configured (coordinator §5.3)."""
    best = max(votes.values(), default=0)
    names = ("uniform", "range", *configured, *sorted(votes)) if best > 0 else configured
    return next(name for name in names if best <= 0 or votes.get(name) == best)


def _topics_seen(names: Collection[str], image: MetadataImage) -> _TopicsSeen:
    """Of these names, the topics that exist."""
    topics = (image.by_name[name] for name in names if name in image.by_name)
    return frozenset((t.name, t.topic_id, t.partition_count) for t in topics)
