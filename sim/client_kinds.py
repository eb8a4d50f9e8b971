"""Which machine plays the member of a client: one small maker for each kind.

A further kind is one more entry here and in ``protocol.member.kinds``; the host of the process
(``sim.client``) knows no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from protocol.librdkafka import LibrdkafkaMember
from protocol.member import ConsumerConfig, ConsumerMember, GroupMember
from protocol.member.kinds import JAVA, LIBRDKAFKA
from protocol.semantics import Semantics
from sim.client_assignors import make_assignors
from sim.spec import ClientSpec

__all__ = ["make_member"]

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
    config = ConsumerConfig(
        group_id=group_id,
        group_instance_id=spec.instance_id,
        group_remote_assignor=spec.server_assignor,
        group_local_assignors=make_assignors(spec.name, spec.client_assignors, semantics),
        client_rack=spec.rack,
        max_poll_interval_ms=spec.max_poll_interval_ms,
        enable_auto_commit=spec.enable_auto_commit,
        auto_commit_interval_ms=spec.auto_commit_interval_ms,
        request_timeout_ms=spec.request_timeout_ms,
        # Brokers before 4.2 know no topic ids in offset requests.
        uses_topic_ids=spec.uses_topic_ids and semantics.coordinator.takes_topic_ids_of_offsets,
    )
    return _MAKERS[spec.kind](config, member_id, semantics, jitter, now_ms)


def _make_java(
    config: ConsumerConfig, member_id: str, semantics: Semantics, jitter: Jitter, now_ms: int
) -> GroupMember:
    return ConsumerMember(
        config=config, member_id=member_id, rules=semantics.member, jitter=jitter, now_ms=now_ms
    )


def _make_librdkafka(
    config: ConsumerConfig, member_id: str, semantics: Semantics, jitter: Jitter, now_ms: int
) -> GroupMember:
    """Versions and defects of the Java client do not concern it."""
    return LibrdkafkaMember(config=config, member_id=member_id, jitter=jitter, now_ms=now_ms)


_MAKERS: Mapping[str, Callable[[ConsumerConfig, str, Semantics, Jitter, int], GroupMember]] = (
    MappingProxyType({JAVA: _make_java, LIBRDKAFKA: _make_librdkafka})
)
