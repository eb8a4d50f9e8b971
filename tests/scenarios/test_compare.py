"""The same scenario for another protocol: what changes, and that nothing else does."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, LIBRDKAFKA
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.scenarios.compare import PROTOCOLS as COMPARED
from rebalance_sim.scenarios.compare import protocol_named, with_protocol
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.ownership import OwnershipTrace
from rebalance_sim.scenarios.quiet import quiet_period_ms
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario, parse_scenario
from rebalance_sim.scenarios.variant import Variant
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec
from rebalance_sim.sim.faults.clients import ClientClose
from rebalance_sim.sim.faults.deployments import (
    ClientBounce,
    ClientRedeploy,
    RollingMigration,
    SurgeDeploy,
)
from rebalance_sim.sim.protocol_settings import ONLY_OF
from rebalance_sim.sim.spec import ClientSpec, TopicSpec, WorldSpec
from rebalance_sim.sim.world import World

SEEDS = range(12)
PROTOCOLS = tuple(COMPARED)


def a_world(*clients: ClientSpec, semantics: str = "kafka-4.3") -> Scenario:
    world = WorldSpec(
        seed=1,
        topics=(TopicSpec(name="orders", partition_count=4),),
        clients=clients,
        duration_ms=20_000,
        semantics=semantics,
    )
    return Scenario(name="mine", world=world)


@pytest.mark.parametrize("profile", ["faulty", "whole"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nothing_but_what_clients_speak_changes(profile: str, protocol: str) -> None:
    for seed in SEEDS:
        before = generate(profile, seed).world
        after = generate(Variant(profile, protocol=protocol), seed).world
        others = {"clients": before.clients, "config": before.config, "faults": before.faults}
        others["quiet_period_min_ms"] = 0
        same = replace(after, **others, data_plane=True)
        assert same == replace(before, data_plane=True)
        for one, other in zip(before.clients, after.clients, strict=True):
            assert one.name == other.name
            spoken = ["kind", "client_assignors", "uses_topic_ids", *ONLY_OF]
            if other.kind == CLASSIC:
                spoken += ["metadata_max_age_ms"]
            kept = {name: getattr(one, name) for name in spoken}
            assert replace(other, **kept) == one


def test_runs_of_a_seed_are_equally_long_under_every_protocol() -> None:
    for seed in SEEDS:
        lengths = {
            protocol: quiet_period_ms(generate(Variant("calm", protocol=protocol), seed).world)
            for protocol in PROTOCOLS
        }
        assert len(set(lengths.values())) == 1, lengths


def test_a_quiet_period_that_is_given_is_kept() -> None:
    scenario = a_world(ClientSpec(name="a", topics=("orders",)))
    given = replace(scenario, world=replace(scenario.world, quiet_period_ms=7_000))
    assert quiet_period_ms(with_protocol(given, "eager").world) == 7_000


def told_to_go(scenario: Scenario) -> set[str]:
    """The clients that a fault closes. How long a close takes depends on the protocol, so a later
    fault may find such a client still closing in one run, and gone in the other."""
    gone = set[str]()
    for fault in scenario.world.faults:
        if isinstance(fault, ClientClose):
            gone.add(fault.client)
        elif isinstance(fault, SurgeDeploy):
            gone.update(fault.clients)
    return gone


@cache
def fault_times(profile: str, seed: int) -> Counter[tuple[int, str]]:
    trace = OwnershipTrace()
    run(generate(profile, seed), trace=trace, properties=())
    return Counter(trace.fault_times)


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("protocol", PROTOCOLS[1:])
def test_faults_happen_at_the_same_times_to_the_same_clients(protocol: str) -> None:
    met_by_both = 0
    for seed in SEEDS:
        ours, theirs = (fault_times(f"calm+{name}", seed) for name in (protocol, PROTOCOLS[0]))
        met_by_both += (ours & theirs).total()
        closed = told_to_go(generate(f"calm+{PROTOCOLS[0]}", seed))
        exempt = {f"subscription_change of {client}" for client in closed}
        for at_ms, detail in (ours - theirs) + (theirs - ours):
            assert detail in exempt, f"seed {seed}: {detail} at {at_ms} in one run only"
    assert met_by_both >= 2 * len(SEEDS)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_one_is_deployed_with_another_protocol(protocol: str) -> None:
    found = Counter[str]()
    for seed in range(40):
        found.update(fault.kind for fault in generate("whole", seed).world.faults)
        for fault in generate(Variant("whole", protocol=protocol), seed).world.faults:
            assert not isinstance(fault, RollingMigration)
            if isinstance(fault, ClientRedeploy):
                assert fault.to_kind is fault.assignors is fault.server_assignor is None
    assert found["client_redeploy"] > 0


class RecordedRandom(Random):
    """A stream that remembers what it gave."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.drawn: list[float] = []

    def random(self) -> float:
        value = super().random()
        self.drawn.append(value)
        return value


