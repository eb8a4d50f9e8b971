"""Stories of whole groups: warm up, perturb, recover, look."""

from __future__ import annotations

from dataclasses import replace

import pytest
from worlds import (
    HEARTBEAT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    Watched,
    client,
    spec,
)

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.sim.faults.brokers import AppendFailure, ReplicationSlowdown
from rebalance_sim.sim.faults.clients import (
    CallbackSlowdown,
    ClientClose,
    ClientCrash,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss
from rebalance_sim.sim.faults.coordinators import CoordinatorMove, LogCompaction
from rebalance_sim.sim.faults.deployments import ClientBounce
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec, TopicSpec

TRIO = tuple(client(name) for name in "abc")


def owners(watched: Watched) -> dict[int, list[str]]:
    """Partition number -> the live clients that may fetch it."""
    found: dict[int, list[str]] = {}
    for name in watched.world.clients():
        for number in watched.fetchable(name):
            found.setdefault(number, []).append(name)
    return found


def shares(watched: Watched) -> list[int]:
    """How many partitions each live client may fetch."""
    return sorted(
        len(watched.fetchable(n)) for n, c in watched.world.clients().items() if c.is_alive
    )


def test_a_group_converges_and_shares_its_partitions_evenly() -> None:
    watched = Watched(spec(*TRIO, partition_count=7))
    watched.advance_to(30_000)
    assert shares(watched) == [2, 2, 3]
    assert all(len(names) == 1 for names in owners(watched).values())
    assert {watched.state(name) for name in "abc"} == {"STABLE"}


def test_a_group_with_fewer_partitions_than_members_leaves_some_idle() -> None:
    watched = Watched(spec(*TRIO, partition_count=2))
    watched.run()
    assert shares(watched) == [0, 1, 1]


def test_a_newcomer_gets_its_share_only_after_the_owners_have_given_it_up() -> None:
    slow = CallbackSlowdown(
        at_ms=0, duration_ms=59_000, client="a", callback_ms=9_000, callback=CallbackKind.REVOKED
    )
    watched = Watched(spec(client("a"), client("b", start_ms=20_000), faults=(slow,)))
    watched.advance_to(30_000)
    # a has been told, and its callback runs: it fetches only what it keeps, b fetches nothing.
    assert len(watched.fetchable("a")) == 3
    assert watched.fetchable("b") == set()
    watched.advance_to(45_000)
    assert len(watched.fetchable("b")) == 3
    watched.run()


def test_a_crashed_member_keeps_its_partitions_until_its_session_has_run_out() -> None:
    crash = ClientCrash(at_ms=30_000, client="b")
    watched = Watched(spec(*TRIO, faults=(crash,), duration_ms=100_000))
    watched.advance_to(29_999)
    of_others = watched.fetchable("a") | watched.fetchable("c")
    watched.advance_to(30_000 + SESSION_TIMEOUT_MS - HEARTBEAT_INTERVAL_MS)
    assert watched.fetchable("a") | watched.fetchable("c") == of_others
    watched.advance_to(30_000 + SESSION_TIMEOUT_MS + 2 * HEARTBEAT_INTERVAL_MS)
    assert watched.fetchable("a") | watched.fetchable("c") == set(range(6))


def test_a_static_member_that_bounces_within_its_session_moves_nothing() -> None:
    clients = tuple(client(name, instance_id=f"i-{name}") for name in "abc")
    bounce = ClientBounce(at_ms=20_000, down_ms=4_000, gap_ms=1_000)
    watched = Watched(spec(*clients, faults=(bounce,)))
    watched.advance_to(19_999)
    before, epoch = owners(watched), watched.group().group_epoch
    result = watched.run()
    assert owners(watched) == before
    assert watched.group().group_epoch == epoch
    # Who joined first owned everything for a moment.
    calm = Watched(spec(*clients)).run()
    assert result.metrics["partition_moves"] == calm.metrics["partition_moves"]
    assert all(c.incarnation == 2 for c in watched.world.clients().values())


def test_a_rolling_restart_of_dynamic_members_moves_partitions_every_time() -> None:
    bounce = ClientBounce(at_ms=20_000, down_ms=4_000, gap_ms=1_000)
    watched = Watched(spec(*TRIO, faults=(bounce,)))
    result = watched.run()
    assert result.metrics["partition_moves"] >= 6
    assert shares(watched) == [2, 2, 2]


def test_a_coordinator_that_moves_in_the_middle_of_a_rebalance_finishes_it() -> None:
    faults = (
        CallbackSlowdown(at_ms=0, duration_ms=59_000, client="a", callback_ms=6_000),
        CoordinatorMove(at_ms=34_000, to_broker=2),
    )
    watched = Watched(spec(client("a"), client("b", start_ms=25_000), faults=faults))
    watched.advance_to(33_999)
    assert watched.group().state.value == "Reconciling"
    epoch = watched.group().group_epoch
    result = watched.run()
    assert watched.group().group_epoch == epoch
    assert shares(watched) == [3, 3]
    assert result.metrics["fences"] == 0


def test_a_member_too_slow_to_revoke_is_removed_at_the_rebalance_timeout() -> None:
    slow = CallbackSlowdown(
        at_ms=0, duration_ms=59_000, client="a", callback_ms=50_000, callback=CallbackKind.REVOKED
    )
    clients = (client("a", max_poll_interval_ms=15_000), client("b", start_ms=20_000))
    watched = Watched(spec(*clients, faults=(slow,)))
    result = watched.run()
    (expiry,) = [
        step
        for step in watched.steps(StepKind.COORDINATOR_TIMER)
        if step["event"]["kind"] == "rebalance"
    ]
    asked = next(
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        for record in step.get("records", ())
        if record["key"].get("member_id") == expiry["event"]["member_id"]
        and (record["value"] or {}).get("partitions_pending_revocation")
    )
    # The application polls no more while its callback runs, so it may have left by itself before.
    assert expiry["at_ms"] == asked + 15_000
    assert result.metrics["rebalance_timeouts"] == 1
    assert shares(watched) == [3, 3]


def test_new_partitions_are_noticed_by_the_next_heartbeat() -> None:
    grow = TopicGrow(at_ms=30_000, topic="orders", partition_count=12)
    watched = Watched(spec(*TRIO, faults=(grow,)))
    watched.advance_to(30_000 + 2 * HEARTBEAT_INTERVAL_MS + 1_000)
    assert shares(watched) == [4, 4, 4]


def test_a_member_cut_off_from_the_coordinator_keeps_fetching_until_it_hears_of_its_end() -> None:
    cut = ClientPartition(at_ms=20_000, duration_ms=70_000, client="a")
    watched = Watched(spec(client("a"), client("b"), faults=(cut,), duration_ms=100_000))
    watched.advance_to(89_000)
    assert watched.fetchable("b") == set(range(6))
    assert len(watched.fetchable("a")) == 3
    result = watched.run()
    assert result.metrics["fences"] == 1
    assert shares(watched) == [3, 3]


def test_a_member_whose_answers_are_lost_is_not_fenced() -> None:
    faults = tuple(
        ConnectionLoss(at_ms=at_ms, client="a", moment=Moment.BEFORE_RESPONSE)
        for at_ms in range(10_000, 50_000, 7_000)
    )
    watched = Watched(spec(*TRIO, faults=faults))
    result = watched.run()
    assert result.metrics["fences"] == 0
    assert result.coverage["fault.connection_loss"] == 6


def test_requests_that_get_through_while_answers_do_not_keep_the_session_alive() -> None:
    cut = ClientPartition(
        at_ms=20_000, duration_ms=79_000, client="a", direction=Direction.TO_CLIENT
    )
    clients = (client("a", request_timeout_ms=10_000), client("b"))
    watched = Watched(spec(*clients, faults=(cut,), duration_ms=100_000))
    watched.advance_to(20_000 + 40_000)
    # One heartbeat got through; the next needs a new connection, which cannot be set up.
    member_id = watched.world.clients()["a"].member.member_id
    seen = [
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"].get("member_id") == member_id and step["at_ms"] > 20_000
    ]
    assert len(seen) == 1
    watched.run()


def test_members_with_different_topics_get_only_their_own() -> None:
    topics = (
        TopicSpec(name="orders", partition_count=4),
        TopicSpec(name="payments", partition_count=4),
    )
    clients = (
        client("a"),
        client("b", topics=("payments",)),
        client("c", topics=("orders", "payments")),
    )
    change = SubscriptionChange(at_ms=30_000, client="a", topics=("payments",))
    watched = Watched(spec(*clients, topics=topics, faults=(change,)))
    watched.advance_to(29_999)

    def topics_of(name: str) -> set[str]:
        return {p.topic_id for p in watched.world.clients()[name].member.fetchable}

    assert topics_of("a") == {"orders:1"}
    assert topics_of("b") == {"payments:1"}
    watched.run()
    assert topics_of("a") <= {"payments:1"}
    assert topics_of("c") >= {"orders:1"}


def test_joins_within_the_assignment_interval_share_one_target() -> None:
    config = CoordinatorConfig(group_consumer_assignment_interval_ms=5_000)
    clients = tuple(client(f"c{number}", start_ms=number * 100) for number in range(8))
    interval = Watched(spec(*clients, partition_count=16, config=config))
    interval.run()
    at_once = Watched(spec(*clients, partition_count=16))
    at_once.run()

    def targets(watched: Watched) -> int:
        return sum(
            record["type"] == "ConsumerGroupTargetAssignmentMetadata"
            for step in watched.steps(StepKind.COORDINATOR_REQUEST)
            for record in step.get("records", ())
        )

    assert targets(interval) < targets(at_once) == 8
    assert shares(interval) == shares(at_once) == [2] * 8


@pytest.mark.parametrize("semantics", ["kafka-4.3", "kafka-4.1", "kip-848"])
def test_every_version_gets_a_group_through_a_hard_day(semantics: str) -> None:
    faults = (
        ClientCrash(at_ms=15_000, client="b", down_ms=4_000),
        CoordinatorMove(at_ms=22_000),
        TopicGrow(at_ms=30_000, topic="orders", partition_count=9),
        ClientClose(at_ms=40_000, client="c", down_ms=3_000),
    )
    watched = Watched(spec(*TRIO, faults=faults, semantics=semantics, duration_ms=100_000))
    watched.run()
    assert shares(watched) == [3, 3, 3]


# --- brokers with a defect ------------------------------------------------------------------

IMPATIENT = tuple(client(name, max_poll_interval_ms=10_000) for name in "ab")

SLOW_TAIL = ReplicationSlowdown(at_ms=29_000, duration_ms=20_000, factor=1_000)
"""What is written at 30,000 is committed two seconds later."""

WHERE_DEFECTS_SHOW = {
    # The client hears of a join that the next leader knows nothing of.
    "mut-reply-before-commit": spec(
        client("a", start_ms=30_000),
        faults=(SLOW_TAIL, CoordinatorMove(at_ms=30_500, keeps_tail=False)),
    ),
    # The broker cannot write while b joins.
    "mut-keeps-failed-batch": spec(
        client("a"),
        client("b", start_ms=10_000),
        faults=(AppendFailure(at_ms=9_000, duration_ms=3_000),),
        config=CoordinatorConfig(group_coordinator_append_linger_ms=10),
    ),
    # An administrator is shown a join that is not committed yet.
    "mut-reads-uncommitted": spec(
        client("a", start_ms=30_000), faults=(SLOW_TAIL,), admin_interval_ms=200
    ),
    # The join is answered by the second leader, from a log that the third does not have.
    "KAFKA-16973": spec(
        client("a", start_ms=30_000),
        faults=(
            SLOW_TAIL,
            CoordinatorMove(at_ms=30_500, keeps_tail=True),
            CoordinatorMove(at_ms=30_900, keeps_tail=False),
        ),
    ),
    # The broker leads, loses its leadership, and has it back before the unload is carried out.
    "KAFKA-10614": spec(
        *IMPATIENT,
        faults=(
            CoordinatorMove(at_ms=30_000, to_broker=1),
            CoordinatorMove(at_ms=30_300, to_broker=0),
        ),
        quiet_period_ms=200_000,
    ),
    # A member joins and leaves; of it nothing but tombstones is left in the next leader's log.
    "KAFKA-17306": spec(
        *IMPATIENT,
        faults=(
            ClientClose(at_ms=20_000, client="b"),
            LogCompaction(at_ms=30_000),
            CoordinatorMove(at_ms=31_000, to_broker=1),
        ),
        quiet_period_ms=200_000,
    ),
    # a had partitions that b has now. The load has read that a had them; then the record by which a
    # gave them up is compacted away, because there is a newer one of a; then the load reads that b
    # has them. Where the load stands in between is drawn: this seed has it in the right place.
    "KAFKA-19862": spec(
        client("a", max_poll_interval_ms=10_000),
        client("b", max_poll_interval_ms=10_000, start_ms=10_000),
        client("c", max_poll_interval_ms=10_000, start_ms=25_000),
        faults=(
            CoordinatorMove(at_ms=40_000, to_broker=1),
            LogCompaction(at_ms=42_000),
        ),
        brokers=BrokerSpec(replication=DelaySpec(min_ms=2), load=DelaySpec(min_ms=4_000)),
        quiet_period_ms=200_000,
        seed=3,
    ),
    # Members that need nothing written stay with the broker that no longer leads.
    "KAFKA-19274": spec(
        *IMPATIENT,
        faults=(CoordinatorMove(at_ms=30_000),),
        duration_ms=100_000,
        quiet_period_ms=200_000,
    ),
    "KafScale-121": spec(
        *IMPATIENT,
        client("c", start_ms=40_000, max_poll_interval_ms=10_000),
        faults=(CoordinatorMove(at_ms=30_000),),
        duration_ms=100_000,
        quiet_period_ms=200_000,
    ),
    # Records in transactions, and a reader of what is committed.
    **{
        defect: replace(defect_scenario(defect).world, defects=())
        for defect in ("mut-aborted-shown", "mut-batch-twice", "mut-fetch-beyond-stable")
    },
}


def test_there_is_a_story_for_every_defect_of_a_broker() -> None:
    """What is shipped has a scenario, and a test of its repair."""
    of_brokers = {defect.id for defect in DEFECTS.values() if defect.component == "broker"}
    of_brokers -= set(DEFAULT_SEMANTICS.shipped_defects)
    assert set(WHERE_DEFECTS_SHOW) == {*of_brokers, "KAFKA-17306"}


@pytest.mark.parametrize("defect", WHERE_DEFECTS_SHOW)
def test_a_broker_with_a_known_issue_violates_a_property(defect: str) -> None:
    watched = Watched(replace(WHERE_DEFECTS_SHOW[defect], defects=(defect,)))
    watched.world.run()
    assert watched.violated() or watched.late()


@pytest.mark.parametrize("defect", WHERE_DEFECTS_SHOW)
def test_a_correct_broker_satisfies_every_property_in_the_same_story(defect: str) -> None:
    Watched(WHERE_DEFECTS_SHOW[defect]).run()


@pytest.mark.parametrize(
    "defect", ["KAFKA-10614", "KAFKA-16973", "KAFKA-17306", "KAFKA-19274", "KafScale-121"]
)
def test_a_defect_that_shows_when_leadership_moves_harms_only_the_group_that_moves(
    defect: str,
) -> None:
    """A second group lives in a partition that stays where it is, on a broker of the story."""
    story = WHERE_DEFECTS_SHOW[defect]
    others = (client(name, group_id="payments", max_poll_interval_ms=10_000) for name in "xyz")
    watched = Watched(
        replace(
            story,
            clients=(*story.clients, *others),
            brokers=replace(story.brokers, offsets_partition_count=4),
            defects=(defect,),
        )
    )
    watched.world.run()
    assert {*watched.violated(), *watched.late()} == {"group"}
