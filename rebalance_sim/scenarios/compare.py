"""The same scenario for another rebalance protocol: what a comparison runs, protocol by protocol.

``with_protocol(scenario, "cooperative")`` changes what clients speak, and nothing else: topics,
clients, their times and callbacks, faults, network, brokers and seed stay. Random streams belong
to a concern and an actor, so that the draws of the one protocol are those of the other.

What only some protocols know is made alike for all of them, so that one and the same thing is
compared (classic §9):

- All clients are Java's. Librdkafka's are played by Java's.
- All members have the same assignor, that of the protocol: votes on assignors of the broker and
  assignors that clients bring along are dropped. A pattern is matched by the part that matches
  patterns in the protocol: the broker, or each client.
- Session timeout, heartbeat interval and the largest size of a group are those that the scenario's
  brokers have for consumer groups.
- Clients that have to look for new partitions themselves do so every ten seconds, if not more
  often: with Kafka's five minutes a run of one or two would be over before that.
- Offset requests name topics neither by id nor by name (``ClientSpec.uses_topic_ids`` None).
- A rolling deployment that would change the protocol restarts clients and changes nothing.
- Records flow (``data_plane``): lag and repeated work are half of what is asked.
- The quiet period is the longest that any of ``PROTOCOLS`` calls for (``quiet_period_min_ms``):
  heartbeats, commits and lag add up in it, and that of a classic group is two rebalance timeouts
  longer.

Changes of settings that are those of consumer groups (``group_config_change``) stay in the schedule
and mean nothing to classic groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA
from rebalance_sim.protocol.clients.versions import version_in
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.quiet import called_for_ms
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.spec import ClientSpec, WorldSpec

_METADATA_MAX_AGE_MS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedProtocol:
    """What all clients of a scenario speak.

    ``title`` is for headings. ``classic_assignors`` is ``partition.assignment.strategy`` of
    clients that speak the classic protocol; without it they speak the consumer protocol, where the
    broker uses ``server_assignor`` and waits ``assignment_interval_ms`` between two targets (None:
    as long as the scenario says; KIP-1263). ``rules`` of plug-ins, or defects, are switched on
    beside those of the scenario.
    """

    name: str
    title: str
    classic_assignors: tuple[str, ...] = ()
    server_assignor: str = "uniform"
    assignment_interval_ms: int | None = None
    rules: tuple[str, ...] = ()

    def client(self, client: ClientSpec, config: CoordinatorConfig) -> ClientSpec:
        """A client that speaks it, to brokers with these settings."""
        alike = replace(
            client,
            kind=JAVA,
            version=version_in(JAVA, client.version),
            server_assignor=None,
            client_assignors=None,
            uses_topic_ids=None,
            greedy_auto_commit=False,
        )
        if not self.classic_assignors:
            return alike
        return replace(
            alike,
            kind=CLASSIC,
            assignors=self.classic_assignors,
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            metadata_max_age_ms=min(client.metadata_max_age_ms, _METADATA_MAX_AGE_MS),
        )

    def config(self, config: CoordinatorConfig) -> CoordinatorConfig:
        """The settings of a broker whose groups speak it."""
        session_ms = config.group_consumer_session_timeout_ms
        # The first assignor is what a group without votes gets.
        others = tuple(n for n in config.group_consumer_assignors if n != self.server_assignor)
        config = replace(
            config,
            group_consumer_assignors=(self.server_assignor, *others),
            group_max_size=config.group_consumer_max_size,
            group_min_session_timeout_ms=min(config.group_min_session_timeout_ms, session_ms),
            group_max_session_timeout_ms=max(config.group_max_session_timeout_ms, session_ms),
        )
        if self.assignment_interval_ms is None:
            return config
        return replace(config, group_consumer_assignment_interval_ms=self.assignment_interval_ms)


PROTOCOLS: Mapping[str, ComparedProtocol] = MappingProxyType(
    {
        protocol.name: protocol
        for protocol in (
            ComparedProtocol(
                name="eager",
                title="classic protocol, eager: the client assignor `range`",
                classic_assignors=("range",),
            ),
            ComparedProtocol(
                name="cooperative",
                title="classic protocol, cooperative: the client assignor `cooperative-sticky`",
                classic_assignors=("cooperative-sticky",),
            ),
            ComparedProtocol(
                name="consumer-uniform",
                title="consumer protocol of KIP-848 with the broker's assignor `uniform`",
            ),
            ComparedProtocol(
                name="consumer-range",
                title="consumer protocol with the broker's assignor `range`",
                server_assignor="range",
            ),
            ComparedProtocol(
                name="consumer-uniform-interval-0",
                title="as `consumer-uniform`, with a new target for each change at once",
                assignment_interval_ms=0,
            ),
            ComparedProtocol(
                name="consumer-uniform-interval-1000",
                title="as `consumer-uniform`, with at most one new target a second",
                assignment_interval_ms=1_000,
            ),
        )
    }
)
"""Protocols that can be compared, by name."""


def protocol_named(name: str) -> ComparedProtocol:
    """One of ``PROTOCOLS``, or one with rules of plug-ins: ``consumer-uniform:my-rule``.

    Raises ScenarioError for a protocol or a rule that there is not.
    """
    protocol, *rules = name.split(":") if isinstance(name, str) else [name]
    spoken = PROTOCOLS.get(protocol)
    if spoken is None:
        raise ScenarioError(f"no protocol {protocol!r}; {did_you_mean(protocol, PROTOCOLS)}")
    for rule in rules:
        if rule not in DEFECTS:
            raise ScenarioError(
                f"protocol {name!r}: no rule {rule!r}; {did_you_mean(rule, DEFECTS)}"
            )
    if not rules:
        return spoken
    titles = "; ".join(f"{rule}: {DEFECTS[rule].title}" for rule in rules)
    return replace(spoken, name=name, title=f"{spoken.title}, with {titles}", rules=tuple(rules))


def with_protocol(scenario: Scenario, protocol: str) -> Scenario:
    """The same scenario with clients that all speak this protocol.

    Its name and its profile say so. Raises ScenarioError for an unknown protocol.
    """
    spoken = protocol_named(protocol)
    world = scenario.world
    longest_ms = max(called_for_ms(_speaking(world, one)) for one in PROTOCOLS.values())
    world = replace(
        _speaking(world, spoken),
        quiet_period_min_ms=max(world.quiet_period_min_ms, longest_ms),
    )
    return replace(
        scenario,
        name=f"{scenario.name}+{protocol}",
        profile=f"{scenario.profile}+{protocol}" if scenario.profile else "",
        world=world,
    )


def _speaking(world: WorldSpec, spoken: ComparedProtocol) -> WorldSpec:
    return replace(
        world,
        clients=tuple(spoken.client(client, world.config) for client in world.clients),
        config=spoken.config(world.config),
        faults=tuple(fault.among_alike() for fault in world.faults),
        defects=tuple(sorted({*world.defects, *spoken.rules})),
        data_plane=True,
    )
