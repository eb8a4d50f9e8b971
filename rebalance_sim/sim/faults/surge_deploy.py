"""New clients start before those that they replace stop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.client_close import ClientClose
from rebalance_sim.sim.faults.fault import End, Fault, Names, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class SurgeDeploy(Fault):
    """A deployment with a surge: all of ``successors`` that do not run start, or do when their
    ``close`` has ended, and ``overlap_ms`` later ``clients`` close, for good: who is down then does
    not come back. Meanwhile the group has both, and it rebalances twice.
    """

    clients: tuple[str, ...]
    successors: tuple[str, ...]
    overlap_ms: int = field(default=5_000, metadata=size(0))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if not self.clients or not self.successors:
            raise ValueError("clients and successors must name a client each")
        if set(self.clients) & set(self.successors):
            raise ValueError("clients and successors must not name the same client")

    @property
    def target(self) -> str:
        """Who replaces whom."""
        return f"{', '.join(self.clients)} by {', '.join(self.successors)}"

    @property
    def retires(self) -> tuple[str, ...]:
        """Those that are replaced."""
        return self.clients

    def without(
        self, *, clients: Names = (), groups: Names = (), topics: Names = ()
    ) -> Self | None:
        """As usual; None if no one is left to follow."""
        kept = tuple(name for name in self.successors if name not in clients)
        if not kept:
            return None
        rest = replace(self, successors=kept)
        return Fault.without(rest, clients=clients, groups=groups, topics=topics)

    def begin(self, world: FaultWorld) -> End | bool:
        clients = world.client_processes
        starting = [name for name in self.successors if not clients.stays(name)]
        for name in starting:
            clients.restart_later(name, 0)

        def stop() -> None:
            for name in self.clients:
                clients.retire(name)

        world.later(self.overlap_ms, stop)
        return bool(starting) or any(clients.live(name) is not None for name in self.clients)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        """One half of a group is away before, and replaces the other."""
        group = targets.group(draw)
        away_ms = draw.between((0, at_ms))
        overlap_ms = draw.between(rule.duration_ms)
        team = [client.name for client in targets.team(group)]
        old, new = tuple(team[0::2]), tuple(team[1::2])
        if not new or targets.gone & set(new):
            return
        targets.gone.update(old)
        for name in new:
            yield ClientClose(at_ms=away_ms, client=name)
        yield cls(at_ms=at_ms, clients=old, successors=new, overlap_ms=overlap_ms)
