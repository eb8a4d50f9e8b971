"""What a plug-in lacks is said when it is loaded, not by a run, and not by silence."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.invariants.engine.discovery import GOALS
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
OWN = (
    f"{RULE}from rebalance_sim.scenarios.plugins import GroupState, GroupTimer\n"
    "class L(ConsumerGroupRules):\n {body}\n"
    "R = Rule(id='r', title='', rules=(L,))"
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
    (
        OWN.format(body="computes_target = lambda *_: True\n waits = GroupState([])"),
        "TypeError: state [] can be changed in place: keep a tuple",
    ),
    (
        OWN.format(body="computes_target = lambda *_: True\n grace = GroupTimer(5)"),
        "TypeError: GroupTimer(5): name the method it expires into",
    ),
    (
        OWN.format(
            body="def ends(self, group): ...\n grace = GroupTimer('end')\n after_load = ends"
        ),
        "L.grace expires into 'end', which is missing; did you mean 'ends'?",
    ),
    (
        OWN.format(body="bumps_on_leave = GroupState(True)"),
        "L.bumps_on_leave is a decision of ConsumerGroupRules: name the GroupState otherwise",
    ),
    (
        OWN.format(body="seen = {}\n def after_load(self, group): ..."),
        "L.seen is a dict, which all runs would share: make it a tuple",
    ),
    (
        OWN.format(body="def after_load(self, group): self.seen = 1"),
        "L.after_load sets self.seen, which no snapshot has: declare GroupState",
    ),
    (
        "SEEN = 0\n" + OWN.format(body="def after_load(self, group):\n  global SEEN\n  SEEN = 1"),
        "L.after_load sets SEEN of its module, which no snapshot has: declare GroupState",
    ),
    (
        "SEEN = []\n" + OWN.format(body="def after_load(self, group): SEEN.append(group)"),
        "L.after_load uses SEEN of its module, a list: make it a tuple",
    ),
    (
        OWN.format(body="def after_load(self, group, seen=[]): seen.append(group)"),
        "L.after_load has a default that can be changed in place: make it a tuple",
    ),
    (
        "def around():\n seen = []\n def after_load(self, group): seen.append(group)\n"
        " return after_load\n" + OWN.format(body="after_load = around()"),
        "L.after_load uses a variable around it that can be changed in place",
    ),
    (
        "import time\n" + OWN.format(body="def after_load(self, group): time.monotonic()"),
        "L.after_load uses time, which is another at each run: the time is self.now_ms",
    ),
    (
        "from random import random\n" + OWN.format(body="def after_load(self, group): random()"),
        "L.after_load uses random, which is another at each run: the time is self.now_ms",
    ),
    (
        f"{RULE}from rebalance_sim.scenarios.plugins import GroupState\n"
        "from rebalance_sim.protocol.hosting.broker_rules import BrokerRules\n"
        "class L(BrokerRules):\n reads_newest = True\n waits = GroupState(False)\n"
        "R = Rule(id='r', title='', rules=(L,))",
        "L.waits is for rules of a coordinator, and BrokerRules are none",
    ),
    (
        OWN.format(body="bumps_on_leave = False").replace("''", "'', replaces='target.current'"),
        "rule 'r': replaces must be a tuple of ids, as in ('target.current',)",
    ),
    (
        OWN.format(body="bumps_on_leave = False").replace("''", "'', replaces=('target.curent',)"),
        "rule 'r': replaces: no property 'target.curent'; did you mean 'target.current'?",
    ),
    (
        OWN.format(body="bumps_on_leave = False").replace("''", f"'', replaces=('{GOALS[0].id}',)"),
        f"rule 'r': replaces: '{GOALS[0].id}' is a goal of sweeps, by which no run is judged",
    ),
    (
        f"{RULE}from rebalance_sim.protocol.hosting.broker_rules import BrokerRules\n"
        "class L(BrokerRules):\n reads_newest = True\n"
        "R = Rule(id='r', title='', rules=(L,), replaces=('target.current',))",
        "rule 'r': replaces needs rules of a coordinator, and L is one of BrokerRules",
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


def test_two_rules_may_not_declare_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rebalance_sim.protocol import defects

    monkeypatch.setattr(defects, "_DEFECTS", {})
    monkeypatch.setattr("rebalance_sim.scenarios.plugins.LOADED", {})  # Not for later tests.
    text = OWN.format(body="bumps_on_leave = False\n waits = GroupState(False)")
    for number in (1, 2):
        name = f"declares_{next(COUNTED)}"
        (tmp_path / f"{name}.py").write_text(text.replace("'r'", f"'r{number}'"))
        monkeypatch.syspath_prepend(tmp_path)
        if number == 1:
            load_plugins([name])
        else:
            with pytest.raises(ScenarioError, match="waits is declared by another rule"):
                load_plugins([name])
