"""Clients that change: deployed again, removed, subscribed otherwise; commits of their own; chosen
requests that get lost."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.kinds import (
    CLASSIC,
    EVERY_KIND,
    JAVA,
    LIBRDKAFKA_CLASSIC,
)
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.sim.client.client_processes import redeployed
from rebalance_sim.sim.faults.administrators import MembersRemove
from rebalance_sim.sim.faults.clients import (
    CallbackSlowdown,
    ClientCrash,
    RebalanceEnforce,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss, RequestKind
from rebalance_sim.sim.faults.deployments import ClientRedeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.spec import DelaySpec, NetworkSpec, TopicSpec

_LISTS = {"assignors": ("range", "roundrobin")}


def story(*faults: Fault, kind: str = JAVA, **settings: Any) -> Watched:
    """Two clients, who share six partitions."""
    of_client = {"kind": kind, **_LISTS, "metadata_max_age_ms": 1_000, **settings}
    return Watched(spec(client("a", **of_client), client("b", **of_client), faults=faults))


def test_a_client_comes_back_with_other_settings_and_keeps_them() -> None:
    deployment = ClientRedeploy(
        at_ms=20_000, client="a", down_ms=1_000, instance_id="seat", max_poll_interval_ms=9_000
    )
    watched = story(deployment, ClientCrash(at_ms=35_000, client="a", down_ms=1_000))
    watched.run()
    process = watched.world.clients()["a"]
    assert (
        process.incarnation >= 3
    )  # Some find their instance id in use, until the session is over.
    assert process.member.config.group_instance_id == "seat"
    assert process.member.config.max_poll_interval_ms == 9_000
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


@pytest.mark.parametrize("to_kind", EVERY_KIND)
def test_a_client_comes_back_with_any_library(to_kind: str) -> None:
    deployment = ClientRedeploy(at_ms=20_000, client="a", down_ms=1_000, to_kind=to_kind)
    watched = story(deployment)
    watched.run()
    assert watched.world.clients()["a"].member.kind == to_kind
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_what_a_library_does_not_know_is_left_out() -> None:
    before = client("a", kind=CLASSIC, assignors=("sticky",), session_timeout_ms=45_000)
    changes = {
        "kind": "librdkafka-classic",
        "server_assignor": "range",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 9_000,
    }
    after = redeployed(before, changes)
    assert after.server_assignor is None
    assert after.assignors == ("range", "roundrobin")
    assert after.heartbeat_interval_ms == 2_000


@pytest.mark.parametrize("kind", [JAVA, CLASSIC])
@pytest.mark.parametrize("instance_id", [None, "seat"])
def test_an_administrator_removes_a_member_which_joins_again(
    kind: str, instance_id: str | None
) -> None:
    watched = Watched(
        spec(
            client("a", kind=kind, instance_id=instance_id),
            client("b", kind=kind),
            faults=(MembersRemove(at_ms=20_000, clients=("a",)),),
        )
    )
    watched.run()
    (returned,) = watched.steps(StepKind.ADMIN_RETURNED)
    assert "NONE" in returned["detail"]
    told = [
        member["reason"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"]["type"] == "LeaveGroupRequest" and step["at_ms"] < 30_000
        for member in step["request"]["members"]
    ]
    assert told == ["member was removed by an admin"]
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_a_static_member_that_is_down_can_be_removed() -> None:
    planned = (
        ClientCrash(at_ms=20_000, client="a"),
        MembersRemove(at_ms=22_000, clients=("a",)),
    )
    instances = {"a": "seat-a", "b": "seat-b"}
    watched = Watched(
        spec(*(client(name, instance_id=one) for name, one in instances.items()), faults=planned)
    )
    watched.advance_to(30_000)
    assert watched.fetchable("b") == set(range(6))


def test_a_client_asks_for_a_rebalance() -> None:
    watched = story(RebalanceEnforce(at_ms=20_000, client="a"), kind=CLASSIC)
    watched.advance_to(19_999)
    before = watched.world.clients()["a"].member.member_epoch
    watched.advance_to(30_000)
    assert watched.world.clients()["a"].member.member_epoch == before + 1


@pytest.mark.parametrize("kind", EVERY_KIND)
@pytest.mark.parametrize("is_sync", [True, False])
def test_an_application_commits_by_itself(kind: str, is_sync: bool) -> None:
    watched = Watched(
        spec(
            client(
                "a",
                kind=kind,
                **_LISTS,
                manual_commit_interval_ms=1_000,
                commits_synchronously=is_sync,
            ),
            topics=(TopicSpec(name="orders", partition_count=2, records_per_second=10),),
            data_plane=True,
        )
    )
    watched.run()
    shard = watched.world.acting_shard()
    assert shard is not None
    stored = shard.coordinator.offsets.of_group("group")
    assert {number for _, number in stored} == {0, 1}
    assert all(value.offset > 500 for value in stored.values())
    assert watched.world.clients()["a"].member.is_polling


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_a_poll_that_a_commit_holds_up_comes_after_it(kind: str) -> None:
    """Each commit lasts for most of the time between two polls, and begins as often."""
    of_client = {
        "kind": kind,
        **_LISTS,
        "processing_ms": 1_000,
        "manual_commit_interval_ms": 1_000,
        "commits_synchronously": True,
    }
    names = ("a", "b", "c")
    watched = Watched(
        spec(
            *(client(name, start_ms=n * 15_000, **of_client) for n, name in enumerate(names)),
            topics=(TopicSpec(name="orders", partition_count=6, records_per_second=10),),
            network=NetworkSpec(latency=DelaySpec(min_ms=400)),
            data_plane=True,
        )
    )
    watched.run()
    assert [len(watched.fetchable(name)) for name in names] == [2, 2, 2]


@pytest.mark.parametrize("kind", [CLASSIC, LIBRDKAFKA_CLASSIC])
def test_who_commits_more_often_than_it_polls_is_told_of_a_generation(kind: str) -> None:
    """It is at ``poll`` when a commit returns, where it reads the answer to its JoinGroup."""
    of_client = {
        "kind": kind,
        "assignors": ("cooperative-sticky",),
        "processing_ms": 5_000,
        "manual_commit_interval_ms": 1_000,
        "commits_synchronously": True,
    }
    names = ("a", "b", "c")
    clients = (client(name, start_ms=n * 15_000, **of_client) for n, name in enumerate(names))
    watched = Watched(spec(*clients, quiet_period_ms=60_000))
    watched.run()
    assert [len(watched.fetchable(name)) for name in names] == [2, 2, 2]


def revoking(*faults: Fault, kind: str, **settings: Any) -> Watched:
    """A client that commits when it gives partitions up, which a second one makes it do."""
    return Watched(
        spec(
            client("a", kind=kind, **_LISTS, commits_when_revoked=True, **settings),
            client("b", kind=kind, **_LISTS, start_ms=20_000),
            faults=faults,
            topics=(TopicSpec(name="orders", partition_count=2, records_per_second=10),),
            data_plane=True,
            duration_ms=100_000,
        )
    )


def times_of(watched: Watched, event: str) -> list[int]:
    """When client a took an event of this type."""
    return [
        step["at_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT, client="a")
        if step["event"]["type"] == event
    ]


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_application_commits_inside_of_a_callback(kind: str) -> None:
    watched = revoking(kind=kind)
    watched.run()
    asked = times_of(watched, "CommitOffsets")[0]  # franz-go has more than one such callback
    ends = [at_ms for at_ms in times_of(watched, "CallbackCompleted") if at_ms > asked]
    assert ends[0] >= asked + 4  # a round trip
    shard = watched.world.acting_shard()
    assert shard is not None
    stored = shard.coordinator.offsets.of_group("group")
    assert any(value.offset > 50 for value in stored.values())


def test_a_callback_hangs_on_a_coordinator_that_no_one_reaches() -> None:
    """Until the commit in it runs out of time; by then somebody else has the partitions."""
    slow = CallbackSlowdown(at_ms=19_000, duration_ms=20_000, client="a", callback_ms=5_000)
    partition = ClientPartition(at_ms=22_000, duration_ms=100_000, client="a")
    watched = revoking(slow, partition, kind=JAVA, max_poll_interval_ms=600_000)
    watched.advance_to(90_000)
    (asked,) = times_of(watched, "CommitOffsets")
    ends = [at_ms for at_ms in times_of(watched, "CallbackCompleted") if at_ms > asked]
    assert ends[0] == asked + 60_000  # default.api.timeout.ms
    assert watched.fetchable("b") == {0, 1}


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_an_application_subscribes_to_a_pattern(kind: str) -> None:
    topics = (
        TopicSpec(name="orders", partition_count=2),
        TopicSpec(name="others", partition_count=2),
    )
    change = SubscriptionChange(at_ms=20_000, client="a", topic_regex="^.*s$")
    watched = Watched(
        spec(
            client("a", kind=kind, **_LISTS, metadata_max_age_ms=1_000),
            faults=(change,),
            topics=topics,
        )
    )
    watched.run()
    owned = {p.topic_id for p in watched.world.clients()["a"].member.fetchable}
    assert owned == {"orders:1", "others:1"}


@pytest.mark.parametrize("moment", [Moment.BEFORE_REQUEST, Moment.BEFORE_RESPONSE])
@pytest.mark.parametrize("request_kind", RequestKind)
def test_a_connection_breaks_at_a_chosen_request(moment: Moment, request_kind: RequestKind) -> None:
    planned = (
        ConnectionLoss(at_ms=500, client="a", moment=moment, request=request_kind),
        RebalanceEnforce(at_ms=20_000, client="a"),
    )
    watched = story(*planned, kind=CLASSIC, enable_auto_commit=True)
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_a_loss_that_waits_for_a_request_leaves_others_alone() -> None:
    loss = ConnectionLoss(
        at_ms=20_000, client="a", moment=Moment.BEFORE_RESPONSE, request=RequestKind.LEAVE
    )
    watched = story(loss)
    watched.advance_to(50_000)
    assert watched.world.network.link("a").cut is Moment.BEFORE_RESPONSE
    with pytest.raises(ValueError, match="request needs a moment"):
        ConnectionLoss(at_ms=1, client="a", request=RequestKind.JOIN)


def test_settings_differ_where_a_scenario_has_that() -> None:
    drawn = [generate("whole", seed).world.clients for seed in range(40)]
    varied = [team for team in drawn if len({c.max_poll_interval_ms for c in team}) > 1]
    assert 5 < len(varied) < 35


def test_a_deployment_is_made_plainer_setting_by_setting() -> None:
    fault = ClientRedeploy(
        at_ms=1, client="a", down_ms=1, rack="x", to_kind=CLASSIC, topics=("orders", "others")
    )
    simpler = list(fault.simpler(("orders", "others")))
    assert [one.changes for one in simpler] == [
        {"topics": ("orders", "others"), "kind": CLASSIC},
        {"rack": "x", "kind": CLASSIC},
        {"rack": "x", "topics": ("orders", "others")},
        {"rack": "x", "topics": ("others",), "kind": CLASSIC},
        {"rack": "x", "topics": ("orders",), "kind": CLASSIC},
    ]
    left = fault.without(topics=("orders",))
    assert left is not None and left.topics == ("others",)
    left = fault.without(topics=("orders", "others"))
    assert left is not None and left.topics is None
    assert ClientRedeploy(at_ms=1, client="a", down_ms=1).without(topics=("orders",)) is not None
    assert fault.without(clients=("a",)) is None


def test_a_loss_is_made_plainer_by_any_request() -> None:
    loss = ConnectionLoss(
        at_ms=1, client="a", moment=Moment.BEFORE_REQUEST, request=RequestKind.SYNC
    )
    assert [one.request for one in loss.simpler(())] == [None]
