"""The same scenario for another rebalance protocol: what a comparison runs, protocol by protocol.

``with_protocol(scenario, "consumer-range")`` changes what clients speak, and nothing else: topics,
clients, their times and callbacks, faults, network, brokers and seed stay. Random streams belong
to a concern and an actor, so that the draws of the one protocol are those of the other.

What only some protocols know is made alike for all of them, so that one and the same thing is
compared (classic-group-and-migration.md, section 9):

- All clients are Java's. Librdkafka's are played by Java's.
- All members have the same assignor, that of the protocol: votes on assignors of the broker and
  assignors that clients bring along are dropped.
- Records flow (``data_plane``): lag and repeated work are half of what is asked.
- Session timeout and heartbeat interval are those of the scenario's brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from protocol.config import CoordinatorConfig
from protocol.member.kinds import JAVA
from scenarios.errors import ScenarioError, did_you_mean
from scenarios.scenario import Scenario
from sim.spec import ClientSpec

__all__ = [
    "DEFAULT_PROTOCOLS",
    "PROTOCOLS",
    "ComparedProtocol",
    "label_of",
    "split_label",
    "with_protocol",
]

_MARK = "+"
"""Between a profile and a protocol: ``faulty+consumer-range``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedProtocol:
    """What all clients of a scenario speak.

    ``title`` is for headings. ``server_assignor`` is the one that the broker uses,
    ``assignment_interval_ms`` how long it waits between two targets (None: as the scenario has
    it; KIP-1263).
    """

    name: str
    title: str
    server_assignor: str
    assignment_interval_ms: int | None = None

    def client(self, client: ClientSpec) -> ClientSpec:
        """A client that speaks it."""
        return replace(client, kind=JAVA, server_assignor=None, client_assignors=None)

    def config(self, config: CoordinatorConfig) -> CoordinatorConfig:
        """The settings of a broker whose groups speak it."""
        # The first one is what a group without votes gets.
        others = tuple(n for n in config.group_consumer_assignors if n != self.server_assignor)
        config = replace(config, group_consumer_assignors=(self.server_assignor, *others))
        if self.assignment_interval_ms is None:
            return config
        return replace(config, group_consumer_assignment_interval_ms=self.assignment_interval_ms)


PROTOCOLS: Mapping[str, ComparedProtocol] = MappingProxyType(
    {
        protocol.name: protocol
        for protocol in (
            ComparedProtocol(
                name="consumer-uniform",
                title="consumer protocol, assignor uniform",
                server_assignor="uniform",
            ),
            ComparedProtocol(
                name="consumer-range",
                title="consumer protocol, assignor range",
                server_assignor="range",
            ),
            ComparedProtocol(
                name="consumer-uniform-interval-0",
                title="consumer protocol, assignor uniform, a target for each change",
                server_assignor="uniform",
                assignment_interval_ms=0,
            ),
            ComparedProtocol(
                name="consumer-uniform-interval-1000",
                title="consumer protocol, assignor uniform, at most one target a second",
                server_assignor="uniform",
                assignment_interval_ms=1_000,
            ),
        )
    }
)
"""Protocols that can be compared, by name."""

DEFAULT_PROTOCOLS = ("consumer-uniform", "consumer-range")
"""What is compared unless something else is asked for; the first is what the others are held
against."""


def with_protocol(scenario: Scenario, protocol: str) -> Scenario:
    """The same scenario with clients that all speak this protocol.

    Its name and its profile say so. Raises ScenarioError for an unknown protocol.
    """
    spoken = PROTOCOLS.get(protocol)
    if spoken is None:
        raise ScenarioError(f"no protocol {protocol!r}; {did_you_mean(protocol, PROTOCOLS)}")
    world = replace(
        scenario.world,
        clients=tuple(spoken.client(client) for client in scenario.world.clients),
        config=spoken.config(scenario.world.config),
        data_plane=True,
    )
    return replace(
        scenario,
        name=label_of(scenario.name, protocol),
        profile=label_of(scenario.profile, protocol) if scenario.profile else "",
        world=world,
    )


def label_of(profile: str, protocol: str) -> str:
    """How a profile is called whose clients all speak one protocol; the profile's own name if
    ``protocol`` is empty."""
    return f"{profile}{_MARK}{protocol}" if protocol else profile


def split_label(label: str) -> tuple[str, str]:
    """The profile and the protocol of such a name; no protocol is the empty string."""
    profile, _, protocol = label.partition(_MARK)
    return profile, protocol
