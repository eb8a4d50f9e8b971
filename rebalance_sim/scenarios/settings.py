"""Values of a scenario or a profile, set by path: ``world.config.group_max_size`` is ``3``.

A path is made of keys between dots. An entry of a list is named by its number, ``faults[1]``, by
what its key ``name`` or ``kind`` says, ``faults.broker_crash``, or all of them are, ``clients[*]``.
A value is what TOML has on the right of an equals sign. In place of one, each seed can draw its
own, the same in whatever it is run under: ``{ between = [1_000, 9_000] }``, both ends included, or
``{ one_of = [100, 200] }``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import tomli_w

from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.toml import DEEPEST, check_values
from rebalance_sim.sim.checks import NONE
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.streams import Streams

_SEGMENT = re.compile(r"(?P<key>[A-Za-z0-9_-]+)(?P<indices>(\[(\d{1,9}|\*)\])*)")
_IDENTITIES = ("name", "kind")
_OF_SCENARIOS = frozenset({"world", "max_steps", "phases"})
_BETWEEN, _ONE_OF = "between", "one_of"
_SHOWN = 80


class Setting(NamedTuple):
    """A path, and the TOML text of the value that belongs there."""

    path: str
    value: str

    def __str__(self) -> str:
        return f"{self.path}={self.value}"

    @property
    def is_of_scenario(self) -> bool:
        """Whether it is a value of scenarios, and not of the profile that makes them."""
        return re.split(r"[.\[]", self.path, maxsplit=1)[0] in _OF_SCENARIOS

    @property
    def plain(self) -> Any:
        """The value as plain data."""
        return _parse(self.value, self.path)

    @classmethod
    def of(cls, path: str, value: object) -> Setting:
        """A setting with a value as plain data. Raises ScenarioError for one that TOML cannot say,
        and for what is no path."""
        _segments(path)
        _check(value, path)
        value = NONE if value is None else value
        try:
            text = tomli_w.dumps({"v": {"v": value}}, multiline_strings=False)
        except (TypeError, ValueError) as problem:
            raise ScenarioError(f"cannot be written as TOML: {value!r}", place=path) from problem
        parsed = tomllib.loads(text)["v"]["v"]
        return cls(path, _inline(parsed))

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Read ``path=value``. Raises ScenarioError."""
        path, equals, value = text.partition("=")
        path = path.strip()
        if not equals or not path:
            raise ScenarioError(
                f"{text!r} sets nothing: write path=value, as in world.duration_ms=60_000"
            )
        return cls.of(path, _parse(value.strip(), path))


def apply_settings(
    data: Mapping[str, Any], settings: Iterable[Setting], *, seed: int | None = None
) -> dict[str, Any]:
    """A copy of the tables with each value in its place.

    ``seed`` draws those values that differ from seed to seed; without one they are refused. Raises
    ScenarioError for a path that leads nowhere.
    """
    changed: dict[str, Any] = _copy(dict(data))
    for setting in settings:
        value = setting.plain
        if is_drawn(value):
            if seed is None:
                raise ScenarioError(
                    "cannot be drawn for each seed: a profile has ranges of its own; "
                    "draw a value of the scenario, such as world.duration_ms",
                    place=setting.path,
                )
            value = _drawn(value, setting.path, seed)
        for put in _places(changed, _segments(setting.path), setting.path):
            put(_copy(value))
    return changed


def is_drawn(value: object) -> bool:
    """Whether each seed draws a value of its own here."""
    return isinstance(value, dict) and (set(value) == {_BETWEEN} or set(value) == {_ONE_OF})


def check_range(bounds: object, place: str) -> tuple[Any, Any]:
    """The two ends of a range of numbers. Raises ScenarioError."""
    match bounds:
        case [(int() | float()) as low, (int() | float()) as high]:
            is_number = not isinstance(low, bool) and not isinstance(high, bool)
            if is_number and float("-inf") < low <= high < float("inf"):
                return low, high
    raise ScenarioError("must be two numbers in order, as in [1_000, 9_000]", place=place)


