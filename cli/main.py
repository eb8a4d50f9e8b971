"""The command ``rebalance-sim``: its sub-commands, and how errors become lines and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from cli.compare import compare
from cli.conformance import conformance
from cli.errors import BadInput
from cli.exit_codes import BAD_INPUT, INTERRUPTED
from cli.generate import generate
from cli.output import stderr
from cli.profiles import profiles
from cli.replay import replay
from cli.run import run
from cli.shrink import shrink
from cli.sweep import sweep
from conformance.errors import TraceError
from scenarios.errors import ScenarioError
from spark.errors import SweepError, SweepInterrupted

__all__ = ["app", "invoke", "main"]

app = typer.Typer(
    name="rebalance-sim",
    help="Simulate Kafka's consumer rebalance protocols under faults.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (run, sweep, compare, shrink, replay, conformance, generate, profiles):
    app.command()(command)


def main() -> None:
    """Entry point of the script."""
    sys.exit(invoke(sys.argv[1:]))


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Bad input is one line on standard error."""
    try:
        return int(app(args=list(arguments), prog_name="rebalance-sim", standalone_mode=False) or 0)
    except TyperException as problem:
        return _refuse(problem.format_message())
    except (BadInput, ScenarioError, SweepError, TraceError) as problem:
        return _refuse(str(problem))
    except SweepInterrupted as stopped:
        stderr.print(f"rebalance-sim: {stopped}; they are kept, the same command goes on")
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED


def _refuse(message: str) -> int:
    line = " ".join(message.split())
    stderr.print(f"rebalance-sim: error: {line}")
    return BAD_INPUT
