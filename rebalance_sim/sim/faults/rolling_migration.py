"""Clients change over to another library or other assignors, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.clients.versions import check_version
from rebalance_sim.sim.client.client_checks import (
    COOPERATIVE,
    DEFAULT_ASSIGNORS,
    check_assignors,
    check_kind,
    takes_assignors,
)
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.client_bounce import ClientBounce
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets

_COOPERATION_SHARE = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingMigration(ClientBounce):
    """A rolling deployment that gives clients another library, or another setting of it:
    ``to_kind`` and, if one is named, ``to_version``; where it speaks the classic protocol, with
    these ``assignors``.

    So a group passes from the classic protocol to the consumer protocol (classic §7), back, or from
    eager to cooperative rebalances (classic §3.1).
    """

    to_kind: str
    to_version: str | None = None
    assignors: tuple[str, ...] = DEFAULT_ASSIGNORS

    def __post_init__(self) -> None:
        ClientBounce.__post_init__(self)
        check_kind(self.to_kind, "to_kind")
        check_version(self.to_version, self.to_kind, "to_version")
        check_assignors(self.assignors, self.to_kind)

    def among_alike(self) -> Fault:
        """A deployment with the same times that changes nothing."""
        return ClientBounce(
            at_ms=self.at_ms,
            down_ms=self.down_ms,
            gap_ms=self.gap_ms,
            clients=self.clients,
            graceful=self.graceful,
        )

    def before_restart(self, world: FaultWorld, name: str) -> None:
        world.client_processes.migrate(name, self.to_kind, self.to_version, self.assignors)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        group_id = targets.group(draw)
        team = targets.team(group_id)
        common = team[0].assignors

        def roll(from_ms: int, kind: str, assignors: tuple[str, ...]) -> RollingMigration:
            return cls(
                at_ms=from_ms,
                to_kind=kind,
                assignors=assignors,
                down_ms=draw.between(rule.duration_ms),
                gap_ms=draw.between(rule.gap_ms),
                clients=tuple(client.name for client in team),
                graceful=draw.chance(0.8),
            )

        kind = draw.pick(rule.to_kinds)
        if not takes_assignors(kind, common):
            kind = CLASSIC
        if kind != CLASSIC or not draw.chance(_COOPERATION_SHARE):
            yield roll(at_ms, kind, common)
            return
        # KIP-429: first all learn to rebalance cooperatively, then they forget to do it eagerly.
        eager = tuple(name for name in common if name != COOPERATIVE)
        first = roll(at_ms, CLASSIC, (COOPERATIVE, *eager))
        yield first
        until_ms = at_ms + len(team) * (first.down_ms + first.gap_ms)
        yield roll(targets.within(until_ms), CLASSIC, (COOPERATIVE,))
