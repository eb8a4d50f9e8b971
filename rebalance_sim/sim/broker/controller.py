"""The controller of the cluster: who leads which partition, topics, settings.

A broker learns of a decision after a delay of its own, in order, as one snapshot of everything. One
that is dead or cut off learns nothing until it is back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, CoordinatorConfig
from rebalance_sim.protocol.wire.topics import EMPTY_IMAGE, MetadataImage
from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.broker.cluster_metadata import ClusterMetadata, PartitionLeader
from rebalance_sim.sim.broker.registration import PartitionRegistration
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.streams import Streams, delay_sampler


class ClusterWatcher(Protocol):
    """Who leads the partitions of ordinary topics (``sim.data_plane``)."""

    def on_brokers_changed(self) -> None:
        """A broker died."""

    def on_fenced(self, broker: Broker) -> None:
        """A broker was taken out."""

    def on_broker_up(self, broker: Broker) -> None:
        """A broker is back."""


class Controller:
    """Elections and in-sync sets of the partitions of ``__consumer_offsets``, and behind them those
    of ``__transaction_state``; topics, settings.

    What befalls a broker is decided for all its partitions in one version. During an outage nothing
    is decided and no one hears anything; what was asked for is decided afterwards, in order.
    ``brokers``: by node id; filled later. ``watcher`` is set before anything happens.
    """

    watcher: ClusterWatcher

    def __init__(
        self,
        clock: Clock,
        spec: BrokerSpec,
        streams: Streams,
        config: CoordinatorConfig,
        brokers: list[Broker],
        *,
        partition_count: int,
    ) -> None:
        self._clock = clock
        self._spec = spec
        self._tie_break = streams.get("schedule/controller").random
        self._delays = [
            delay_sampler(spec.metadata, streams.get(f"metadata/broker-{node_id}"), least_ms=1)
            for node_id in range(spec.count)
        ]
        self._last_arrival_ms = [0] * spec.count
        self._fenced: set[int] = set()
        self._outage_count = 0
        self._back_ms = -spec.broker_session_timeout_ms
        self.image_since_ms = 0
        """When topics changed last."""
        self._postponed: list[Callable[[], object]] = []
        self.brokers = brokers
        self.partitions = [
            PartitionRegistration(brokers, partition, spec.count)
            for partition in range(partition_count)
        ]
        self.metadata = ClusterMetadata(
            version=0, image=EMPTY_IMAGE, configs=ConfigsInForce(broker=config), leaders=()
        )

    # --- elections --------------------------------------------------------------------------------

    def start(self, image: MetadataImage) -> None:
        """The first leaders, known to every broker from the start."""
        for partition in self.partitions:
            partition.elect(self.brokers[partition.preferred_leader_id])
        self.metadata = self._next_version(image=image)
        for broker in self.brokers:
            broker.learn(self.metadata)

    def move(self, partition: int, broker: Broker) -> None:
        """Make a broker the leader of one partition."""
        if self.postpones(lambda: self.move(partition, broker)):
            return
        self.partitions[partition].elect(broker)
        self._publish()

    def elect_uncleanly(self, partition: int, broker: Broker) -> None:
        """Make a broker the leader of one partition, in sync or not."""
        if self.postpones(lambda: self.elect_uncleanly(partition, broker)):
            return
        self.partitions[partition].elect_uncleanly(broker)
        self._publish()

    def on_broker_down(self, broker: Broker) -> None:
        """A broker died; its session runs out later, unless it is back by then."""
        incarnation = broker.incarnation

        def is_still_down() -> bool:
            return not broker.is_alive and broker.incarnation == incarnation

        self.fence_later(broker, if_silent=is_still_down)
        self.watcher.on_brokers_changed()

    def fence_later(self, broker: Broker, *, if_silent: Callable[[], bool]) -> None:
        """Fence a broker when its session runs out, if it has been silent until then.

        A new controller restarts all sessions.
        """

        def on_session_end(_: None) -> None:
            if not if_silent() or self.postpones(wait):
                return
            if self._clock.now_ms < self._back_ms + self._spec.broker_session_timeout_ms:
                wait(self._back_ms)
            else:
                self.fence(broker)

        def wait(since_ms: int | None = None) -> None:
            began_ms = self._clock.now_ms if since_ms is None else since_ms
            at_ms = began_ms + self._spec.broker_session_timeout_ms
            self._clock.call_at(at_ms, self._tie_break(), on_session_end)

        wait()

    def fence(self, broker: Broker) -> None:
        """Take a broker out of the in-sync sets, and elect others where it led."""
        if self.postpones(lambda: self.fence(broker)):
            return
        self._fenced.add(broker.node_id)
        self.watcher.on_fenced(broker)
        has_moved = [partition.fence(broker) for partition in self.partitions]
        if any(has_moved):
            self._publish()

    def on_broker_up(self, broker: Broker) -> None:
        """A broker is back, maybe before its session ran out: then it is fenced first.

        One that did not shut down cleanly says so as it registers, and is in sync nowhere before it
        has caught up, but where it was the last one (KIP-966).
        """
        if self.postpones(lambda: self.on_broker_up(broker)) or not broker.is_alive:
            return
        if broker.has_lost_tail:
            broker.has_lost_tail = False
            self.fence(broker)
        self._fenced.discard(broker.node_id)
        self.watcher.on_broker_up(broker)
        has_moved = [partition.take_back(broker) for partition in self.partitions]
        if any(has_moved):
            self._publish()
        self.notify(broker)

    def on_broker_in_touch(self, broker: Broker) -> None:
        """A broker that was silent is heard of again: it gets what it has missed, and is taken
        back if its session has run out."""
        if broker.node_id in self._fenced:
            self.on_broker_up(broker)
        else:
            self.notify(broker)

    def catch_up(self, broker: Broker) -> None:
        """A broker lags no longer: it learns what it has missed, ahead of what is on its way."""
        self._last_arrival_ms[broker.node_id] = 0
        self.notify(broker)

    # --- outages ----------------------------------------------------------------------------------

    def go_down(self) -> None:
        """No one is the controller from now on."""
        self._outage_count += 1
        for broker in self.brokers:
            broker.cut_off_count += 1

    def come_back(self) -> None:
        """There is a controller again: it decides what has waited, and everybody catches up."""
        self._outage_count -= 1
        for broker in self.brokers:
            broker.cut_off_count -= 1
        if self._outage_count:
            return
        self._back_ms = self._clock.now_ms
        postponed, self._postponed = self._postponed, []
        for decide in postponed:
            decide()
        for broker in self.brokers:
            self.notify(broker)
            broker.pump_both_ways()

    def postpones(self, decision: Callable[[], object]) -> bool:
        """Keep a decision for later if no one is there to take it."""
        if self._outage_count:
            self._postponed.append(decision)
        return self._outage_count > 0

    @property
    def image(self) -> MetadataImage:
        """The topics that were published last."""
        return self.metadata.image

    @property
    def configs(self) -> ConfigsInForce:
        """The settings that were published last."""
        return self.metadata.configs

    # --- topics, settings, and telling ------------------------------------------------------------

    def set_image(self, image: MetadataImage) -> None:
        """Topics were created, grown or deleted. Not to be called during an outage."""
        self.image_since_ms = self._clock.now_ms
        self._publish(image=image)

    def set_configs(self, configs: ConfigsInForce) -> None:
        """Settings were altered."""
        self._publish(configs=configs)

    def notify(self, broker: Broker) -> None:
        """Let a broker learn the newest state.

        A process that starts has caught up with the controller before it acts on anything (KIP-631,
        "Broker Startup"): what was on its way to the one before is not for it.
        """
        node_id = broker.node_id
        metadata = self.metadata
        listener = broker.incarnation if broker.is_alive else None

        def on_arrival(_: None) -> None:
            if not broker.is_cut_off and broker.incarnation == listener:
                broker.learn(metadata)

        delay_ms = self._delays[node_id]() + max(broker.metadata_lags_ms, default=0)
        at_ms = max(self._clock.now_ms + delay_ms, self._last_arrival_ms[node_id])
        self._last_arrival_ms[node_id] = at_ms
        self._clock.call_at(at_ms, self._tie_break(), on_arrival)

    def _publish(
        self, *, image: MetadataImage | None = None, configs: ConfigsInForce | None = None
    ) -> None:
        self.metadata = self._next_version(image=image, configs=configs)
        for broker in self.brokers:
            self.notify(broker)

    def _next_version(
        self, *, image: MetadataImage | None = None, configs: ConfigsInForce | None = None
    ) -> ClusterMetadata:
        """What has not changed stays."""
        before = self.metadata
        return ClusterMetadata(
            version=before.version + 1,
            image=before.image if image is None else image,
            configs=before.configs if configs is None else configs,
            leaders=tuple(PartitionLeader(p.leader_id, p.leader_epoch) for p in self.partitions),
        )
