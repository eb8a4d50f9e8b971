"""Applications are deployed again, in one way or another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.clients.versions import check_version
from rebalance_sim.sim.checks import not_none
from rebalance_sim.sim.client.client_checks import (
    COOPERATIVE,
    DEFAULT_ASSIGNORS,
    check_assignors,
    check_kind,
    takes_assignors,
)
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.clients import ClientClose
from rebalance_sim.sim.faults.fault import End, Fault, Names, bound, drawn_by, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBounce(Fault):
    """A rolling deployment: clients are stopped and started one after the other, in name order.

    Each is down for ``down_ms``, the next follows ``gap_ms`` later. ``graceful`` False kills the
    processes instead of closing the consumers.
    """

    down_ms: int = field(metadata=size(1))
    gap_ms: int = field(default=0, metadata=size(0))
    clients: tuple[str, ...] = ()
    graceful: bool = field(default=True, metadata=drawn_by(lambda draw, *_: draw.chance(0.7)))

    def begin(self, world: FaultWorld) -> End | bool:
        self._next(world, sorted(self.clients or world.client_processes.names))
        return True

    def _next(self, world: FaultWorld, names: list[str]) -> None:
        if not names:
            return
        name, clients = names[0], world.client_processes
        self.before_restart(world, name)
        if self.graceful:
            clients.close(name, self.down_ms, MembershipOperation.DEFAULT)
        else:
            clients.crash(name, self.down_ms)
        world.later(self.down_ms + self.gap_ms, lambda: self._next(world, names[1:]))

    def before_restart(self, world: FaultWorld, name: str) -> None:
        """What is changed of a client while it is down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRestart(Fault):
    """Every process of these clients (none named: all) ends at once, and a new one follows
    ``down_ms`` later: a deployment that recreates everything, or the loss of a zone.

    ``graceful`` False kills the processes instead of closing the consumers.
    """

    down_ms: int = field(metadata=size(1))
    clients: tuple[str, ...] = ()
    graceful: bool = True

    def begin(self, world: FaultWorld) -> End | bool:
        clients = world.client_processes
        has_hit = False
        for name in sorted(self.clients or clients.names):
            if self.graceful:
                has_hit |= clients.close(name, self.down_ms, MembershipOperation.DEFAULT)
            else:
                has_hit |= clients.crash(name, self.down_ms)
        return has_hit


_COUNTS = (2, 8)


