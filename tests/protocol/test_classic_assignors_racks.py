"""Racks of members and replicas in client-side assignors (classic §5.5)."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.classic import (
    CLASSIC_ASSIGNORS,
    LIBRDKAFKA_ASSIGNORS,
    Assigned,
    ClaimingMember,
    ClassicAssignor,
)
from rebalance_sim.protocol.wire.embedded import NamedPartitions, StickyUserData, Subscription

CASES = json.loads((Path(__file__).parent / "java_rack_assignments.json").read_text())["cases"]
"""What Kafka's own assignors answered to random groups in which racks have a say."""


def _grouped(partitions: list[list[Any]]) -> tuple[NamedPartitions, ...]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return tuple(NamedPartitions(topic, tuple(numbers)) for topic, numbers in topics.items())


def _members(case: dict[str, Any]) -> list[ClaimingMember]:
    members = []
    for member_id, said in case["members"].items():
        owned, generation_id = _grouped(said["owned"]), said["generation"]
        says = case["assignor"] == "sticky" and generation_id >= 0
        members.append(
            ClaimingMember(
                member_id=member_id,
                group_instance_id=said["instance"],
                subscription=Subscription(
                    topics=tuple(said["topics"]),
                    owned_partitions=owned,
                    generation_id=generation_id,
                    rack_id=said["rack"],
                    user_data=StickyUserData(owned, generation_id) if says else None,
                ),
            )
        )
    return members


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_group_gets_what_kafkas_assignor_gives_it(case: dict[str, Any]) -> None:
    result = CLASSIC_ASSIGNORS[case["assignor"]].assign_by_racks(
        partition_counts={topic: len(racks) for topic, racks in case["topics"].items()},
        members=_members(case),
        replica_racks={t: tuple(map(tuple, racks)) for t, racks in case["topics"].items()},
    )
    assert result == {m: _grouped(share) for m, share in case["answer"].items()}


def _in_racks(assignor: ClassicAssignor, **racks: str | None) -> Assigned:
    """Two topics of two partitions, all of them in both racks."""
    members = [
        ClaimingMember(
            member_id=member_id, subscription=Subscription(topics=("x", "y"), rack_id=rack)
        )
        for member_id, rack in racks.items()
    ]
    both = ("east", "west")
    return assignor.assign_by_racks(
        partition_counts={"x": 2, "y": 2},
        members=members,
        replica_racks={"x": (both, both), "y": (both, both)},
    )


def _both(number: int) -> tuple[NamedPartitions, ...]:
    return (NamedPartitions("x", (number,)), NamedPartitions("y", (number,)))


def test_librdkafka_passes_over_members_without_a_rack_where_topics_go_together() -> None:
    racks: dict[str, str | None] = {"a": None, "b": "west"}
    assert _in_racks(CLASSIC_ASSIGNORS["range"], **racks) == {"a": _both(0), "b": _both(1)}
    assert _in_racks(LIBRDKAFKA_ASSIGNORS["range"], **racks) == {"a": _both(1), "b": _both(0)}


@pytest.mark.parametrize("name", sorted(CLASSIC_ASSIGNORS))
def test_racks_have_no_say_where_every_partition_is_in_all_of_them(name: str) -> None:
    assignor = CLASSIC_ASSIGNORS[name]
    assert _in_racks(assignor, a="west", b="east") == _in_racks(assignor, a=None, b=None)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_racks_never_give_a_member_two_more_than_another(name: str, seed: int) -> None:
    """Where all subscribe alike (classic §5.3)."""
    rng = random.Random(seed)
    members = [
        ClaimingMember(
            member_id=f"m{number}",
            subscription=Subscription(topics=("x",), rack_id=rng.choice(("east", "west"))),
        )
        for number in range(rng.randint(1, 6))
    ]
    replicas = tuple((rng.choice(("east", "west")),) for _ in range(rng.randint(1, 12)))
    result = CLASSIC_ASSIGNORS[name].assign_by_racks(
        partition_counts={"x": len(replicas)}, members=members, replica_racks={"x": replicas}
    )
    loads = [sum(len(numbers) for _, numbers in share) for share in result.values()]
    assert sum(loads) == len(replicas)
    assert max(loads) - min(loads) <= 1
