"""A profile and a seed make one legal scenario, the same one everywhere."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.protocol.hosting.offsets_topic import partition_for
from rebalance_sim.scenarios.codec import kind_of
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate import generator
from rebalance_sim.scenarios.generate.coincidences import COINCIDENCES
from rebalance_sim.scenarios.generate.departures import gone_for_good
from rebalance_sim.scenarios.generate.generator import generate_from
from rebalance_sim.scenarios.profile import (
    CoincidenceRule,
    FaultRule,
    Profile,
    load_profile,
    parse_profile,
)
from rebalance_sim.scenarios.profile_file import PROFILES
from rebalance_sim.scenarios.quiet import quiet_period_ms
from rebalance_sim.scenarios.runner import run
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash, ClientPause
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.deployments import ClientRedeploy, FleetRestart, SurgeDeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.protocol_settings import ONLY_OF

SEEDS = range(200)
FEWER_SEEDS = range(80)
"""Where each of many kinds is drawn for itself."""

generate = cache(generator.generate)
"""Many tests look at the same scenarios."""

MANY_SEEDS = range(1_000)
"""For what one run in fifty reaches: 200 seeds would miss it once in fifty changes of the model."""


def _hashes(hash_seed: str) -> str:
    code = (
        "from rebalance_sim.scenarios.generate.generator import generate\n"
        "for profile in ('calm', 'faulty', 'chaos', 'operations', 'groups', 'client_assignors'):\n"
        "    print([generate(profile, seed).hash for seed in range(30)])\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_a_seed_makes_the_same_scenario_in_every_process() -> None:
    first = _hashes("1")
    assert first == _hashes("2")
    assert first.splitlines()[0] == str([generate("calm", seed).hash for seed in range(30)])


@given(st.sampled_from(PROFILES), st.integers(0, 2**63))
def test_every_seed_makes_a_legal_scenario(profile: str, seed: int) -> None:
    scenario = generate(profile, seed)  # A Scenario checks itself when it is made.
    assert scenario.seed == seed
    assert scenario.profile == profile
    config = scenario.world.config
    assert (
        2 * config.group_consumer_heartbeat_interval_ms < config.group_consumer_session_timeout_ms
    )


@given(st.sampled_from(PROFILES), st.integers(0, 2**63))
def test_somebody_is_there_at_the_end(profile: str, seed: int) -> None:
    world = generate(profile, seed).world
    gone = gone_for_good(world.faults)
    assert len(gone) < len(world.clients)


def test_seeds_differ_from_each_other() -> None:
    assert len({generate("faulty", seed).hash for seed in SEEDS}) == len(SEEDS)


def test_every_seed_has_its_own_subset_of_faults() -> None:
    subsets = Counter(
        frozenset(kind_of(type(fault)) for fault in generate("faulty", seed).world.faults)
        for seed in SEEDS
    )
    assert len(subsets) > len(SEEDS) / 2
    assert max(len(subset) for subset in subsets) < len(Fault.kinds())


@pytest.mark.slow
def test_the_profiles_reach_every_kind_of_fault_between_them() -> None:
    seen = {
        kind_of(type(fault))
        for profile in PROFILES
        for seed in SEEDS
        for fault in generate(profile, seed).world.faults
    }
    assert seen == set(Fault.kinds())


def test_every_fault_of_the_world_can_be_asked_for() -> None:
    assert list(Fault.kinds()) == sorted(kind_of(kind) for kind in Fault.kinds().values())


def test_chaos_has_more_faults_than_faulty_and_faulty_more_than_calm() -> None:
    profiles = ("calm", "faulty", "chaos")
    counts = [sum(len(generate(p, s).world.faults) for s in SEEDS) for p in profiles]
    assert counts == sorted(counts)
    assert counts[1] > 1.5 * counts[0]
    assert counts[2] > 1.5 * counts[1]


def test_calm_scenarios_hold_planned_changes_only() -> None:
    kinds = {kind_of(type(f)) for seed in SEEDS for f in generate("calm", seed).world.faults}
    planned = {"client_close", "client_bounce", "subscription_change", "topic_grow", "topic_create"}
    assert kinds == planned | {"client_redeploy", "fleet_restart", "surge_deploy"}
    found = [f for seed in SEEDS for f in generate("calm", seed).world.faults]
    assert all(f.graceful for f in found if isinstance(f, ClientRedeploy | FleetRestart))


def test_who_replaces_others_is_not_gone() -> None:
    replaced = SurgeDeploy(at_ms=5_000, clients=("a",), successors=("b",))
    faults = (ClientClose(at_ms=1_000, client="b"), replaced)
    assert gone_for_good(faults) == {"a"}
    faults += (
        ClientCrash(at_ms=9_000, client="b"),
        ClientCrash(at_ms=9_000, client="c", down_ms=1),
    )
    assert gone_for_good(faults) == {"a", "b"}


def test_half_of_a_group_is_left_after_a_surge() -> None:
    found = 0
    for seed in SEEDS:
        world = generate("calm", seed).world
        for fault in world.faults:
            if isinstance(fault, SurgeDeploy):
                found += 1
                assert len(fault.clients) - len(fault.successors) in (0, 1)
                assert set(fault.clients) <= gone_for_good(world.faults)
    assert found > len(SEEDS) / 20


def test_production_wants_two_replicas_in_sync_and_loses_no_committed_record_on_purpose() -> None:
    worlds = [generate("production", seed).world for seed in SEEDS]
    assert {world.brokers.min_insync_replicas for world in worlds} == {2}
    assert "unclean_election" not in {kind_of(type(f)) for w in worlds for f in w.faults}
    usual = Counter(generate("faulty", seed).world.brokers.min_insync_replicas for seed in SEEDS)
    assert usual[1] > usual[2] > len(SEEDS) / 10


def test_zones_change_nothing_but_where_everything_is_and_how_far() -> None:
    profile = load_profile("production")
    zones = [replace(profile, features=replace(profile.features, zones=share)) for share in (0, 1)]
    for seed in range(5):
        without, with_zones = (generate_from(one, seed).world for one in zones)
        assert {client.rack for client in with_zones.clients} == {"zone-a", "zone-b", "zone-c"}
        assert set(with_zones.brokers.racks) == {"zone-a", "zone-b", "zone-c"}
        assert with_zones.network.between_racks_ms > 0
        assert {topic.replication_factor for topic in with_zones.topics} == {3}
        nowhere = replace(
            with_zones,
            clients=tuple(replace(client, rack="") for client in with_zones.clients),
            brokers=replace(with_zones.brokers, racks=()),
            network=replace(with_zones.network, between_racks_ms=0),
            topics=tuple(replace(topic, replication_factor=1) for topic in with_zones.topics),
        )
        assert nowhere == without


def test_librdkafka_clients_change_nothing_but_kinds() -> None:
    profile = load_profile("faulty")
    features = replace(profile.features, librdkafka_clients=0.0, topic_ids_in_offsets=0.0)
    profile = replace(profile, features=features)
    mixed = replace(profile, features=replace(features, librdkafka_clients=1.0))
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        old, new = generate_from(profile, seed), generate_from(mixed, seed)
        assert {client.kind for client in old.world.clients} == {"java"}
        kinds.update(client.kind for client in new.world.clients)
        clients = tuple(replace(client, kind="java") for client in new.world.clients)
        assert replace(new.world, clients=clients) == old.world
    assert set(kinds) == {"java", "librdkafka"}
    assert kinds["librdkafka"] > kinds.total() / 3


def test_batches_leave_all_else_as_it_was() -> None:
    profile = load_profile("operations")
    without = replace(profile, features=replace(profile.features, append_linger=0.0))
    lingers = set()
    for seed in SEEDS:
        world, plain = generate_from(profile, seed).world, generate_from(without, seed).world
        lingers.add(world.config.group_coordinator_append_linger_ms)
        assert plain.config.group_coordinator_append_linger_ms == 0
        config = replace(world.config, group_coordinator_append_linger_ms=0)
        assert replace(world, config=config) == plain
    assert {-1, 0} < lingers


_BRING_OTHERS = (
    "group_delete",
    "members_remove",
    "offsets_alter",
    "offsets_delete",
    "offsets_list",
    "surge_deploy",
)
"""Kinds that are drawn together with faults of other kinds."""


@pytest.mark.parametrize("dropped", [0, 3, 10])
def test_dropping_one_rule_leaves_all_other_faults_as_they_were(dropped: int) -> None:
    # Clients that leave for good are distinguished across rules, so those rules stay.
    profile = load_profile("faulty")
    rules = tuple(
        replace(rule, forever_probability=0.0)
        for rule in profile.faults
        if rule.kind not in _BRING_OTHERS
    )
    profile = replace(profile, faults=rules, coincidences=())
    kind = rules[dropped].kind
    without = replace(profile, faults=tuple(rule for rule in rules if rule.kind != kind))
    for seed in SEEDS:
        all_faults = generate_from(profile, seed).world.faults
        rest = tuple(fault for fault in all_faults if kind_of(type(fault)) != kind)
        assert generate_from(without, seed).world.faults == rest


def test_further_groups_leave_the_clients_of_the_first_as_they_were() -> None:
    profile = load_profile("faulty")
    # What a slow client processes is a share of all that is produced, among all clients.
    quick = replace(profile.features, data_plane=0.0, high_rate=0.0, slow_processing=0.0)
    features = replace(quick, several_groups=1.0, full_group=0.0)
    profile = replace(profile, features=replace(features, several_groups=0.0))
    several = replace(profile, features=features)
    for seed in SEEDS:
        alone = generate_from(profile, seed).world
        world = generate_from(several, seed).world
        assert tuple(c for c in world.clients if c.group_id is None) == alone.clients
        assert 2 <= len(world.group_ids) <= 3
        assert world.config == alone.config


def test_groups_share_partitions_in_some_seeds_and_have_their_own_in_others() -> None:
    shared = Counter()
    for seed in SEEDS:
        world = generate("groups", seed).world
        count = world.brokers.offsets_partition_count
        places = [partition_for(group_id, count) for group_id in world.group_ids]
        if count > 1 < len(places):
            shared[len(set(places)) < len(places)] += 1
    assert min(shared[True], shared[False]) > 20


def test_faults_name_partitions_where_there_are_several() -> None:
    named = Counter()
    for seed in SEEDS:
        world = generate("groups", seed).world
        for fault in world.faults:
            partition = getattr(fault, "offsets_partition", None)
            named[kind_of(type(fault))] += partition is not None
            assert partition is None or world.brokers.offsets_partition_count > 1
    hit_leaders = {
        "broker_crash",
        "broker_host_loss",
        "broker_isolation",
        "broker_metadata_lag",
        "broker_pause",
        "clock_step",
        "coordinator_move",
        "coordinator_stall",
        "log_compaction",
        "log_tail_loss",
        "partial_partition",
        "unclean_election",
        "zombie_leader",
    }
    assert {kind for kind, count in named.items() if count} == hit_leaders


def test_client_side_assignors_leave_all_else_as_it_was() -> None:
    profile = load_profile("client_assignors")
    without = replace(profile, features=replace(profile.features, client_assignors=0.0))
    for seed in SEEDS:
        world = generate_from(profile, seed).world
        assert any(client.client_assignors for client in world.clients)
        plain = generate_from(without, seed).world
        votes = {client.name: client.server_assignor for client in plain.clients}
        clients = tuple(
            replace(client, client_assignors=None, server_assignor=votes[client.name])
            for client in world.clients
        )
        assert quiet_period_ms(world) > quiet_period_ms(plain)
        assert replace(world, clients=clients) == plain


def test_whoever_offers_client_side_assignors_has_no_vote_on_those_of_the_broker() -> None:
    for seed in SEEDS:
        for client in generate("client_assignors", seed).world.clients:
            assert client.client_assignors is None or client.server_assignor is None


def test_applications_with_client_side_assignors_differ() -> None:
    seen: Counter[str] = Counter()
    for seed in SEEDS:
        clients = generate("client_assignors", seed).world.clients
        offers = [client.client_assignors for client in clients]
        there = [offer for offer in offers if offer is not None]
        names = {frozenset(offer.names) for offer in there}
        assert len(names) == 1  # One application runs one program.
        processes = [offer.streams.process_id for offer in there if offer.streams]
        seen["streams"] += "streams" in there[0].names
        seen["without streams"] += "streams" not in there[0].names
        seen["some offer none"] += None in offers
        seen["rolling upgrade"] += len({offer.maximum_version for offer in there}) > 1
        seen["slow member"] += len({offer.compute for offer in there}) > 1
        seen["shared process"] += len(set(processes)) < len(processes)
        seen["orders differ"] += len({offer.names for offer in there}) > 1
    assert min(seen.values()) > 5, seen


@pytest.mark.parametrize("name", ["kafka-4.3", "kafka-4.1"])
def test_client_side_assignors_need_the_text_of_the_kip(name: str) -> None:
    profile = load_profile("client_assignors")
    with pytest.raises(ScenarioError, match=rf"semantics: '{name}' has no client-side assignors"):
        replace(profile, semantics=("kip-848", name))


COINCIDENT = replace(load_profile("faulty"), coincidences=())
CLASSIC_COINCIDENT = replace(load_profile("classic"), coincidences=())

OF_CLASSIC_GROUPS = {
    "conversion_and_load",
    "missed_conversion",
    "missed_generation",
    "retention_over",
    "seat_of_pattern",
    "static_again_in_rebalance",
}


def coincident(kind: str) -> Profile:
    """A profile with clients that the coincidence is about, and without any."""
    return CLASSIC_COINCIDENT if kind in OF_CLASSIC_GROUPS else COINCIDENT


def with_coincidence(kind: str, probability: float = 1.0) -> Profile:
    """The profile with this coincidence, and no other."""
    rule = CoincidenceRule(kind=kind, probability=probability)
    return replace(coincident(kind), coincidences=(rule,))


def _bare(fault: Fault) -> Fault:
    """Without what a world keeps only if its client speaks a protocol that has it."""
    return replace(fault, **dict.fromkeys(ONLY_OF)) if isinstance(fault, ClientRedeploy) else fault


@pytest.mark.quick_one_of(3)
@pytest.mark.parametrize("kind", COINCIDENCES)
def test_a_coincidence_adds_faults_and_moves_none(kind: str) -> None:
    added = 0
    for seed in FEWER_SEEDS:
        before = Counter(map(_bare, generate_from(coincident(kind), seed).world.faults))
        after = Counter(map(_bare, generate_from(with_coincidence(kind), seed).world.faults))
        assert before <= after
        added += (after - before).total()
    assert added >= len(FEWER_SEEDS)


def test_every_coincidence_is_of_some_profile() -> None:
    drawn = {rule.kind for name in PROFILES for rule in load_profile(name).coincidences}
    assert drawn == set(COINCIDENCES)


def test_some_full_groups_have_a_seat_for_each_client() -> None:
    profile = replace(
        COINCIDENT,
        features=replace(
            COINCIDENT.features, full_group=1.0, static_members=0.0, shared_instances=0.0
        ),
    )
    worlds = [generate_from(profile, seed).world for seed in SEEDS]
    instances = [{client.instance_id for client in world.clients} for world in worlds]
    assert [ids for ids in instances if None in ids and len(ids) > 1] == []
    static = sum(None not in ids for ids in instances)
    assert len(SEEDS) // 3 < static < 2 * len(SEEDS) // 3


def test_one_limit_has_seats_to_spare_where_they_lie_apart() -> None:
    for share in (0.0, 1.0):
        features = replace(COINCIDENT.features, full_group=1.0, limits_apart=share)
        profile = replace(COINCIDENT, features=features)
        for seed in SEEDS:
            world = generate_from(profile, seed).world
            groups = Counter(client.group_id for client in world.clients)
            limits = sorted((world.config.group_max_size, world.config.group_consumer_max_size))
            assert limits[0] == max(groups.values())
            assert (limits[1] > limits[0]) is (share == 1.0)


def test_some_brokers_load_slowly() -> None:
    worlds = [generate_from(COINCIDENT, seed).world for seed in SEEDS]
    slow = sum(world.brokers.load.max_ms >= 500 for world in worlds)
    assert len(SEEDS) // 10 < slow < len(SEEDS) // 2


def test_an_unknown_coincidence_is_told_with_its_place() -> None:
    with pytest.raises(ScenarioError, match=r"coincidences\[0\]\.kind: .*'leave_after_pause'"):
        generate_from(with_coincidence("leave_after_paws"), 1)


def test_two_clients_share_an_instance_id_where_the_seed_says_so() -> None:
    profile = replace(
        COINCIDENT, features=replace(COINCIDENT.features, shared_instances=1.0, static_members=0.5)
    )
    for seed in SEEDS:
        world = generate_from(profile, seed).world
        ids = Counter(client.instance_id for client in world.clients if client.instance_id)
        assert sorted(ids.values(), reverse=True)[0] == 2
        assert sum(count == 2 for count in ids.values()) == 1
        (shared,) = [instance for instance, count in ids.items() if count == 2]
        namesakes = {client.name for client in world.clients if client.instance_id == shared}
        pauses = {fault.client for fault in world.faults if isinstance(fault, ClientPause)}
        assert namesakes <= pauses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "counters"),
    [
        ("changes_within_interval", ["reconciliation.STABLE.UNSUBSCRIBED_HELD"]),
        ("leave_after_pause", ["situation.fenced_while_leaving"]),
        (
            "cut_off_while_reconciling",
            [
                "client.transition.ACKNOWLEDGING>PREPARE_LEAVING",
                "client.transition.ACKNOWLEDGING>FENCED",
            ],
        ),
        ("rejoin_with_less", ["reconciliation.STABLE.UNSUBSCRIBED_RELEASED"]),
        ("subscribe_while_revoking", ["reconciliation.UNREVOKED_PARTITIONS.UNSUBSCRIBED_HELD"]),
    ],
)
def test_a_coincidence_reaches_what_it_is_there_for(kind: str, counters: list[str]) -> None:
    missing = set(counters)
    for seed in MANY_SEEDS:
        missing -= set(run(generate_from(with_coincidence(kind), seed)).coverage)
        if not missing:
            break
    assert missing == set()


def test_an_unknown_profile_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ScenarioError, match=r"no profile 'fualty'; did you mean 'faulty'\?"):
        generate("fualty", 1)


def test_an_unknown_kind_of_fault_in_a_profile_is_told_with_its_place() -> None:
    profile = load_profile("calm")
    wrong = replace(profile, faults=(FaultRule(kind="client_crush", probability=1.0),))
    with pytest.raises(ScenarioError, match=r"faults\[0\]\.kind: no such kind: 'client_crush'"):
        generate_from(wrong, 1)


def test_a_range_that_runs_backwards_is_told_with_its_place() -> None:
    text = """
        name = "x"
        description = "y"
        [sizes]
        clients = [6, 2]
        topics = [1, 1]
        partitions = [1, 1]
        brokers = [1]
    """
    with pytest.raises(ScenarioError, match=r"sizes\.clients: must be two numbers in order"):
        parse_profile(text)


def test_a_fault_that_cannot_be_drawn_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object) -> None:
        raise LookupError("boo")

    monkeypatch.setattr(ClientCrash, "drawn", drawn)
    profile = load_profile("calm")
    wrong = replace(profile, faults=(FaultRule(kind="client_crash", probability=1.0),))
    with pytest.raises(
        ScenarioError, match=r"faults\.client_crash: cannot be drawn: LookupError: boo"
    ):
        generate_from(wrong, 1)


def test_where_there_are_transactions_both_kinds_of_coordinators_move() -> None:
    moved: Counter[str] = Counter()
    for seed in SEEDS:
        world = generate("transactions", seed).world
        has_transactions = any(client.transactions for client in world.clients)
        for fault in world.faults:
            if isinstance(fault, CoordinatorMove):
                is_of_them = fault.transaction_state_partition is not None
                assert has_transactions or not is_of_them
                moved["transactions" if is_of_them else "groups"] += has_transactions
    assert min(moved["transactions"], moved["groups"]) > 20
