"""Groups whose members compute their targets: stories of KIP-848's client-side assignors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    decode_assignment,
    decode_member,
)
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec, StreamsSpec
from rebalance_sim.sim.delays import DelaySpec
from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash, ClientPause
from rebalance_sim.sim.faults.connections import ConnectionLoss
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.spec import ClientSpec, TopicSpec

REBALANCE_TIMEOUT_MS = 20_000


def offering(
    name: str, *, compute_ms: int = 1_000, start_ms: int = 0, **settings: Any
) -> ClientSpec:
    """A client whose assignor takes a second, unless set otherwise."""
    assignors = ClientAssignorsSpec(compute=DelaySpec(min_ms=compute_ms), **settings)
    return client(
        name,
        start_ms=start_ms,
        client_assignors=assignors,
        max_poll_interval_ms=REBALANCE_TIMEOUT_MS,
    )


def world(*clients: ClientSpec, **settings: Any) -> Watched:
    return Watched(spec(*clients, **{"semantics": "kip-848", **settings}))


def requests(watched: Watched, kind: str) -> list[dict[str, Any]]:
    """The requests of a kind that coordinators have handled so far."""
    name = f"ConsumerGroup{kind}AssignmentRequest"
    steps = watched.steps(StepKind.COORDINATOR_REQUEST)
    return [step for step in steps if step["request"]["type"] == name]


def outcomes(watched: Watched, kind: str) -> list[tuple[str, str]]:
    """(client, error) of these requests, in their order."""
    return [(sender(step), step["response"]["error_code"]) for step in requests(watched, kind)]


def sender(step: dict[str, Any]) -> str:
    """The client whose request it is."""
    return named(step["request"]["member_id"])


def named(member_id: str) -> str:
    """The client that has this member id."""
    return member_id.split("-")[1]


def chosen_at(at_ms: int, *clients: ClientSpec) -> str:
    """The client that computes at that time, in a world that nothing happens to."""
    watched = world(*clients)
    watched.advance_to(at_ms)
    return named(watched.group().computation.member_id)


def sizes(watched: Watched) -> dict[str, int]:
    return {name: len(watched.fetchable(name)) for name in watched.world.clients()}


def test_a_group_is_assigned_by_one_of_its_members() -> None:
    watched = world(offering("a"), offering("b"), offering("c"))
    watched.run()
    assert sizes(watched) == {"a": 2, "b": 2, "c": 2}
    assert watched.group().target_metadata.keys() == watched.group().members.keys()
    assert {error for _, error in outcomes(watched, "Install")} == {"NONE"}


def test_members_learn_of_their_target_one_heartbeat_after_it_was_installed() -> None:
    watched = world(offering("a", compute_ms=3_000))
    watched.run()
    (installed,) = requests(watched, "Install")
    first = min(
        step["at_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT)
        if any(e["type"] == "AssignmentReceived" for e in step.get("effects", ()))
    )
    # Told by the second heartbeat, at 5 s; installed 3 s later; heard of by the third, at 10 s.
    assert 8_000 < installed["at_ms"] < 8_200
    assert 10_000 < first < 10_300


def test_when_the_computing_member_dies_another_one_computes() -> None:
    """The session of the dead ends, the epoch rises, the next member is told."""
    clients = [offering(name, compute_ms=4_000) for name in "abc"]
    dead = chosen_at(8_000, *clients)
    watched = world(
        *clients,
        faults=(ClientCrash(at_ms=8_000, client=dead, down_ms=None),),
        duration_ms=120_000,
    )
    watched.run()
    assert dead not in {who for who, _ in outcomes(watched, "Install")}
    assert sorted(sizes(watched).values()) == [0, 3, 3]


def test_a_slow_member_is_replaced_and_what_it_hands_in_late_is_refused() -> None:
    slow = chosen_at(4_000, offering("a"), offering("b"), offering("c"))
    watched = world(
        *(offering(name, compute_ms=30_000 if name == slow else 1_000) for name in "abc"),
        duration_ms=120_000,
    )
    watched.run()
    (prepared_by_slow, *_), (installed, *_) = (
        [step for step in requests(watched, kind) if sender(step) == slow]
        for kind in ("Prepare", "Install")
    )
    by_another = next(s for s in requests(watched, "Install") if s is not installed)
    assert sender(by_another) != slow
    assert by_another["response"]["error_code"] == "NONE"
    # The time runs from the heartbeat that told it, a round trip before it asked.
    notified_ms = prepared_by_slow["at_ms"] - 4
    assert by_another["at_ms"] > notified_ms + REBALANCE_TIMEOUT_MS
    assert installed["response"]["error_code"] == "UNKNOWN_MEMBER_ID"
    # It is slow and not gone: no one has been fenced.
    assert watched.world.metrics.fences == 0
    assert sizes(watched) == {"a": 2, "b": 2, "c": 2}


def test_after_a_failover_in_the_middle_a_member_is_chosen_again() -> None:
    watched = world(
        offering("a", compute_ms=5_000), faults=(CoordinatorMove(at_ms=7_000),), duration_ms=60_000
    )
    watched.run()
    assert watched.fetchable("a") == set(range(6))
    refused = [error for _, error in outcomes(watched, "Install") if error != "NONE"]
    assert set(refused) <= {"UNKNOWN_MEMBER_ID"}
    shards = {step["shard"] for step in requests(watched, "Prepare")}
    assert len(shards) == 2  # Both coordinators have handed the group out.


def test_a_group_that_moves_on_gets_the_result_of_its_older_epoch_and_another_one() -> None:
    watched = world(
        offering("a", compute_ms=4_000), offering("b", start_ms=7_000), duration_ms=60_000
    )
    watched.run()
    installs = [
        (step["request"]["group_epoch"], step["records"][-1]["value"]["assignment_epoch"])
        for step in requests(watched, "Install")
        if step["response"]["error_code"] == "NONE"
    ]
    assert installs == [(1, 1), (2, 2)]
    first = next(s for s in requests(watched, "Install"))
    empty = [r for r in first["records"] if r["value"].get("topic_partitions") == []]
    assert [r["key"]["member_id"].split("-")[1] for r in empty] == ["b"]
    assert sizes(watched) == {"a": 3, "b": 3}


def test_partitions_that_appear_during_a_computation_wait_for_the_next_one() -> None:
    watched = world(
        offering("a", compute_ms=4_000),
        faults=(TopicGrow(at_ms=7_000, topic="orders", partition_count=8),),
        duration_ms=60_000,
    )
    watched.run()
    assert [e for _, e in outcomes(watched, "Install")] == ["NONE", "NONE"]
    assert watched.fetchable("a") == set(range(8))


@pytest.mark.parametrize("moment", [Moment.BEFORE_REQUEST, Moment.BEFORE_RESPONSE])
def test_a_lost_connection_costs_a_heartbeat_and_no_more(moment: Moment) -> None:
    watched = world(
        offering("a"),
        offering("b"),
        faults=tuple(
            ConnectionLoss(at_ms=at_ms, client=name, moment=moment)
            for at_ms in (5_050, 6_000, 11_000)
            for name in "ab"
        ),
        duration_ms=60_000,
    )
    watched.run()
    assert sizes(watched) == {"a": 3, "b": 3}


def test_a_paused_member_hands_its_result_in_when_it_wakes_up() -> None:
    watched = world(
        offering("a", compute_ms=2_000),
        faults=(ClientPause(at_ms=6_000, duration_ms=10_000, client="a"),),
        duration_ms=60_000,
    )
    watched.run()
    (installed,) = requests(watched, "Install")
    assert 16_000 <= installed["at_ms"] < 16_100


def test_a_static_member_that_restarts_during_a_computation_finds_its_share() -> None:
    away = replace(offering("b", start_ms=500), instance_id="seat-b")
    watched = world(
        offering("a", compute_ms=6_000),
        away,
        faults=(ClientClose(at_ms=8_000, client="b", down_ms=500),),
        duration_ms=60_000,
    )
    watched.run()
    installed, *others = requests(watched, "Install")
    assert installed["at_ms"] > 8_500 and others == []
    assert sizes(watched) == {"a": 3, "b": 3}


def test_one_member_without_assignors_brings_the_brokers_and_its_end_takes_them_away() -> None:
    plain = client("plain", start_ms=15_000, max_poll_interval_ms=REBALANCE_TIMEOUT_MS)
    watched = world(
        offering("a"),
        offering("b"),
        plain,
        faults=(ClientClose(at_ms=40_000, client="plain", down_ms=None),),
        duration_ms=90_000,
    )
    watched.advance_to(35_000)
    assert watched.group().target_metadata == {}
    assert sizes(watched) == {"a": 2, "b": 2, "plain": 2}
    watched.run()
    assert watched.group().target_metadata.keys() == watched.group().members.keys()
    assert sizes(watched) == {"a": 3, "b": 3, "plain": 0}


def test_a_rolling_upgrade_passes_through_members_of_both_versions() -> None:
    """Old and new processes under their own names: each is written to in its own version."""
    streams = StreamsSpec(num_standby_replicas=1)
    old = [
        offering(f"old-{i}", names=("streams",), maximum_version=0, streams=streams)
        for i in range(2)
    ]
    new = [
        offering(f"new-{i}", names=("streams",), start_ms=20_000 + i * 20_000, streams=streams)
        for i in range(2)
    ]
    watched = world(
        *old,
        *new,
        faults=tuple(
            ClientClose(at_ms=30_000 + i * 20_000, client=f"old-{i}", down_ms=None)
            for i in range(2)
        ),
        duration_ms=120_000,
    )
    watched.advance_to(29_000)
    group = watched.group()
    versions = {m: reported.metadata_version for m, reported in group.target_metadata.items()}
    assert {m.split("-")[1]: v for m, v in versions.items()} == {"old": 0, "new": 1}
    for member_id, reported in group.target_metadata.items():
        share = decode_assignment(reported.metadata_bytes, reported.metadata_version)
        assert share.active == group.target_of(member_id)
    watched.run()
    assert {t.metadata_version for t in watched.group().target_metadata.values()} == {1}
    assert sizes(watched) == {"new-0": 3, "new-1": 3, "old-0": 0, "old-1": 0}


def test_an_assignors_error_reaches_every_member() -> None:
    watched = world(
        offering("a", names=("streams",), streams=StreamsSpec(topology_hash=1)),
        offering("b", names=("streams",), streams=StreamsSpec(topology_hash=2)),
    )
    watched.run()
    received = {
        (step["client"], effect["metadata"]["error"])
        for step in watched.steps(StepKind.CLIENT_EVENT)
        for effect in step.get("effects", ())
        if effect["type"] == "AssignmentReceived" and step["at_ms"] > 20_000
    }
    assert {error for _, error in received} <= {3}
    assert sizes(watched) == {"a": 3, "b": 3}


# -- Streams -------------------------------------------------------------------------------

STATE_RECORDS, RESTORE_RATE, ACCEPTABLE = 50_000, 5_000, 10_000


def streams_client(name: str, *, start_ms: int = 0, **settings: Any) -> ClientSpec:
    """A member of a Streams application whose copies take 8 s until they are good enough."""
    streams = StreamsSpec(
        state_records=STATE_RECORDS,
        restore_records_per_second=RESTORE_RATE,
        acceptable_recovery_lag=ACCEPTABLE,
        **settings,
    )
    return offering(name, names=("streams",), start_ms=start_ms, streams=streams)


def test_a_task_moves_only_after_its_warm_up() -> None:
    watched = world(
        streams_client("a", max_warmup_replicas=6),
        streams_client("b", start_ms=30_000, max_warmup_replicas=6),
        duration_ms=150_000,
    )
    watched.advance_to(46_000)
    # b is in the group, warms up, and runs nothing; a has lost nothing meanwhile.
    assert sizes(watched) == {"a": 6, "b": 0}
    reported = {m.split("-")[1]: t for m, t in watched.group().target_metadata.items()}
    share = decode_assignment(reported["b"].metadata_bytes, reported["b"].metadata_version)
    assert (len(share.warm_up), share.active) == (3, frozenset())
    watched.run()
    assert sizes(watched) == {"a": 3, "b": 3}
    store = watched.world.client_processes.environment.task_stores["group", "b"]
    moved = next(s for s in requests(watched, "Install") if s["at_ms"] > 46_000)["at_ms"]
    for task in share.warm_up:
        assert store.lag(task, moved) <= ACCEPTABLE


def test_a_warm_up_says_when_it_is_ready_and_only_then() -> None:
    watched = world(streams_client("a"), streams_client("b", start_ms=30_000), duration_ms=150_000)
    watched.run()
    said = [
        (step["at_ms"], step["event"]["metadata"]["reason"])
        for step in watched.steps(StepKind.CLIENT_EVENT, client="b")
        if step["event"]["type"] == "AssignorMetadataChanged"
    ]
    assert {reason for _, reason in said} == {"WARM_UP_READY"}
    assert len(said) == 2  # Two warm-ups at a time, for three tasks.
    told_ms = min(
        step["at_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT, client="b")
        if any(e["type"] == "AssignmentReceived" for e in step.get("effects", ()))
        and step["member_epoch"] > 1
    )
    restore_ms = (STATE_RECORDS - ACCEPTABLE) * 1_000 // RESTORE_RATE
    assert abs(said[0][0] - told_ms - restore_ms) <= 1


def test_a_standby_inherits_from_a_member_that_dies() -> None:
    watched = world(
        streams_client("a", num_standby_replicas=1),
        streams_client("b", num_standby_replicas=1),
        faults=(ClientCrash(at_ms=60_000, client="a", down_ms=None),),
        duration_ms=180_000,
    )
    watched.advance_to(59_000)
    assert sizes(watched) == {"a": 3, "b": 3}
    watched.run()
    assert watched.fetchable("b") == set(range(6))
    store = watched.world.client_processes.environment.task_stores["group", "b"]
    assert all(lag == 0 for lag in store.lags(180_000).values())


def test_a_restarted_process_says_at_once_what_is_on_its_disk() -> None:
    watched = world(
        streams_client("a"),
        streams_client("b"),
        faults=(ClientCrash(at_ms=60_000, client="a", down_ms=1_000),),
        duration_ms=200_000,
    )
    watched.advance_to(59_000)
    tasks = watched.world.clients()["a"].member.fetchable
    watched.advance_to(62_000)
    member_id = watched.world.clients()["a"].member.member_id
    (offer,) = watched.group().members[member_id].client_assignors
    said = decode_member(offer.metadata_bytes, offer.metadata_version)
    assert said.task_lags == dict.fromkeys(sorted(tasks), 0)
    watched.run()
    assert watched.world.clients()["a"].member.fetchable == tasks


def test_a_copy_that_is_left_behind_is_withdrawn_when_it_is_too_old() -> None:
    """What a member has said of its copies is believed until it says otherwise."""
    rate = 1_000
    in_zones = [
        streams_client(
            name,
            start_ms=start_ms,
            num_standby_replicas=1,
            client_tags={"zone": zone},
            rack_aware_assignment_tags=("zone",),
        )
        for name, zone, start_ms in (("a", "x", 0), ("b", "x", 0), ("c", "y", 60_000))
    ]
    watched = world(
        *in_zones,
        topics=(TopicSpec(name="orders", partition_count=2, records_per_second=rate),),
        duration_ms=180_000,
    )
    watched.run()
    # The standbys of a and b move to the other zone; they have said that their copies are good.
    withdrawn = {
        step["client"]: step["at_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT)
        if step["event"]["type"] == "AssignorMetadataChanged"
        and step["event"]["metadata"]["reason"] == "WARM_UP_FAILED"
    }
    assert withdrawn.keys() == {"a", "b"}
    for name, at_ms in withdrawn.items():
        left_ms = max(
            step["at_ms"]
            for step in watched.steps(StepKind.CLIENT_EVENT, client=name)
            if any(e["type"] == "AssignmentReceived" for e in step.get("effects", ()))
            and step["at_ms"] <= at_ms - ACCEPTABLE * 1_000 // rate
        )
        assert abs(at_ms - left_ms - ACCEPTABLE * 1_000 // rate) <= 1
