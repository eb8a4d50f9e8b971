"""The host of a librdkafka client that speaks the classic protocol.

Besides what ``LibrdkafkaHost`` infers: metadata are known from the beginning, unless the client
says that it waits for them before its first JoinGroup; what a leader asks for comes at once. What
is sent while all bytes are held back is seen when they are let through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_sim.conformance.classic_host import ClassicExchanges
from rebalance_sim.conformance.client_host import Order
from rebalance_sim.conformance.librdkafka_host import LibrdkafkaHost, shortest
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic import (
    LibrdkafkaClassicMember,
)

_NOT_SENT: Mapping[str, frozenset[str]] = {
    "JoinGroup": frozenset({"reason"}),
    "SyncGroup": frozenset({"protocol_type", "protocol_name"}),
}
"""Fields that came with later versions than librdkafka's."""


class LibrdkafkaClassicHost(ClassicExchanges, LibrdkafkaHost):
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
            self.at(self.now_ms, Order.KNOWLEDGE, self.know_topics)

    def _waits_for_metadata_first(self) -> bool:
        first = next((e for e in self.process.events if e.get("what") == "join_state"), None)
        return first is not None and first["to"] == "wait-metadata"

    def as_sent(self, api: str, body: dict[str, Any]) -> dict[str, Any]:
        """See ``ClassicExchanges``; a leave names the member alone."""
        if api == "LeaveGroup":
            (only,) = body["members"]
            return {"group_id": body["group_id"], "member_id": only["member_id"]}
        return _without(body, _NOT_SENT.get(api, frozenset()))


def _without(body: Mapping[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key not in fields}
