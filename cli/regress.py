"""``rebalance-sim regress``: scenarios and seeds that are to come out as they did."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import CHANGED, FOUND, OK
from rebalance_sim.cli.output import say, stderr, write_text
from rebalance_sim.spark import Limits

if TYPE_CHECKING:
    from rebalance_sim.scenarios.variant import Variant
    from rebalance_sim.spark.regress import Checked

LOCK = Path("regress.lock.json")
SHOWN = 20
_DEFAULTS = Limits()


def regress(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Scenario files, and folders of them.")
    ] = None,
    profile: cli_options.OptionalProfile = None,
    seeds: Annotated[
        str | None, typer.Option(help="Seeds of the profile, as in 3,7,26 or 0:50.")
    ] = None,
    lock: Annotated[Path, typer.Option(help="What every case came to; made by --update.")] = LOCK,
    update: Annotated[
        bool, typer.Option("--update", help="Write to the lock what the cases come to now.")
    ] = False,
    fresh: Annotated[
        int, typer.Option(min=0, help="So many seeds of the profile that nobody has run before.")
    ] = 0,
    fresh_from: Annotated[
        str | None, typer.Option(help="What fresh seeds follow from: a date, a commit.")
    ] = None,
    time_budget_s: Annotated[
        float | None, typer.Option(min=0, help="Fresh seeds stop after so many seconds.")
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write the results as JUnit XML.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the results as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a summary as Markdown.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes; without it, one per core.")
    ] = None,
    time_limit_s: cli_options.TimeLimit = _DEFAULTS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = _DEFAULTS.memory_mib,
) -> int:
    """Run scenarios and seeds again, and say what does not come out as the lock has it.

    Exit code 1: another outcome, or a case without a lock that fails. 3: every outcome is the same,
    but some run took other steps.
    """
    from rebalance_sim.spark.regress import cases_of, check_cases, lock_text, read_lock
    from rebalance_sim.spark.reports import regression

    variant = None if profile is None else cli_options.variant_of(profile, None)
    kept = cases_of(paths or (), _seeds(variant, seeds), beside=lock.parent)
    new = cases_of((), _fresh(variant, fresh, fresh_from), beside=lock.parent)
    if not kept and not new:
        raise BadInput("regress: give scenario files, or --profile with --seeds or --fresh")
    known = read_lock(lock)
    limits = cli_options.limits_of(time_limit_s, memory_limit_mib)
    files = ((junit, regression.as_junit), (json, regression.as_json),
             (markdown, regression.as_markdown))  # fmt: skip
    for file, _ in files:
        if file is not None:
            write_text(file, "")  # a file that cannot be written is found out before the runs
    started_s = monotonic()
    checked = check_cases(kept, known, limits=limits, processes=processes)
    deadline_s = None if time_budget_s is None else started_s + time_budget_s
    found = check_cases(new, {}, limits=limits, processes=processes, deadline_s=deadline_s)
    for file, write in files:
        if file is not None:
            write_text(file, write([*checked, *found]))
    if update:
        write_text(lock, lock_text(checked, known))
    for line in _describe([*checked, *found], lock, is_updated=update):
        say(line)
    return _code(checked, found, is_updated=update)


def _seeds(variant: Variant | None, seeds: str | None) -> Iterator[tuple[Variant, int]]:
    if seeds is None:
        return
    if variant is None:
        raise BadInput("regress: --seeds are those of a --profile")
    for part in seeds.replace(" ", "").split(","):
        match = re.fullmatch(r"(\d{1,19})(?::(\d{1,19}))?", part)
        if match is None:
            raise BadInput(f"regress: --seeds {seeds!r}: write numbers or ranges, as in 3,7,0:50")
        first = int(match[1])
        for seed in range(first, first + 1 if match[2] is None else int(match[2])):
            yield variant, seed


def _fresh(
    variant: Variant | None, count: int, source: str | None
) -> Iterator[tuple[Variant, int]]:
    if not count:
        return
    if variant is None or not source:
        raise BadInput("regress: --fresh needs --profile and --fresh-from, such as a commit")
    from rebalance_sim.spark.regress import fresh_seeds

    yield from fresh_seeds(variant, count, source=source)


def _describe(checked: list[Checked], lock: Path, *, is_updated: bool) -> Iterator[str]:
    from rebalance_sim.spark.regress import CHANGED as OTHER_STEPS
    from rebalance_sim.spark.regress import FAILED
    from rebalance_sim.spark.reports.regression import counts_of, headline

    counts = counts_of(checked)
    yield f"{len(checked):,} cases: " + ", ".join(f"{n:,} {name}" for name, n in counts.items())
    for verdict in (FAILED, OTHER_STEPS):
        found = [one for one in checked if one.verdict == verdict]
        for one in found[:SHOWN]:
            yield f"{verdict:<8} {one.case.id}: {headline(one)}"
            if one.reason:
                yield f"         {one.reason}"
            yield f"         {one.replay}"
        if len(found) > SHOWN:
            yield f"         and {len(found) - SHOWN:,} more {verdict}"
    if is_updated:
        stderr.print(f"{lock} has what they come to now")


def _code(kept: list[Checked], fresh: list[Checked], *, is_updated: bool) -> int:
    """With ``--update`` what is kept is right by definition; fresh seeds are not kept."""
    verdicts = {one.verdict for one in fresh}
    verdicts |= set() if is_updated else {one.verdict for one in kept}
    if "failed" in verdicts:
        return FOUND
    return CHANGED if "changed" in verdicts else OK
