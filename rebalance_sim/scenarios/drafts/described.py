"""Topics and clients from what Kafka's tools print about a group.

``kafka-consumer-groups.sh --describe``, also with ``--members --verbose`` or ``--state``, prints
tables; ``kafka-configs.sh --describe`` lines of settings. One file may have several of them, in any
order.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.assignors.server import DEFAULT_ASSIGNORS
from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.kafka_names import BROKER
from rebalance_sim.scenarios.toml import read_text

_DEFAULTS = CoordinatorConfig()
_NOTHING = "-"
_WORD = re.compile(r"COORDINATOR \(ID\)|\S+(?: +\(\d+\))?")
"""A cell; that of a coordinator is its address and its id in brackets."""
_SETTING = re.compile(r"^\s+([a-z][a-z.]+)=(\S*)(?: sensitive=\S+ synonyms=\{(.*)\}|\s*$)")
_DEFAULT_ONLY = re.compile(r"DEFAULT_CONFIG:[^,]*")
_SECTION = re.compile(r"(?:All|Dynamic|Default) configs for (\w+)")
_OF_GROUP = "consumer."


@dataclass(frozen=True)
class Described:
    """What is known of a group: ``topics`` by name with their number of partitions; an entry for
    each member; settings of the coordinator and of the brokers; and what was printed and is not
    modelled."""

    group_id: str
    topics: Mapping[str, int]
    members: tuple[Mapping[str, Any], ...]
    config: Mapping[str, Any]
    brokers: Mapping[str, Any]
    not_modelled: tuple[str, ...]


def read_described(path: Path) -> Described:
    """What a file says. Raises ScenarioError, with the file, if it has no table of a group."""
    try:
        return described(read_text(path, wanted="what Kafka's tools print"))
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
    config, brokers, unknown = _config(text)
    members = tuple(_members(rows, sorted(partitions)))
    if not partitions:
        raise ScenarioError(
            "has no topics; add what kafka-consumer-groups.sh --describe prints without --members"
        )
    return Described(groups[0], partitions, members, config, brokers, unknown)


def _rows(text: str) -> Iterator[dict[str, str]]:
    """The rows of every table, by column. Rows of members leave a cell blank where a member is not
    static and others are; such a row is read by the place of its words."""
    columns: list[re.Match[str]] = []
    for line in text.splitlines():
        words = list(_WORD.finditer(line))
        if [one[0] for one in words[:1]] == ["GROUP"]:
            columns = words
        elif not words or line.endswith(":"):  # as in "Dynamic configs for group a are:"
            columns = []
        elif columns and len(words) >= len(columns) - 1:
            yield _row(columns, words)


def _row(columns: Sequence[re.Match[str]], words: Sequence[re.Match[str]]) -> dict[str, str]:
    names = [one[0] for one in columns]
    if len(words) >= len(columns):
        return {name: word[0] for name, word in zip(names, words, strict=False)}
    row = dict.fromkeys(names, _NOTHING)
    starts = [one.start() for one in columns]
    for word in words:
        row[names[bisect_right(starts, word.start()) - 1]] = word[0]
    return row


def _members(rows: list[dict[str, str]], topics: list[str]) -> Iterator[dict[str, Any]]:
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.get("CONSUMER-ID", _NOTHING) != _NOTHING:
            found.setdefault(row["CONSUMER-ID"], {}).update(row)
    protocol = _protocol(rows)
    used: Counter[str] = Counter()
    for row in found.values():
        name = row.get("CLIENT-ID", _NOTHING)
        name = "consumer" if name == _NOTHING else name
        used[name] += 1
        entry: dict[str, Any] = {"name": name if used[name] == 1 else f"{name}-{used[name]}"}
        entry["topics"] = topics
        if row.get("GROUP-INSTANCE-ID", _NOTHING) != _NOTHING:
            entry["instance_id"] = row["GROUP-INSTANCE-ID"]
        yield entry | protocol


def _protocol(rows: list[dict[str, str]]) -> dict[str, Any]:
    """What members have in common. A classic group prints no epochs, and "range" is the name of an
    assignor in both protocols."""
    strategies = {row.get("ASSIGNMENT-STRATEGY", _NOTHING) for row in rows}
    has_epochs = any(
        row.get(column, _NOTHING).isdigit()
        for row in rows
        for column in ("GROUP-EPOCH", "CURRENT-EPOCH")
    )
    if not has_epochs and (assignors := sorted(strategies & CLASSIC_ASSIGNORS.keys())):
        return {"kind": CLASSIC, "assignors": assignors}
    _default, *others = DEFAULT_ASSIGNORS
    return next(({"server_assignor": name} for name in others if name in strategies), {})


def _config(text: str) -> tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]:
    """The settings of the coordinator, those of the brokers, and the names of those that somebody
    set and no scenario has."""
    config: dict[str, Any] = {}
    brokers: dict[str, Any] = {}
    unknown = []
    is_of_topic = False
    for line in text.splitlines():
        if section := _SECTION.match(line):
            is_of_topic = section[1].startswith("topic")
        setting = _SETTING.match(line)
        if setting is None:
            continue
        name, value, synonyms = setting.groups()
        key = name.replace(".", "_")
        if name.startswith(_OF_GROUP):  # A setting of one group is the broker's for all.
            key = f"group_{key}"
        default = getattr(_DEFAULTS, key, None)
        if name in BROKER and value.isdigit() and not is_of_topic:
            brokers[BROKER[name]] = int(value)
        elif type(default) is int and re.fullmatch(r"-?\d+", value):
            config[key] = int(value)
        elif type(default) is str:
            config[key] = value.lower()
        elif value != "null" and not (synonyms and _DEFAULT_ONLY.fullmatch(synonyms)):
            unknown.append(name)
    bounds: dict[str, Any] = {}
    for key, value in config.items():
        for bound in ("min", "max") if type(value) is int else ():
            bounds |= _bound_of(key, bound, value)
    return bounds | config, brokers, tuple(unknown)


def _bound_of(key: str, bound: str, value: int) -> dict[str, int]:
    """The broker's bound of a setting, moved as far as the setting asks for."""
    name = key.replace("group_consumer_", f"group_consumer_{bound}_")
    default = getattr(_DEFAULTS, name, None)
    if name == key or default is None:
        return {}
    is_inside = default <= value if bound == "min" else default >= value
    return {} if is_inside else {name: value}
