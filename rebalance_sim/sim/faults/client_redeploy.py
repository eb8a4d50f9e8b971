"""A client is deployed with other settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from rebalance_sim.protocol.clients import MembershipOperation
from rebalance_sim.protocol.clients.versions import check_version
from rebalance_sim.sim.checks import not_none
from rebalance_sim.sim.client.client_checks import check_assignors, check_kind, takes_assignors
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Names, bound, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets

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
