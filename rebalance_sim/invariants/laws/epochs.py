"""Epochs: forward only, each for a cause, and a fence to requests at another one.

Sources: coordinator §0, §1.4, §2.4, §2.8, §2.10, §4.2, §5.3, §7.2, §14.1.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rebalance_sim.invariants.model.classic_model import ClassicModel
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property, notes
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    GroupMetadata,
    GroupMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage

_TopicsSeen = frozenset[tuple[str, str, int]]
"""Name, id and partition count of topics: what a metadata hash stands for."""


class EpochsRise(Property):
    """coordinator C4, C5. A failover may take back what was answered to no one (coordinator C21); a
    static return starts at 0 inside one batch, and is not seen here."""

    id = "coordinator.epochs_rise"
    sentence = (
        "No epoch of a group or member falls while it lives, but for a leave for a while; no "
        "member is ahead of the target epoch, nor that of the group epoch."
    )
    clauses = (
        *("coordinator C4", "coordinator C5", "classic H2"),
        *("defects S3", "TLA+ GcSideMemberEpochIsMonotonic"),
    )
    violated_by = ("test:target-ahead", "test:epoch-falls", "test:member-ahead")
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare before and after; deletion starts again."""
        (_, group_epoch), (_, target_epoch) = change.group_epoch, change.target_epoch
        if target_epoch > group_epoch:
            return Finding(f"the target epoch is {target_epoch}, the group epoch {group_epoch}")
        if change.is_group_removed:
            return None
        for name, (old, new) in (("group", change.group_epoch), ("target", change.target_epoch)):
            if new < old:
                return Finding(f"the {name} epoch fell from {old} to {new}")
        for member_id, (before, after) in change.members.items():
            if after is None or after.epoch == STATIC_LEAVE_EPOCH or after.current is None:
                continue
            if before is not None and before.current is after.current:
                continue
            floor = before.epoch if before else 0
            if not floor <= after.epoch <= target_epoch:
                return Finding(
                    f"{self.model.who(member_id)} went from epoch {floor} to {after.epoch}; the "
                    f"target epoch is {target_epoch}",
                    member=member_id,
                )
        return None


