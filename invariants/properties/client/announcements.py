"""What the application is told of its partitions. Sources: client §4.2, §10.1; classic §3.3."""

from __future__ import annotations

from collections.abc import Set

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    CallbackKind,
    CallReturned,
    ClientState,
    Close,
    MetadataKnown,
    RunCallback,
    StateChanged,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.kinds import CLASSIC, CLASSIC_KINDS, EVERY_KIND, JAVA_KINDS
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 222


class CallbacksComplete(Property):
    """client §4.2, classic §3.3: no partition comes or goes without a word. A callback that failed
    may have said anything."""

    id = "client.callback.complete"
    sentence = (
        "When a client of either protocol is stable, its application has been told of exactly the "
        "partitions that it is assigned, by callbacks; when close or unsubscribe of a Java client "
        "returns before its timeout, that it has none any more."
    )
    clauses = ("client §4.2", "client §6.2", "client §10.1", "classic §3.3", "classic §4.5")
    violated_by = ("test:assigns-without-a-word",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(CallbackCompleted, Subscribe, Close, Unsubscribe, MetadataKnown),
        effects=(RunCallback, StateChanged, CallReturned),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._told: dict[str, set[TopicPartition]] = {}
        """Client -> what its application has; absent: it has no listener, or one has failed."""
        self._until_ms: dict[str, int] = self.of_process({})
        """Client -> when the call that blocks its application is over at the latest."""
        self._topics: dict[str, dict[str, str]] = self.of_process({})
        """Client -> topic id -> name, in all metadata that it has had: it may know of a topic that
        was made anew while nobody serves the group."""

    def on_client_started(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A new application has nothing."""
        self._told[entry.name] = set()
        return None

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A callback that fails is not to be relied on, nor an application without any."""
        event = step.event
        if type(event) is MetadataKnown:
            if entry.kind in CLASSIC_KINDS:
                self._topics.setdefault(entry.name, {}).update(event.topic_names)
            return None
        if type(event) is Close:
            self._until_ms[entry.name] = step.at_ms + event.timeout_ms
            return None
        if type(event) is Unsubscribe:
            self._until_ms[entry.name] = step.at_ms + entry.member.config.default_api_timeout_ms
            return None
        if event.failed if type(event) is CallbackCompleted else not event.has_listener:
            self._told.pop(entry.name, None)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Follow callbacks; compare when the client comes to rest."""
        told = self._told.get(entry.name)
        if told is None:
            return None
        for effect in step.effects:
            if type(effect) is RunCallback:
                if effect.kind is CallbackKind.ASSIGNED:
                    told |= effect.partitions
                elif entry.kind in CLASSIC_KINDS:
                    # What was assigned under the name alone may go under the id (classic §4.2).
                    told -= {p for p in told if self._is_among(entry, p, effect.partitions)}
                else:
                    told -= effect.partitions
            elif type(effect) is CallReturned and told and entry.kind in JAVA_KINDS:
                if step.at_ms >= self._until_ms.get(entry.name, step.at_ms):
                    continue
                kept = {p for p in told if not self.model.is_recreated(p)}
                if kept:
                    return Finding(
                        f"{effect.call.value} of {entry.name} returns, and its application was "
                        f"not told of the loss of {self.model.names_of(kept)}",
                        client=entry.name,
                    )
        if entry.member.state is not ClientState.STABLE or entry.state is ClientState.STABLE:
            return None
        assigned = entry.member.assigned.keys()
        if assigned == told:
            return None
        silent, kept = assigned - told, told - assigned
        running = entry.member.running_callback
        if running is not None and running.kind is not CallbackKind.ASSIGNED:
            silent -= running.partitions  # It is being told that they go.
            if not silent and not kept:
                return None
        if entry.kind in CLASSIC_KINDS:
            # It knows topics by name, so that one made anew is the same to it (classic §4.2).
            silent = {p for p in silent if not self._goes_by_name(entry, p, told)}
            kept = {p for p in kept if not self._goes_by_name(entry, p, assigned)}
            if not silent and not kept:
                return None
        what = "was not told of" if silent else "was not told of the loss of"
        return Finding(
            f"{entry.name} is stable, and its application {what} "
            f"{self.model.names_of(silent or kept)}",
            client=entry.name,
        )

    def _is_among(
        self, entry: AnyClientEntry, partition: TopicPartition, others: Set[TopicPartition]
    ) -> bool:
        """Whether it is one of them, or goes by the name of one."""
        if partition in others or self._stands_under(partition, others):
            return True
        names = self._topics.get(entry.name, {})
        topic_id, number = partition
        name = names.get(topic_id)
        return name is not None and any(
            other.partition == number and names.get(other.topic_id) == name for other in others
        )

    def _stands_under(self, partition: TopicPartition, others: Set[TopicPartition]) -> bool:
        name_of = self.model.name_of
        return name_of(partition) in map(name_of, others)

    def _goes_by_name(
        self, entry: AnyClientEntry, partition: TopicPartition, others: Set[TopicPartition]
    ) -> bool:
        """Whether it has, or has had, another id under the same name: it stands under the name
        itself until the client's metadata say the id, which may be before the coordinator's."""
        return self.model.is_recreated(partition) or self._is_among(entry, partition, others)


class CallbackJustified(Property):
    """client §4.2, column "Called when empty?"; classic §3.2, where an eager Java client is the one
    exception, before it joins."""

    id = "client.callback.callback_justified"
    sentence = (
        "A client of either protocol calls its application for the loss of partitions only if "
        "there are any, but for an eager Java client of the classic protocol that is about to join."
    )
    clauses = ("client §4.2", "client §10.1", "classic §3.2", "classic §4.5")
    violated_by = ("test:revokes-nothing",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(effects=(RunCallback,))

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is there something to tell?"""
        for effect in step.effects:
            if (
                type(effect) is RunCallback
                and not effect.partitions
                and effect.kind is not CallbackKind.ASSIGNED
                and not self._is_preparing(entry, effect.kind)
            ):
                return Finding(
                    f"{entry.name} calls {effect.kind.value} for nothing", client=entry.name
                )
        return None

    @staticmethod
    def _is_preparing(entry: AnyClientEntry, kind: CallbackKind) -> bool:
        member = entry.member
        return (
            entry.kind == CLASSIC
            and kind is CallbackKind.REVOKED
            and member.blocked_in is None
            and member.classic is not None
            and not member.classic.is_cooperative
        )
