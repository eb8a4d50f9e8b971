"""The command line, called in this process and in one of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from command_line import RUNNERS, Outcome, start

from rebalance_sim.cli.main import invoke


@pytest.fixture(scope="module", autouse=True)
def plots(blank_plots: None) -> None:
    """Those of reports, see there."""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Call the command line here."""

    def call(*arguments: object) -> Outcome:
        code = invoke([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def runners(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own runners can be named in a call."""
    monkeypatch.syspath_prepend(RUNNERS)


@pytest.fixture
def execute() -> Callable[..., Outcome]:
    """Run the installed script to its end."""

    def execute(*arguments: object, environment: Mapping[str, str] | None = None) -> Outcome:
        process = start(arguments, environment)
        out, err = process.communicate(timeout=120)
        return Outcome(process.returncode, out, err)

    return execute
