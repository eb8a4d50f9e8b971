"""Episodes of rebalancing, from the first sign to the last client at rest, the same for all
protocols.

An episode of a group begins when its coordinator begins to rebalance it (a classic group enters
PreparingRebalance, the epoch of a consumer group rises: ``Outcome.rebalances``). It ends when the
group is stable, or empty, its members know of the last generation or epoch, and none of them is
busy with it, callbacks included. Whatever begins meanwhile is part of it. Source:
classic §9.2.

While nothing of this continues, nothing has to be reported: ``is_watching`` is false.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rebalance_sim.invariants.step import ClientView, ShardView, WorldView
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.runtime.rebalance_causes import Rebalance
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.observe.durations import Waits
from rebalance_sim.sim.observe.ownership import Ownership

_BUSY = (ClientState.RECONCILING, ClientState.ACKNOWLEDGING)


class Episode(NamedTuple):
    """One episode that is over; times in milliseconds.

    ``cause`` is that of the rebalance which it began with, ``classic.member_joined``, and ``began``
    how many began until it was over. ``moved`` counts partitions that went from one client to
    another. ``unowned_partition_ms``: for how long partitions had no owner while it lasted, summed
    over partitions; ``partition_ms``: for how long they ought to have had one.
    """

    group_id: str
    at_ms: int
    duration_ms: int
    cause: str
    began: int
    moved: int
    unowned_partition_ms: int
    partition_ms: int


class _Ended(NamedTuple):
    """An episode, with how many partitions had moved before it instead of in it."""

    at_ms: int
    duration_ms: int
    cause: str
    began: int
    moved_before: int
    unowned_area: int
    partition_area: int


class Rebalances:
    """Episodes of all groups; times are summed over them, in milliseconds.

    ``groups`` are views of the groups by id; they may come later than this object.
    """

    def __init__(
        self, clock: Clock, groups: Mapping[str, WorldView], ownership: Mapping[str, Ownership]
    ) -> None:
        self._clock = clock
        self._groups = groups
        self._of = {group_id: _Group(owned) for group_id, owned in ownership.items()}
        self._watched: set[str] = set()
        self.is_watching = False
        self.episodes = Waits()
        self.at_coordinator = Waits()
        self.at_member = Waits()
        self.crash_detection = Waits()
        self.epoch_rises = 0
        self.requests = 0
        self.unowned_area = 0
        self.partition_area = 0

    # --- coordinators -----------------------------------------------------------------------------

    def on_operation(self, shard: ShardView, group_id: str | None, outcome: Outcome) -> None:
        """A coordinator did something for a group; to be reported if it began to rebalance it, and
        while ``is_watching``."""
        for rebalance in outcome.rebalances:
            self.epoch_rises += rebalance.protocol == "consumer"
        group = None if group_id is None else self._of.get(group_id)
        if group is None or group_id is None:
            return
        if self._groups[group_id].acting_shard() is not shard:
            return  # A leader that has been replaced: none of this will be committed.
        if outcome.rebalances:
            self._begin(group_id, group, outcome.rebalances)
        self._look_at(group_id, group, shard)

    def on_restored(self, shard: ShardView) -> None:
        """A shard has become active, or has taken back what it could not write; to be reported
        while ``is_watching``."""
        for group_id in sorted(self._watched):
            if self._groups[group_id].acting_shard() is shard:
                self._look_at(group_id, self._of[group_id], shard)

    def _begin(self, group_id: str, group: _Group, rebalances: tuple[Rebalance, ...]) -> None:
        now_ms = self._clock.simulated_ms
        group.rebalance_count += len(rebalances)
        if group.began_ms is None:
            group.began_ms = now_ms
            group.cause = rebalances[0].name
            group.rebalance_count = len(rebalances)
            group.moved_before = group.ownership.episode_moves()[0]
            group.areas = group.ownership.areas()
            group.ownership.begin_episode()
            self._watch(group_id)
        if group.unsettled_since_ms is None:
            group.unsettled_since_ms = now_ms

    def _look_at(self, group_id: str, group: _Group, shard: ShardView) -> None:
        """Is the group at rest, and who of the dead is out of it?"""
        coordinator = shard.coordinator
        found = coordinator.project(group_id)
        group.epoch = 0 if found is None else found.epoch
        members = group.members = () if found is None else found.members
        for member_id in [m for m in group.crashed_ms if m not in members]:
            self.crash_detection.add(self._clock.simulated_ms - group.crashed_ms.pop(member_id))
        if group.unsettled_since_ms is not None and (found is None or found.is_settled):
            self.at_coordinator.add(self._clock.simulated_ms - group.unsettled_since_ms)
            group.unsettled_since_ms = None
        self._end_if_over(group_id, group)

    # --- clients ----------------------------------------------------------------------------------

    def on_state(self, client: ClientView, state: ClientState) -> None:
        """A client changed its state; always to be reported."""
        group = self._of[client.member.config.group_id]
        name = client.name
        if state in _BUSY:
            group.busy_since_ms.setdefault(name, self._clock.simulated_ms)
        elif name in group.busy_since_ms:
            since_ms = group.busy_since_ms.pop(name)
            if state is ClientState.STABLE:
                self.at_member.add(self._clock.simulated_ms - since_ms)

    def on_event(self, client: ClientView, request_count: int) -> None:
        """A client took an event and sent so many requests to its coordinator; to be reported after
        its change of state, and while ``is_watching``."""
        group_id = client.member.config.group_id
        group = self._of[group_id]
        if group.began_ms is None:
            return
        # Before it may be over: what acknowledges a rebalance is a part of it.
        self.requests += request_count
        self._end_if_over(group_id, group)

    def has_episode(self, group_id: str) -> bool:
        """Whether an episode of the group has not ended yet."""
        return self._of[group_id].began_ms is not None

    def on_crashed(self, client: ClientView) -> None:
        """A process was killed; to be reported before ``on_gone``."""
        group_id = client.member.config.group_id
        view = self._groups.get(group_id)
        shard = None if view is None else view.acting_shard()
        if shard is None:
            return
        coordinator = shard.coordinator
        found = coordinator.project(group_id)
        member_id = client.member.member_id
        if found is not None and member_id in found.members:
            self._of[group_id].crashed_ms[member_id] = self._clock.simulated_ms
            self._watch(group_id)

    def on_gone(self, client: ClientView) -> None:
        """A process is no more."""
        group_id = client.member.config.group_id
        group = self._of[group_id]
        group.busy_since_ms.pop(client.name, None)
        self._end_if_over(group_id, group)

    # --- the end ----------------------------------------------------------------------------------

    @property
    def open_count(self) -> int:
        """Episodes that have not ended; they are in none of the sums."""
        return sum(group.began_ms is not None for group in self._of.values())

    def rows(self) -> Iterator[Episode]:
        """Every episode that has ended, by group and time. What a client is still to fetch its
        position of when an episode ends counts for it, so this is complete when the run is."""
        for group_id, group in self._of.items():
            if not group.ended:
                continue
            moved = [ended.moved_before for ended in group.ended]
            open_one = group.began_ms is not None
            after = group.moved_before if open_one else group.ownership.episode_moves()[0]
            for ended, moved_after in zip(group.ended, [*moved[1:], after], strict=True):
                yield Episode(
                    group_id=group_id,
                    at_ms=ended.at_ms,
                    duration_ms=ended.duration_ms,
                    cause=ended.cause,
                    began=ended.began,
                    moved=moved_after - ended.moved_before,
                    unowned_partition_ms=ended.unowned_area,
                    partition_ms=ended.partition_area,
                )

    def _end_if_over(self, group_id: str, group: _Group) -> None:
        if group.began_ms is not None:
            is_busy = group.unsettled_since_ms is not None or group.busy_since_ms
            if not is_busy and not self._has_member_behind(group_id, group):
                self._end(group_id, group)
        elif not group.crashed_ms and group_id in self._watched:
            self._unwatch(group_id)

    def _has_member_behind(self, group_id: str, group: _Group) -> bool:
        """Does a client that takes itself for a member, and is one, not know of the last epoch?"""
        for client in self._groups[group_id].clients().values():
            member = client.member
            is_there = client.is_alive and member.state.is_in_group
            if is_there and member.member_epoch < group.epoch and member.member_id in group.members:
                return True
        return False

    def _end(self, group_id: str, group: _Group) -> None:
        began_ms, group.began_ms = group.began_ms, None
        if began_ms is None:
            return
        self.episodes.add(self._clock.simulated_ms - began_ms)
        unowned, partitions = group.ownership.areas()
        unowned, partitions = unowned - group.areas[0], partitions - group.areas[1]
        self.unowned_area += unowned
        self.partition_area += partitions
        duration_ms = self._clock.simulated_ms - began_ms
        group.ended.append(
            _Ended(
                at_ms=began_ms,
                duration_ms=duration_ms,
                cause=group.cause,
                began=group.rebalance_count,
                moved_before=group.moved_before,
                unowned_area=unowned,
                partition_area=partitions,
            )
        )
        clients = self._groups[group_id].clients()
        staying = [
            client
            for client in clients.values()
            if client.is_alive and client.member.commit_identity
        ]
        subscriptions = {
            (client.member.subscribed_topic_names, client.member.subscribed_topic_regex)
            for client in staying
        }
        group.ownership.end_episode(
            frozenset(client.name for client in staying), are_alike=len(subscriptions) == 1
        )
        if not group.crashed_ms:
            self._unwatch(group_id)

    def _watch(self, group_id: str) -> None:
        self._watched.add(group_id)
        self.is_watching = True

    def _unwatch(self, group_id: str) -> None:
        self._watched.discard(group_id)
        self.is_watching = bool(self._watched)


@dataclass(slots=True, eq=False)
class _Group:
    """One group: its episode, if there is one, and its clients.

    ``unsettled_since_ms``: since when the coordinator rebalances it. ``epoch`` and ``members``: as
    it had them last. ``crashed_ms``: when members were killed that
    are still in the group, by member id. ``cause``, ``rebalance_count`` and ``moved_before`` are of
    the last episode that began.
    """

    ownership: Ownership
    began_ms: int | None = None
    unsettled_since_ms: int | None = None
    areas: tuple[int, int] = (0, 0)
    cause: str = ""
    rebalance_count: int = 0
    moved_before: int = 0
    ended: list[_Ended] = field(default_factory=list)
    busy_since_ms: dict[str, int] = field(default_factory=dict)
    epoch: int = 0
    members: Container[str] = ()
    crashed_ms: dict[str, int] = field(default_factory=dict)
