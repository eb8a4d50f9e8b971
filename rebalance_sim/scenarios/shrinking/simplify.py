"""Smaller and simpler worlds: the single steps of which shrinking is made.

Each function takes a world and returns another one that says less. Whether it still fails is for
``shrink.py`` to find out; a world that contradicts itself raises ValueError when it is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec, StreamsSpec
from rebalance_sim.sim.client.client_checks import default_assignors
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import (
    BrokerSpec,
    ClientSpec,
    DelaySpec,
    NetworkSpec,
    TopicSpec,
    WorldSpec,
)

_CLIENT_SETTINGS = tuple(
    field.name
    for field in fields(ClientSpec)
    if field.name not in ("name", "group_id", "topics", "topic_regex", "kind")
)
"""Settings of a client that are given their default if nothing is lost by it."""

_WAITS = (
    "group_consumer_assignment_interval_ms",
    "group_coordinator_append_linger_ms",
    "group_initial_rebalance_delay_ms",
)
"""Settings of a coordinator that make it wait; 0 is simpler than their default."""

_AT_ONCE = DelaySpec(min_ms=0)
_ONE_MS = DelaySpec(min_ms=1)


def with_clients(world: WorldSpec, clients: tuple[ClientSpec, ...]) -> WorldSpec:
    """Only these clients, and no fault that names another. Raises ValueError for none."""
    if not clients:
        raise ValueError("a world without clients cannot fail")
    gone = {client.name for client in world.clients} - {client.name for client in clients}
    return replace(world, clients=clients, faults=_faults_without(world, clients=gone))


def with_groups(world: WorldSpec, group_ids: tuple[str, ...]) -> WorldSpec:
    """Only these groups with their clients; what concerns another group alone goes with it.

    Raises ValueError for none.
    """
    kept = with_clients(world, tuple(c for c in world.clients if world.group_of(c) in group_ids))
    gone = set(world.group_ids) - set(group_ids)
    return replace(kept, faults=_faults_without(kept, groups=gone))


def with_offsets_partitions(world: WorldSpec, count: int) -> WorldSpec:
    """So many partitions of ``__consumer_offsets``; a fault of one that is gone is one of the
    world's group."""
    brokers = replace(world.brokers, offsets_partition_count=count)
    faults = tuple(
        fault.changed(offsets_partition=None)
        if (getattr(fault, "offsets_partition", None) or 0) >= count
        else fault
        for fault in world.faults
    )
    return replace(world, brokers=brokers, faults=faults)


def with_topics(world: WorldSpec, topics: tuple[TopicSpec, ...]) -> WorldSpec:
    """Only these topics; subscriptions and faults forget the others.

    Raises ValueError where a client would subscribe to nothing, and for no topics at all.
    """
    if not topics:
        raise ValueError("a group has something to consume")
    gone = {topic.name for topic in world.topics} - {topic.name for topic in topics}
    clients = tuple(
        replace(client, topics=tuple(t for t in client.topics if t not in gone))
        for client in world.clients
    )
    faults = _faults_without(world, topics=gone)
    return replace(world, topics=topics, clients=clients, faults=faults)


def _faults_without(world: WorldSpec, **gone: Set[str]) -> tuple[Fault, ...]:
    kept = (fault.without(**gone) for fault in world.faults)
    return tuple(fault for fault in kept if fault is not None)


def with_partition_count(world: WorldSpec, topic: str, count: int) -> WorldSpec:
    """The topic starts with this many partitions."""
    topics = tuple(
        replace(t, partition_count=count) if t.name == topic else t for t in world.topics
    )
    return replace(world, topics=topics)


def with_fault_size(world: WorldSpec, index: int, name: str, value: int) -> WorldSpec:
    """One fault with one of its sizes changed."""
    faults = list(world.faults)
    faults[index] = faults[index].changed(**{name: value})
    return replace(world, faults=tuple(faults))


def moments(world: WorldSpec) -> tuple[int, ...]:
    """When something begins, and the end, in ascending order."""
    starts = {client.start_ms for client in world.clients}
    return tuple(sorted(starts | {fault.at_ms for fault in world.faults} | {world.duration_ms}))


