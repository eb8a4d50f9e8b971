"""Which settings of a client only one protocol has, and what applies to a client of the other.

Kafka's ``ConsumerConfig`` (kafka-clients 4.3.1) refuses the same ones for a ``group.protocol``. A
deployment may change what a client speaks, so a client may have settings for later. One that no
kind that it ever has reads is not kept: two worlds that differ in nothing else are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, NamedTuple, TypeVar

from rebalance_sim.protocol.clients.common.client_kind import GroupProtocol
from rebalance_sim.protocol.clients.kinds import KINDS
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.faults.fault import Fault

_T = TypeVar("_T", ClientSpec, Fault)


class OnlyOf(NamedTuple):
    """The protocol that has a setting, and which one applies in the other."""

    protocol: GroupProtocol
    instead: str


ONLY_OF: Mapping[str, OnlyOf] = {
    "session_timeout_ms": OnlyOf(
        GroupProtocol.CLASSIC, "world.config.group_consumer_session_timeout_ms"
    ),
    "heartbeat_interval_ms": OnlyOf(
        GroupProtocol.CLASSIC, "world.config.group_consumer_heartbeat_interval_ms"
    ),
    "assignors": OnlyOf(GroupProtocol.CLASSIC, "server_assignor"),
    "server_assignor": OnlyOf(GroupProtocol.CONSUMER, "assignors"),
}
"""By name of the field, of clients and of deployments."""


def protocols_spoken(
    clients: Iterable[ClientSpec], faults: Iterable[Fault]
) -> Mapping[str, frozenset[GroupProtocol]]:
    """What each client speaks at some time, by its name."""
    kinds = {client.name: {client.kind} for client in clients}
    for fault in faults:
        kind = getattr(fault, "to_kind", None)
        if kind is not None:
            for name in _clients_of(fault, kinds):
                kinds[name].add(kind)
    return {
        name: frozenset(KINDS[kind].protocol for kind in of_client)
        for name, of_client in kinds.items()
    }


def fitting(
    clients: Iterable[ClientSpec], faults: Iterable[Fault]
) -> tuple[tuple[ClientSpec, ...], tuple[Fault, ...]]:
    """Clients and faults without settings that nothing ever reads."""
    clients, faults = tuple(clients), tuple(faults)
    spoken = protocols_spoken(clients, faults)
    return (
        tuple(_without(client, spoken[client.name]) for client in clients),
        tuple(
            _without(fault, frozenset().union(*(spoken[n] for n in _clients_of(fault, spoken))))
            if _settings_of(fault)
            else fault
            for fault in faults
        ),
    )


def _clients_of(fault: Fault, known: Iterable[str]) -> Iterator[str]:
    """A deployment names one client, several, or, by naming none, all of them."""
    client = getattr(fault, "client", None)
    yield from getattr(fault, "clients", ()) or (known if client is None else (client,))


def _settings_of(value: ClientSpec | Fault) -> Mapping[str, Any]:
    """Those that can be left out, with what they are then."""
    defaults: dict[str, Any] = {field.name: field.default for field in fields(value)}
    return {name: defaults[name] for name in ONLY_OF if defaults.get(name, MISSING) is not MISSING}


def _without(value: _T, spoken: frozenset[GroupProtocol]) -> _T:
    changes = {
        name: default
        for name, default in _settings_of(value).items()
        if ONLY_OF[name].protocol not in spoken and getattr(value, name) != default
    }
    return replace(value, **changes) if changes else value
