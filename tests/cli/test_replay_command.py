"""``replay`` of a run's trace: parts of it, changes, the verdict, a diagram."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Outcome

Call = Callable[..., Outcome]
DEFECTS = Path(__file__).parents[2] / "scenarios" / "defects"


@pytest.fixture
def failed(call: Call, tmp_path: Path) -> Path:
    """The trace of a run in which a partition has two owners."""
    file = tmp_path / "trace.jsonl"
    assert call("run", DEFECTS / "mut-early-grant.toml", "--trace", file).code == 1
    return file


def test_the_violated_step_is_marked_and_the_verdict_stands_at_the_end(
    call: Call, failed: Path
) -> None:
    code, out, err = call("replay", failed)
    assert (code, err) == (0, "")
    [mark] = [line for line in out.splitlines() if line.startswith(">>")]
    assert "VIOLATED  coordinator.exclusive_ownership: orders-" in mark
    assert "\nVIOLATION\n  coordinator.exclusive_ownership at step " in out


def test_changes_around_the_violation_fit_a_screen(call: Call, failed: Path) -> None:
    arguments = ("--around", "violation", "--context", 6, "--diff")
    code, out, _ = call("replay", failed, *arguments)
    lines = out.splitlines()
    assert code == 0 and len(lines) < 25
    [at] = [number for number, line in enumerate(lines) if line.startswith(">>")]
    assert "join (epoch 0), subscribes to orders" in "\n".join(lines[:at])
    assert "group epoch 2 -> 3" in "\n".join(lines[:at])


def test_one_client_and_one_kind_of_step(call: Call, failed: Path) -> None:
    out = call("replay", failed, "--client", "a", "--kinds", "client").out
    steps = [line for line in out.splitlines() if " client.event " in line]
    assert steps and all(" a  " in line for line in steps)
    assert "response.released" not in out


def test_a_diagram_is_an_svg_file_and_the_same_each_time(
    call: Call, failed: Path, tmp_path: Path
) -> None:
    files = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for file in files:
        code, out, _ = call("replay", failed, "--around", "violation", "--svg", file)
        assert code == 0 and "VIOLATION" in out
    text = files[0].read_text()
    assert text.startswith("<?xml") and "exclusive_ownership" in text
    assert text == files[1].read_text()


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("--client", "zz"), "no client 'zz' in this trace; known: a, admin, b"),
        (("--kinds", "fautl"), "no kind of step 'fautl'; did you mean 'fault'?"),
        (("--around", "999999"), "no step 999999: the trace has steps 1 to "),
        (("--around", "start"), "'start' is no step: give a number, or 'violation'"),
        (("--svg", "no/folder/x.svg", "--around", "violation"), "cannot write no/folder/x.svg"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    call: Call, failed: Path, arguments: tuple[str, ...], reported: str
) -> None:
    code, out, err = call("replay", failed, *arguments)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1 and reported in err


def test_a_diagram_of_a_long_run_has_to_be_narrowed(call: Call, tmp_path: Path) -> None:
    trace, diagram = tmp_path / "trace.jsonl", tmp_path / "diagram.svg"
    assert call("run", "--profile", "migration", "--seed", 9, "--trace", trace).code == 0
    code, out, err = call("replay", trace, "--svg", diagram)
    assert (code, out) == (2, "")
    assert "narrow it to 120 by --around violation, --context or --client" in err
    assert not diagram.exists()


def test_only_of_a_run_parts_can_be_shown(call: Call) -> None:
    code, _, err = call("replay", "basic", "--diff")
    assert code == 2 and "basic is not the trace of a run (.jsonl)" in err


def test_the_first_screen_of_a_failure_tells_what_led_to_it(call: Call) -> None:
    out = call("run", DEFECTS / "mut-early-grant.toml").out
    story = out[out.index("what led to it") :]
    assert "join (epoch 0), subscribes to orders" in story
    assert "VIOLATED  coordinator.exclusive_ownership" in story
