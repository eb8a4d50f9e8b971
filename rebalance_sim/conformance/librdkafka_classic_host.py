"""The host of a librdkafka client that speaks the classic protocol.

Besides what ``LibrdkafkaHost`` infers: metadata are known from the beginning, unless the client
says that it waits for them before its first JoinGroup; what a leader asks for comes at once. What
is sent while all bytes are held back is seen when they are let through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_sim.conformance.classic_bodies import (
    classic_heartbeat_body,
    join_body,
    leave_body,
    sync_body,
)
from rebalance_sim.conformance.classic_host import ClassicAnswers
from rebalance_sim.conformance.client_host import LATE_TICK_MS, ROUND_TRIP_MS, Order
from rebalance_sim.conformance.librdkafka_host import LibrdkafkaHost, shortest
from rebalance_sim.protocol.clients import (
    Effect,
    MetadataKnown,
    RequestMetadata,
    SendClassicHeartbeat,
    SendJoinGroup,
    SendLeaveGroup,
    SendSyncGroup,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.librdkafka.classic import LibrdkafkaClassicMember

# Fields that came with later versions than librdkafka's.
_NOT_IN_JOIN_5 = frozenset({"reason"})
_NOT_IN_SYNC_3 = frozenset({"protocol_type", "protocol_name"})


class LibrdkafkaClassicHost(ClassicAnswers, LibrdkafkaHost):
    """One replay against ``LibrdkafkaClassicMember``."""

    member: LibrdkafkaClassicMember

    def make_member(self) -> LibrdkafkaClassicMember:
        """See ``ReplayHost``."""
        config = self.process.config
        assert isinstance(config, ClassicConsumerConfig)
        return LibrdkafkaClassicMember(
            rules=self.rules,
            config=config,
            jitter=shortest,
            retry_jitter=self.draw_retry,
            now_ms=self.now_ms,
        )

    def schedule_inputs(self) -> None:
        """See ``ReplayHost``."""
        super().schedule_inputs()
        if not self._waits_for_metadata_first():
            self.at(self.now_ms, Order.KNOWLEDGE, self._know_topics)

    def _waits_for_metadata_first(self) -> bool:
        first = next((e for e in self.process.events if e.get("what") == "join_state"), None)
        return first is not None and first["to"] == "wait-metadata"

    def _know_topics(self) -> None:
        topics = self.process.topics
        self.feed(MetadataKnown(topic_names={t: t for t in topics}, partition_counts=topics))

    def on_effect(self, effect: Effect) -> None:
        """Requests of the classic protocol, in librdkafka's versions."""
        match effect:
            case SendJoinGroup(correlation_id=number, request=join):
                self.send(number, "JoinGroup", _without(join_body(join), _NOT_IN_JOIN_5))
            case SendSyncGroup(correlation_id=number, request=sync):
                self.send(number, "SyncGroup", _without(sync_body(sync), _NOT_IN_SYNC_3))
            case SendClassicHeartbeat(correlation_id=number, request=heartbeat):
                self.send(number, "Heartbeat", classic_heartbeat_body(heartbeat))
            case SendLeaveGroup(correlation_id=number, request=leave):
                body = leave_body(leave)
                (only,) = body["members"]
                first = {"group_id": body["group_id"], "member_id": only["member_id"]}
                self.send(number, "LeaveGroup", first)
            case RequestMetadata():
                self.at(self.now_ms + ROUND_TRIP_MS, Order.KNOWLEDGE, self._know_topics)
            case _:
                super().on_effect(effect)

    def late_tick_ms(self, deadline_ms: int) -> int:
        """See ``ReplayHost``; the main thread sleeps until it is woken."""
        waiting = self.recorded.waiting("Heartbeat")
        if waiting and 0 < waiting[0].at_ms - deadline_ms <= LATE_TICK_MS:
            return waiting[0].at_ms
        return deadline_ms


def _without(body: Mapping[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in fields}
