"""What a plug-in lacks is said when it is loaded, not by a run, and not by silence."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.plugins import load_plugins
from rebalance_sim.sim.observe.metric import Metric, values_of

PROPERTY = "from rebalance_sim.invariants.property import Deadline, Finding, Kind, Property\n"
METRIC = "from rebalance_sim.sim.observe.metric import Metric\n"
FAULT = "from rebalance_sim.sim.faults.fault import Fault\n"
RULE = (
    "from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules\n"
    "from rebalance_sim.scenarios.plugins import Rule\n"
)
COUNTED = itertools.count()

REFUSED = [
    ("import sys; sys.exit(3)", "cannot be imported: SystemExit: 3"),
    (f"{PROPERTY}class P(Property):\n sentence = 'x'\n", "P has no id: give a text"),
    (f"{PROPERTY}class P(Property):\n id = 5\n", "P has 5 for its id: give a text"),
    (f"{PROPERTY}class P(Property):\n id = 'a.b'\n", "P has no sentence: say in words"),
    (
        f"{PROPERTY}class P(Property):\n id = 'a.b'\n sentence = 'x'\n def on_chnage(self): ...\n",
        "P.on_chnage is never called; did you mean 'on_change'?",
    ),
    (
        f"{PROPERTY}class P(Property):\n id = 'a.b'\n sentence = 'x'\n def check(self): ...\n",
        "P is never asked: give it a method such as on_change",
    ),
    (
        f"{PROPERTY}class P(Property):\n id = 'a.b'\n sentence = 'x'\n kind = Kind.EVENTUALLY\n",
        "P is never asked: give it the method late",
    ),
    (
        f"{PROPERTY}class P(Property):\n id = 'a.b'\n sentence = 'x'\n kind = 'never'\n",
        "P: kind 'never' is not one of always, eventually, sometimes",
    ),
    (f"{METRIC}class M(Metric):\n name = 'm'\n", "M lacks value: define it"),
    (
        f"{METRIC}class M(Metric):\n after_step = value = print\n",
        "M has no name: give a text",
    ),
    (
        f"{METRIC}class M(Metric):\n name = 'seed'\n after_step = value = print\n",
        "'seed' is another column of results",
    ),
    (
        f"{FAULT}class F(Fault):\n client: str\n begin = drawn = print\n",
        "F is no dataclass: write @dataclass(frozen=True, slots=True, kw_only=True) above it",
    ),
    ("class A:\n name = 5\n assign = print\n", "A has 5 for its name: give a text"),
    (
        "class A:\n name = 'mine-needs'\n assign = print\n def __init__(self, x): ...\n",
        "missing 1 required positional argument: 'x'",
    ),
    (f"{RULE}R = Rule(id='r', title='', rules=())", "rules must be a tuple of classes"),
    (f"{RULE}R = Rule(id='r', title='', rules=Rule)", "rules must be a tuple of classes"),
    (
        f"{RULE}class L: ...\nR = Rule(id='r', title='', rules=(L,))",
        "rule 'r': L replaces nothing: derive it from a rules class",
    ),
    (
        f"{RULE}class L(ConsumerGroupRules):\n def accepts_previous_epoc(self): ...\n"
        "R = Rule(id='r', title='', rules=(L,))",
        "L has no decision of ConsumerGroupRules; did you mean 'accepts_previous_epoch'?",
    ),
    (
        f"{RULE}class L(ConsumerGroupRules): ...\nR = Rule(id='r s', title='', rules=(L,))",
        "rule 'r s': an id has letters",
    ),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_what_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    name = f"lacking_{next(COUNTED)}"
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ScenarioError) as refused:
        load_plugins([name])
    assert str(refused.value).startswith(f"plug-in {name!r}")
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["mine.py", "./mine.py", "/mine", "", ".mine", 5])
def test_a_file_is_no_name_of_a_module(name: Any) -> None:
    with pytest.raises(ScenarioError, match="give the name of a module, as import takes it"):
        load_plugins([name])


def test_a_base_of_ones_own_may_lack_what_its_children_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_base.py").write_text(
        f"{PROPERTY}class Base(Property):\n sentence = 'x'\n"
        "class Child(Base):\n id = 'with_base.child'\n on_change = lambda *_: None\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("rebalance_sim.invariants.engine.discovery._REGISTERED", [])
    monkeypatch.setattr("rebalance_sim.scenarios.plugins.LOADED", {})
    load_plugins("with_base")


class _Given(Metric):
    name = "given"

    def __init__(self, given: Any) -> None:
        self.given = given

    def after_step(self, step: object) -> None: ...

    def value(self) -> Any:
        return self.given


@pytest.mark.parametrize("given", [None, "x", float("nan"), float("-inf"), 10**400])
def test_a_metric_that_comes_to_no_number_is_an_error_of_its_run(given: Any) -> None:
    with pytest.raises(TypeError, match=r"which is no finite number"):
        values_of([_Given(given)])


def test_numbers_fit_into_the_tables() -> None:
    assert values_of([_Given(3), _Given(True)]) == {"given": 4}
    assert values_of([_Given(10**30)]) == {"given": 1e30}
    assert isinstance(values_of([_Given(10**30)])["given"], float)


def test_a_metric_does_not_take_the_place_of_one_of_the_run() -> None:
    with pytest.raises(ValueError, match="a run has a metric 'given' of its own"):
        values_of([_Given(3)], {"given": 1.0})
