"""Plug-ins, with the example package: each kind of them counts in every command.

What a plug-in registers stays for the life of a process, so each command that has one is a process
of its own, or a fork.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import POOL, Outcome, call_in_fork

from rebalance_sim.cli.main import plugins_first
from rebalance_sim.spark import read_plan
from rebalance_sim.spark.shipping import packages_of
from rebalance_sim.spark.store.experiment_tables import read_experiment

EXAMPLE = Path(__file__).parents[2] / "examples" / "research"
PLUGIN = ("--plugin", "research_plugins")
RULE = "research-tolerant-fence"


def rebalance_sim(*arguments: object) -> Outcome:
    """Run the command in the folder of the example, where its package can be imported."""
    script = Path(sys.executable).parent / "rebalance-sim"
    done = subprocess.run(
        [script, *map(str, arguments)], cwd=EXAMPLE, capture_output=True, text=True, env=os.environ
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


def test_one_of_each_kind_counts_in_a_run(tmp_path: Path) -> None:
    profile = tmp_path / "mine.toml"
    profile.write_text(
        'extends = "calm"\n[[faults]]\nkind = "operator_error"\nprobability = 1.0\n'
        "[features]\nassignor_votes = 0.0\n"
    )
    settings = (
        "--set", 'world.config.group_consumer_assignors=["research-racks"]',
        "--set", f'world.defects=["{RULE}"]',
    )  # fmt: skip
    outcome = rebalance_sim("run", "--profile", profile, "--seed", 3, *settings, *PLUGIN, "--json")
    assert outcome.code == 0, outcome
    result = json.loads(outcome.out)
    assert result["metrics"]["research_members_max"] >= 1
    assert result["coverage"]["fault.operator_error"] >= 1


def test_a_property_of_ones_own_is_violated_as_any_other(tmp_path: Path) -> None:
    module = tmp_path / "strict.py"
    module.write_text(
        (EXAMPLE / "research_plugins" / "invariant.py").read_text()
        .replace("500", "5").replace("research.few_epochs", "strict.few_epochs")
    )  # fmt: skip
    outcome = call_in_fork(("run", "--profile", "calm", "--seed", 4, "--plugin=strict"), tmp_path)
    assert outcome.code == 1
    assert "property  strict.few_epochs" in outcome.out
    assert "No group epoch rises above 5." in outcome.out
    assert "--plugin=strict" in outcome.out.splitlines()[-1]


CLIENTS = {
    "kind of client": ("faulty", 'kind="research-punctual"'),
    "classic assignor": ("cooperative", 'assignors=["research-whole-topics"]'),
    "client-side assignor": ("client_assignors", 'client_assignors={names=["research-leader"]}'),
}


@pytest.mark.parametrize("what", CLIENTS)
def test_what_a_client_is_made_of_may_be_ones_own(call: Callable[..., Outcome], what: str) -> None:
    profile, setting = CLIENTS[what]
    line = ("run", "--profile", profile, "--seed", 3, "--json")
    settings = ["--set", f"world.clients[*].{setting}"]
    if what == "classic assignor":  # librdkafka takes none but its own
        settings += ["--set", 'world.clients[*].kind="classic"']
    ours = rebalance_sim(*line, *settings, *PLUGIN)
    assert ours.code == 0, ours
    theirs = call(*line)
    assert json.loads(ours.out)["digest"] != json.loads(theirs.out)["digest"]
    unknown = call(*line, *settings)
    assert (unknown.code, unknown.out) == (2, "")
    assert "research-" in unknown.err and "known are: " in unknown.err


def test_a_client_of_ones_own_is_swept_on_workers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = rebalance_sim(
        "sweep", "--profile", "calm", "--seeds", "0:4", *PLUGIN, *POOL, "--out", out,
        "--set", 'world.clients[*].kind="research-punctual"', "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome
    assert json.loads(outcome.out)["outcomes"] == {"ok": 4}


def test_an_experiment_holds_a_rule_against_that_of_kafka(tmp_path: Path) -> None:
    file, out = tmp_path / "rule.toml", tmp_path / "out"
    file.write_text(
        f'base = "calm"\nseeds = 2\nmetrics = ["fences", "research_members_max"]\n'
        f'[vary]\nrule = {{ path = "world.defects", values = [[], ["{RULE}"]] }}\n'
    )
    line = ("experiment", file, *PLUGIN, *POOL, "--out", out)
    outcome = call_in_fork(line, EXAMPLE)
    assert outcome.code == 0, outcome
    assert read_plan(out).plugins == ("research_plugins",)
    runs = read_experiment(out)
    assert list(runs["rule"]) == ["[]", f'["{RULE}"]'] * 2
    assert (runs["research_members_max"] >= 1).all()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "plug-in 'mine' cannot be imported: ModuleNotFoundError"),
        ("1 / 0", "plug-in 'mine' cannot be imported: ZeroDivisionError"),
        ("import os", "plug-in 'mine' brings nothing"),
        (
            "class Range:\n    name = 'range'\n    def assign(self, spec, counts): ...\n",
            "plug-in 'mine': there is an assignor 'range' already",
        ),
        (
            "from rebalance_sim.protocol.assignors.classic import ClassicAssignor\n"
            "class Range(ClassicAssignor):\n    name = 'range'\n    assign = print\n",
            "plug-in 'mine': there is a classic assignor 'range' already",
        ),
        (
            "from rebalance_sim.protocol.assignors.client_side import PartitionAssignor\n"
            "class Sticky(PartitionAssignor):\n    name = 'sticky'\n    assign = print\n",
            "plug-in 'mine': there is a client-side assignor 'sticky' already",
        ),
        (
            "from dataclasses import replace\n"
            "from rebalance_sim.protocol.clients.kinds import KINDS\n"
            "def make(new): ...\nKIND = replace(KINDS['java'], make=make)\n",
            "plug-in 'mine': there is a kind of client 'java' already",
        ),
    ],
)
def test_a_module_that_is_no_plugin_is_refused_in_one_line(
    tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    outcome = call_in_fork(("profiles", "--plugin", "mine"), tmp_path)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert said in outcome.err


def test_the_option_may_stand_anywhere() -> None:
    line = ["run", "--plugin", "a", "x.toml", "--plugin=b", "--", "--plugin", "c"]
    assert plugins_first(line) == [
        "--plugin",
        "a",
        "--plugin=b",
        "run",
        "x.toml",
        "--",
        "--plugin",
        "c",
    ]


def test_plugins_are_shipped_with_the_code() -> None:
    packages = packages_of("rebalance_sim.spark.runner:run_seed", ("thesis.rules", "thesis.faults"))
    assert packages[-1] == "thesis"
    assert packages.count("thesis") == 1


def test_the_examples_are_short() -> None:
    most = dict.fromkeys((file.name for file in EXAMPLE.glob("*/*.py")), 25) | {"invariant.py": 12}
    most["grace_period.py"] = 45
    for name, lines in most.items():
        assert len((EXAMPLE / "research_plugins" / name).read_text().splitlines()) <= lines


def test_the_page_shows_the_examples_as_they_are() -> None:
    page = (EXAMPLE.parents[1] / "docs" / "plugins.md").read_text()
    files = [*EXAMPLE.glob("*/*.py"), EXAMPLE / "tolerant_fence.toml"]
    missing = [file.name for file in files if file.read_text() not in page]
    assert missing == ["__init__.py"]