def _gap_ms(draw: Draw, rule: DrawRule, *_: object) -> int:
    return max(1, draw.between(rule.gap_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashLoop(Fault):
    """A client process is killed, and so are those that follow, each ``up_ms`` after its start:
    ``count`` in all. A supervisor starts the next one ``down_ms`` after each.

    A record that no one can process, a limit of memory, a wrong configuration. Without an instance
    id every process leaves a member behind, whose session has to run out.
    """

    client: str
    count: int = field(
        default=3, metadata=size(1) | drawn_by(lambda draw, *_: draw.between(_COUNTS))
    )
    up_ms: int = field(default=2_000, metadata=size(1) | drawn_by(_gap_ms))
    down_ms: int = field(default=1_000, metadata=size(1))

    def begin(self, world: FaultWorld) -> End | bool:
        return self._crash(world, self.count)

    def _crash(self, world: FaultWorld, left: int) -> bool:
        has_hit = world.client_processes.crash(self.client, self.down_ms)
        if left > 1:
            world.later(self.down_ms + self.up_ms, lambda: self._crash(world, left - 1))
        return has_hit


_SETTINGS = (
    "instance_id",
    "rack",
    "server_assignor",
    "max_poll_interval_ms",
    "request_timeout_ms",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "enable_auto_commit",
    "auto_commit_interval_ms",
    "topics",
    "assignors",
)
_SPOKEN = (
    "to_kind",
    "to_version",
    "assignors",
    "server_assignor",
    "session_timeout_ms",
    "heartbeat_interval_ms",
)
_CHANGE_SHARE = 0.3
_NAMES = ("range", "roundrobin")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRedeploy(Fault):
    """A client is stopped and comes back after ``down_ms`` with other settings, which its
    processes keep from then on. What is left out stays as it is.

    An empty ``instance_id`` makes a dynamic member, an empty ``server_assignor`` leaves the choice
    to the others. ``to_kind`` is another library, or another protocol of it, ``to_version`` a
    version of it; what the library does not know is left out. ``graceful`` False kills the process
    instead of closing the consumer.
    """

    unset_by_empty: ClassVar[tuple[str, ...]] = ("instance_id", "server_assignor")

    client: str
    down_ms: int = field(metadata=size(1))
    graceful: bool = True
    to_kind: str | None = None
    to_version: str | None = None
    assignors: tuple[str, ...] | None = None
    topics: tuple[str, ...] | None = None
    instance_id: str | None = None
    rack: str | None = None
    server_assignor: str | None = None
    max_poll_interval_ms: int | None = field(default=None, metadata=bound(1))
    request_timeout_ms: int | None = field(default=None, metadata=bound(1))
    session_timeout_ms: int | None = field(default=None, metadata=bound(2))
    heartbeat_interval_ms: int | None = field(default=None, metadata=bound(1))
    enable_auto_commit: bool | None = None
    auto_commit_interval_ms: int | None = field(default=None, metadata=bound(1))

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        not_none(self, *self.unset_by_empty)
        if self.to_kind is not None:
            check_kind(self.to_kind, "to_kind")
        check_version(self.to_version, self.to_kind, "to_version")
        if self.assignors is not None and self.to_kind is not None:
            check_assignors(self.assignors, self.to_kind)
        if self.topics is not None and not self.topics:
            raise ValueError("topics must name a topic, or be left out")

    @property
    def changes(self) -> Mapping[str, Any]:
        """Fields of ``ClientSpec`` with their new values."""
        changes = {name: getattr(self, name) for name in _SETTINGS}
        changes |= {"kind": self.to_kind, "version": self.to_version}
        return {
            name: (value or None) if name in self.unset_by_empty else value
            for name, value in changes.items()
            if value is not None
        }

    def without(
        self, *, clients: Names = (), groups: Names = (), topics: Names = ()
    ) -> Self | None:
        """As usual; where no topic is left, the client keeps those it has."""
        if self.topics is not None and set(self.topics) <= set(topics):
            return replace(self, topics=None).without(clients=clients, groups=groups)
        return Fault.without(self, clients=clients, groups=groups, topics=topics)

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """One setting less, or one topic."""
        for name in (*_SETTINGS, "to_kind", "to_version"):
            if getattr(self, name) is not None:
                yield self.changed(**{name: None})
        if self.topics is not None and len(self.topics) > 1:
            for topic in self.topics:
                yield replace(self, topics=tuple(one for one in self.topics if one != topic))

    def among_alike(self) -> Fault:
        """The client keeps speaking what it spoke."""
        return self.changed(**dict.fromkeys(_SPOKEN))

    def begin(self, world: FaultWorld) -> End | bool:
        clients = world.client_processes
        clients.change(self.client, self.changes)
        if self.graceful:
            clients.close(self.client, self.down_ms, MembershipOperation.DEFAULT)
        else:
            clients.crash(self.client, self.down_ms)
        return True

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        client = targets.client(draw)
        down_ms, graceful = draw.between(rule.duration_ms), draw.chance(rule.graceful_probability)
        yield cls(
            at_ms=at_ms,
            client=client.name,
            down_ms=down_ms,
            graceful=graceful,
            **drawn_settings(draw, targets, client, rule.to_kinds),
        )


def drawn_settings(
    draw: Draw, targets: Targets, client: ClientSpec, to_kinds: tuple[str, ...]
) -> dict[str, Any]:
    """Some settings of a client, each other than before with some probability."""
    config, names = targets.config, targets.topic_names
    session_ms = config.group_consumer_session_timeout_ms
    drawn: dict[str, Any] = {
        "instance_id": draw.pick((f"{client.name}-seat", client.instance_id or "", "")),
        "rack": draw.pick(("", "rack-a", "rack-b")),
        "server_assignor": draw.pick(("", "uniform", "range")),
        "max_poll_interval_ms": draw.pick((5_000, 8_000, 12_000)),
        "request_timeout_ms": draw.pick((2_000, 4_000, 8_000)),
        "session_timeout_ms": draw.pick((session_ms, max(6_000, session_ms // 2))),
        "heartbeat_interval_ms": draw.pick((1_000, 1_500, 2_500)),
        "enable_auto_commit": draw.chance(0.6),
        "auto_commit_interval_ms": draw.pick((500, 2_000, 5_000)),
        "topics": tuple(draw.some(names, 0.6)),
        "to_kind": draw.pick(to_kinds),
        "assignors": _other_list(draw, client.assignors),
    }
    chosen = {name: value for name, value in drawn.items() if draw.chance(_CHANGE_SHARE)}
    if not chosen:
        chosen["rack"] = drawn["rack"]
    if "to_kind" in chosen and not takes_assignors(chosen["to_kind"], client.assignors):
        del chosen["to_kind"]  # It would share no assignor with the others.
    kind = chosen.get("to_kind", client.kind)
    if "assignors" in chosen and not takes_assignors(kind, chosen["assignors"]):
        del chosen["assignors"]
    return chosen


def _other_list(draw: Draw, assignors: tuple[str, ...]) -> tuple[str, ...]:
    """One that shares an assignor with the group: in another order, or with one more."""
    other = draw.pick([name for name in _NAMES if name not in assignors] or [assignors[0]])
    lists = (assignors[::-1], (*assignors, other), (other, *assignors))
    return tuple(dict.fromkeys(draw.pick(lists)))


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
