"""The profiles of classic groups and of migration draw what they say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.clients.common.client_kind import GroupProtocol
from rebalance_sim.protocol.runtime.coordinator_config import MIGRATION_POLICIES
from rebalance_sim.scenarios.generate.generator import generate, generate_from
from rebalance_sim.scenarios.profile import load_profile
from rebalance_sim.sim.faults.deployments import RollingMigration
from rebalance_sim.sim.protocol_settings import protocols_spoken
from rebalance_sim.sim.spec import ClientSpec, WorldSpec

SEEDS = range(120)
COOPERATIVE = ("cooperative-sticky",)


def worlds(profile: str) -> list[WorldSpec]:
    """What the first seeds make."""
    return [generate(profile, seed).world for seed in SEEDS]


def rolls(world: WorldSpec) -> list[RollingMigration]:
    """The deployments that change clients, in their order."""
    return [fault for fault in world.faults if isinstance(fault, RollingMigration)]


def is_cooperative(client: ClientSpec) -> bool:
    """Whether every assignor it has can do it (classic §3.1)."""
    return all(CLASSIC_ASSIGNORS[name].supports_cooperative for name in client.assignors)


def test_classic_groups_are_eager_and_stay_classic() -> None:
    found = worlds("classic")
    clients = [client for world in found for client in world.clients]
    kinds = Counter(client.kind for client in clients)
    assert set(kinds) == {"classic", "librdkafka-classic"}
    assert kinds["classic"] > len(clients) / 2
    assert not any(is_cooperative(client) for client in clients)
    assert len({client.assignors for client in clients}) > 4
    assert not any(rolls(world) for world in found)


def classic_at_some_time(world: WorldSpec, group_id: str | None = None) -> list[ClientSpec]:
    spoken = protocols_spoken(world.clients, world.faults)
    found = [client for client in world.clients if GroupProtocol.CLASSIC in spoken[client.name]]
    return [client for client in found if group_id in (None, world.group_of(client))]


def test_the_clients_of_a_group_agree_on_some_assignor() -> None:
    for profile in ("classic", "cooperative", "migration", "librdkafka_classic"):
        for world in worlds(profile):
            for group_id in world.group_ids:
                lists = [c.assignors for c in classic_at_some_time(world, group_id)]
                assert not lists or set.intersection(*map(set, lists)), (profile, world.seed)


def test_cooperative_groups_are_cooperative_or_learn_it_in_two_rounds() -> None:
    found = worlds("cooperative")
    clients = [client for world in found for client in world.clients]
    cooperative = sum(is_cooperative(client) for client in clients)
    assert 0.5 * len(clients) < cooperative < len(clients)
    learning = [deployed for world in found if len(deployed := rolls(world)) == 2]
    assert learning
    for first, second in learning:
        assert first.assignors[0] == COOPERATIVE[0]
        assert second.assignors == COOPERATIVE
        assert first.clients == second.clients
    assert {roll.to_kind for world in found for roll in rolls(world)} == {"classic"}


def test_migrating_groups_go_both_ways_under_every_policy_and_with_every_library() -> None:
    found = worlds("migration")
    kinds = [{client.kind for client in world.clients} for world in found]
    assert {frozenset(of_world) for of_world in kinds} >= {
        frozenset({"classic"}),
        frozenset({"java"}),
        frozenset({"classic", "java"}),
    }
    deployed = [roll for world in found for roll in rolls(world)]
    assert {roll.to_kind for roll in deployed} == {"java", "librdkafka", "classic"}
    assert any(roll.graceful for roll in deployed)
    assert not all(roll.graceful for roll in deployed)
    policies = [world.config.group_consumer_migration_policy for world in found]
    assert set(policies) == set(MIGRATION_POLICIES)
    assert policies.count("bidirectional") > len(policies) / 2


def test_librdkafka_groups_have_lists_that_the_library_takes_and_change_over_to_both() -> None:
    found = worlds("librdkafka_classic")
    clients = [client for world in found for client in world.clients]
    kinds = Counter(client.kind for client in clients)
    assert kinds["librdkafka-classic"] > len(clients) / 2
    assert kinds["classic"] and kinds["librdkafka"], "some groups have both libraries, or protocols"
    lists = {client.assignors for client in clients if client.kind == "librdkafka-classic"}
    assert COOPERATIVE in lists
    assert {name for names in lists if names != COOPERATIVE for name in names} == {
        "range",
        "roundrobin",
    }
    deployed = [roll for world in found for roll in rolls(world)]
    assert {roll.to_kind for roll in deployed} == {"librdkafka", "librdkafka-classic"}


def test_the_library_of_classic_clients_changes_nothing_else_of_a_seed() -> None:
    profile = load_profile("classic")
    # Of a deployment the library is drawn by what the client can take.
    rules = tuple(rule for rule in profile.faults if rule.kind != "client_redeploy")
    features = replace(profile.features, librdkafka_classic=0.0, librdkafka_clients=0.0)
    profile = replace(profile, features=features, faults=rules)
    theirs = replace(profile, features=replace(features, librdkafka_classic=1.0))
    for seed in SEEDS:
        java, other = generate_from(profile, seed).world, generate_from(theirs, seed).world
        assert {client.kind for client in other.clients} == {"librdkafka-classic"}
        clients = tuple(
            replace(mine, kind=its.kind, assignors=its.assignors)
            for mine, its in zip(other.clients, java.clients, strict=True)
        )
        assert replace(other, clients=clients) == java


def test_a_classic_client_hears_of_a_rebalance_before_it_is_over() -> None:
    """Else it is thrown out of each generation, and starts the next one."""
    for profile in ("classic", "cooperative", "migration", "librdkafka_classic"):
        for world in worlds(profile):
            for client in classic_at_some_time(world):
                assert 3 * client.heartbeat_interval_ms <= client.max_poll_interval_ms
                assert 2 * client.heartbeat_interval_ms <= client.session_timeout_ms
