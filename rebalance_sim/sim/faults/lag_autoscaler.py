"""Clients come and go with the lag of their group."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Names, Window, bound, size
from rebalance_sim.sim.faults.pods import terminate
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets

_LAGS = (10, 100, 1_000)
_INTERVALS_MS = (1_000, 15_000)
_WINDOWS_MS = (0, 60_000)
_GRACE_MS = (1_000, 30_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class LagAutoscaler(Window):
    """Replicas follow the lag of their group: an autoscaler of Kubernetes, as with KEDA. The first
    of ``clients`` are the replicas, one consumer in each: at first ``min_replicas``, which start at
    their ``start_ms``; the others start when they are wanted.

    Every ``interval_ms`` it wants as many replicas as there are ``lag_threshold_records`` in the
    lag, rounded up; the present number is right if that is no more than ``tolerance_percent`` off.
    It adds replicas at once, and takes away the last ones when it has wanted no more than are left
    for ``stabilization_window_ms``. The lag is that of the whole group, in records that are not
    processed yet.
    """

    needs_data_plane: ClassVar[bool] = True

    clients: tuple[str, ...]
    """The pods of one group, the first ones first."""
    lag_threshold_records: int = field(metadata=bound(1))
    """The lag that each replica is to have."""
    min_replicas: int = field(default=1, metadata=bound(1))
    """How many there are at least, and at first."""
    max_replicas: int | None = field(default=None, metadata=bound(1))
    """How many there are at most; none: all ``clients``."""
    interval_ms: int = field(default=15_000, metadata=bound(1))
    """How often it looks, first so long after it begins."""
    stabilization_window_ms: int = field(default=300_000, metadata=bound(0))
    """For how long it must have wanted fewer replicas before it takes some away."""
    tolerance_percent: int = field(default=10, metadata=bound(0))
    """How far the lag of a replica may be off without a change."""
    start_ms: int = field(default=0, metadata=size(0))
    """How long it takes from the creation of a pod until its consumer starts."""
    termination_grace_period_ms: int = field(default=30_000, metadata=size(1))
    """How long a pod has from SIGTERM, at which the application closes its consumer, to SIGKILL."""

    def __post_init__(self) -> None:
        Window.__post_init__(self)
        if not self.clients:
            raise ValueError("clients must name the pods")
        if self.most_replicas > len(self.clients):
            raise ValueError(
                f"max_replicas ({self.most_replicas}) must be at most the number of clients "
                f"({len(self.clients)})"
            )
        if self.min_replicas > self.most_replicas:
            raise ValueError(
                f"min_replicas ({self.min_replicas}) must be at most max_replicas "
                f"({self.most_replicas})"
            )

    @property
    def most_replicas(self) -> int:
        """How many there are at most."""
        return len(self.clients) if self.max_replicas is None else self.max_replicas

    @property
    def starts(self) -> tuple[str, ...]:
        """Those that are not wanted at first."""
        return self.clients[self.min_replicas :]

    @property
    def retires(self) -> tuple[str, ...]:
        """Those that may not be wanted."""
        return self.clients[self.min_replicas :]

    def without(
        self, *, clients: Names = (), groups: Names = (), topics: Names = ()
    ) -> Self | None:
        """As usual, with no more replicas than clients."""
        kept = tuple(name for name in self.clients if name not in clients)
        if not kept:
            return None
        count = len(kept)
        return replace(
            self,
            clients=kept,
            min_replicas=min(self.min_replicas, count),
            max_replicas=None if self.max_replicas is None else min(self.max_replicas, count),
        )

    def begin(self, world: FaultWorld) -> End | bool:
        return _Replicas(self, world).end

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """The replicas are a whole group."""
        team = tuple(client.name for client in targets.team(targets.group(draw)))
        min_replicas = draw.between((1, len(team)))
        targets.gone.update(team[min_replicas:])
        yield cls(
            at_ms=at_ms,
            duration_ms=draw.between(rule.duration_ms),
            clients=team,
            lag_threshold_records=draw.pick(_LAGS),
            min_replicas=min_replicas,
            interval_ms=draw.between(_INTERVALS_MS),
            stabilization_window_ms=draw.between(_WINDOWS_MS),
            start_ms=draw.between(rule.gap_ms),
            termination_grace_period_ms=draw.between(_GRACE_MS),
        )


class _Replicas:
    """How many replicas there are, and how many were wanted when."""

    def __init__(self, fault: LagAutoscaler, world: FaultWorld) -> None:
        self._fault = fault
        self._world = world
        self._count = fault.min_replicas
        self._wanted: deque[tuple[int, int]] = deque([(world.now_ms, self._count)])
        self._has_ended = False
        self._group_id = world.client_processes.group_id_of(fault.clients[0])
        world.later(fault.interval_ms, self._look)

    def end(self) -> None:
        """Replicas stay as they are."""
        self._has_ended = True

    def _look(self) -> None:
        if self._has_ended:
            return
        fault, now_ms = self._fault, self._world.now_ms
        lag = self._world.data_plane.lag_of(self._group_id)
        self._wanted.append((now_ms, self._wanted_for(lag)))
        while self._wanted[0][0] < now_ms - fault.stabilization_window_ms:
            self._wanted.popleft()
        most = max(count for _, count in self._wanted)
        self._scale(max(self._wanted[-1][1], min(self._count, most)))
        self._world.later(fault.interval_ms, self._look)

    def _wanted_for(self, lag: int) -> int:
        fault = self._fault
        right = self._count * fault.lag_threshold_records
        if abs(lag - right) * 100 <= fault.tolerance_percent * right:
            return self._count
        wanted = -(-lag // fault.lag_threshold_records)
        return min(max(wanted, fault.min_replicas), fault.most_replicas)

    def _scale(self, count: int) -> None:
        fault, clients = self._fault, self._world.client_processes
        before, self._count = self._count, count
        for name in fault.clients[before:count]:
            if not clients.stays(name):
                clients.restart_later(name, fault.start_ms)
        for number in range(before - 1, count - 1, -1):
            self._take_away(number)

    def _take_away(self, number: int) -> None:
        """It may be wanted again before it has ended."""
        terminate(
            self._world,
            self._fault.clients[number],
            grace_ms=self._fault.termination_grace_period_ms,
            again_in_ms=lambda: 0 if number < self._count else None,
        )
