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
        self._in_sync: list[int] = []
        self._reached: dict[int, int] = {}
        self._fetching: dict[int, int] = {}
        self._fetch_count = 0
        self._behind_since_ms: dict[int, int] = {}
        self._watched: dict[int, None] = {}
        self.epoch = -1
        self.is_leading = False

    def lead(self, epoch: int) -> None:
        """Begin to lead: nothing is known of the followers yet."""
        self.epoch = epoch
        self.is_leading = True
        self._reached.clear()
        self._fetching.clear()
        self._behind_since_ms.clear()
        self._watched.clear()
        self._in_sync = self._broker.world.controller.in_sync
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
        node_id = follower.node_id
        end = self._broker.log.end_offset
        if not self.is_leading or self._reached.get(node_id) == end:
            return
        if node_id not in self._behind_since_ms:
            self._behind_since_ms[node_id] = self._broker.world.clock.now_ms
            self._watch_lag(follower)
        if node_id in self._fetching or not self._can_fetch(follower):
            return
        if follower.synced_epoch != self.epoch:
            follower.truncate_to(follower.log.divergence_from(self._broker.log))
            follower.synced_epoch = self.epoch
        self._fetch(follower, end)

    def _fetch(self, follower: Broker, up_to: int) -> None:
        world = self._broker.world
        started_ms = world.clock.now_ms
        delay_ms = self._delay_ms() * world.replication_factor
        self._fetch_count += 1
        self._fetching[follower.node_id] = number = self._fetch_count

        def on_fetched(call: Call) -> None:
            if self.is_leading and self._fetching.get(follower.node_id) == number:
                del self._fetching[follower.node_id]
                self._on_fetched(follower, up_to, started_ms)

        world.clock.call_at(started_ms + delay_ms, self._tie_break(), on_fetched)

    def fetch_anew(self) -> None:
        """Replication has become faster: do not wait for fetches that began when it was slow."""
        self._fetching.clear()
        for follower in self._broker.peers:
            self.pump(follower)

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
        if self._may_alter_in_sync():
            self._in_sync = broker.world.controller.in_sync
        offset = broker.log.end_offset
        for node_id in self._in_sync:
            if node_id != broker.node_id:
                reached = self._reached.get(node_id)
                if reached is None:
                    return
                offset = min(offset, reached)
        if offset > broker.log.high_watermark:
            broker.log.high_watermark = offset
            broker.world.steps.committed(broker.shard)
            broker.shard.on_committed()

    def _on_fetched(self, follower: Broker, up_to: int, started_ms: int) -> None:
        if not self._can_fetch(follower):
            return
        node_id = follower.node_id
        follower.log.fetch_from(self._broker.log, up_to)
        self._reached[node_id] = up_to
        if up_to == self._broker.log.end_offset:
            self._behind_since_ms.pop(node_id, None)
        else:
            self._behind_since_ms[node_id] = started_ms
        controller = self._broker.world.controller
        if (
            node_id not in controller.in_sync
            and up_to >= self._broker.log.high_watermark
            and self._may_alter_in_sync()
            and not follower.is_stopping
        ):
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

    def _watch_lag(self, follower: Broker) -> None:
        """Take a follower that has been behind for too long out of the in-sync set.

        One call at a time looks at a follower, so that appends cost no event.
        """
        node_id = follower.node_id
        if node_id in self._watched:
            return
        self._watched[node_id] = None
        world = self._broker.world
        limit_ms = world.spec.brokers.replica_lag_time_max_ms
        at_ms = self._behind_since_ms[node_id] + limit_ms
        epoch = self.epoch

        def on_limit(call: Call) -> None:
            if not self.is_leading or self.epoch != epoch:
                return
            del self._watched[node_id]
            since_ms = self._behind_since_ms.get(node_id)
            if since_ms is None:
                return
            if since_ms + limit_ms > world.clock.now_ms:
                self._watch_lag(follower)
            elif node_id in world.controller.in_sync and self._may_alter_in_sync():
                world.controller.shrink(follower)

        world.clock.call_at(at_ms, self._tie_break(), on_limit)

    def _may_alter_in_sync(self) -> bool:
        """Whether the controller listens to this leader."""
        controller = self._broker.world.controller
        return controller.metadata.leader_epoch == self.epoch and not self._broker.is_cut_off
