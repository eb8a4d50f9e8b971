"""How the records of a leader reach its followers, and when they count as committed.

Each broker has one ``Replication``, which is at work while that broker believes that it leads. A
follower that has heard of the leader's epoch cuts off what the leader does not have, and fetches
from then on. The high watermark is the least offset that all in-sync replicas have reached
(consumer-group-coordinator.md, section 9.4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sim.clock import Call

if TYPE_CHECKING:
    from sim.broker import Broker

__all__ = ["Replication"]


class Replication:
    """The leader's side of replication."""

    def __init__(self, broker: Broker, delay_ms: Callable[[], int]) -> None:
        self._broker = broker
        self._delay_ms = delay_ms
        self._tie_break = broker.tie_break
        self._reached: dict[int, int] = {}
        self._fetching: dict[int, int] = {}
        self._lagging: dict[int, None] = {}
        self.epoch = -1
        self.is_leading = False

    def lead(self, epoch: int) -> None:
        """Begin to lead: nothing is known of the followers yet."""
        self.epoch = epoch
        self.is_leading = True
        self._reached.clear()
        self._fetching.clear()
        self._lagging.clear()
        self.on_append()

    def stop(self) -> None:
        """Lead no longer."""
        self.is_leading = False

    def on_append(self) -> None:
        """The leader's log has grown, or it has just been elected."""
        for follower in self._broker.peers:
            self.pump(follower)
        self.advance()

    def pump(self, follower: Broker) -> None:
        """Let a follower fetch what it lacks, if it can and does not do so already."""
        if not self.is_leading or follower.node_id in self._fetching:
            return
        end = self._broker.log.end_offset
        if self._reached.get(follower.node_id) == end:
            return
        if not self._can_fetch(follower):
            self._watch_lag(follower)
            return
        if follower.synced_epoch != self.epoch:
            follower.truncate_to(follower.log.divergence_from(self._broker.log))
            follower.synced_epoch = self.epoch
        self._fetching[follower.node_id] = end
        world = self._broker.world
        delay_ms = self._delay_ms() * world.replication_factor
        epoch, incarnation = self.epoch, self._broker.incarnation

        def on_fetched(call: Call) -> None:
            if self.is_leading and self.epoch == epoch and self._broker.incarnation == incarnation:
                self._on_fetched(follower)

        world.clock.call_at(world.clock.now_ms + delay_ms, self._tie_break(), on_fetched)

    def hand_over(self, follower: Broker) -> None:
        """Let a follower have everything at once, if it fetches from this leader at all."""
        if self.is_leading and self._can_fetch(follower) and follower.synced_epoch == self.epoch:
            follower.log.fetch_from(self._broker.log, self._broker.log.end_offset)

    def forget_beyond(self, follower: Broker, offset: int) -> None:
        """A follower no longer has what it had reached."""
        reached = self._reached.get(follower.node_id)
        if reached is not None:
            self._reached[follower.node_id] = min(reached, offset)

    def advance(self) -> None:
        """Move the high watermark as far as the in-sync replicas allow, and let answers go."""
        broker = self._broker
        if not self.is_leading:
            return
        offset = broker.log.end_offset
        for node_id in broker.world.controller.in_sync:
            if node_id != broker.node_id:
                reached = self._reached.get(node_id)
                if reached is None:
                    return
                offset = min(offset, reached)
        if offset > broker.log.high_watermark:
            broker.log.high_watermark = offset
            broker.world.steps.committed(broker.shard)
            broker.shard.on_committed()

    def _on_fetched(self, follower: Broker) -> None:
        up_to = self._fetching.pop(follower.node_id)
        if not self._can_fetch(follower):
            self._watch_lag(follower)
            return
        follower.log.fetch_from(self._broker.log, up_to)
        self._reached[follower.node_id] = up_to
        controller = self._broker.world.controller
        if follower.node_id not in controller.in_sync and self._is_caught_up(follower):
            controller.expand(follower)
        self.advance()
        self.pump(follower)

    def _can_fetch(self, follower: Broker) -> bool:
        broker = self._broker
        return (
            broker.is_alive
            and follower.is_alive
            and not broker.is_isolated
            and not follower.is_isolated
            and follower.follows(self.epoch)
        )

    def _is_caught_up(self, follower: Broker) -> bool:
        return self._reached.get(follower.node_id, -1) >= self._broker.log.high_watermark

    def _watch_lag(self, follower: Broker) -> None:
        """Take a follower that stays behind for too long out of the in-sync set."""
        world = self._broker.world
        if follower.node_id in self._lagging or follower.node_id not in world.controller.in_sync:
            return
        self._lagging[follower.node_id] = None
        epoch = self.epoch

        def on_lag_limit(call: Call) -> None:
            if self.epoch != epoch:
                return
            self._lagging.pop(follower.node_id, None)
            broker = self._broker
            if (
                self.is_leading
                and broker.is_alive
                and not broker.is_cut_off
                and world.controller.leader is broker
                and follower.node_id in world.controller.in_sync
                and self._reached.get(follower.node_id) != broker.log.end_offset
                and not self._can_fetch(follower)
            ):
                world.controller.shrink(follower)

        limit_ms = world.spec.brokers.replica_lag_time_max_ms
        world.clock.call_at(world.clock.now_ms + limit_ms, self._tie_break(), on_lag_limit)
