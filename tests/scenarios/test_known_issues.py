"""What a version is known for without being switched on: a sweep continues, and counts it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.known.known_issues import KNOWN_ISSUES
from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.versions.shared_defects import EVERY_VERSION
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.result import RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.faults.clients import ClientClose
from rebalance_sim.sim.spec import (
    BrokerSpec,
    ClientSpec,
    DelaySpec,
    NetworkSpec,
    TopicSpec,
    WorldSpec,
)

SESSION_MS, INTERVAL_MS = 10_000, 3_000
CONFIG = CoordinatorConfig(
    group_consumer_session_timeout_ms=SESSION_MS,
    group_consumer_min_session_timeout_ms=SESSION_MS,
    group_consumer_max_session_timeout_ms=SESSION_MS,
    group_consumer_heartbeat_interval_ms=INTERVAL_MS,
    group_consumer_min_heartbeat_interval_ms=INTERVAL_MS,
    group_consumer_assignment_interval_ms=0,
)


def client(name: str, *topics: str, start_ms: int = 0) -> ClientSpec:
    """A client that is away from ``poll`` for twenty milliseconds at a time."""
    return ClientSpec(
        name=name,
        topics=topics,
        start_ms=start_ms,
        processing_ms=20,
        max_poll_interval_ms=30_000,
        request_timeout_ms=5_000,
    )


FOUR_JOIN = WorldSpec(
    seed=298,
    semantics="kip-848",
    topics=(
        TopicSpec(name="orders", partition_count=1),
        TopicSpec(name="payments", partition_count=3),
        TopicSpec(name="shipments", partition_count=3),
    ),
    clients=(
        replace(client("client-00", "orders", "payments", start_ms=302), server_assignor="range"),
        replace(client("client-01", "shipments"), server_assignor="uniform"),
        replace(
            client("client-02", "orders", "shipments"),
            server_assignor="range",
            instance_id="instance-02",
        ),
        replace(
            client("client-03", "orders", "shipments", start_ms=391),
            server_assignor="uniform",
        ),
    ),
    config=CONFIG,
    network=NetworkSpec(latency=DelaySpec(min_ms=1)),
    brokers=BrokerSpec(count=1, replication=DelaySpec(min_ms=1, max_ms=4)),
    duration_ms=392,
    quiet_period_ms=60_000,
)
"""Nothing goes wrong here: four clients start within half a second."""


def outcome(world: WorldSpec, *, without: str = "") -> RunResult:
    """The run of this world; ``without``: a property that no known issue is known to violate."""
    known = {
        issue: tuple(id_ for id_ in ids if id_ != without) for issue, ids in KNOWN_ISSUES.items()
    }
    return run(
        Scenario(name="limit", world=world),
        make_watcher=lambda view: Checker(view, known_issues=known),
    )


def test_a_grant_behind_the_back_of_a_member_is_known_of_the_text() -> None:
    result = outcome(FOUR_JOIN)
    assert (result.outcome, set(result.known)) == ("known", {"sim-unheard-grant"}), result.reason


def test_it_would_be_a_stuck_group_if_it_were_not_known() -> None:
    result = outcome(FOUR_JOIN, without="liveness.converges")
    assert result.outcome == "stuck"
    assert result.violations[0].property == "liveness.converges"


@pytest.mark.parametrize("version", ["kafka-4.1", "kafka-4.3"])
def test_brokers_that_grant_in_the_heartbeat_of_the_receiver_have_none_of_it(version: str) -> None:
    assert outcome(replace(FOUR_JOIN, semantics=version)).outcome == "ok"


PATTERN_JOINS_BEHIND = WorldSpec(
    seed=1,
    topics=(
        TopicSpec(name="orders", partition_count=4),
        TopicSpec(name="other", partition_count=2),
    ),
    clients=(
        client("b", "orders"),
        client("c", "orders"),
        replace(client("d", start_ms=8_010), topic_regex="oth.*"),
    ),
    config=CONFIG,
    network=NetworkSpec(latency=DelaySpec(min_ms=1)),
    duration_ms=20_000,
    quiet_period_ms=60_000,
    faults=(ClientClose(at_ms=8_000, client="c"),),
)
"""A member with a new pattern joins while a leave waits for its target. Whether it sorts behind the
one that is there is up to the seed."""


def violated_with_pattern_behind(version: str, *, without: str = "") -> set[str]:
    """Properties that break over a few seeds."""
    worlds = [replace(PATTERN_JOINS_BEHIND, seed=seed, semantics=version) for seed in range(8)]
    return {row.property for world in worlds for row in outcome(world, without=without).violations}


def test_a_4_1_broker_is_known_to_give_a_joining_pattern_what_it_does_not_match() -> None:
    subscribed = "coordinator.subscribed_only"
    assert violated_with_pattern_behind("kafka-4.1") == set()
    assert violated_with_pattern_behind("kafka-4.1", without=subscribed) == {subscribed}
    assert violated_with_pattern_behind("kafka-4.3", without=subscribed) == set()


def buffered_records_of_a_revoked_partition(*, switched_on: bool) -> RunResult:
    """The scenario of KAFKA-20332 with the client of 4.1."""
    world = defect_scenario("KAFKA-20332", with_defect=switched_on).world
    return outcome(replace(world, semantics="kafka-4.1"))


def test_the_client_of_4_1_is_known_to_hand_out_what_it_must_revoke() -> None:
    result = buffered_records_of_a_revoked_partition(switched_on=False)
    assert result.outcome == "known"
    assert "KAFKA-20332" in result.known
    news = buffered_records_of_a_revoked_partition(switched_on=True)
    assert (news.outcome, news.violations[0].property) == ("violation", "client.deliver.owned")


def test_the_client_of_4_1_backs_off_wildly() -> None:
    config = ConsumerConfig(group_id="group")
    shares = {
        version: SEMANTICS[version].member().heartbeat_jitter_share(config)
        for version in ("kafka-4.1", "kafka-4.3")
    }
    assert shares == {"kafka-4.1": config.max_poll_interval_ms, "kafka-4.3": BACKOFF_JITTER}


CLASSIC_ISSUES = sorted(id_ for id_ in DEFECTS if id_.startswith("classic-"))
OTHER_ISSUES = sorted(
    id_
    for id_ in DEFECTS
    if id_.startswith("sim-") or id_ in set(EVERY_VERSION) - {*CLASSIC_ISSUES}
)
VIOLATING = sorted(
    id_
    for id_ in (*CLASSIC_ISSUES, *OTHER_ISSUES)
    if DEFECTS[id_].has_scenario and not DEFECTS[id_].measured
)
"""Of the others a metric shows it, or ``unobserved`` says why no scenario can."""


NEVER_AT_REST = frozenset({"classic-forgotten-assignor"})
"""A client learns of a rebalance too late for its group to come to rest for sure."""


@pytest.mark.quick_one_of(2)
@pytest.mark.parametrize("issue", VIOLATING)
def test_an_issue_is_known_of_the_version_and_gone_with_its_repair(issue: str) -> None:
    scenario = defect_scenario(issue, with_defect=False)
    if issue not in CLASSIC_ISSUES:  # ``limit/`` of ``tests/pinned`` has these.
        shipped = run(scenario, prove=Prove.ALL)
        assert (shipped.outcome, set(shipped.known)) == ("known", {issue}), shipped.reason
    repaired = run(scenario.without(issue))
    passed = "not-judged" if issue in NEVER_AT_REST else "ok"
    assert (repaired.outcome, set(repaired.known)) == (passed, set()), repaired.reason


def test_every_known_issue_of_classic_groups_ships_with_the_newest_version() -> None:
    shipped = {id_ for id_ in SEMANTICS["kafka-4.3"].shipped_defects if id_.startswith("classic-")}
    assert shipped == set(CLASSIC_ISSUES)
