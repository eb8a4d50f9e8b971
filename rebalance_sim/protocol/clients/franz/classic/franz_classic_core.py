"""The variables of one classic franz-go member that its parts share.

Source: franz §7; classic §3.4.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.classic_topics import TopicCatalogue
from rebalance_sim.protocol.clients.common.seen_names import SeenNames
from rebalance_sim.protocol.clients.common.values import CommitIdentity
from rebalance_sim.protocol.clients.franz.franz_machine import FranzMachine
from rebalance_sim.protocol.wire.classic_messages import NO_GENERATION
from rebalance_sim.protocol.wire.topics import TopicPartition

_NOTHING: frozenset[TopicPartition] = frozenset()


class FranzClassicCore(FranzMachine):
    """Shared variables. ``generation_id`` is -1 and ``member_id`` "" while there is none;
    ``catalogue`` has what metadata say of topics."""

    config: ClassicConsumerConfig

    def _declare(self) -> None:
        self.generation_id = NO_GENERATION
        self.is_cooperative = self.config.is_cooperative
        self.heartbeat_interval_ms = self.config.heartbeat_interval_ms
        self._seen: dict[str, str] = {}
        self.catalogue = TopicCatalogue(SeenNames(self._seen, self._owned))

    def _owned(self) -> frozenset[TopicPartition]:
        return self.last_assigned | (self.now_assigned or _NOTHING)

    def adopt_mode(self, protocol_name: str | None) -> None:
        """The group has chosen one of the balancers, by the votes of its members."""
        for assignor in self.config.assignors:
            if assignor.name == protocol_name:
                chosen = assignor.supports_cooperative
                self.is_downgraded = not chosen and (self.is_downgraded or self.is_cooperative)
                self.is_cooperative = chosen

    def forget_membership(self) -> None:
        """As a client that begins."""
        self.adopt_generation("", NO_GENERATION)
        self.is_cooperative, self.is_downgraded = self.config.is_cooperative, False

    def adopt_generation(self, member_id: str, generation_id: int) -> None:
        """Take an id and a generation over, or the lack of either."""
        self.member_id = member_id
        self.generation_id = generation_id
        self.member_epoch = max(generation_id, 0)
        is_member = bool(member_id) and generation_id != NO_GENERATION
        self.commit_identity = CommitIdentity(member_id, generation_id) if is_member else None
