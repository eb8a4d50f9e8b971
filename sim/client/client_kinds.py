"""Which machine plays the member of a client: one small maker for each kind.

A further kind is one more entry here and in ``protocol.clients.common.kinds``; the host of the
process (``sim.client.client_process``) knows no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from rebalance_sim.protocol.assignors.classic import ClassicAssignor
from rebalance_sim.protocol.clients import ConsumerConfig, ConsumerMember, GroupMember
from rebalance_sim.protocol.clients.common.kinds import (
    CLASSIC,
    CLASSIC_KINDS,
    JAVA,
    LIBRDKAFKA,
    LIBRDKAFKA_CLASSIC,
)
from rebalance_sim.protocol.clients.java.classic import ClassicConsumer, ClassicConsumerConfig
from rebalance_sim.protocol.clients.librdkafka import LibrdkafkaMember
from rebalance_sim.protocol.clients.librdkafka.classic import LibrdkafkaClassicMember
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.sim.client.client_assignors import make_assignors
from rebalance_sim.sim.spec import ClientSpec

__all__ = ["looks_at_topics", "make_member"]

Jitter = Callable[[], float]


def make_member(
    spec: ClientSpec,
    *,
    group_id: str,
    member_id: str,
    semantics: Semantics,
    jitter: Jitter,
    now_ms: int,
) -> GroupMember:
    """The member of a new process. ``jitter`` answers a number in [-1, 1]."""
    settings: dict[str, Any] = {
        "group_id": group_id,
        "group_instance_id": spec.instance_id,
        "client_rack": spec.rack,
        "max_poll_interval_ms": spec.max_poll_interval_ms,
        "enable_auto_commit": spec.enable_auto_commit,
        "auto_commit_interval_ms": spec.auto_commit_interval_ms,
        "request_timeout_ms": spec.request_timeout_ms,
        # Brokers before 4.2 know no topic ids in offset requests.
        "uses_topic_ids": spec.uses_topic_ids and semantics.coordinator.takes_topic_ids_of_offsets,
    }
    return _MAKERS[spec.kind](spec, settings, member_id, semantics, jitter, now_ms)


def looks_at_topics(spec: ClientSpec) -> bool:
    """Whether the client itself has to look which topics there are, and which of them its pattern
    matches: no coordinator does it for it."""
    return spec.kind in CLASSIC_KINDS


Settings = dict[str, Any]


def _consumer_config(spec: ClientSpec, settings: Settings, semantics: Semantics) -> ConsumerConfig:
    return ConsumerConfig(
        group_remote_assignor=spec.server_assignor,
        group_local_assignors=make_assignors(spec.name, spec.client_assignors, semantics),
        **settings,
    )


def _make_java(
    spec: ClientSpec,
    settings: Settings,
    member_id: str,
    semantics: Semantics,
    jitter: Jitter,
    now_ms: int,
) -> GroupMember:
    return ConsumerMember(
        config=_consumer_config(spec, settings, semantics),
        member_id=member_id,
        rules=semantics.member,
        jitter=jitter,
        now_ms=now_ms,
    )


def _make_librdkafka(
    spec: ClientSpec,
    settings: Settings,
    member_id: str,
    semantics: Semantics,
    jitter: Jitter,
    now_ms: int,
) -> GroupMember:
    """Versions and defects of the Java client do not concern it."""
    config = _consumer_config(spec, settings, semantics)
    return LibrdkafkaMember(config=config, member_id=member_id, jitter=jitter, now_ms=now_ms)


def _classic_config(
    spec: ClientSpec, settings: Settings, assignors: Mapping[str, ClassicAssignor]
) -> ClassicConsumerConfig:
    return ClassicConsumerConfig(
        assignors=tuple(assignors[name] for name in spec.assignors),
        session_timeout_ms=spec.session_timeout_ms,
        heartbeat_interval_ms=spec.heartbeat_interval_ms,
        **settings,
    )


def _make_classic(
    spec: ClientSpec,
    settings: Settings,
    member_id: str,
    semantics: Semantics,
    jitter: Jitter,
    now_ms: int,
) -> GroupMember:
    """Its member id comes from the coordinator."""
    config = _classic_config(spec, settings, semantics.classic_assignors)
    return ClassicConsumer(
        config=config, rules=semantics.classic_member, jitter=jitter, now_ms=now_ms
    )


def _make_librdkafka_classic(
    spec: ClientSpec,
    settings: Settings,
    member_id: str,
    semantics: Semantics,
    jitter: Jitter,
    now_ms: int,
) -> GroupMember:
    """Likewise; versions and defects of the Java client do not concern it."""
    config = _classic_config(spec, settings, semantics.librdkafka_assignors)
    return LibrdkafkaClassicMember(config=config, jitter=jitter, now_ms=now_ms)


_MAKERS: Mapping[str, Callable[..., GroupMember]] = MappingProxyType(
    {
        JAVA: _make_java,
        LIBRDKAFKA: _make_librdkafka,
        CLASSIC: _make_classic,
        LIBRDKAFKA_CLASSIC: _make_librdkafka_classic,
    }
)
