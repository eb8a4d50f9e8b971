"""How the records of a leader reach its followers, and when they count as committed.

Each replica has one ``Replication``, which is at work while its broker believes that it leads. A
follower that knows of the leader's epoch cuts off what the leader does not have, and fetches
from then on. The high watermark is the least offset that all in-sync replicas have reached, and
stands still while they are fewer than ``min.insync.replicas`` (coordinator §9.4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.broker.log import ReplicaLog


class BrokerState(Protocol):
    """A broker, as far as replication depends on it."""

    node_id: int
    is_alive: bool
    is_stopping: bool
    isolation_count: int
    cut_off_count: int
    lost_peers: list[int]


class InSyncSet(Protocol):
    """What the controller has on record about the partition."""

    in_sync: list[int]
    leader_epoch: int

    def shrink(self, node_id: int) -> None: ...
    def expand(self, node_id: int) -> None: ...


class Follower(Protocol):
    """A replica that fetches."""

    node_id: int
    log: ReplicaLog
    synced_epoch: int

    @property
    def broker(self) -> BrokerState: ...
    def follows(self, epoch: int) -> bool: ...
    def truncate_to(self, offset: int) -> None: ...


class Leader(Protocol):
    """The replica that a ``Replication`` belongs to."""

    node_id: int
    log: ReplicaLog
    registration: InSyncSet
    tie_break: Callable[[], float]

    @property
    def broker(self) -> BrokerState: ...
    @property
    def peers(self) -> Sequence[Follower]: ...
    def on_high_watermark(self) -> None: ...


class Replication:
    """The leader's side of replication."""

    def __init__(
        self, replica: Leader, environment: BrokerEnvironment, delay_ms: Callable[[], int]
    ) -> None:
        self._replica = replica
        self._environment = environment
        self._clock = environment.clock
        self._delay_ms = delay_ms
        spec = environment.spec
        self._least_in_sync = min(spec.min_insync_replicas, spec.count)
        self._tie_break = replica.tie_break
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
        self._in_sync = self._replica.registration.in_sync
        self.on_append()

    def stop(self) -> None:
        """Lead no longer."""
        self.is_leading = False

    def on_append(self) -> None:
        """The leader's log has grown, or it has just been elected."""
        for follower in self._replica.peers:
            self.pump(follower)
        self.advance()

    def pump(self, follower: Follower) -> None:
        """Let a follower fetch what it lacks, if it can and does not do so already."""
        node_id = follower.node_id
        end = self._replica.log.end_offset
        if not self.is_leading or self._reached.get(node_id) == end:
            return
        if node_id not in self._behind_since_ms:
            self._behind_since_ms[node_id] = self._clock.now_ms
            if node_id not in self._watched:
                self._watch_lag(follower)
        if node_id in self._fetching or not self._can_fetch(follower):
            return
        if follower.synced_epoch != self.epoch:
            follower.truncate_to(follower.log.divergence_from(self._replica.log))
            follower.synced_epoch = self.epoch
        self._fetch(follower, end)

    def _fetch(self, follower: Follower, up_to: int) -> None:
        started_ms = self._clock.now_ms
        delay_ms = self._delay_ms() * self._environment.replication_factor
        self._fetch_count += 1
        self._fetching[follower.node_id] = self._fetch_count
        argument = follower, up_to, started_ms, self._fetch_count
        at_ms = started_ms + delay_ms
        self._clock.call_at(at_ms, self._tie_break(), self._on_fetch_done, argument)

    def _on_fetch_done(self, fetch: tuple[Follower, int, int, int]) -> None:
        follower, up_to, started_ms, number = fetch
        if self.is_leading and self._fetching.get(follower.node_id) == number:
            del self._fetching[follower.node_id]
            self._on_fetched(follower, up_to, started_ms)

    def fetch_anew(self) -> None:
        """Replication has become faster: do not wait for fetches that began when it was slow."""
        self._fetching.clear()
        for follower in self._replica.peers:
            self.pump(follower)

    def hand_over(self, follower: Follower) -> None:
        """Let a follower have everything at once, if it fetches from this leader at all."""
        if self.is_leading and self._can_fetch(follower) and follower.synced_epoch == self.epoch:
            follower.log.fetch_from(self._replica.log, self._replica.log.end_offset)

    def forget_beyond(self, follower: Follower, offset: int) -> None:
        """A follower no longer has what it had reached."""
        reached = self._reached.get(follower.node_id)
        if reached is not None:
            self._reached[follower.node_id] = min(reached, offset)

    def advance(self) -> None:
        """Move the high watermark as far as the in-sync replicas allow, and let answers go."""
        replica = self._replica
        if not self.is_leading:
            return
        if self._may_alter_in_sync():
            self._in_sync = replica.registration.in_sync
        if len(self._in_sync) < self._least_in_sync:
            return
        log, leader_id = replica.log, replica.node_id
        offset = log.end_offset
        for node_id in self._in_sync:
            if node_id != leader_id:
                reached = self._reached.get(node_id)
                if reached is None or reached <= log.high_watermark:
                    return
                if reached < offset:
                    offset = reached
        if offset > log.high_watermark:
            log.high_watermark = offset
            replica.on_high_watermark()

    def _on_fetched(self, follower: Follower, up_to: int, started_ms: int) -> None:
        if not self._can_fetch(follower):
            return
        node_id, log = follower.node_id, self._replica.log
        follower.log.fetch_from(log, up_to)
        self._reached[node_id] = up_to
        has_all = up_to == log.end_offset
        if has_all:
            self._behind_since_ms.pop(node_id, None)
        else:
            self._behind_since_ms[node_id] = started_ms
        registration = self._replica.registration
        if (
            node_id not in registration.in_sync
            and up_to >= log.high_watermark
            and self._may_alter_in_sync()
            and not follower.broker.is_stopping
        ):
            registration.expand(node_id)
        self.advance()
        if not has_all:
            self.pump(follower)

    def _can_fetch(self, follower: Follower) -> bool:
        leading, following = self._replica.broker, follower.broker
        return (
            leading.is_alive
            and following.is_alive
            and not leading.isolation_count
            and not following.isolation_count
            and following.node_id not in leading.lost_peers
            and follower.follows(self.epoch)
        )

    def _watch_lag(self, follower: Follower) -> None:
        """Take a follower that has been behind for too long out of the in-sync set.

        One call at a time looks at a follower, so that appends cost no event.
        """
        node_id = follower.node_id
        self._watched[node_id] = None
        limit_ms = self._environment.spec.replica_lag_time_max_ms
        at_ms = self._behind_since_ms[node_id] + limit_ms
        epoch = self.epoch
        registration = self._replica.registration

        def on_limit(_: None) -> None:
            if not self.is_leading or self.epoch != epoch:
                return
            del self._watched[node_id]
            since_ms = self._behind_since_ms.get(node_id)
            if since_ms is None:
                return
            if since_ms + limit_ms > self._clock.now_ms:
                self._watch_lag(follower)
            elif node_id in registration.in_sync and self._may_alter_in_sync():
                registration.shrink(node_id)

        self._clock.call_at(at_ms, self._tie_break(), on_limit)

    def _may_alter_in_sync(self) -> bool:
        """Whether the controller listens to this leader."""
        replica = self._replica
        return replica.registration.leader_epoch == self.epoch and not replica.broker.cut_off_count
