"""The controller of the cluster: who leads, who is in sync, which topics exist; and who is told.

A broker learns of a decision after a delay of its own, in order, as one snapshot of everything. One
that is dead or cut off learns nothing until it is back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from protocol.topics import EMPTY_IMAGE, MetadataImage
from sim.clock import Call, Clock
from sim.streams import Streams, delay_sampler

if TYPE_CHECKING:
    from sim.broker import Broker
    from sim.spec import BrokerSpec

__all__ = ["ClusterMetadata", "Controller"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """What the controller has decided, as one version. ``leader_id`` None: nobody can lead."""

    version: int
    image: MetadataImage
    leader_id: int | None
    leader_epoch: int


class Controller:
    """Elections and the in-sync set of the group's offsets partition, and the topics.

    No unclean elections: only an in-sync replica may lead. ``in_sync`` is in ascending order.
    """

    def __init__(self, clock: Clock, spec: BrokerSpec, streams: Streams) -> None:
        self._clock = clock
        self._spec = spec
        self._tie_break = streams.get("schedule/controller").random
        self._delays = [
            delay_sampler(spec.metadata, streams.get(f"metadata/broker-{node_id}"), least_ms=1)
            for node_id in range(spec.count)
        ]
        self._last_arrival_ms = [0] * spec.count
        self.brokers: list[Broker] = []
        self.in_sync = list(range(spec.count))
        self.metadata = ClusterMetadata(
            version=0, image=EMPTY_IMAGE, leader_id=None, leader_epoch=-1
        )

    @property
    def leader(self) -> Broker | None:
        """The broker that was elected last, whether it knows yet or not."""
        leader_id = self.metadata.leader_id
        return None if leader_id is None else self.brokers[leader_id]

    # --- elections --------------------------------------------------------------------------------

    def start(self, image: MetadataImage) -> None:
        """The first leader, known to every broker from the start."""
        self.metadata = ClusterMetadata(version=1, image=image, leader_id=0, leader_epoch=0)
        for broker in self.brokers:
            broker.learn(self.metadata)

    def successor(self) -> Broker | None:
        """The next replica that may take over from the leader: live, in sync, and in touch."""
        count = self._spec.count
        leader_id = self.metadata.leader_id
        first = 0 if leader_id is None else leader_id + 1
        for step in range(count):
            broker = self.brokers[(first + step) % count]
            if broker.node_id != leader_id and self.may_lead(broker):
                return broker
        return None

    def elect(self, broker: Broker | None) -> None:
        """Make a broker the leader at the next epoch; None: nobody leads."""
        self._decide(
            image=self.metadata.image,
            leader_id=None if broker is None else broker.node_id,
            leader_epoch=self.metadata.leader_epoch + 1,
        )

    def on_broker_down(self, broker: Broker) -> None:
        """A broker died; its session runs out later, unless it is back by then."""
        incarnation = broker.incarnation

        def on_session_end(call: Call) -> None:
            if not broker.is_alive and broker.incarnation == incarnation:
                self.fence(broker)

        at_ms = self._clock.now_ms + self._spec.broker_session_timeout_ms
        self._clock.call_at(at_ms, self._tie_break(), on_session_end)

    def fence(self, broker: Broker) -> None:
        """Take a broker out of the in-sync set, and elect another if it led.

        The last in-sync replica stays in the set; nobody leads while it is dead.
        """
        successor = self.successor()
        if broker is self.leader and successor is None:
            if not broker.is_alive:
                self.elect(None)
            return
        if broker.node_id in self.in_sync and len(self.in_sync) > 1:
            self.shrink(broker)
        if broker is self.leader:
            self.elect(successor)

    def on_broker_up(self, broker: Broker) -> None:
        """A broker is back, maybe before its session ran out: then it is fenced first."""
        if broker is self.leader:
            successor = self.successor()
            self.elect(broker if successor is None else successor)
        elif self.metadata.leader_id is None and broker.node_id in self.in_sync:
            self.elect(broker)
        self.tell(broker)

    def may_lead(self, broker: Broker) -> bool:
        """Whether a replica is live, in touch, and in sync."""
        is_reachable = broker.is_alive and not broker.is_cut_off and not broker.is_stopping
        return is_reachable and broker.node_id in self.in_sync

    # --- in-sync replicas -------------------------------------------------------------------------

    def shrink(self, broker: Broker) -> None:
        """A replica is no longer in sync: the leader need not wait for it."""
        self.in_sync = [node_id for node_id in self.in_sync if node_id != broker.node_id]
        leader = self.leader
        if leader is not None:
            leader.replication.advance()

    def expand(self, broker: Broker) -> None:
        """A replica has caught up."""
        self.in_sync = sorted([*self.in_sync, broker.node_id])

    # --- topics, and telling ----------------------------------------------------------------------

    def set_image(self, image: MetadataImage) -> None:
        """Topics were created, grown or deleted."""
        metadata = self.metadata
        self._decide(image=image, leader_id=metadata.leader_id, leader_epoch=metadata.leader_epoch)

    def tell(self, broker: Broker) -> None:
        """Let a broker learn the newest state."""
        node_id = broker.node_id
        metadata = self.metadata

        def on_arrival(call: Call) -> None:
            if broker.is_alive and not broker.is_cut_off:
                broker.learn(metadata)

        at_ms = max(self._clock.now_ms + self._delays[node_id](), self._last_arrival_ms[node_id])
        self._last_arrival_ms[node_id] = at_ms
        self._clock.call_at(at_ms, self._tie_break(), on_arrival)

    def _decide(self, *, image: MetadataImage, leader_id: int | None, leader_epoch: int) -> None:
        self.metadata = ClusterMetadata(
            version=self.metadata.version + 1,
            image=image,
            leader_id=leader_id,
            leader_epoch=leader_epoch,
        )
        for broker in self.brokers:
            self.tell(broker)
