"""The kinds of client that are modelled: the one table that hosts and checks ask."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.franz.classic import KIND as FRANZ_CLASSIC_KIND
from rebalance_sim.protocol.clients.franz.consumer import KIND as FRANZ_CONSUMER_KIND
from rebalance_sim.protocol.clients.java.classic import KIND as JAVA_CLASSIC_KIND
from rebalance_sim.protocol.clients.java.consumer import KIND as JAVA_CONSUMER_KIND
from rebalance_sim.protocol.clients.librdkafka.classic import KIND as LIBRDKAFKA_CLASSIC_KIND
from rebalance_sim.protocol.clients.librdkafka.consumer import KIND as LIBRDKAFKA_CONSUMER_KIND

_KINDS: dict[str, ClientKind] = {
    kind.name: kind
    for kind in (
        JAVA_CONSUMER_KIND,
        LIBRDKAFKA_CONSUMER_KIND,
        JAVA_CLASSIC_KIND,
        LIBRDKAFKA_CLASSIC_KIND,
        FRANZ_CONSUMER_KIND,
        FRANZ_CLASSIC_KIND,
    )
}

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


JAVA = JAVA_CONSUMER_KIND.name
LIBRDKAFKA = LIBRDKAFKA_CONSUMER_KIND.name
CLASSIC = JAVA_CLASSIC_KIND.name
LIBRDKAFKA_CLASSIC = LIBRDKAFKA_CLASSIC_KIND.name
FRANZ = FRANZ_CONSUMER_KIND.name
FRANZ_CLASSIC = FRANZ_CLASSIC_KIND.name

EVERY_KIND = tuple(KINDS)
"""All that are built in."""

CLIENT_KINDS = tuple(n for n, kind in KINDS.items() if kind.protocol is GroupProtocol.CONSUMER)
"""Those that speak the consumer protocol; the first is the default."""

CLASSIC_KINDS = tuple(name for name, kind in KINDS.items() if kind.is_classic)
"""Those that speak the classic protocol."""

JAVA_KINDS = tuple(
    name for name, kind in KINDS.items() if kind.library == JAVA_CONSUMER_KIND.library
)
"""Those of Java, of either protocol."""

LIBRDKAFKA_KINDS = tuple(
    name for name, kind in KINDS.items() if kind.library == LIBRDKAFKA_CONSUMER_KIND.library
)
"""Those of librdkafka, of either protocol."""


def kind_of(library: str, protocol: GroupProtocol) -> ClientKind:
    """The kind of a library and protocol. Raises KeyError if there is none."""
    for kind in KINDS.values():
        if kind.library == library and kind.protocol is protocol:
            return kind
    raise KeyError(f"{library} with group.protocol={protocol.value}")
