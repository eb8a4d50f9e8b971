"""The tables of ``keys.md``: every key of a scenario file."""

from __future__ import annotations

from typing import Any

from markdown_lines import table as markdown_table

from rebalance_sim.scenarios.keys import Bound, Key, keys_of

SECTIONS = {
    "keys-file": "",
    "keys-phases": "phases",
    "keys-world": "world",
    "keys-topics": "world.topics",
    "keys-clients": "world.clients",
    "keys-brokers": "world.brokers",
    "keys-event-processing": "world.brokers.event_processing",
    "keys-network": "world.network",
    "keys-config": "world.config",
    "keys-delay": "delay",
    "keys-client-assignors": "world.clients.client_assignors",
    "keys-streams": "world.clients.client_assignors.streams",
}
"""Part of the page -> table of a file."""


def key_table(table: str) -> str:
    """The keys of one table, as rows of Markdown."""
    return markdown_table(("key", "value", "default", "meaning"), map(_cells, keys_of(table)))


def _cells(key: Key) -> tuple[str, ...]:
    kafka = f" Kafka: `{key.kafka}`." if key.kafka else ""
    default = "**required**" if key.is_required else _default(key.default)
    return f"`{key.name}`", _value(key), default, key.meaning.replace("``", "`") + kafka


def _value(key: Key) -> str:
    words = key.type_name if not key.unit else f"{key.type_name}, {key.unit}"
    bounds = [_bound(">", key.least), _bound("<", key.most)]
    if key.choices:
        shown = [name for name in key.choices if not name.endswith("-clean")]
        bounds = ["one of " + ", ".join(f"`{name}`" for name in shown)]
    return "; ".join(filter(None, (words, *bounds)))


def _bound(sign: str, bound: Bound | None) -> str:
    if bound is None:
        return ""
    if not bound.key:
        return f"{sign}= {bound.value:_}"
    return f"{sign}{'' if bound.beyond else '='} `{bound.key}`"


def _default(value: Any) -> str:
    if value is None:
        return "none"
    if value in ("", []):
        return "empty"
    if isinstance(value, dict):
        return _delay(value) if "min_ms" in value else "all defaults"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value:_}"
    return ", ".join(f"`{one}`" for one in value) if isinstance(value, list) else f"`{value}`"


def _delay(value: dict[str, int]) -> str:
    least, most = value["min_ms"], value.get("max_ms")
    return f"{least} ms" if most is None else f"{least} to {most} ms"