class EmptiedGroupSettled(Property):
    """coordinator §4.2: nothing is left to compute for a group without members."""

    id = "coordinator.emptied_group_settled"
    sentence = "When the last member of a group is removed, its target epoch is its group epoch."
    clauses = ("coordinator §4.2",)
    violated_by = ("KAFKA-20442",)

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """The KIP's text has nothing of it."""
        return semantics.coordinator.assigns_in_heartbeat

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the epochs where no member is left."""
        (_, group_epoch), (_, target_epoch) = change.group_epoch, change.target_epoch
        is_settled = target_epoch == group_epoch or change.is_group_removed
        if is_settled or change.ledger.members or not change.removed():
            return None
        return Finding(
            f"the last member was removed at group epoch {group_epoch}, and the target epoch stays "
            f"{target_epoch}"
        )


class EpochFence(Property):
    """coordinator §2.8: the present epoch, a join, or the previous one with a plausible owned
    list."""

    id = "coordinator.epoch_fence"
    sentence = (
        "A heartbeat at another epoch is accepted only as a join, or at the previous epoch "
        "with an owned list that the coordinator knows the member to hold."
    )
    clauses = ("coordinator §2.8", "defects S1", "defects S3")
    violated_by = ("mut-no-epoch-fence", "mut-prev-epoch-any", "KAFKA-19274")

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """``before`` is the sender as it was stored when the heartbeat came."""
        request, member_id = step.request, step.request.member_id
        epoch, owned = request.member_epoch, request.topic_partitions
        if epoch <= JOIN_EPOCH:
            return None
        if before is None:
            stored = "who is no member"
        elif epoch == before.epoch or explains_lost_response(self.model, before, request):
            return None
        else:
            previous = before.current.previous_member_epoch if before.current else None
            said = "nothing" if owned is None else self.model.names_of(owned)
            stored = f"who is at {before.epoch}, before that at {previous}, and reported {said}"
        return Finding(
            f"a heartbeat at epoch {epoch} was accepted from {self.model.who(member_id)}, {stored}",
            member=member_id,
        )


def explains_lost_response(
    model: ModelView, stored: MemberEntry, request: ConsumerGroupHeartbeatRequest
) -> bool:
    """Whether a lost answer explains the epoch of this request (coordinator §2.8; for the KIP
    coordinator §13, row 9)."""
    current, owned = stored.current, request.topic_partitions
    if current is None or owned is None:
        return False
    unknown = owned - current.assigned.keys()
    if model.rules.reports_pending:  # The KIP's text also knows what is still to be revoked.
        unknown -= current.pending_revocation.keys()
    return not unknown and request.member_epoch == current.previous_member_epoch < stored.epoch


class ResponseTruthful(Property):
    """coordinator §1.4, against the shadow model."""

    id = "response.truthful"
    sentence = (
        "A successful answer carries the member's stored epoch and, if any, exactly its "
        "assigned partitions; the answer to a leave repeats its epoch and nothing else."
    )
    clauses = ("coordinator §1.4", "coordinator H13", "defects S6")
    violated_by = ("KAFKA-19274",)

    def on_heartbeat(self, step: Step, before: MemberEntry | None) -> Finding | None:
        """Compare answer and shadow model."""
        request, response = step.request, step.response
        member_id, answered = response.member_id or "", response.assignment
        entry = self.model.ledger_of(step.shard).members.get(member_id)
        epoch, assigned = request.member_epoch, None
        if epoch < JOIN_EPOCH:
            member_id = request.member_id
            is_true = (response.member_epoch, response.heartbeat_interval_ms, answered) == (
                *(epoch, 0),
                None,
            )
        elif entry is None:
            return Finding(f"{member_id or 'no one'} was answered with success and is no member")
        else:
            epoch = entry.epoch
            assigned = entry.current.assigned.keys() if entry.current else frozenset()
            is_true = response.member_epoch == epoch and answered in (None, assigned)
        if is_true:
            return None
        said, stored = (
            "no assignment" if one is None else self.model.names_of(one)
            for one in (answered, assigned)
        )
        return Finding(
            f"{self.model.who(member_id)} was sent epoch {response.member_epoch} and {said}, and "
            f"is at {epoch} with {stored}",
            member=member_id,
        )


class EpochCause(Property):
    """coordinator H7-H9, §2.10. What a change of topics *must* lead to is ``target.current``; the
    KIP's text has steps of its own (coordinator §13), and so has a conversion."""

    id = "coordinator.epoch_cause"
    sentence = (
        "A heartbeat raises the group epoch by one, only if a subscription, subscribed topics "
        "or the preferred server-side assignor has changed; the first always does."
    )
    clauses = ("coordinator §2.4", "coordinator §2.10", "coordinator §5.3", "coordinator §7.2")
    violated_by = ("KAFKA-20434", "tied-assignor-votes")
    judges_mixed = True
    interest = Interest(requests=(ConsumerGroupHeartbeatRequest,))

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """coordinator §13."""
        return semantics.coordinator.assigns_in_heartbeat

    _topics_of: dict[int, _TopicsSeen] = notes(lambda: {0: frozenset()})
    """Metadata hash -> what it stood for when it was first written."""

    def on_change(self, step: Step, change: Change) -> None:
        """Remember what a metadata hash stands for; other topics, another hash."""
        value = _epoch_written(step, self.model.group_id)
        if value is not None and value.metadata_hash not in self._topics_of:
            topics = _topics_seen(change.ledger.all_names(), step.shard.coordinator.image)
            self._topics_of[value.metadata_hash] = topics

    def before_request(
        self, step: Step, ledger: GroupLedger, classic_model: ClassicModel | None
    ) -> Finding | None:
        """Is there a cause, and is there an effect?"""
        request, response = step.request, step.response
        if response.error_code or request.member_epoch < JOIN_EPOCH:
            return None
        written = _epoch_written(step, ledger.group_id) if step.records else None
        asked = request.subscribed_topic_names, request.subscribed_topic_regex
        asks_nothing = asked == (None, None) and request.server_assignor is None
        if asks_nothing and written is None and ledger.group_epoch:
            return None
        if any(type(record) is GroupMetadata for record in step.records):
            return None  # A conversion.
        sender = stored_as = request.member_id or response.member_id or ""
        if request.member_epoch == JOIN_EPOCH:  # A static member continues as its predecessor.
            stored_as = ledger.instances.get(request.instance_id, sender)
        said = (ledger.members.get(stored_as) or MemberEntry()).metadata
        names = said.subscribed_topic_names if said else ()
        pattern = said.subscribed_topic_regex if said else ""
        vote = said.server_assignor if said else None
        new_names: Collection[str] = names if asked[0] is None else asked[0]
        new_pattern: str = pattern if asked[1] is None else asked[1]
        new_vote: str | None = vote if request.server_assignor is None else request.server_assignor
        votes, broker = dict(ledger.vote_count), step.shard.configs.broker
        configured = broker.group_consumer_assignors
        for name, by in ((vote, -1), (new_vote, 1)):
            if name is not None:
                votes[name] = votes.get(name, 0) + by
        preferred = _most_voted(votes, configured)
        is_resolved = new_pattern in ledger.pattern_count and new_pattern in ledger.resolved
        must = (
            preferred != _most_voted(ledger.vote_count, configured)
            or {*names} != {*new_names}
            or (pattern != new_pattern and (not new_pattern or is_resolved))
            or ledger.group_epoch == 0
        )
        who = self.model.who(sender)
        if written is None:
            what = f"{who} changed its subscription or, to {preferred}, the preferred assignor"
            return Finding(f"{what}, and the group epoch stayed", member=sender) if must else None
        raises = (
            f"a heartbeat of {who} took the group epoch {ledger.group_epoch} to {written.epoch}"
        )
        if written.epoch != ledger.group_epoch + 1:
            return Finding(raises)
        if must:
            return None
        patterns = dict(ledger.pattern_count)
        patterns[pattern], patterns[new_pattern] = patterns.get(pattern, 0) - 1, 1
        counts = ledger.subscriber_count.items()
        seen = {name for name, count in counts if count > (name in names)}.union(new_names)
        seen.update(*(ledger.resolved.get(one, ()) for one, n in patterns.items() if n > 0))
        topics = _topics_seen(seen, step.shard.coordinator.image)
        if self._topics_of.get(ledger.metadata_hash) != topics:
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
