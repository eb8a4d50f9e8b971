"""A classic client of librdkafka joins anew when its topics are not what they were.

Source: classic §3.5, §4.6; client §10.1.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    MetadataKnown,
    PatternMatched,
    RequestMetadata,
    SendJoinGroup,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.wire.embedded import Subscription

ORDER = 186

_NO_COUNTS: Mapping[str, int] = {}


class JoinsForTopics(Property):
    """classic §3.5, §4.6. With cooperative assignors partitions of topics that are gone are lost at
    once, and then not everybody joins; so that is left out."""

    id = "classic.client.topics_librdkafka"
    sentence = (
        "A classic client of librdkafka that holds its assignment does not stay as it is when its "
        "metadata, its pattern or its subscription show other topics, or more partitions, than it "
        "has joined with."
    )
    clauses = ("classic §3.5", "classic §4.6")
    violated_by = ("test:librdkafka-overlooks-topics",)
    client_kinds = (LIBRDKAFKA_CLASSIC,)
    judges_mixed = True
    interest = Interest(events=(MetadataKnown, PatternMatched, Subscribe), effects=(SendJoinGroup,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._seen: dict[str, Mapping[str, int]] = self.of_process({})
        """Client -> partitions of topics, as its metadata show them."""
        self._joined: dict[str, Mapping[str, int]] = self.of_process({})
        """Client -> partitions of the topics that it has joined with, at that time."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Do they show other topics?"""
        name, member = entry.name, entry.member
        if type(step.event) is MetadataKnown:
            self._seen[name] = step.event.partition_counts
        joined = self._joined.get(name)
        if (
            joined is None
            or entry.state is not ClientState.STABLE
            or member.state is not ClientState.STABLE
        ):
            return None
        seen = self._seen.get(name, _NO_COUNTS)
        present = {t: seen[t] for t in member.subscribed_topic_names if t in seen}
        if present == joined:
            return None
        config = member.config
        assert isinstance(config, ClassicConsumerConfig)
        if config.is_cooperative and not joined.keys() <= present.keys():
            self._joined[name] = present
            return None
        return Finding(
            f"{name} sees {_listed(present)}, has joined with {_listed(joined)}, and stays",
            {"client": name},
        )

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """It joins."""
        seen = self._seen.get(entry.name, _NO_COUNTS)
        for effect in step.effects:
            if type(effect) is SendJoinGroup:
                said = effect.request.protocols[0].metadata
                assert isinstance(said, Subscription)
                self._joined[entry.name] = {t: seen[t] for t in said.topics if t in seen}
        return None


class TakesMatchedTopics(Property):
    """classic §3.5, §4.6. What is subscribed to while a leave is under way waits for its end."""

    id = "classic.client.pattern_librdkafka"
    sentence = (
        "A classic client of librdkafka that is subscribed by a pattern subscribes to the topics "
        "that its metadata show to match, as soon as they do; one that is subscribed by names, to "
        "those. It asks for metadata as soon as there is a pattern."
    )
    clauses = ("classic §3.5", "classic §4.6")
    violated_by = ("test:librdkafka-ignores-its-pattern",)
    client_kinds = (LIBRDKAFKA_CLASSIC,)
    judges_mixed = True
    interest = Interest(events=(PatternMatched, Subscribe, Unsubscribe), effects=())

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._by_pattern: dict[str, bool] = self.of_process({})
        """Client -> whether its subscription is a pattern."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """The application subscribes, or topics match."""
        name, event, member = entry.name, step.event, entry.member
        kind = type(event)
        if kind is Unsubscribe:
            self._by_pattern.pop(name, None)
            return None
        if kind is Subscribe:
            self._by_pattern[name] = event.matches_locally
            if event.matches_locally:
                if RequestMetadata() in step.effects or member.state is ClientState.FATAL:
                    return None
                return Finding(
                    f"{name} is subscribed by a pattern, and asks for no metadata",
                    {"client": name},
                )
        elif not self._by_pattern.get(name):
            return None
        if (
            not member.state.is_in_group
            or not entry.state.is_in_group
            or member.state is ClientState.PREPARE_LEAVING
            or member.subscribed_topic_names == event.topic_names
        ):
            return None
        return Finding(
            f"{name} subscribes to {', '.join(sorted(member.subscribed_topic_names)) or 'nothing'},"
            f" and should to {', '.join(sorted(event.topic_names)) or 'nothing'}",
            {"client": name},
        )


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{topic} with {counts[topic]}" for topic in sorted(counts)) or "no topic"
