"""The command ``rebalance-sim``: its sub-commands, and how errors become lines and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from rebalance_sim import __version__
from rebalance_sim.cli.compare import compare
from rebalance_sim.cli.conformance import conformance
from rebalance_sim.cli.defects import defects
from rebalance_sim.cli.diff import diff
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import BAD_INPUT, INTERRUPTED
from rebalance_sim.cli.experiment import experiment
from rebalance_sim.cli.explore import explore
from rebalance_sim.cli.folders import compact, extend, report
from rebalance_sim.cli.generate import generate
from rebalance_sim.cli.hunt import hunt
from rebalance_sim.cli.output import flush, say, stderr
from rebalance_sim.cli.profiles import profiles
from rebalance_sim.cli.regress import regress
from rebalance_sim.cli.replay import replay
from rebalance_sim.cli.run import run
from rebalance_sim.cli.shrink import shrink
from rebalance_sim.cli.sweep import sweep
from rebalance_sim.conformance.errors import TraceError
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.plugin_names import installed_plugins
from rebalance_sim.spark.errors import SweepError, SweepInterrupted

app = typer.Typer(
    name="rebalance-sim",
    help="Simulate Kafka's consumer rebalance protocols under faults.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _show_version(is_asked: bool) -> None:
    if is_asked:
        say(f"rebalance-sim {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            help="A module with properties, metrics, faults, assignors or rules of your own; may "
            "be repeated, and stand anywhere in the line."
        ),
    ] = None,
) -> None:
    if plugin:
        sys.path.insert(0, os.getcwd())  # where a user's own module usually is
    names = (*installed_plugins(), *(plugin or ()))
    if names:
        from rebalance_sim.scenarios.plugins import load_plugins

        load_plugins(names)


COMMANDS = (
    run,
    sweep,
    extend,
    report,
    compact,
    compare,
    diff,
    experiment,
    explore,
    hunt,
    regress,
    replay,
    shrink,
    conformance,
    generate,
    profiles,
    defects,
)

for command in COMMANDS:
    app.command()(command)


def main() -> None:
    """Entry point of the script."""
    code = invoke(sys.argv[1:])
    flush()
    sys.exit(code)


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Bad input is one line on standard error."""
    try:
        return int(
            app(args=plugins_first(arguments), prog_name="rebalance-sim", standalone_mode=False)
            or 0
        )
    except TyperException as problem:
        return _refuse(problem.format_message())
    except (BadInput, ScenarioError, SweepError, TraceError) as problem:
        return _refuse(str(problem))
    except SweepInterrupted as stopped:
        stderr().print(f"rebalance-sim: {stopped}; they are kept, the same command goes on")
        return INTERRUPTED
    except KeyboardInterrupt:
        return INTERRUPTED


def plugins_first(arguments: Sequence[str]) -> list[str]:
    """The same command line with each ``--plugin`` in front, where typer looks for it."""
    first, rest = [], list(arguments)
    place = 0
    while place < len(rest) and rest[place] != "--":
        if rest[place] == "--plugin":
            if place + 1 == len(rest):
                raise BadInput("Option '--plugin' requires an argument: the name of a module")
            first += [rest.pop(place), rest.pop(place)]
        elif rest[place].startswith("--plugin="):
            first.append(rest.pop(place))
        else:
            place += 1
    return first + rest


def _refuse(message: str) -> int:
    line = " ".join(message.split())
    stderr().print(f"rebalance-sim: error: {line}")
    return BAD_INPUT
