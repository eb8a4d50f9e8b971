"""Frozen dataclasses to plain data and back, with errors that name the place.

``encode`` turns a value into dicts, lists, strings and numbers (what TOML and JSON can say);
``decode`` builds it again and checks every key and type on the way. Both work for any tree of
dataclasses, so a new field of the world needs no line here.

- ``None`` is an absent key, or ``"none"``, as which it is written where the field has another
  default. A fault that leaves what it does not name as it is takes ``"none"`` for its empty text.
- A union of dataclasses, such as a fault, is distinguished by the key ``kind``: the class name in
  snake case.
- An enum is its value, a set is a sorted list.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.sim.checks import NONE

KIND = "kind"
"""Key that tells which member of a union a table is."""


T = TypeVar("T")


def encode(value: object, *, defaults: bool = True) -> Any:
    """Plain data for ``value``. Raises TypeError for something that plain data cannot say.

    Without ``defaults``, fields that have their default value are left out; ``decode`` gives back
    an equal value as long as the defaults stay what they are.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_dataclass(value, defaults)
    if isinstance(value, Mapping):
        return {str(key): encode(value[key], defaults=defaults) for key in value}
    if isinstance(value, frozenset | set):
        return sorted(encode(item, defaults=defaults) for item in value)
    if isinstance(value, tuple | list):
        return [encode(item, defaults=defaults) for item in value]
    raise TypeError(f"cannot write a {type(value).__name__} as plain data")


def decode(cls: type[T], data: object, *, place: str = "") -> T:
    """A value of the dataclass ``cls`` from plain data.

    Raises ScenarioError at the first key, type or range that does not fit, but for keys that are
    missing, which are all named; what a class refuses by ValueError in its own checks is reported
    at the place of the table.
    """
    try:
        return cast(T, _decode(cls, data, place))
    except _Missing as first:
        missing = list(_missing(cls, data, place))
        if len(missing) < 2:
            raise ScenarioError(first.problem, place=first.place) from None
        raise ScenarioError(f"{len(missing)} keys are missing: {', '.join(missing)}") from None


class _Missing(ScenarioError):
    """A key is missing, and others may be."""


