"""Faults that several coincidences have."""

from __future__ import annotations

from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.data_plane.topic_spec import TopicSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.deployments import ClientRedeploy
from rebalance_sim.sim.faults.topics import TopicGrow


def instance_id_of(client: ClientSpec) -> str:
    """The instance id of a client, or the one that it is given."""
    return client.instance_id or f"{client.name}-seat"


def make_static(client: ClientSpec, at_ms: int) -> ClientRedeploy:
    """A client is a static member from some time on."""
    return ClientRedeploy(
        at_ms=max(0, at_ms), client=client.name, down_ms=300, instance_id=instance_id_of(client)
    )


def grown(topic: TopicSpec, at_ms: int, draw: Draw, most: int) -> TopicGrow:
    """A topic gets partitions, up to so many."""
    count = topic.partition_count + draw.between((1, most))
    return TopicGrow(at_ms=at_ms, topic=topic.name, partition_count=count)
