"""Racks of brokers, replicas and clients in a world."""

from __future__ import annotations

import pytest

from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.data_plane.topic_spec import TopicSpec
from rebalance_sim.sim.spec import WorldSpec
from rebalance_sim.sim.world import World


def world_of(*clients: ClientSpec, replicas: int = 1, racks: tuple[str, ...]) -> World:
    return World(
        WorldSpec(
            seed=1,
            duration_ms=10_000,
            quiet_period_ms=20_000,
            topics=(TopicSpec(name="x", partition_count=4, replication_factor=replicas),),
            brokers=BrokerSpec(count=3, racks=racks),
            clients=clients,
        )
    )


def reader(name: str, *, kind: str = "classic", rack: str = "") -> ClientSpec:
    return ClientSpec(
        name=name,
        topics=("x",),
        rack=rack,
        kind=kind,
        assignors=("range",) if kind.endswith("classic") else None,
    )


def owned(world: World) -> dict[str, list[int]]:
    world.run()
    return {
        name: sorted(p.partition for p in client.member.fetchable)
        for name, client in world.clients().items()
    }


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [
        (1, (("a",), ("b",), ("c",), ("a",))),
        (2, (("a", "b"), ("b", "c"), ("a", "c"), ("a", "b"))),
        (3, (("a", "b", "c"),) * 4),
    ],
)
def test_replicas_are_striped_over_racks(
    replicas: int, expected: tuple[tuple[str, ...], ...]
) -> None:
    world = world_of(reader("r"), replicas=replicas, racks=("a", "b", "c"))
    assert world.topics.initial_image().by_name["x"].replica_racks == expected


def test_a_topic_has_no_racks_where_brokers_have_none() -> None:
    world = world_of(reader("r"), replicas=2, racks=())
    assert world.topics.initial_image().by_name["x"].replica_racks == ()


def test_a_partition_cannot_have_more_replicas_than_there_are_brokers() -> None:
    with pytest.raises(ValueError, match=r"topics: x has replication_factor 4, .* \(3\)"):
        world_of(reader("r"), replicas=4, racks=())


def test_a_rack_has_a_name() -> None:
    with pytest.raises(ValueError, match="racks"):
        BrokerSpec(racks=("a", ""))


@pytest.mark.parametrize("kind", ["classic", "librdkafka-classic"])
def test_a_leader_brings_members_and_replicas_of_one_rack_together(kind: str) -> None:
    racks = ("east", "west")
    clients = (reader("a", kind=kind, rack="east"), reader("b", kind=kind, rack="west"))
    # Brokers 0 and 2 are in east, and so are partitions 0 and 2.
    assert owned(world_of(*clients, racks=racks)) == {"a": [0, 2], "b": [1, 3]}


def test_an_image_with_other_racks_has_another_metadata_hash() -> None:
    def hash_of(*racks: tuple[str, ...]) -> int:
        topic = Topic(topic_id="x:1", name="x", partition_count=1, replica_racks=racks)
        return metadata_hash(("x",), MetadataImage([topic]))

    assert len({hash_of(), hash_of(("a",)), hash_of(("b",)), hash_of(("a", "b"))}) == 4


def test_each_partition_has_its_racks() -> None:
    with pytest.raises(ValueError, match="replica_racks"):
        Topic(topic_id="x:1", name="x", partition_count=2, replica_racks=(("a",),))
