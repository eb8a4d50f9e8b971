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
    laws, reference, last = out.splitlines()
    assert laws.startswith("noticed    mut-early-grant  laws       ")
    assert ", first " in laws and ", by coordinator." in laws
    assert reference.startswith("noticed    mut-early-grant  reference  ")
    assert reference.endswith(", by coordinator, ConsumerGroupHeartbeat: response.assignment")
    assert last == (
        "of 1 defects noticed: 1 by laws, 1 by the reference, 1 by one of the two; 1 reached"
    )


def test_one_oracle_can_be_asked_alone(call: Call) -> None:
    arguments = ("defects", "mut-early-grant", "--seeds", 2, "--oracle")
    laws, last = call(*arguments, "laws").out.splitlines()
    assert laws.startswith("noticed    mut-early-grant  laws ")
    assert last == "of 1 defects noticed: 1 by laws; 1 reached"
    assert call(*arguments, "luck").code == 2


def test_one_that_is_not_noticed_can_be_asked_to_fail(call: Call) -> None:
    arguments = ("defects", "mut-no-computation-timer", "--seeds", 1)
    code, out, _ = call(*arguments)
    assert code == 0
    assert out.startswith("unnoticed  mut-no-computation-timer  laws       unreached of 1 runs")
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
    assert list(figures["by_oracle"]) == ["laws", "reference"]
    for found in figures["by_oracle"].values():
        assert found["noticed"] > 0
        assert 0 <= found["density"]["low"] <= found["density"]["high"] <= 1


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