def draws_of(scenario: Scenario) -> dict[str, list[float]]:
    """What each stream of a world gave in a run, by the name of the stream."""
    world = World(scenario.world, quiet_period_ms=quiet_period_ms(scenario.world))
    world.run()
    return {name: stream.drawn for name, stream in world.streams._streams.items()}  # type: ignore[attr-defined]


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("protocol", PROTOCOLS[1:])
def test_each_actor_draws_the_same_numbers_for_each_concern(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One protocol may draw more often than another, and no one notices but its own stream."""
    monkeypatch.setattr("rebalance_sim.sim.streams.Random", RecordedRandom)
    for seed in SEEDS[:4]:
        base = draws_of(generate(f"faulty+{PROTOCOLS[0]}", seed))
        other = draws_of(generate(f"faulty+{protocol}", seed))
        assert {name.split("/")[0] for name in base} >= {"latency", "callback", "bootstrap"}
        for name in base.keys() & other.keys():
            count = min(len(base[name]), len(other[name]))
            assert base[name][:count] == other[name][:count], name


def test_all_members_have_the_assignor_of_the_protocol() -> None:
    voter = ClientSpec(name="a", topics=("orders",), server_assignor="range")
    other = ClientSpec(name="b", topics=("orders",), kind=LIBRDKAFKA)
    after = with_protocol(a_world(voter, other), "consumer-uniform").world
    assert [client.server_assignor for client in after.clients] == [None, None]
    assert [client.kind for client in after.clients] == [JAVA, JAVA]
    assert after.config.group_consumer_assignors == ("uniform", "range")
    after = with_protocol(a_world(voter, other), "consumer-range").world
    assert after.config.group_consumer_assignors == ("range", "uniform")


@pytest.mark.parametrize(
    ("protocol", "assignors"), [("eager", ("range",)), ("cooperative", ("cooperative-sticky",))]
)
def test_classic_clients_have_the_timings_and_limits_of_consumer_groups(
    protocol: str, assignors: tuple[str, ...]
) -> None:
    scenario = a_world(ClientSpec(name="a", topics=("orders",)))
    config = CoordinatorConfig(
        group_consumer_session_timeout_ms=5_000,
        group_consumer_min_session_timeout_ms=5_000,
        group_consumer_heartbeat_interval_ms=1_000,
        group_consumer_min_heartbeat_interval_ms=1_000,
        group_consumer_max_size=3,
    )
    scenario = replace(scenario, world=replace(scenario.world, config=config))
    after = with_protocol(scenario, protocol).world
    [member] = after.clients
    assert (member.kind, member.assignors) == (CLASSIC, assignors)
    assert (member.session_timeout_ms, member.heartbeat_interval_ms) == (5_000, 1_000)
    assert member.metadata_max_age_ms == 10_000
    assert after.config.group_max_size == 3
    assert after.config.group_min_session_timeout_ms <= 5_000
    assert run(with_protocol(scenario, protocol)).outcome == "ok"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_rolling_migration_is_a_rolling_restart(protocol: str) -> None:
    roll = RollingMigration(
        at_ms=9_000, to_kind=CLASSIC, down_ms=500, gap_ms=100, clients=("a",), graceful=False
    )
    scenario = a_world(ClientSpec(name="a", topics=("orders",)))
    scenario = replace(scenario, world=replace(scenario.world, faults=(roll,)))
    assert with_protocol(scenario, protocol).world.faults == (
        ClientBounce(at_ms=9_000, down_ms=500, gap_ms=100, clients=("a",), graceful=False),
    )


def test_assignors_that_clients_bring_along_are_dropped() -> None:
    own = ClientAssignorsSpec(names=("range",))
    member = ClientSpec(name="a", topics=("orders",), client_assignors=own)
    after = with_protocol(a_world(member, semantics="kip-848"), "consumer-range").world
    assert after.clients[0].client_assignors is None


def test_the_assignment_interval_is_the_scenarios_own_unless_the_protocol_has_one() -> None:
    scenario = a_world(ClientSpec(name="a", topics=("orders",)))
    interval = {
        name: with_protocol(scenario, name).world.config.group_consumer_assignment_interval_ms
        for name in PROTOCOLS
    }
    assert interval["eager"] == interval["consumer-uniform"] == 1_000
    assert interval["consumer-uniform-interval-0"] == 0
    assert interval["consumer-uniform-interval-1000"] == 1_000


def test_a_compared_scenario_says_what_it_is_and_survives_its_file() -> None:
    scenario = generate("faulty@kafka-4.1+consumer-range", 3)
    assert scenario.profile == "faulty@kafka-4.1+consumer-range"
    assert scenario.name == "faulty@kafka-4.1-3+consumer-range"
    assert parse_scenario(dump_scenario(scenario)) == scenario


def test_an_unknown_protocol_is_named_with_what_was_meant() -> None:
    with pytest.raises(ScenarioError, match=r"no protocol 'consumer-rang'.*'consumer-range'\?"):
        generate("faulty+consumer-rang", 1)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("consumer-unifrom:mut-early-grant", "no protocol 'consumer-unifrom'; did you mean"),
        ("consumer-uniform:mut-early-grnt", "no rule 'mut-early-grnt'; did you mean 'mut-early-gr"),
        ("consumer-uniform:", "no rule ''"),
    ],
)
def test_a_protocol_with_a_rule_that_there_is_not_is_refused(name: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        protocol_named(name)


def test_a_protocol_may_have_a_rule_beside_those_of_the_scenario() -> None:
    scenario = generate("calm", 1)
    scenario = replace(scenario, world=replace(scenario.world, defects=("mut-no-recompute",)))
    spoken = with_protocol(scenario, "consumer-uniform:mut-early-grant")
    assert spoken.world.defects == ("mut-early-grant", "mut-no-recompute")
    assert with_protocol(scenario, "consumer-uniform").world.defects == ("mut-no-recompute",)
    assert "Grant before the owner" in protocol_named("consumer-uniform:mut-early-grant").title
