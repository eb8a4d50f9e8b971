"""The kinds of client that are modelled: the one table that hosts and checks ask."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from rebalance_sim.protocol.assignors.classic import FRANZ_ASSIGNORS, LIBRDKAFKA_ASSIGNORS
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.common.consumer_config import ConsumerConfig
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.franz.classic.franz_classic import FranzClassicMember
from rebalance_sim.protocol.clients.franz.consumer.franz_consumer import FranzMember
from rebalance_sim.protocol.clients.franz.franz_rules import FranzRules
from rebalance_sim.protocol.clients.java.classic.classic_member_rules import ClassicMemberRules
from rebalance_sim.protocol.clients.java.classic.java_classic import ClassicConsumer
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic import (
    LibrdkafkaClassicMember,
)
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer import LibrdkafkaMember
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules

_JAVA, _LIBRDKAFKA, _FRANZ = ("kafka-clients", "4.3"), ("librdkafka", "2.16"), ("franz-go", "1.22")


def _kind(
    release: tuple[str, str], member: type[GroupMember], rules: type[Any], **more: Any
) -> ClientKind:
    """A kind of this library, in this version of it; it speaks the consumer protocol, unless it is
    configured for the classic one."""
    config = more.setdefault("config", ConsumerConfig)
    is_classic = config is ClassicConsumerConfig
    return ClientKind(
        name=member.kind,
        library=release[0],
        version=release[1],
        protocol=GroupProtocol.CLASSIC if is_classic else GroupProtocol.CONSUMER,
        make=lambda new: new.made(member, rules),
        rules=rules,
        **more,
    )


_BUILT_IN = (
    _kind(_JAVA, ConsumerMember, MemberRules),
    _kind(_LIBRDKAFKA, LibrdkafkaMember, LibrdkafkaRules, knows_topic_ids=False),
    _kind(_JAVA, ClassicConsumer, ClassicMemberRules, config=ClassicConsumerConfig),
    _kind(
        _LIBRDKAFKA,
        LibrdkafkaClassicMember,
        LibrdkafkaRules,
        config=ClassicConsumerConfig,
        assignors=LIBRDKAFKA_ASSIGNORS,
        default_assignors=("range", "roundrobin"),
        mixes_assignors=False,
        knows_topic_ids=False,
    ),
    _kind(_FRANZ, FranzMember, FranzRules),
    _kind(
        _FRANZ,
        FranzClassicMember,
        FranzRules,
        config=ClassicConsumerConfig,
        assignors=FRANZ_ASSIGNORS,
        default_assignors=("cooperative-sticky",),
    ),
)
_KINDS = {kind.name: kind for kind in _BUILT_IN}

KINDS: Mapping[str, ClientKind] = MappingProxyType(_KINDS)
"""Name -> kind. A further one goes to the end: scenarios are drawn in this order. Those that were
registered come last, and are in none of the lists below."""


def register(kind: ClientKind) -> None:
    """Add a kind whose module lies elsewhere: clients of a scenario may be of it from now on. What
    its members say they are (``GroupMember.kind``) decides by which properties they are judged.
    Raises ValueError for a name that is taken."""
    if kind.name in _KINDS:
        raise ValueError(f"there is a kind of client {kind.name!r} already")
    _KINDS[kind.name] = kind


EVERY_KIND = tuple(KINDS)
"""All that are built in."""

JAVA, LIBRDKAFKA, CLASSIC, LIBRDKAFKA_CLASSIC, FRANZ, FRANZ_CLASSIC = EVERY_KIND

CLIENT_KINDS = tuple(n for n, kind in KINDS.items() if kind.protocol is GroupProtocol.CONSUMER)
"""Those that speak the consumer protocol; the first is the default."""

CLASSIC_KINDS = tuple(name for name, kind in KINDS.items() if kind.is_classic)
"""Those that speak the classic protocol."""

JAVA_KINDS = (JAVA, CLASSIC)
"""Those of Java, of either protocol."""

LIBRDKAFKA_KINDS = (LIBRDKAFKA, LIBRDKAFKA_CLASSIC)
"""Those of librdkafka, of either protocol."""


def kind_of(library: str, protocol: GroupProtocol) -> ClientKind:
    """The kind of a library and protocol. Raises KeyError if there is none."""
    for kind in KINDS.values():
        if kind.library == library and kind.protocol is protocol:
            return kind
    raise KeyError(f"{library} with group.protocol={protocol.value}")
