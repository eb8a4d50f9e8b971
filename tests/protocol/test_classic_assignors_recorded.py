"""What leaders of real groups handed out comes out of our assignors, from the same claims."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.protocol.assignors.classic import (
    CLASSIC_ASSIGNORS,
    FRANZ_ASSIGNORS,
    LIBRDKAFKA_ASSIGNORS,
    ClaimingMember,
    ClassicAssignor,
)
from rebalance_sim.protocol.wire.embedded import (
    CooperativeUserData,
    NamedPartitions,
    StickyUserData,
    Subscription,
)

TRACES = Path(__file__).parents[2] / "conformance" / "traces" / "clients"
PATHS = sorted(TRACES.glob("*/*.json"))


SAID_BACK = "<user_data>"  # what a librdkafka leader adds to the topics of an assignment


def named(by_topic: Mapping[str, list[int]]) -> tuple[NamedPartitions, ...]:
    topics = sorted(by_topic.keys() - {SAID_BACK})
    return tuple(NamedPartitions(topic, tuple(by_topic[topic])) for topic in topics)


def subscription(protocol: Mapping[str, Any]) -> Subscription:
    said = protocol["user_data"]
    data: object = None
    if said and "partitions" in said:
        data = StickyUserData(named(said["partitions"]), said["generation"])
    elif said:
        data = CooperativeUserData(said["generation"])
    return Subscription(
        topics=tuple(protocol["topics"]),
        owned_partitions=named(protocol.get("owned_partitions") or {}),
        generation_id=protocol.get("generation_id", -1),
        user_data=data,  # type: ignore[arg-type]
        version=protocol["version"],
    )


def rounds(path: Path) -> Iterator[tuple[str, dict[str, int], list[ClaimingMember], Any]]:
    """Assignor, topics, claims and result of each assignment that a leader computed."""
    document = json.loads(path.read_text())
    counts = dict(document["topics"])
    joined: dict[str, dict[str, Any]] = {}
    asked: dict[tuple[str, int, int], dict[str, Any]] = {}
    led: dict[str, dict[str, Any]] = {}
    for event in document["events"]:
        body = event.get("body", {})
        call = (event.get("client"), event.get("conn"), event.get("id"))
        if event["kind"] == "action" and event["action"] == "create_partitions":
            counts[event["topic"]] = event["count"]
        if event.get("api") == "JoinGroup" and event["kind"] == "request":
            asked[call] = body
            if body["member_id"]:
                joined[body["member_id"]] = body
            continue
        if event.get("api") == "JoinGroup" and body.get("error_code") == "none":
            joined[body["member_id"]] = asked[call]
            led[body["member_id"]] = body
        if event.get("api") == "SyncGroup" and event["kind"] == "request" and body["assignments"]:
            answer = led[body["member_id"]]
            name = answer["protocol_name"]
            members = [
                ClaimingMember(
                    member_id=row["member_id"],
                    group_instance_id=row["group_instance_id"],
                    subscription=subscription(
                        next(p for p in joined[row["member_id"]]["protocols"] if p["name"] == name)
                    ),
                )
                for row in answer["members"]
            ]
            yield name, counts, members, body["assignments"]


WITH_LEADERS = [path for path in PATHS if any(rounds(path))]
by_path = pytest.mark.parametrize(
    "path", WITH_LEADERS, ids=lambda path: f"{path.parent.name}-{path.stem}"
)


def assignor_of(path: Path, name: str) -> ClassicAssignor:
    """librdkafka's cooperative-sticky keeps the highest numbers of a topic, Java's the lowest."""
    by_library = {"librdkafka": LIBRDKAFKA_ASSIGNORS, "franz-go": FRANZ_ASSIGNORS}
    return by_library.get(path.parent.name, CLASSIC_ASSIGNORS)[name]


@by_path
def test_a_recorded_leader_computed_the_same(path: Path) -> None:
    for name, counts, members, recorded in rounds(path):
        ours = assignor_of(path, name).assign(partition_counts=counts, members=members)
        assert {m: share for m, share in ours.items() if share} == {
            m: named(share) for m, share in recorded.items() if share
        }


@by_path
def test_either_clients_leader_would_have_given_each_member_as_many_partitions(path: Path) -> None:
    for name, counts, members, recorded in rounds(path):
        ours = CLASSIC_ASSIGNORS[name].assign(partition_counts=counts, members=members)
        theirs = {m: share.get("orders", []) for m, share in recorded.items()}
        assert {m: sum(len(t.partitions) for t in share) for m, share in ours.items()} == {
            m: len(numbers) for m, numbers in theirs.items()
        }


def test_the_recordings_have_leaders_of_both_clients() -> None:
    compared = {(path.parent.name, name) for path in WITH_LEADERS for name, *_ in rounds(path)}
    assert compared == {
        ("java", "range"),
        ("java", "cooperative-sticky"),
        ("librdkafka", "range"),
        ("librdkafka", "cooperative-sticky"),
        ("franz-go", "range"),
        ("franz-go", "sticky"),
        ("franz-go", "cooperative-sticky"),
    }


def test_the_two_clients_leaders_give_different_halves_away() -> None:
    """The recording is one that only librdkafka's assignor meets."""
    path = next(p for p in PATHS if p.parent.name == "librdkafka" and p.stem == "upgrade_refused")
    differing = [
        name
        for name, counts, members, _ in rounds(path)
        if CLASSIC_ASSIGNORS[name].assign(partition_counts=counts, members=members)
        != assignor_of(path, name).assign(partition_counts=counts, members=members)
    ]
    assert differing == ["cooperative-sticky"]
