"""The command ``rebalance-sim``: its sub-commands, and how errors become lines and exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated

import typer
from typer.exceptions import TyperException

from rebalance_sim import __version__
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import BAD_INPUT, INTERRUPTED
from rebalance_sim.cli.output import flush, say, stderr
from rebalance_sim.conformance.errors import TraceError
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.plugin_names import installed_plugins
from rebalance_sim.spark.errors import SweepError, SweepInterrupted

COMMANDS = (
    "init",
    "run",
    "sweep",
    "extend",
    "report",
    "compact",
    "compare",
    "diff",
    "diff-rules",
    "experiment",
    "explore",
    "hunt",
    "branch",
    "regress",
    "replay",
    "shrink",
    "conformance",
    "record",
    "serve",
    "certify",
    "generate",
    "schema",
    "profiles",
    "defects",
)
_MODULES = dict.fromkeys(("extend", "report", "compact"), "folders")
"""Command -> the module of this package that has it, where that is not named like the command."""


def _show_version(is_asked: bool) -> None:
    if is_asked:
        say(f"rebalance-sim {__version__}")
        raise typer.Exit


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


def app_of(commands: Iterable[str] = COMMANDS) -> typer.Typer:
    """The command line with these commands. Each has its module imported and its options looked at,
    which is a part of the time until a run begins."""
    app = typer.Typer(
        name="rebalance-sim",
        help="Simulate Kafka's consumer rebalance protocols under faults.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in commands:
        function = name.replace("-", "_")
        module = import_module(f"rebalance_sim.cli.{_MODULES.get(name, function)}")
        app.command(name)(getattr(module, function))
    return app


def main() -> None:
    """Entry point of the script."""
    code = invoke(sys.argv[1:])
    flush()
    sys.exit(code)


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Bad input is one line on standard error."""
    # A warning is for the user, who knows nothing of the line of code that gives it.
    warnings.formatwarning = lambda message, *_: f"rebalance-sim: {message}\n"
    try:
        arguments = plugins_first(arguments)
        named = _command_of(arguments)
        app = app_of((named,) if named in COMMANDS else COMMANDS)
        return int(app(args=arguments, prog_name="rebalance-sim", standalone_mode=False) or 0)
    except TyperException as problem:
        message = problem.format_message()
        # Without arguments the help has been printed, and there is no more to say.
        return _refuse(message) if message else BAD_INPUT
    except (BadInput, ScenarioError, SweepError, TraceError) as problem:
        return _refuse(str(problem))
    except MemoryError:
        return _refuse("there is not enough memory for this")
    except SweepInterrupted as stopped:
        stderr().print(f"rebalance-sim: {stopped}; they are kept, the same command continues")
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


def _command_of(arguments: Sequence[str]) -> str:
    """The command that a line names, if it is one; empty if there is none. Plug-ins come first."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "--plugin":
            next(rest, None)
        elif not argument.startswith("-"):
            return argument
    return ""


def _refuse(message: str) -> int:
    line = " ".join(message.split())
    stderr().print(f"rebalance-sim: error: {line}")
    return BAD_INPUT
