"""Smaller and plainer worlds: the single steps of which shrinking is made.

Each function takes a world and returns another one that says less. Whether it still fails is for
``shrink.py`` to find out; a world that contradicts itself raises ValueError when it is made.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from rebalance_sim.protocol.runtime.coordinator_config import GROUP_SETTINGS
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec, StreamsSpec
from rebalance_sim.sim.client.client_checks import default_assignors
from rebalance_sim.sim.faults.faults import Fault, GroupConfigChange, SubscriptionChange
from rebalance_sim.sim.spec import (
    BrokerSpec,
    ClientSpec,
    DelaySpec,
    NetworkSpec,
    TopicSpec,
    WorldSpec,
)

__all__ = [
    "fault_sizes",
    "plainer_changes",
    "with_clients",
    "with_fault_size",
    "with_groups",
    "with_offsets_partitions",
    "with_partition_count",
    "with_topics",
]

T = TypeVar("T")

_LEAST = {
    "duration_ms": 1,
    "down_ms": 1,
    "gap_ms": 0,
    "factor": 2,
    "callback_ms": 0,
    "partition_count": 1,
}
"""Sizes of faults that may be narrowed, and how far."""

_CLIENT_SETTINGS = (
    "instance_id",
    "server_assignor",
    "client_assignors",
    "start_ms",
    "callback",
    "enable_auto_commit",
    "auto_commit_interval_ms",
    "assignors",
    "metadata_max_age_ms",
    "poll_interval_ms",
    "max_poll_records",
    "max_partition_fetch_records",
    "processing_records_per_second",
)
"""Settings of a client that are given their default if nothing is lost by it."""

_AT_ONCE = DelaySpec(min_ms=0)
_ONE_MS = DelaySpec(min_ms=1)


def with_clients(world: WorldSpec, clients: tuple[ClientSpec, ...]) -> WorldSpec:
    """Only these clients, and no fault that names another. Raises ValueError for none."""
    if not clients:
        raise ValueError("a world without clients cannot fail")
    names = {client.name for client in clients}
    faults = []
    for fault in world.faults:
        if getattr(fault, "client", None) not in (None, *names):
            continue
        named = getattr(fault, "clients", ())
        if named:
            kept = tuple(name for name in named if name in names)
            if not kept:
                continue
            fault = _changed(fault, clients=kept)
        faults.append(fault)
    return replace(world, clients=clients, faults=tuple(faults))


def with_groups(world: WorldSpec, group_ids: tuple[str, ...]) -> WorldSpec:
    """Only these groups with their clients; what concerns another group alone goes with it.

    Raises ValueError for none.
    """
    kept = with_clients(world, tuple(c for c in world.clients if world.group_of(c) in group_ids))
    gone = set(world.group_ids) - set(group_ids)
    faults = tuple(fault for fault in kept.faults if getattr(fault, "group", None) not in gone)
    return replace(kept, faults=faults)


def with_offsets_partitions(world: WorldSpec, count: int) -> WorldSpec:
    """So many partitions of ``__consumer_offsets``; a fault of one that is gone is one of the
    world's group."""
    brokers = replace(world.brokers, offsets_partition_count=count)
    faults = tuple(
        _changed(fault, offsets_partition=None)
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
    faults = []
    for fault in world.faults:
        if getattr(fault, "topic", None) in gone:
            continue
        subscribed = getattr(fault, "topics", None)
        if subscribed:
            kept = tuple(name for name in subscribed if name not in gone)
            fault = _changed(fault, topics=kept)
        faults.append(fault)
    return replace(world, topics=topics, clients=clients, faults=tuple(faults))


def with_partition_count(world: WorldSpec, topic: str, count: int) -> WorldSpec:
    """The topic starts with this many partitions."""
    topics = tuple(
        replace(t, partition_count=count) if t.name == topic else t for t in world.topics
    )
    return replace(world, topics=topics)


def fault_sizes(fault: Fault) -> Iterator[tuple[str, int]]:
    """(field, least value) for everything in a fault that can be made smaller."""
    for field in dataclasses.fields(fault):
        least = _LEAST.get(field.name)
        value = getattr(fault, field.name)
        if least is not None and isinstance(value, int) and value > least:
            yield field.name, least


def with_fault_size(world: WorldSpec, index: int, name: str, value: int) -> WorldSpec:
    """One fault with one of its sizes changed."""
    faults = list(world.faults)
    faults[index] = _changed(faults[index], **{name: value})
    return replace(world, faults=tuple(faults))


def plainer_changes(world: WorldSpec) -> Iterator[Mapping[str, Any]]:
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
    if world.config.group_consumer_assignment_interval_ms:
        yield {"config": replace(world.config, group_consumer_assignment_interval_ms=0)}
    if world.config.group_coordinator_append_linger_ms:
        yield {"config": replace(world.config, group_coordinator_append_linger_ms=0)}
    if world.config.group_initial_rebalance_delay_ms:
        yield {"config": replace(world.config, group_initial_rebalance_delay_ms=0)}
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
        for plain in _plainer_clients(client):
            yield {"clients": (*clients[:index], plain, *clients[index + 1 :])}
    for index, fault in enumerate(world.faults):
        if isinstance(fault, SubscriptionChange) and fault.topics:
            for topics in _plainer_topics(fault.topics, every_topic):
                plain_fault = replace(fault, topics=topics)
                yield {"faults": (*world.faults[:index], plain_fault, *world.faults[index + 1 :])}
        elif isinstance(fault, GroupConfigChange):
            for plain_change in _plainer_settings(fault):
                yield {"faults": (*world.faults[:index], plain_change, *world.faults[index + 1 :])}
        elif getattr(fault, "offsets_partition", None) is not None:
            of_group = _changed(fault, offsets_partition=None)
            yield {"faults": (*world.faults[:index], of_group, *world.faults[index + 1 :])}


def _plainer_topics(topics: tuple[str, ...], initial: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """One topic less, or none that has to be created first."""
    if len(topics) > 1:
        yield from (tuple(t for t in topics if t != name) for name in topics)
    elif not set(topics) <= set(initial):
        yield initial


def _plainer_settings(change: GroupConfigChange) -> Iterator[GroupConfigChange]:
    """One setting less, unless it is the only one."""
    if len(change.changes) < 2:
        return
    for setting in GROUP_SETTINGS:
        if getattr(change, setting.name) is not None:
            yield _changed(change, **{setting.name: None})
    for name in change.deletes:
        yield replace(change, deletes=tuple(other for other in change.deletes if other != name))


def _plainer_clients(client: ClientSpec) -> Iterator[ClientSpec]:
    usual = ClientSpec(
        name=client.name,
        topics=client.topics,
        kind=client.kind,
        assignors=default_assignors(client.kind),
    )
    for name in _CLIENT_SETTINGS:
        if getattr(client, name) != getattr(usual, name):
            yield _changed(client, **{name: getattr(usual, name)})
    if client.client_assignors is not None:
        for assignors in _plainer_assignors(client.client_assignors):
            yield replace(client, client_assignors=assignors)


def _plainer_assignors(spec: ClientAssignorsSpec) -> Iterator[ClientAssignorsSpec]:
    """One assignor instead of several, one that takes no time, one without settings."""
    if len(spec.names) > 1:
        for name in spec.names:
            settings = spec.streams if name == "streams" else None
            yield replace(spec, names=(name,), streams=settings)
    if spec.compute != _AT_ONCE:
        yield replace(spec, compute=_AT_ONCE)
    if spec.streams not in (None, StreamsSpec()):
        yield replace(spec, streams=StreamsSpec())


def _changed(value: T, **changes: Any) -> T:
    """``replace`` for a value whose fields are known by name only."""
    plain: Any = value
    return cast(T, dataclasses.replace(plain, **changes))
