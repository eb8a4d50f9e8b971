"""Values survive the way through plain data, and bad input is reported with its place and
remedy."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from rebalance_sim.scenarios.codec import decode, encode, kind_of
from rebalance_sim.scenarios.errors import ScenarioError


class Colour(Enum):
    RED = "red"
    GREEN = "green"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    broker: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowLink:
    client: str
    delay_ms: tuple[int, int] = (1, 5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing:
    name: str
    share: float = 0.0
    is_on: bool = False
    colour: Colour = Colour.RED
    note: str | None = None
    limit: int | None = None
    patience: int | None = 10
    faults: tuple[Crash | SlowLink, ...] = ()
    only: Crash | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.share < 0:
            raise ValueError(f"share must be >= 0, got {self.share}")


_words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), max_size=8)
_ints = st.integers(min_value=-(2**53), max_value=2**53)
_crash = st.builds(Crash, broker=_words, at_ms=_ints)
_fault = st.one_of(_crash, st.builds(SlowLink, client=_words, delay_ms=st.tuples(_ints, _ints)))
_things = st.builds(
    Thing,
    name=_words,
    share=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    is_on=st.booleans(),
    colour=st.sampled_from(Colour),
    note=st.none() | _words,
    limit=st.none() | _ints,
    patience=st.none() | _ints,
    faults=st.lists(_fault, max_size=4).map(tuple),
    only=st.none() | _crash,
    sizes=st.dictionaries(_words, _ints, max_size=3),
    tags=st.frozensets(_words, max_size=3),
)


@given(_things)
def test_a_value_comes_back_from_toml_as_it_was(thing: Thing) -> None:
    assert decode(Thing, tomllib.loads(tomli_w.dumps(encode(thing)))) == thing


@given(_things)
def test_a_value_comes_back_from_json_as_it_was(thing: Thing) -> None:
    assert decode(Thing, json.loads(json.dumps(encode(thing)))) == thing


def test_the_kind_of_a_fault_is_its_class_name_in_snake_case() -> None:
    assert kind_of(SlowLink) == "slow_link"
    row = encode(Thing(name="x", faults=(Crash(broker="b", at_ms=1),)))["faults"][0]
    assert row == {"kind": "crash", "broker": "b", "at_ms": 1}


BAD_INPUT = {
    "unknown key": ({"name": "x", "shar": 1.0}, "shar: unknown key 'shar'; did you mean 'share'?"),
    "missing key": ({"share": 1.0}, "key 'name' is missing; add it"),
    "wrong type": ({"name": 3}, "name: must be a string, not an integer (3)"),
    "flag for a number": (
        {"name": "x", "limit": True},
        "limit: must be an integer, not true or false (True)",
    ),
    "refused by the class": ({"name": "x", "share": -1}, "share must be >= 0, got -1.0"),
    "unknown enum value": (
        {"name": "x", "colour": "gren"},
        "colour: no such value: a string ('gren'); did you mean 'green'?",
    ),
    "unknown kind": (
        {"name": "x", "faults": [{"kind": "crush"}]},
        "faults[0]: no such kind: 'crush'; did you mean 'crash'?",
    ),
    "no kind": ({"name": "x", "faults": [{}]}, "faults[0]: key 'kind' is missing"),
    "place inside a list": (
        {"name": "x", "faults": [{"kind": "crash", "broker": "b", "at_ms": "1"}]},
        "faults[0].at_ms: must be an integer, not a string ('1')",
    ),
    "tuple of the wrong size": (
        {"name": "x", "faults": [{"kind": "slow_link", "client": "c", "delay_ms": [1]}]},
        "faults[0].delay_ms: must have 2 items, not 1",
    ),
    "not a table": ({"name": "x", "sizes": [1]}, "sizes: must be a table, not a list"),
}


@pytest.mark.parametrize(("data", "message"), BAD_INPUT.values(), ids=BAD_INPUT.keys())
def test_bad_input_is_told_in_one_line_with_its_place(
    data: dict[str, object], message: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        decode(Thing, data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_something_that_plain_data_cannot_say_is_an_error() -> None:
    with pytest.raises(TypeError, match="object"):
        encode({"x": object()})
