"""``defects``: what it prints, and what it refuses."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path

from command_line import Outcome

from rebalance_sim.cli import defects as command
from rebalance_sim.spark.detection import measure

Call = Callable[..., Outcome]


def test_defaults_are_those_of_the_measurement() -> None:
    assert (command.SEEDS, command.ENOUGH) == (measure.SEEDS, measure.ENOUGH)
    assert inspect.signature(command.defects).parameters["seeds"].default == measure.SEEDS


def test_it_says_what_was_noticed_and_by_what(call: Call) -> None:
    code, out, _ = call("defects", "mut-early-grant", "--seeds", 2, "--enough", 1)
    assert code == 0
    first, last = out.splitlines()
    assert first.startswith("noticed    mut-early-grant  ")
    assert ", first " in first and ", by coordinator." in first
    assert last == "1 of 1 defects noticed, 1 reached"


def test_one_that_is_not_noticed_can_be_asked_to_fail(call: Call) -> None:
    arguments = ("defects", "mut-no-computation-timer", "--seeds", 1)
    code, out, _ = call(*arguments)
    assert code == 0
    assert out.startswith("unnoticed  mut-no-computation-timer  unreached of 1 runs")
    assert call(*arguments, "--require-noticed").code == 1


def test_figures_can_be_had_as_json(call: Call, tmp_path: Path) -> None:
    code, out, _ = call(
        "defects", "mut-early-grant", "--seeds", 2, "--out", tmp_path / "out", "--json"
    )
    assert code == 0
    measured = json.loads(out)
    assert measured["seeds"] == 2
    [figures] = measured["defects"]
    assert figures["defect"] == "mut-early-grant"
    assert figures["component"] == "coordinator"
    assert 0 <= figures["density"]["low"] <= figures["density"]["high"] <= 1


def test_bad_input_is_one_line(call: Call, tmp_path: Path) -> None:
    code, _, err = call("defects", "mut-erly-grant")
    assert code == 2
    assert err.splitlines() == [
        "rebalance-sim: error: no defect 'mut-erly-grant'; did you mean 'mut-early-grant'?"
    ]
    file = tmp_path / "file"
    file.touch()
    code, _, err = call("defects", "--out", file)
    assert code == 2 and "is a file: give a folder" in err
