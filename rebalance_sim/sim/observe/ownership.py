"""Who may fetch what in a group, integrated over time.

A partition has an owner while some client may fetch it, as that client sees it, and no callback
about it is running. Source of the definitions: classic §9.
"""

from __future__ import annotations

from rebalance_sim.invariants.step import ClientView
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.observe.durations import Waits

_NOTHING: frozenset[TopicPartition] = frozenset()


def owned_partitions(client: ClientView) -> frozenset[TopicPartition]:
    """What a client may fetch, but for what a callback is running about: a partition is owned from
    the end of the callback that assigns it to the beginning of the one that revokes it."""
    running = client.member.running_callback
    fetchable = client.member.fetchable
    return fetchable if running is None else fetchable - running.partitions


class Ownership:
    """The clients of one group, and what they may fetch."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen_versions: dict[GroupMember, int] = {}
        self._calling_back: set[str] = set()
        self._fetchable: dict[str, frozenset[TopicPartition]] = {}
        self._owner_count: dict[TopicPartition, int] = {}
        self._since_ms: dict[TopicPartition, int] = {}
        self._unowned_since_ms: dict[TopicPartition, int] = {}
        self._last_owner: dict[TopicPartition, str] = {}
        self._held_last: dict[str, int] = {}  # by client: partitions whose last owner it is
        self._given_up: dict[TopicPartition, str] = {}
        self._stopped_since_ms: dict[str, int] = {}
        self._started_ms: dict[str, int] = {}
        self._holder_count = 0
        self._has_begun = False
        self._group_stopped_since_ms: int | None = None
        self._before: dict[TopicPartition, str | None] = {}
        self._held_before: dict[str, int] = {}
        self._staying: frozenset[str] | None = None
        self._are_alike = False
        self._share = 0
        self._moved = self._needed = 0
        self._area_ms = 0
        self._unowned_area = 0
        self._partition_area = 0
        self.unowned_ms = 0
        self.longest_unowned_ms = 0
        self.longest_unowned_lately_ms = 0
        self._part_ms = 0
        self.overlap_ms = 0
        self.move_count = 0
        self.unowned_count = 0
        self.overlap_count = 0
        self.needless_revocations = 0
        self.member_stopped_ms = 0
        self.group_stopped_ms = 0
        self.first_assignment = Waits()
        self.owners: set[str] = set()

    @property
    def partition_count(self) -> int:
        """Partitions that ought to have an owner now."""
        return len(self._owner_count)

    def areas(self) -> tuple[int, int]:
        """Up to now, in partition-milliseconds: for how long partitions had no owner, and for how
        long they ought to have had one."""
        self._integrate()
        return self._unowned_area, self._partition_area

    # --- partitions -------------------------------------------------------------------------------

    def add(self, partition: TopicPartition) -> None:
        """From now on this partition ought to have an owner."""
        if partition not in self._owner_count:
            self._integrate()
            self._owner_count[partition] = 0
            self._since_ms[partition] = self._clock.simulated_ms
            self._unowned_since_ms[partition] = self._clock.simulated_ms
            self.unowned_count += 1

    def remove(self, partition: TopicPartition) -> None:
        """The partition is deleted."""
        if partition in self._owner_count:
            self._account(partition)
            self._integrate()
            count = self._owner_count.pop(partition)
            self.unowned_count -= count == 0
            self.overlap_count -= count > 1
            del self._since_ms[partition]
            del self._unowned_since_ms[partition]
            owner = self._last_owner.pop(partition, None)
            if owner is not None:
                self._held_last[owner] -= 1
            self._given_up.pop(partition, None)
            self._before.pop(partition, None)

    # --- clients ----------------------------------------------------------------------------------

    def on_started(self, client: ClientView) -> None:
        """A process starts, and waits for its first partition."""
        self._started_ms[client.name] = self._clock.simulated_ms

    def on_callback(self, client: ClientView) -> None:
        """A callback begins: until it is over, what is owned may change without a word."""
        self._calling_back.add(client.name)

    def look_at(self, client: ClientView) -> None:
        """Has this client's set changed?"""
        member = client.member
        version = member.ownership_version
        is_known = self._seen_versions.get(member) == version
        if is_known and client.name not in self._calling_back:
            return
        self._seen_versions[member] = version
        fetchable = owned_partitions(client)
        if member.running_callback is None:
            self._calling_back.discard(client.name)
        given_up = self._change(client.name, fetchable)
        for partition in given_up:
            # What another client has too is no loss to anybody, and so not given up in vain.
            if self._owner_count.get(partition) == 0:
                self._given_up[partition] = client.name
            else:
                self._given_up.pop(partition, None)
        if fetchable:
            self._on_something(client.name)
        elif given_up:
            self._stopped_since_ms[client.name] = self._clock.simulated_ms

    def drop(self, client: ClientView) -> None:
        """The client is gone, and fetches nothing."""
        name = client.name
        self._seen_versions.pop(client.member, None)
        self._change(name, _NOTHING)
        self._calling_back.discard(name)
        self._stopped_since_ms.pop(name, None)
        self._started_ms.pop(name, None)
        for partition in [p for p, owner in self._given_up.items() if owner == name]:
            del self._given_up[partition]

    def close(self) -> None:
        """Account for everything up to now."""
        for partition in self._owner_count:
            self._account(partition)

    def begin_part(self) -> None:
        """A part of the run begins, of which the longest is wanted: what is longer began before."""
        self._part_ms = self._clock.simulated_ms
        self.longest_unowned_lately_ms = 0
        self.first_assignment.longest_lately_ms = 0

    def _on_something(self, name: str) -> None:
        """A client may fetch something: it no longer waits for its first partition, or again."""
        now_ms = self._clock.simulated_ms
        self.owners.add(name)
        started_ms = self._started_ms.pop(name, None)
        if started_ms is not None:
            self.first_assignment.add(now_ms - started_ms)
        stopped_ms = self._stopped_since_ms.pop(name, None)
        if stopped_ms is not None:
            self.member_stopped_ms += now_ms - stopped_ms

    def _change(self, name: str, fetchable: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Returns what the client has given up."""
        before = self._fetchable.get(name, _NOTHING)
        self._fetchable[name] = fetchable
        self._holder_count += bool(fetchable) - bool(before)
        given_up = before - fetchable
        for partition in given_up:
            self._count(partition, -1)
        for partition in fetchable - before:
            self._count(partition, 1)
            if partition in self._owner_count:
                self._on_gained(partition, name)
        self._look_at_group()
        return given_up

    def _on_gained(self, partition: TopicPartition, name: str) -> None:
        if self._given_up.pop(partition, None) == name:
            self.needless_revocations += 1
        owner = self._last_owner.get(partition)
        if owner == name:
            return
        self._last_owner[partition] = name
        self._held_last[name] = self._held_last.get(name, 0) + 1
        if owner is not None:
            self.move_count += 1
            self._held_last[owner] -= 1
        self._before.setdefault(partition, owner)

    def _look_at_group(self) -> None:
        """May any client fetch anything?"""
        if self._holder_count:
            self._has_begun = True
            if self._group_stopped_since_ms is not None:
                self.group_stopped_ms += self._clock.simulated_ms - self._group_stopped_since_ms
                self._group_stopped_since_ms = None
        elif self._group_stopped_since_ms is None and self._has_begun:
            self._group_stopped_since_ms = self._clock.simulated_ms

    # --- an episode -------------------------------------------------------------------------------

    def begin_episode(self) -> None:
        """From now on, remember whose partitions were."""
        self._moved, self._needed = self.episode_moves()
        self._before = {}
        self._held_before = dict(self._held_last)
        self._staying = None

    def end_episode(self, staying: frozenset[str], *, are_alike: bool) -> None:
        """It is over. ``staying`` are the clients that are in the group, ``are_alike`` says whether
        all of them subscribe to the same."""
        self._staying = staying
        self._are_alike = are_alike
        self._share = -(-len(self._owner_count) // len(staying)) if staying else 0

    def episode_moves(self) -> tuple[int, int]:
        """In the episodes that are over: how many partitions moved from one client to another, and
        how many of them had to.

        Partitions of those who left have to move; if members are alike, so has what a member had
        above its share, rounded up. What a client is still to fetch its position of when the
        episode ends counts for it: so the last one is added up when the next begins.
        """
        staying = self._staying
        if staying is None:
            return self._moved, self._needed
        before = self._before
        moved = sum(owner not in (None, self._last_owner[p]) for p, owner in before.items())
        needed = 0
        for name, held in self._held_before.items():
            if name not in staying:
                needed += held
            elif self._are_alike:
                needed += max(0, held - self._share)
        return self._moved + moved, self._needed + min(moved, needed)

    # --- integrals --------------------------------------------------------------------------------

    def _count(self, partition: TopicPartition, by: int) -> None:
        if partition in self._owner_count:
            self._account(partition)
            self._unowned_since_ms[partition] = self._clock.simulated_ms
            before = self._owner_count[partition]
            after = self._owner_count[partition] = before + by
            if (after == 0) != (before == 0):
                self._integrate()
                self.unowned_count += (after == 0) - (before == 0)
            self.overlap_count += (after > 1) - (before > 1)

    def _account(self, partition: TopicPartition) -> None:
        now_ms = self._clock.simulated_ms
        span_ms = now_ms - self._since_ms[partition]
        self._since_ms[partition] = now_ms
        count = self._owner_count[partition]
        if count == 0:
            self.unowned_ms += span_ms
            # Not the span: a look in between must not cut the longest one in two.
            since_ms = self._unowned_since_ms[partition]
            self.longest_unowned_ms = max(self.longest_unowned_ms, now_ms - since_ms)
            lately_ms = now_ms - max(since_ms, self._part_ms)
            self.longest_unowned_lately_ms = max(self.longest_unowned_lately_ms, lately_ms)
        elif count > 1:
            self.overlap_ms += span_ms

    def _integrate(self) -> None:
        span_ms = self._clock.simulated_ms - self._area_ms
        if span_ms:
            self._area_ms = self._clock.simulated_ms
            self._unowned_area += self.unowned_count * span_ms
            self._partition_area += len(self._owner_count) * span_ms
