"""Topics and clients from what Kafka's tools print about a group.

``kafka-consumer-groups.sh --describe``, also with ``--members --verbose`` or ``--state``, prints
tables; ``kafka-configs.sh --describe`` lines of settings. One file may have several of them, in any
order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.toml import read_text

_DEFAULTS = CoordinatorConfig()
_NOTHING = "-"
_SETTING = re.compile(r"^\s+([a-z][a-z.]+)=(\S*)(?: sensitive=|\s*$)")
_OF_GROUP = "consumer."


@dataclass(frozen=True)
class Described:
    """What is known of a group: ``topics`` by name with their number of partitions; an entry for
    each member; settings of the broker; and what was printed and is not modelled."""

    group_id: str
    topics: Mapping[str, int]
    members: tuple[Mapping[str, Any], ...]
    config: Mapping[str, Any]
    not_modelled: tuple[str, ...]


def read_described(path: Path) -> Described:
    """What a file says. Raises ScenarioError, with the file, if it has no table of a group."""
    try:
        return described(read_text(path))
    except ScenarioError as problem:
        raise problem if problem.source else problem.within(str(path)) from None


def described(text: str) -> Described:
    """The same from the text."""
    rows = list(_rows(text))
    groups = sorted({row["GROUP"] for row in rows})
    if not groups:
        raise ScenarioError(
            "has no table of a group; give what kafka-consumer-groups.sh --describe prints, with "
            "its line GROUP ..."
        )
    if len(groups) > 1:
        raise ScenarioError(f"has several groups ({', '.join(groups)}); give one")
    partitions: dict[str, int] = {}
    for row in rows:
        topic, partition = row.get("TOPIC", _NOTHING), row.get("PARTITION", "")
        if topic != _NOTHING and partition.isdigit():
            partitions[topic] = max(partitions.get(topic, 0), int(partition) + 1)
    config, unknown = _config(text)
    members = tuple(_members(rows, sorted(partitions)))
    if not partitions:
        raise ScenarioError(
            "has no topics; add what kafka-consumer-groups.sh --describe prints without --members"
        )
    return Described(groups[0], partitions, members, config, unknown)


def _rows(text: str) -> Iterator[dict[str, str]]:
    """The rows of every table, by column. A column ends where the next one begins in no line, so
    that values are distinguished by blanks; ``COORDINATOR (ID)`` is two of them."""
    head: list[str] = []
    for line in text.splitlines():
        words = line.replace("COORDINATOR (ID)", "COORDINATOR ID").split()
        if words[:1] == ["GROUP"]:
            head = words
        elif not words:
            head = []
        elif head and len(words) >= len(head) - 1:
            yield dict(zip(head, words, strict=False))


def _members(rows: list[dict[str, str]], topics: list[str]) -> Iterator[dict[str, Any]]:
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.get("CONSUMER-ID", _NOTHING) != _NOTHING:
            found.setdefault(row["CONSUMER-ID"], {}).update(row)
    strategies = {row["ASSIGNMENT-STRATEGY"] for row in rows if "ASSIGNMENT-STRATEGY" in row}
    assignors = sorted(strategies & CLASSIC_ASSIGNORS.keys())
    is_classic = bool(assignors) and not any("GROUP-EPOCH" in r for r in rows)
    used: Counter[str] = Counter()
    for row in found.values():
        name = row.get("CLIENT-ID", _NOTHING)
        name = "consumer" if name == _NOTHING else name
        used[name] += 1
        entry: dict[str, Any] = {"name": name if used[name] == 1 else f"{name}-{used[name]}"}
        entry["topics"] = topics
        if row.get("GROUP-INSTANCE-ID", _NOTHING) != _NOTHING:
            entry["instance_id"] = row["GROUP-INSTANCE-ID"]
        if is_classic:
            entry["kind"] = CLASSIC
            entry["assignors"] = assignors
        yield entry


def _config(text: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    config: dict[str, Any] = {}
    unknown = []
    for line in text.splitlines():
        setting = _SETTING.match(line)
        if setting is None:
            continue
        name, value = setting.groups()
        key = name.replace(".", "_")
        if name.startswith(_OF_GROUP):  # A setting of one group is the broker's for all.
            key = f"group_{key}"
        if hasattr(_DEFAULTS, key) and re.fullmatch(r"-?\d+", value):
            config[key] = int(value)
            for bound in ("min", "max"):
                config |= _bound_of(key, bound, int(value))
        else:
            unknown.append(name)
    return config, tuple(unknown)


def _bound_of(key: str, bound: str, value: int) -> dict[str, int]:
    """The broker's bound of a setting, moved as far as the setting asks for."""
    name = key.replace("group_consumer_", f"group_consumer_{bound}_")
    default = getattr(_DEFAULTS, name, None)
    if name == key or default is None:
        return {}
    is_inside = default <= value if bound == "min" else default >= value
    return {} if is_inside else {name: value}
