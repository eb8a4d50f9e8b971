"""What a heartbeat brings about: everything that its rules say, and nothing else.

Each step of the rules is worked out anew from the request and the shadow model, and compared with
the records and the answer.
Sources: coordinator §2.4, §2.9, §2.10, §4.1, §4.3, §4.5, §5.5.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.heartbeat_case import HeartbeatCase, TopicsSeen, topics_seen
from rebalance_sim.invariants.model.ledger import Change
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    MemberMetadataValue,
)

ORDER = 35


class _OfHeartbeat(Property):
    """About heartbeats as shipped brokers handle them: the KIP's text has steps of its own."""

    judges_mixed = True

    @classmethod
    def applies_to(cls, semantics: Semantics) -> bool:
        """coordinator §13."""
        return semantics.coordinator.assigns_in_heartbeat


class EpochCause(_OfHeartbeat):
    """coordinator H7-H9, §2.10. What a change of topics *must* lead to is ``target.current``."""

    id = "coordinator.epoch_cause"
    sentence = (
        "A heartbeat raises the group epoch by one, and only if the member's subscription has "
        "changed, or the topics of the group's, or which server-side assignor is preferred; the "
        "first always does."
    )
    clauses = ("coordinator §2.4", "coordinator §2.10", "coordinator §5.3", "coordinator §7.2")
    violated_by = ("KAFKA-20434", "tied-assignor-votes", "test:idle-bump", "test:bump-forgotten")

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._topics_of: dict[int, TopicsSeen] = {0: frozenset()}
        """Metadata hash -> what it stood for when it was first written."""

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Remember what a metadata hash stands for; other topics, another hash."""
        for record in change.records:
            if (
                type(record) is ConsumerGroupMetadata
                and record.group_id == self.model.group_id
                and record.value is not None
                and record.value.metadata_hash not in self._topics_of
            ):
                image = step.shard.coordinator.image
                topics = topics_seen(change.ledger.all_names(), image)
                self._topics_of[record.value.metadata_hash] = topics
        return None

    def before_heartbeat(self, step: Step, case: HeartbeatCase) -> Finding | None:
        """Is there a cause, and is there an effect?"""
        if not case.is_accepted:
            return None
        ledger, merged, who = case.ledger, case.merged, self.model.who(case.sender)
        pattern = merged.subscribed_topic_regex
        is_resolved = pattern in ledger.pattern_count and pattern in ledger.resolved
        former, preferred = case.preferred_assignors
        must = (
            former != preferred
            or case.changes_names
            or (case.changes_pattern and (not pattern or is_resolved))
            or ledger.group_epoch == 0
        )
        written = case.written_epoch
        if written is None:
            if not must:
                return None
            what = "changed its subscription"
            if former != preferred:
                what = f"made {preferred} the preferred assignor in place of {former}"
            return Finding(
                f"{who} {what}, and the group epoch stayed {ledger.group_epoch}", member=case.sender
            )
        if written.epoch != ledger.group_epoch + 1:
            return Finding(
                f"a heartbeat of {who} took the group epoch from {ledger.group_epoch} to "
                f"{written.epoch}"
            )
        if must or self._topics_of.get(ledger.metadata_hash) != case.topics_after():
            return None
        return Finding(
            f"a heartbeat of {who} raised the group epoch to {written.epoch}, although neither its "
            "subscription nor the preferred assignor nor any topic had changed",
            member=case.sender,
        )


def _differences(before: MemberMetadataValue, after: MemberMetadataValue) -> str:
    """The fields that differ, by name, with both values."""
    names = (
        "instance_id",
        "rack_id",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "rebalance_timeout_ms",
        "server_assignor",
    )
    told = [
        f"{name.replace('_', ' ')} {_told(getattr(before, name))} and {_told(getattr(after, name))}"
        for name in names
        if getattr(before, name) != getattr(after, name)
    ]
    return "; ".join(told) or "how it speaks to the group"


def _told(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return "none" if value in (None, "") else str(value)
