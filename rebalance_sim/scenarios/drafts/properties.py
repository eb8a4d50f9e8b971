"""A client from Kafka's file of its settings, such as ``consumer.properties``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties

from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.kafka_names import CONSUMER, NETWORK
from rebalance_sim.scenarios.keys import keys_of
from rebalance_sim.scenarios.toml import read_text

_PROTOCOLS = {"classic": CLASSIC, "consumer": JAVA}
_ASSIGNORS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_OF_CLASSIC = ("assignors", "session_timeout_ms", "heartbeat_interval_ms")
"""What Java's client refuses, or has from its coordinator, with ``group.protocol=consumer``."""

_COMMITS = {"manual_commit_interval_ms": 5_000, "commits_when_revoked": True}
_COMMITS_REMARK = (
    "enable.auto.commit is false, and no setting says when the application commits: every 5 s and "
    "when partitions are revoked, until manual_commit_interval_ms and commits_when_revoked say "
    "otherwise."
)
_ISOLATION_REMARK = (
    "isolation.level is left out: no topic here has records of transactions. With transactions of "
    "a client it can be set."
)

_TRUTH = {"true": True, "false": False}


class _NotModelledError(Exception):
    """Kafka takes this value, and no scenario has it."""


@dataclass(frozen=True)
class ClientSettings:
    """Values of an entry of ``clients`` and of ``network``; the names of settings that a scenario
    has no key for, with their values where it has a key; and what is to be said about others."""

    client: Mapping[str, Any]
    network: Mapping[str, Any]
    not_modelled: tuple[str, ...]
    remarks: tuple[str, ...]


def read_properties(path: Path) -> ClientSettings:
    """The settings of a file of Java's format. Raises ScenarioError, with file and setting, for
    what cannot be read or is no value of its setting."""
    text = read_text(path, wanted="a consumer.properties")
    try:
        properties = javaproperties.loads(text)
    except javaproperties.InvalidUEscapeError as problem:
        raise ScenarioError(f"is no file of properties: {problem}", source=str(path)) from None
    if not properties:
        raise ScenarioError("has no settings; give lines such as group.id=orders", source=str(path))
    return client_settings(properties, source=str(path))


def client_settings(properties: Mapping[str, str], *, source: str = "") -> ClientSettings:
    """The same from the settings. A consumer without ``group.protocol`` speaks the classic
    protocol, as Kafka's default is up to 4.4."""
    client: dict[str, Any] = {"kind": CLASSIC}
    network: dict[str, Any] = {}
    unknown = []
    types = {key.name: key.type_name for key in keys_of("world.clients")}
    types |= {key.name: key.type_name for key in keys_of("world.network")}
    for name, text in sorted(properties.items()):
        table, key = client, CONSUMER.get(name)
        if key is None:
            table, key = network, NETWORK.get(name)
        if key is None:
            unknown.append(name)
            continue
        try:
            table[key] = _value(key, types[key], text.strip())
        except _NotModelledError as value:
            unknown.append(f"{name}={value}")
        except ValueError as problem:
            raise ScenarioError(f"{text!r} {problem}", place=name, source=source) from None
    remarks = []
    if "group.protocol" not in properties:
        remarks.append("group.protocol is not set, and so classic, as is Kafka's default.")
    if client["kind"] == JAVA:
        dropped = [name for name in sorted(properties) if CONSUMER.get(name) in _OF_CLASSIC]
        remarks += [
            f"{name} is a setting of the classic protocol: with group.protocol=consumer those of "
            "the broker count (world.config)."
            for name in dropped
        ]
        client = {key: value for key, value in client.items() if key not in _OF_CLASSIC}
    if client.get("enable_auto_commit") is False:
        client |= _COMMITS
        remarks.append(_COMMITS_REMARK)
    if client.pop("isolation_level", "read_uncommitted") != "read_uncommitted":
        remarks.append(_ISOLATION_REMARK)
    return ClientSettings(client, network, tuple(unknown), tuple(remarks))


def _value(key: str, type_name: str, text: str) -> Any:
    if key == "kind":
        return _one_of(text.lower(), _PROTOCOLS)
    if key == "assignors":
        names = [one.strip() for one in text.strip("[]").split(",")]
        classes = [name.rpartition(".")[2] for name in names if name]
        if not _ASSIGNORS.keys() >= set(classes):
            raise _NotModelledError(text)
        return [_ASSIGNORS[name] for name in classes]
    if key == "auto_offset_reset":
        if text.lower() == "none" or text.lower().startswith("by_duration:"):
            raise _NotModelledError(text)
        return _one_of(text.lower(), {"earliest": "earliest", "latest": "latest"})
    if type_name == "true or false":
        return _one_of(text.lower(), _TRUTH)
    if type_name == "whole number":
        try:
            return int(text)
        except ValueError:
            raise ValueError("is no whole number") from None
    return text


def _one_of(text: str, known: Mapping[str, Any]) -> Any:
    if text not in known:
        raise ValueError(f"is not modelled; known are {', '.join(known)}")
    return known[text]
