"""Every key of a scenario file, from the classes that read them: type, unit, default, bounds.

What a key means is the text below its field; what it is called in Kafka stands in
``kafka_names.py``. Bounds are found out: the class is asked with values from far below to far above
the default, the other keys being as they are by default.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from rebalance_sim.protocol.clients.kinds import KINDS
from rebalance_sim.protocol.runtime.coordinator_config import MIGRATION_POLICIES, CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.codec import encode
from rebalance_sim.scenarios.kafka_names import kafka_name
from rebalance_sim.scenarios.recurring import MEANINGS
from rebalance_sim.scenarios.scenario import COUNT, Scenario
from rebalance_sim.sim.broker.broker_spec import BrokerSpec
from rebalance_sim.sim.broker.event_processing_spec import EventProcessingSpec
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec, StreamsSpec
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.client.transactions_spec import TransactionsSpec
from rebalance_sim.sim.data_plane.poison_pills import PillEffect, PoisonPillSpec
from rebalance_sim.sim.data_plane.topic_spec import TopicSpec
from rebalance_sim.sim.data_plane.workers_spec import WorkersSpec
from rebalance_sim.sim.delays import DelaySpec
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.network.network_spec import NetworkSpec
from rebalance_sim.sim.phases import Phase
from rebalance_sim.sim.spec import WorldSpec

_FAR = 2**62
_PLAIN = (-1, 0, 1)
"""Bounds that no key sets."""

_ANYTHING = (1, 1_000, 100_000)
"""Values to begin with where the default is none."""

_UNITS = {
    "_ms": "ms",
    "_us": "microseconds",
    "_ns": "nanoseconds",
    "_minutes": "minutes",
    "_bytes": "bytes",
    "_per_second": "records/s",
    "_records": "records",
}
_CHOICES: Mapping[tuple[type, str], tuple[str, ...]] = {
    (ClientSpec, "kind"): tuple(KINDS),
    (WorldSpec, "semantics"): tuple(SEMANTICS),
    (CoordinatorConfig, "group_consumer_migration_policy"): MIGRATION_POLICIES,
}

_CLIENT = ClientSpec(name="a", topics=("orders",))
_TOPIC = TopicSpec(name="orders", partition_count=6)
_WORLD = WorldSpec(seed=1, topics=(_TOPIC,), clients=(_CLIENT,), duration_ms=60_000)

TABLES: Mapping[str, Any] = {
    "": Scenario(name="a scenario", world=_WORLD),
    "phases": Phase(name="deploy"),
    "world": _WORLD,
    "world.topics": _TOPIC,
    "world.clients": _CLIENT,
    "world.clients.client_assignors": ClientAssignorsSpec(names=("sticky", "streams")),
    "world.clients.client_assignors.streams": StreamsSpec(),
    "world.topics.poison_pills": PoisonPillSpec(effect=PillEffect.CRASH, offset=500),
    "world.clients.workers": WorkersSpec(records_per_second=200),
    "world.clients.transactions": TransactionsSpec(),
    "world.brokers": BrokerSpec(),
    "world.brokers.event_processing": EventProcessingSpec(),
    "world.network": NetworkSpec(),
    "world.config": CoordinatorConfig(),
    "delay": DelaySpec(min_ms=0),
}
"""A value of each table of a file, by its path; ``delay`` stands for those that are one."""


class Bound(NamedTuple):
    """What a number may be at least, or at most. ``key``: of the same table, which sets it; empty:
    it is what it is."""

    value: int
    key: str = ""
    beyond: int = 0
    """How far it is from the value of that key."""


@dataclass(frozen=True)
class Key:
    """A key of a table.

    ``is_optional``: it may be ``"none"``. ``default``: as a file would have it, None for none.
    ``least`` and ``most`` bound a number, None: nothing does. ``unit``: empty for what has none.
    ``choices``: all values that there are, empty where they are not counted.
    """

    name: str
    type_name: str
    is_required: bool
    is_optional: bool
    default: Any
    least: Bound | None
    most: Bound | None
    unit: str
    choices: tuple[str, ...]
    kafka: str
    meaning: str


@functools.cache
def keys_of(table: str) -> tuple[Key, ...]:
    """The keys of the table at this path of ``TABLES``, in the order of its class. Raises KeyError
    if there is none."""
    example = TABLES[table]
    cls: Any = type(example)
    hints, meanings = get_type_hints(cls), meanings_of(cls)
    found = [
        _key(example, field, hints[field.name], meanings.get(field.name, ""))
        for field in dataclasses.fields(example)
    ]
    if cls is ClientSpec:
        meaning = (
            "So many clients that are alike: ``app`` becomes ``app-00``, ``app-01`` and so on."
        )
        found.insert(
            1, Key(COUNT, "whole number", False, False, 1, Bound(1), None, "", (), "", meaning)
        )
    return tuple(found)


def _key(example: Any, field: dataclasses.Field[Any], hint: Any, meaning: str) -> Key:
    cls, name = type(example), field.name
    arms = _arms(hint)
    is_number = arms[0] is int
    least, most = _bounds(example, name) if is_number else (None, None)
    choices = _CHOICES.get((cls, name), ())
    if isinstance(arms[0], type) and issubclass(arms[0], Enum):
        choices = tuple(one.value for one in arms[0])
    default = _default(field)
    return Key(
        name=name,
        type_name=_type_name(arms[0]),
        is_required=default is dataclasses.MISSING,
        is_optional=type(None) in get_args(hint),
        default=None if default is dataclasses.MISSING else encode(default, defaults=False),
        least=least,
        most=most,
        unit=next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
        if is_number
        else "",
        choices=choices,
        kafka=kafka_name(cls, name),
        meaning=meaning,
    )


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _arms(hint: Any) -> list[Any]:
    """The types of an optional value, without None."""
    if get_origin(hint) in (Union, types.UnionType):
        return [arm for arm in get_args(hint) if arm is not type(None)]
    return [hint]


_SCALARS = {int: "whole number", str: "text", bool: "true or false"}


def _type_name(hint: Any) -> str:
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin = get_origin(hint)
    if origin is tuple:
        inner = get_args(hint)[0]
        return "texts" if inner is str else "tables"
    if hint is DelaySpec:
        return "delay"
    if isinstance(hint, type) and issubclass(hint, Enum):
        return "text"
    return "table"


# --- bounds ---------------------------------------------------------------------------------------


def _bounds(example: Any, name: str) -> tuple[Bound | None, Bound | None]:
    least, most = _extremes(example, name)
    return _bound(example, name, 0, least), _bound(example, name, 1, most)


def _bound(example: Any, name: str, side: int, value: int | None) -> Bound | None:
    """The bound, and which key sets it: that with which it moves."""
    if value is None or value in _PLAIN:
        return None if value is None else Bound(value)
    for field in dataclasses.fields(example):
        other = getattr(example, field.name)
        if field.name == name or type(other) is not int:
            continue
        for moved in (other + 1, other - 1):
            try:
                changed = replace(example, **{field.name: moved})
            except ValueError:
                continue
            if _extremes(changed, name)[side] == value + moved - other:
                return Bound(value, field.name, value - other)
    return Bound(value)


def _extremes(example: Any, name: str) -> tuple[int | None, int | None]:
    """The least and the greatest value that the class takes, the others being as they are."""

    def accepts(value: int) -> bool:
        try:
            replace(example, **{name: value})
        except ValueError:
            return False
        return True

    given = getattr(example, name)
    tried = (given,) if given is not None else _ANYTHING
    start = next((value for value in tried if accepts(value)), None)
    if start is None:  # Another key of the example excludes it.
        return None, None
    return _last(accepts, start, -_FAR), _last(accepts, start, _FAR)


def _last(accepts: Callable[[int], bool], inside: int, far: int) -> int | None:
    """The last value towards ``far`` that is accepted; None: all are."""
    if accepts(far):
        return None
    outside = far
    while abs(outside - inside) > 1:
        middle = (inside + outside) // 2
        if accepts(middle):
            inside = middle
        else:
            outside = middle
    return inside


# --- meanings -------------------------------------------------------------------------------------


@functools.cache
def meanings_of(cls: type) -> Mapping[str, str]:
    """What is written below each field of a class, in one line."""
    [found] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(found, ast.ClassDef)
    meanings = {}
    for one, following in zip(found.body, found.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            text = _text(following)
            if text is not None:
                meanings[one.target.id] = " ".join(text.split())
    return meanings


def _text(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return node.value.value if isinstance(node.value.value, str) else None
    return None


# --- a schema -------------------------------------------------------------------------------------


def json_schema() -> dict[str, Any]:
    """The JSON schema of scenario files (draft 2020-12), for editors that complete and check TOML.

    It knows keys, types, choices and bounds; what two keys mean together the reader checks.
    """
    tables = {_definition(path): _table_schema(path) for path in TABLES if path}
    faults = {kind: _fault_schema(kind, cls) for kind, cls in sorted(Fault.kinds().items())}
    tables |= {f"fault_{kind}": schema for kind, schema in faults.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A scenario of rebalance-sim",
        **_table_schema(""),
        "$defs": tables,
    }


def _definition(path: str) -> str:
    return path.replace(".", "_")


def _table_schema(path: str) -> dict[str, Any]:
    keys = keys_of(path)
    return {
        "type": "object",
        "description": (inspect.getdoc(type(TABLES[path])) or "").partition("\n")[0],
        "properties": {key.name: _key_schema(path, key) for key in keys},
        "required": [key.name for key in keys if key.is_required],
        "additionalProperties": False,
    }


def _key_schema(path: str, key: Key) -> dict[str, Any]:
    inner = f"{path}.{key.name}" if path else key.name
    found: dict[str, Any] = {}
    if key.type_name == "delay":
        found = {"$ref": "#/$defs/delay"}
    elif key.name == "faults":
        kinds = [{"$ref": f"#/$defs/fault_{kind}"} for kind in sorted(Fault.kinds())]
        found = {"type": "array", "items": {"oneOf": kinds}}
    elif key.type_name == "tables":
        found = {"type": "array", "items": {"$ref": f"#/$defs/{_definition(inner)}"}}
    elif inner in TABLES:
        found = {"$ref": f"#/$defs/{_definition(inner)}"}
    else:
        found = {"type": _JSON[key.type_name]}
        if key.type_name == "texts":
            found["items"] = {"type": "string"}
        if key.choices:
            found["enum"] = list(key.choices)
        for name, bound in (("minimum", key.least), ("maximum", key.most)):
            if bound is not None and not bound.key:
                found[name] = bound.value
    if key.is_optional:
        found = {"anyOf": [found, {"const": "none"}]}
    if not key.is_required and key.default is not None:
        found["default"] = key.default
    unit = f", in {key.unit}" if key.unit else ""
    kafka = f" (Kafka: {key.kafka})" if key.kafka else ""
    return {"description": f"{key.meaning.replace('``', '`')}{kafka}{unit}", **found}


_JSON = {
    "whole number": "integer",
    "text": "string",
    "true or false": "boolean",
    "texts": "array",
    "table": "object",
}


def _fault_schema(kind: str, cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    fields = [field for field in dataclasses.fields(cls) if field.init]
    return {
        "type": "object",
        "description": (inspect.getdoc(cls) or "").partition("\n")[0],
        "properties": {
            "kind": {"const": kind},
            **{
                key: {"type": "integer", "minimum": 0, "description": meaning}
                for key, meaning in MEANINGS.items()
            },
            **{field.name: _loose_schema(hints[field.name]) for field in fields},
        },
        "required": ["kind", *_required(fields)],
        "additionalProperties": False,
    }


def _required(fields: list[dataclasses.Field[Any]]) -> Iterator[str]:
    for field in fields:
        if _default(field) is dataclasses.MISSING:
            yield field.name


def _loose_schema(hint: Any) -> dict[str, Any]:
    arms = _arms(hint)
    plain = [_JSON[_type_name(arm)] for arm in arms if _type_name(arm) in _JSON]
    if len(plain) != len(arms):
        return {}
    names = sorted({*plain, "string"} if type(None) in get_args(hint) else set(plain))
    return {"type": names[0] if len(names) == 1 else names}
