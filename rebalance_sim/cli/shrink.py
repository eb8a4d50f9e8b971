"""``rebalance-sim shrink``: a failing scenario, made small."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.choice import choose
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import OK
from rebalance_sim.cli.output import check_outputs, say, stderr, write_text
from rebalance_sim.scenarios.failure_screen import describe, led_to, replay_command
from rebalance_sim.scenarios.plugin_names import plugin_options
from rebalance_sim.scenarios.profile_file import is_file

if TYPE_CHECKING:
    from rebalance_sim.scenarios.scenario import Scenario
    from rebalance_sim.scenarios.shrinking.shrink import Shrunk

DEFAULT_MAX_RUNS = 500
"""As of ``scenarios.shrinking.shrink``, which is not imported for ``--help``; a test compares the
two."""


def shrink(
    out: Annotated[Path, typer.Option(help="File for the small scenario.")],
    scenario: cli_options.ScenarioFile = None,
    profile: cli_options.OptionalProfile = None,
    seed: cli_options.OptionalSeed = None,
    semantics: cli_options.SemanticsName = None,
    repair: cli_options.Repairs = None,
    set_: cli_options.Settings = None,
    property_id: Annotated[
        str | None,
        typer.Option("--property", help="Id of the property to keep violated; else the first."),
    ] = None,
    max_runs: Annotated[int, typer.Option(min=1, help="Runs to spend at most.")] = DEFAULT_MAX_RUNS,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite the file of --out if there is one.")
    ] = False,
) -> int:
    """Take away from a failing scenario whatever its failure does not need.

    The small scenario violates the same property, and goes to a file that can be run and edited.
    It says only what differs from the defaults.
    """
    from rebalance_sim.scenarios.scenario import dump_scenario
    from rebalance_sim.scenarios.shrinking.shrink import shrink as shrink_scenario

    chosen = choose(
        "shrink",
        scenario,
        profile=profile,
        seed=seed,
        semantics=semantics,
        repairs=repair,
        settings=set_,
    )
    _check_writable(out, scenario, force=force)
    if profile is not None and is_file(profile):
        check_outputs({"--out": out}, [Path(profile)])
    with _progress_bar(max_runs) as on_progress:
        small = shrink_scenario(
            chosen.scenario, property_id=property_id, max_runs=max_runs, on_progress=on_progress
        )
    small_text = dump_scenario(small.scenario, defaults=False)
    about = f"# Made from {chosen.scenario.name} by shrinking; the run ends {small.failure.outcome}"
    write_text(out, f"{about}: {small.failure.what}.\n{small_text}")
    for line in _describe(chosen.scenario, small, out):
        say(line)
    return OK


def _check_writable(out: Path, source: Path | None, *, force: bool) -> None:
    """Find out before a long search. Raises BadInput."""
    if source is not None and out.exists() and out.samefile(source):
        raise BadInput(f"shrink: --out {out} is the scenario itself: give another file")
    if out.exists() and not force:
        raise BadInput(f"shrink: --out {out} exists: give another file, or --force to replace it")
    if not out.exists():
        write_text(out, "")
        out.unlink()


def _describe(large: Scenario, small: Shrunk, out: Path) -> Iterator[str]:
    before, after = large.world, small.scenario.world
    sizes = (
        ("faults", len(before.faults), len(after.faults)),
        ("clients", len(before.clients), len(after.clients)),
        ("topics", len(before.topics), len(after.topics)),
        ("seconds", _seconds(large), _seconds(small.scenario)),
    )
    reported = ", ".join(f"{name} {old} -> {new}" for name, old, new in sizes)
    yield f"{out}: {reported} ({small.runs} runs)"
    yield ""
    story = led_to(small.scenario, small.result)
    words = shlex.join((str(out), *plugin_options()))
    yield from describe(small.result, replay_command=replay_command(words), story=story)


def _seconds(scenario: Scenario) -> str:
    from rebalance_sim.scenarios.quiet import length_s

    return f"{length_s(scenario.world):,.3f}".rstrip("0").rstrip(".")


@contextmanager
def _progress_bar(max_runs: int) -> Iterator[Callable[[Scenario, int], None]]:
    """A bar on a terminal, with the size of the smallest scenario so far; elsewhere nothing."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    size = TextColumn("{task.description}")
    columns = (TextColumn("runs"), BarColumn(), MofNCompleteColumn(), size)
    with Progress(*columns, console=stderr(), disable=not stderr().is_terminal) as bar:
        task = bar.add_task("", total=max_runs)

        def show(scenario: Scenario, runs: int) -> None:
            world = scenario.world
            parts = f"{len(world.faults)} faults, {len(world.clients)} clients"
            bar.update(task, completed=runs, description=f"{parts}, {_seconds(scenario)} s")

        yield show
