"""Clients in pods: how they are rolled out, and scaled by their lag."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Names, Window, bound, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld, Process
from rebalance_sim.sim.faults.targets import Targets


def terminate(
    world: FaultWorld, name: str, *, grace_ms: int, again_in_ms: Callable[[], int | None]
) -> None:
    """SIGTERM, at which the application closes its consumer, and SIGKILL if the process still runs
    after ``grace_ms``. ``again_in_ms``: how long until the next process of this client starts, or,
    if that is later, the old one has ended; None: there is none."""
    clients = world.client_processes
    process = clients.live(name)
    delay_ms = again_in_ms()
    if delay_ms is None:
        clients.retire(name)
    else:
        clients.restart_later(name, delay_ms)
        clients.close(name, None, MembershipOperation.DEFAULT)

    def kill() -> None:
        if clients.live(name) is process:
            delay_ms = again_in_ms()
            clients.crash(name, None if delay_ms is None else max(0, delay_ms - grace_ms))

    if process is not None:
        world.later(grace_ms, kill)


_GRACE_MS = (1_000, 30_000)
LOOK_MS = 1_000
"""How often is looked at which pods are ready; a readiness probe looks no oftener."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout(Fault):
    """Pods are replaced a few at a time, the next when these are ready: a rolling update of
    Kubernetes. With ``successors`` it is that of a Deployment: these are the new pods, which
    replace ``clients`` in the order in which both are named. They start when the rollout has come
    to them, whatever their ``start_ms``, and those that are replaced do not come back.

    Without ``successors`` it is that of a StatefulSet: each pod is stopped and comes back under its
    name, the last one first. A pod that is down, or not ready yet, counts as unavailable, also if
    something else is the reason; the rollout waits for it. Every second is looked at which are
    ready.
    """

    clients: tuple[str, ...] = ()
    """The pods, one consumer in each; none: all clients, by name."""
    successors: tuple[str, ...] = ()
    """The new pods of a Deployment; none: it is a StatefulSet."""
    max_surge: int = field(default=0, metadata=bound(0))
    """How many pods there may be beyond ``successors`` at a time, those that terminate not
    counted."""
    max_unavailable: int = field(default=1, metadata=bound(0))
    """How many pods may be missing at a time."""
    start_ms: int = field(default=0, metadata=size(0))
    """How long it takes from the creation of a pod until its consumer starts. A StatefulSet counts
    it from SIGTERM; the pod starts no sooner than the old process has ended."""
    ready_ms: int = field(default=10_000, metadata=size(0))
    """How long from then until the pod is ready."""
    termination_grace_period_ms: int = field(default=30_000, metadata=size(1))
    """How long a pod has from SIGTERM, at which the application closes its consumer, to SIGKILL."""

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not self.max_surge and not self.max_unavailable:
            raise ValueError("max_surge and max_unavailable must not both be 0")
        if self.successors and not self.clients:
            raise ValueError("clients must name those that successors replace")
        if set(self.clients) & set(self.successors):
            raise ValueError("clients and successors must not name the same client")
        if self.max_surge and not self.successors:
            raise ValueError("max_surge needs successors; a StatefulSet has no pods beyond its own")

    @property
    def target(self) -> str:
        """Who is replaced, and by whom."""
        old, new = ", ".join(self.clients), ", ".join(self.successors)
        return f"{old} by {new}" if new else old

    @property
    def starts(self) -> tuple[str, ...]:
        """The new pods."""
        return self.successors

    @property
    def retires(self) -> tuple[str, ...]:
        """The pods of a Deployment."""
        return self.clients if self.successors else ()

    def without(
        self, *, clients: Names = (), groups: Names = (), topics: Names = ()
    ) -> Self | None:
        """As usual; None if no successor is left."""
        kept = tuple(name for name in self.successors if name not in clients)
        if self.successors and not kept:
            return None
        rest = replace(self, successors=kept)
        return Fault.without(rest, clients=clients, groups=groups, topics=topics)

    def begin(self, world: FaultWorld) -> End | bool:
        _Progress(self, world).look()
        return True

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """A StatefulSet of a whole group, or a Deployment of one half by the other."""
        team = tuple(client.name for client in targets.team(targets.group(draw)))
        old, new = team[0::2], team[1::2]
        is_deployment = draw.chance(0.5) and bool(new) and not targets.gone & set(new)
        max_surge = draw.between((0, len(new))) if is_deployment else 0
        if is_deployment:
            targets.gone.update(old)
        yield cls(
            at_ms=at_ms,
            clients=old if is_deployment else team,
            successors=new if is_deployment else (),
            max_surge=max_surge,
            max_unavailable=draw.between((0 if max_surge else 1, 2)),
            start_ms=draw.between(rule.gap_ms),
            ready_ms=draw.between(rule.duration_ms),
            termination_grace_period_ms=draw.between(_GRACE_MS),
        )


class _Progress:
    """How far a rollout is."""

    def __init__(self, fault: Rollout, world: FaultWorld) -> None:
        self._fault = fault
        self._world = world
        self._names = list(fault.clients or sorted(world.client_processes.names))
        self._old = list(self._names)
        self._new: list[str] = []
        self._stopped: dict[str, Process | None] = {}

    def look(self) -> None:
        """Do what may be done now, and look again later unless that was all."""
        if self._fault.successors:
            self._replace()
            is_over = not self._old and len(self._new) == len(self._fault.successors)
        else:
            self._restart()
            is_over = not self._old
        if not is_over:
            self._world.later(LOOK_MS, self.look)

    def _restart(self) -> None:
        ready = {name for name in self._names if self._is_ready(name)}
        while self._old:
            name = self._old[-1]
            may_stop = len(self._names) - len(ready - {name}) <= self._fault.max_unavailable
            if not may_stop:
                break
            ready.discard(self._old.pop())
            self._stop(name)

    def _replace(self) -> None:
        count = len(self._fault.successors)
        self._start(count + self._fault.max_surge)
        ready_count = sum(map(self._is_ready, [*self._old, *self._new]))
        spare = ready_count - (count - self._fault.max_unavailable)
        # Who is not ready is not missed.
        for name in sorted(self._old, key=self._is_ready):
            if self._is_ready(name):
                if spare <= 0:
                    break
                spare -= 1
            self._old.remove(name)
            self._stop(name)
        self._start(count + self._fault.max_surge)

    def _start(self, most: int) -> None:
        clients = self._world.client_processes
        for name in self._fault.successors[len(self._new) :]:
            if len(self._old) + len(self._new) >= most:
                break
            self._new.append(name)
            if not clients.stays(name):
                clients.restart_later(name, self._fault.start_ms)

    def _stop(self, name: str) -> None:
        self._stopped[name] = self._world.client_processes.live(name)
        again_in_ms = None if self._fault.successors else self._fault.start_ms
        terminate(
            self._world,
            name,
            grace_ms=self._fault.termination_grace_period_ms,
            again_in_ms=lambda: again_in_ms,
        )

    def _is_ready(self, name: str) -> bool:
        process = self._world.client_processes.live(name)
        if process is None or process is self._stopped.get(name):
            return False
        return self._world.now_ms - process.started_ms >= self._fault.ready_ms


_LAGS = (10, 100, 1_000)
_INTERVALS_MS = (1_000, 15_000)
_WINDOWS_MS = (0, 60_000)


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