def _drawn(spec: Mapping[str, Any], path: str, seed: int) -> Any:
    stream = Streams(seed).get(f"set/{path}")
    if _ONE_OF in spec:
        items = spec[_ONE_OF]
        if not isinstance(items, list) or not items:
            raise ScenarioError("must be a list of values", place=f"{path}.{_ONE_OF}")
        return Draw(stream).pick(items)
    low, high = check_range(spec[_BETWEEN], f"{path}.{_BETWEEN}")
    if isinstance(low, int) and isinstance(high, int):
        return Draw(stream).between((low, high))
    return stream.uniform(low, high)


def _segments(path: str) -> list[str | int]:
    """The steps of a path: keys, numbers of entries, and ``*``."""
    steps: list[str | int] = []
    for segment in path.split("."):
        match = _SEGMENT.fullmatch(segment)
        if match is None or len(steps) >= DEEPEST:
            raise ScenarioError(
                f"{_short(path)} is no path: write keys between dots, as in world.clients[0].topics"
            )
        steps.append(match["key"])
        indices = re.findall(r"\[(\d+|\*)\]", match["indices"])
        steps += [index if index == "*" else int(index) for index in indices]
    return steps


def _places(data: Any, steps: list[str | int], path: str) -> Iterator[Callable[[Any], None]]:
    """Whatever puts a value where the path leads to: once, or for each entry of a ``[*]``."""
    step, rest = steps[0], steps[1:]
    if isinstance(data, list):
        for index in _entries(data, step, path):
            if rest:
                yield from _places(data[index], rest, path)
            else:
                yield lambda value, index=index: data.__setitem__(index, value)  # type: ignore[misc]
    elif isinstance(data, dict) and isinstance(step, str) and step != "*":
        if rest:
            if step not in data and not isinstance(rest[0], str):
                raise ScenarioError(f"there is no {step!r}", place=path)
            yield from _places(data.setdefault(step, {}), rest, path)
        else:
            yield lambda value: data.__setitem__(step, value)
    else:
        raise ScenarioError(f"leads nowhere: {step!r} is not in a table or a list", place=path)


def _entries(rows: list[Any], step: str | int, path: str) -> list[int]:
    if step == "*":
        return list(range(len(rows)))
    if isinstance(step, int):
        if step >= len(rows):
            raise ScenarioError(f"there is no [{step}] among {len(rows)} entries", place=path)
        return [step]
    known = [[row.get(key) for key in _IDENTITIES] if isinstance(row, dict) else [] for row in rows]
    found = [index for index, names in enumerate(known) if step in names]
    if not found:
        names = (name for names in known for name in names if isinstance(name, str))
        raise ScenarioError(f"there is no {step!r}; {did_you_mean(step, names)}", place=path)
    if len(found) > 1:
        raise ScenarioError(
            f"there are {len(found)} entries {step!r}; name one by its number, such as "
            f"[{found[0]}], or all by [*]",
            place=path,
        )
    return found


def _check(value: object, path: str) -> None:
    try:
        check_values(value)
    except ScenarioError as problem:
        raise ScenarioError(problem.problem, place=path) from None


def _parse(text: str, path: str) -> Any:
    try:
        return tomllib.loads(f"v = {text}\n")["v"]
    except RecursionError:
        raise ScenarioError("is nested too deep", place=path) from None
    except (ValueError, KeyError) as problem:  # too many digits are no TOMLDecodeError
        if re.fullmatch(r"[A-Za-z][\w.@+~-]*", text):
            return text  # a bare word: quotes are hard to type in a shell
        raise ScenarioError(
            f'is no value of TOML: {_short(text)}; write it as in 60_000, "text" or [1, 2]; '
            "none unsets",
            place=path,
        ) from problem


def _short(text: str) -> str:
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


def _inline(value: object) -> str:
    """The value in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_inline(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return tomli_w.dumps({"v": value}).partition("=")[2].strip()


def _key(key: str) -> str:
    return tomli_w.dumps({key: 0}).partition("=")[0].strip()


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_copy(one) for one in value]
    return value