def pulled_forward(world: WorldSpec, from_ms: int, by_ms: int) -> WorldSpec:
    """Whatever begins at ``from_ms`` or later begins ``by_ms`` earlier, and so does the end."""
    clients = tuple(
        replace(client, start_ms=client.start_ms - by_ms) if client.start_ms >= from_ms else client
        for client in world.clients
    )
    faults = tuple(
        fault.changed(at_ms=fault.at_ms - by_ms) if fault.at_ms >= from_ms else fault
        for fault in world.faults
    )
    duration_ms = world.duration_ms - by_ms
    return replace(world, clients=clients, faults=faults, duration_ms=duration_ms)


def simpler_changes(world: WorldSpec) -> Iterator[Mapping[str, Any]]:
    """Fields to replace, for a world with one thing less to think about; most telling first."""
    clients, brokers = world.clients, world.brokers
    if brokers.count > 1:
        yield {"brokers": replace(brokers, count=1)}
    usual = BrokerSpec(count=brokers.count, offsets_partition_count=brokers.offsets_partition_count)
    if brokers != usual:
        yield {"brokers": usual}
    if any(client.group_id is not None for client in clients):
        yield {"clients": tuple(replace(c, group_id=None) for c in clients)}
    yield {"network": NetworkSpec(latency=_ONE_MS)}
    for config in _simpler_configs(world.config):
        yield {"config": config}
    if world.data_plane:
        at_any_rate = tuple(replace(c, processing_records_per_second=None) for c in clients)
        yield {"data_plane": False, "clients": at_any_rate}
    yield {"clients": tuple(replace(c, start_ms=0) for c in clients)}
    yield {"clients": tuple(replace(c, instance_id=None) for c in clients)}
    yield {"clients": tuple(replace(c, server_assignor=None) for c in clients)}
    yield {"clients": tuple(replace(c, client_assignors=None) for c in clients)}
    yield {"clients": tuple(replace(c, callback=_AT_ONCE) for c in clients)}
    every_topic = tuple(topic.name for topic in world.topics)
    yield {"clients": tuple(replace(c, topics=every_topic, topic_regex=None) for c in clients)}
    for index, client in enumerate(clients):
        for plain in _simpler_clients(client):
            yield {"clients": (*clients[:index], plain, *clients[index + 1 :])}
    for index, fault in enumerate(world.faults):
        for simpler in fault.simpler(every_topic):
            yield {"faults": (*world.faults[:index], simpler, *world.faults[index + 1 :])}


def _simpler_configs(config: CoordinatorConfig) -> Iterator[CoordinatorConfig]:
    """Without what a reader has to wait for, and with the defaults elsewhere."""
    for name in _WAITS:
        if getattr(config, name):
            at_once: dict[str, Any] = {name: 0}
            yield replace(config, **at_once)
    others = [field.name for field in fields(config) if field.name not in _WAITS]
    usual = CoordinatorConfig()
    changes = {name: getattr(usual, name) for name in others}
    changes = {name: value for name, value in changes.items() if getattr(config, name) != value}
    if changes:
        yield replace(config, **changes)
    for name, value in changes.items():
        with suppress(ValueError):  # It may have to lie between two others.
            yield replace(config, **{name: value})


def _simpler_clients(client: ClientSpec) -> Iterator[ClientSpec]:
    usual = ClientSpec(
        name=client.name,
        topics=client.topics,
        kind=client.kind,
        assignors=default_assignors(client.kind),
    )
    for name in _CLIENT_SETTINGS:
        if getattr(client, name) != getattr(usual, name):
            changes: dict[str, Any] = {name: getattr(usual, name)}
            with suppress(ValueError):  # It may have to fit another.
                yield replace(client, **changes)
    if client.client_assignors is not None:
        for assignors in _simpler_assignors(client.client_assignors):
            yield replace(client, client_assignors=assignors)


def _simpler_assignors(spec: ClientAssignorsSpec) -> Iterator[ClientAssignorsSpec]:
    """One assignor instead of several, one that takes no time, one without settings."""
    if len(spec.names) > 1:
        for name in spec.names:
            settings = spec.streams if name == "streams" else None
            yield replace(spec, names=(name,), streams=settings)
    if spec.compute != _AT_ONCE:
        yield replace(spec, compute=_AT_ONCE)
    if spec.streams not in (None, StreamsSpec()):
        yield replace(spec, streams=StreamsSpec())