def kind_of(cls: type) -> str:
    """Name of a class in a file: ``DropRequests`` is ``drop_requests``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()


def _encode_dataclass(value: Any, defaults: bool) -> dict[str, Any]:
    out: dict[str, Any] = {}
    cls: Any = type(value)
    hints = _hints(cls)
    for field in dataclasses.fields(value):
        item = getattr(value, field.name)
        if not defaults and _is_default(field, item):
            continue
        if item is None:
            if field.default is not None:
                out[field.name] = NONE
            continue
        plain = encode(item, defaults=defaults)
        hint = hints[field.name]
        out[field.name] = _tagged(hint, item, plain) if _may_be_tagged(hint) else plain
    return out


def _is_default(field: dataclasses.Field[Any], item: object) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(item == field.default_factory())
    return field.default is not dataclasses.MISSING and bool(item == field.default)


def _tagged(hint: Any, item: object, plain: Any) -> Any:
    """Put ``kind`` in front of each table that stands where several classes may stand."""
    variants = _variants(hint)
    if len(variants) > 1:
        return {KIND: kind_of(type(item)), **plain}
    inner = _item_type(hint)
    if inner is not None and isinstance(item, tuple) and len(_variants(inner)) > 1:
        return [_tagged(inner, one, row) for one, row in zip(item, plain, strict=True)]
    return plain


@functools.cache
def _may_be_tagged(hint: Any) -> bool:
    """Whether several classes may stand there, or in a tuple that stands there: every run of a
    scenario writes it once, for its hash, and few fields are of that sort."""
    return any(hasattr(one, "kinds") or len(_variants(one)) > 1 for one in (hint, _item_type(hint)))


@functools.cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def _variants(hint: Any) -> Mapping[str, type]:
    """The dataclasses of a union, or every kind of a base class that has ``kinds``, such as a
    fault, by kind; empty for any other type."""
    if hasattr(hint, "kinds"):
        return cast(Mapping[str, type], hint.kinds())
    if get_origin(hint) not in (Union, types.UnionType):
        return {}
    arms = (arm for arm in get_args(hint) if isinstance(arm, type))
    return {kind_of(arm): arm for arm in arms if dataclasses.is_dataclass(arm)}


def _item_type(hint: Any) -> Any | None:
    """X of ``tuple[X, ...]``, or of an optional such tuple."""
    for arm in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        if get_origin(arm) is tuple and len(get_args(arm)) == 2 and get_args(arm)[1] is Ellipsis:
            return get_args(arm)[0]
    return None


def _decode(hint: Any, data: object, place: str) -> object:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(hint, data, place)
    if variants := _variants(hint):
        return _decode_variant(variants, data, place)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _decode_dataclass(hint, data, place)
    if origin is tuple:
        return _decode_tuple(get_args(hint), data, place)
    if origin is frozenset:
        rows = _expect(list, data, place)
        inner = get_args(hint)[0]
        return frozenset(_decode(inner, row, f"{place}[{i}]") for i, row in enumerate(rows))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        table = _expect(dict, data, place)
        inner = get_args(hint)[1]
        return {key: _decode(inner, table[key], _join(place, key)) for key in table}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _decode_enum(hint, data, place)
    return _decode_scalar(hint, data, place)


def _decode_dataclass(cls: type, data: object, place: str) -> object:
    table = _expect(dict, data, place)
    hints = _hints(cast(Any, cls))
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for key in table:
        if key not in fields:
            raise ScenarioError(
                f"unknown key {key!r}; {did_you_mean(key, fields)}", place=_join(place, key)
            )
    values: dict[str, object] = {}
    for name, field in fields.items():
        if name in table:
            is_unset = table[name] == NONE and name in getattr(cls, "unset_by_empty", ())
            given = "" if is_unset else table[name]
            values[name] = _decode(hints[name], given, _join(place, name))
        elif _is_required(field):
            raise _Missing(f"key {name!r} is missing; add it", place=place)
    try:
        return cls(**values)
    except ScenarioError as refused:
        raise ScenarioError(refused.problem, place=_join(place, refused.place)) from refused
    except ValueError as refused:
        raise ScenarioError(str(refused), place=place) from refused


def _missing(hint: Any, data: object, place: str) -> Iterator[str]:
    """The place of every key that is missing in tables of these types, whatever else is wrong."""
    variants = _variants(hint)
    if isinstance(data, dict) and variants:
        if KIND not in data:
            yield _join(place, KIND)
        hint = variants.get(data.get(KIND, "")) if isinstance(data.get(KIND, ""), str) else None
    elif get_origin(hint) in (Union, types.UnionType):
        arms = [arm for arm in get_args(hint) if dataclasses.is_dataclass(arm)]
        hint = arms[0] if arms else hint
    if isinstance(data, list) and (inner := _item_type(hint)) is not None:
        for index, row in enumerate(data):
            yield from _missing(inner, row, f"{place}[{index}]")
    elif isinstance(data, dict) and dataclasses.is_dataclass(hint) and isinstance(hint, type):
        hints = _hints(cast(Any, hint))
        for field in dataclasses.fields(hint):
            if field.name in data:
                yield from _missing(hints[field.name], data[field.name], _join(place, field.name))
            elif field.init and _is_required(field):
                inside = list(_missing(hints[field.name], {}, _join(place, field.name)))
                yield from inside or [_join(place, field.name)]


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _decode_union(hint: Any, data: object, place: str) -> object:
    variants = _variants(hint)
    if len(variants) > 1:
        return _decode_variant(variants, data, place)
    arms = [arm for arm in get_args(hint) if arm is not type(None)]
    if data == NONE and len(arms) < len(get_args(hint)):
        return None
    if len(arms) == 1:
        return _decode(arms[0], data, place)
    for arm in arms:
        if isinstance(arm, type) and type(data) is arm:
            return data
    names = " or ".join(_name(arm) for arm in arms)
    raise ScenarioError(f"must be {names}, not {_shown(data)}", place=place)


def _decode_variant(variants: Mapping[str, type], data: object, place: str) -> object:
    table = dict(_expect(dict, data, place))
    kind = table.get(KIND)
    if not isinstance(kind, str) or kind not in variants:
        if kind is None:
            problem = f"key {KIND!r} is missing; known: {', '.join(sorted(variants))}"
        else:
            problem = f"no such kind: {kind!r}; {did_you_mean(str(kind), variants)}"
        raise ScenarioError(problem, place=place)
    if all(field.name != KIND for field in dataclasses.fields(variants[kind])):
        del table[KIND]
    return _decode_dataclass(variants[kind], table, place)


def _decode_tuple(args: tuple[Any, ...], data: object, place: str) -> object:
    rows = _expect(list, data, place)
    if len(args) == 2 and args[1] is Ellipsis:
        return tuple(_decode(args[0], row, f"{place}[{i}]") for i, row in enumerate(rows))
    if len(rows) != len(args):
        raise ScenarioError(f"must have {len(args)} items, not {len(rows)}", place=place)
    return tuple(
        _decode(arg, row, f"{place}[{i}]")
        for i, (arg, row) in enumerate(zip(args, rows, strict=True))
    )


def _decode_enum(cls: type[Enum], data: object, place: str) -> Enum:
    for member in cls:
        if member.value == data and type(member.value) is type(data):
            return member
    remedy = did_you_mean(str(data), (str(member.value) for member in cls))
    raise ScenarioError(f"no such value: {_shown(data)}; {remedy}", place=place)


def _decode_scalar(hint: Any, data: object, place: str) -> object:
    if hint is float and type(data) is int:
        return float(data)
    if type(data) is not hint:
        raise ScenarioError(f"must be {_name(hint)}, not {_shown(data)}", place=place)
    return data


def _expect(cls: type, data: object, place: str) -> Any:
    if cls is list and isinstance(data, tuple):
        return list(data)
    if not isinstance(data, cls):
        raise ScenarioError(f"must be {_name(cls)}, not {_shown(data)}", place=place)
    return data


_NAMES: Mapping[type, str] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    tuple: "a list",
    dict: "a table",
}


def _name(hint: Any) -> str:
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def _shown(data: object) -> str:
    if isinstance(data, dict | list | tuple):
        return _name(type(data))
    return f"{_name(type(data))} ({data!r})"


def _join(place: str, key: str) -> str:
    return ".".join(part for part in (place, key) if part)
