"""A client that leads a classic group hands an assignment in.

Source: classic §2.6, §4.2.
"""

from __future__ import annotations

from enum import Enum

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    JoinGroupAnswered,
    MetadataKnown,
    RequestMetadata,
    SendJoinGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.kinds import CLASSIC, CLASSIC_KINDS
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.embedded import Subscription

ORDER = 176

_HAS_LIST: tuple[Enum, ...] = (ClassicState.COMPLETING_REBALANCE, JoinState.WAIT_METADATA)
"""A leader that has no SyncGroup out yet, in the words of either library."""


class LeaderSyncs(Property):
    """classic §4.2: an assignor that finds no end keeps the whole group waiting."""

    id = "classic.client.leader_syncs"
    sentence = (
        "A classic client that is told to lead sends its SyncGroup at once or, if it has to ask "
        "for metadata first, as soon as it has them, unless it has lost its coordinator."
    )
    clauses = ("classic §4.2", "classic §2.6", "defects L1")
    violated_by = ("librdkafka-4783",)
    client_kinds = CLASSIC_KINDS
    judges_mixed = True
    interest = Interest(
        events=(JoinGroupAnswered, MetadataKnown), effects=(SendSyncGroup, SendJoinGroup)
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._leads: dict[str, int] = self.of_process({})
        """Client that leads and has not sent its SyncGroup -> generation."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """It is told to lead, or has metadata."""
        event, name = step.event, entry.name
        if type(event) is JoinGroupAnswered:
            response = event.response
            if response.error_code or response.leader != response.member_id:
                self._leads.pop(name, None)
                return None
            self._leads[name] = response.generation_id
            if any(type(effect) is RequestMetadata for effect in step.effects):
                return None
        generation_id = self._leads.pop(name, None)
        member = entry.member
        if (
            generation_id is None
            or generation_id != member.member_epoch
            or member.coordinator_id is None
            or member.classic is None
            or member.classic.state not in _HAS_LIST
            or any(type(effect) is SendSyncGroup for effect in step.effects)
        ):
            return None
        return Finding(
            f"{name} leads generation {generation_id}, has all that it needs, and sends no "
            "SyncGroup",
            {"client": name},
        )

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """The SyncGroup leaves, or another JoinGroup."""
        self._leads.pop(entry.name, None)
        return None


class LeaderAsks(Property):
    """classic §4.2. A leader that does not know some topic gives its partitions to nobody; one that
    always asks keeps the group waiting. librdkafka always asks (classic §4.6)."""

    id = "classic.client.leader_asks"
    sentence = (
        "A Java client of the classic protocol that is told to lead asks for metadata before it "
        "assigns if, and only if, a member subscribes to a topic that it does not."
    )
    clauses = ("classic §4.2",)
    violated_by = ("aiokafka-118", "test:leader-always-asks", "test:leader-never-asks")
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(events=(JoinGroupAnswered,), effects=())

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """It is told to lead: one that does not read that now is not judged."""
        response = step.event.response
        if response.error_code or response.leader != response.member_id:
            return None
        kinds = [type(effect) for effect in step.effects]
        asks, assigns = RequestMetadata in kinds, SendSyncGroup in kinds
        if asks is assigns:
            return None
        said = [member.metadata for member in response.members]
        if not all(isinstance(metadata, Subscription) for metadata in said):
            return None
        wanted = {topic for metadata in said for topic in metadata.topics}
        has_others = not wanted <= entry.member.subscribed_topic_names
        if asks is has_others:
            return None
        return Finding(
            f"{entry.name} leads, and {'asks' if asks else 'does not ask'} for metadata: others "
            f"{'' if has_others else 'do not '}subscribe to more topics than it does",
            {"client": entry.name},
        )
