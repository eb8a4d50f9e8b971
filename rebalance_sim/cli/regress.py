"""``rebalance-sim regress``: scenarios and seeds that are to come out as they did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import CHANGED, FOUND, INTERRUPTED, OK
from rebalance_sim.cli.expectations import NOT_JUDGED, limits_of
from rebalance_sim.cli.output import check_outputs, say, stderr, write_text
from rebalance_sim.scenarios.metric_limits import LIMIT_WORDS

if TYPE_CHECKING:
    from rebalance_sim.scenarios.variant import Variant
    from rebalance_sim.spark.regress import Checked, Expected

LOCK = Path("regress.lock.json")
DATABASE = Path(".rebalance-sim")
SHOWN = 20
SEEDS_MOST = 1_000_000


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
        int | None,
        typer.Option(
            min=0, max=SEEDS_MOST, help="So many seeds of the profile that no one has run before."
        ),
    ] = None,
    fresh_from: Annotated[
        str | None, typer.Option(help="What fresh seeds follow from: a date, a commit.")
    ] = None,
    time_budget_s: Annotated[
        float | None, typer.Option(min=0, help="Fresh seeds stop after so many seconds.")
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on",
            help="Exit code 1 also if liveness of a case was not judged (not-judged), or if it has "
            "more of a metric than so many: " + LIMIT_WORDS,
        ),
    ] = None,
    database: Annotated[
        Path,
        typer.Option(help="Folder of the cases that failed, which are run first the next time."),
    ] = DATABASE,
    no_database: Annotated[
        bool, typer.Option("--no-database", help="Neither read nor write that folder.")
    ] = False,
    junit: Annotated[Path | None, typer.Option(help="Write the results as JUnit XML.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the results as JSON.")] = None,
    markdown: Annotated[Path | None, typer.Option(help="Write a summary as Markdown.")] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes; without it, one per core.")
    ] = None,
    time_limit_s: cli_options.TimeLimit = cli_options.LIMITS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = cli_options.LIMITS.memory_mib,
) -> int:
    """Run scenarios and seeds again, and say what does not come out as the lock has it.

    Exit code 1: another outcome, or a case without a lock that fails. 3: every outcome is the same,
    but some run took other steps.
    """
    from rebalance_sim.scenarios.generate.generator import generate
    from rebalance_sim.spark.kept_failures import failures_first, keep_failures, read_failures
    from rebalance_sim.spark.regress import (
        cases_of,
        check_cases,
        in_order,
        lock_text,
        read_lock,
    )
    from rebalance_sim.spark.reports import regression

    if fresh is None and (fresh_from is not None or time_budget_s is not None):
        raise BadInput("regress: --fresh-from and --time-budget-s go with --fresh, how many seeds")
    variant = None if profile is None else cli_options.variant_of(profile, None)
    kept = cases_of(paths or (), _seeds(variant, seeds), beside=lock.parent)
    new = cases_of((), _fresh(variant, fresh or 0, fresh_from), beside=lock.parent)
    if not no_database and database.exists() and not database.is_dir():
        raise BadInput(f"regress: --database {database} is a file: give a folder")
    options = None if variant is None else variant.options
    asked = {case.id for case in kept}
    failed = {} if no_database else read_failures(database, asked=asked, options=options)
    if not kept and not new:
        raise BadInput("regress: give scenario files, or --profile with --seeds or --fresh")
    if variant is not None:
        generate(variant, next(case.seed for case in [*kept, *new] if case.variant is not None))
    words = fail_on or ()
    exceeding = limits_of(word for word in words if word != NOT_JUDGED)
    current = {case.id for case in kept}
    new = [case for case in new if case.id not in failed]
    kept = failures_first(kept, failed)
    known = read_lock(lock)
    if update and not lock.parent.is_dir():
        raise BadInput(f"cannot write {lock} (there is no folder {lock.parent}): make it first")
    limits = cli_options.limits_of(time_limit_s, memory_limit_mib)
    files = ((junit, regression.as_junit), (json, regression.as_json),
             (markdown, regression.as_markdown))  # fmt: skip
    outputs = {"--junit": junit, "--json": json, "--markdown": markdown}
    check_outputs(outputs, [lock, *(case.file for case in kept)])
    for file, _ in files:
        if file is not None:
            write_text(file, "")  # a file that cannot be written is found out before the runs
    started_s = monotonic()
    deadline_s = None if time_budget_s is None else started_s + time_budget_s
    checked: list[Checked] = []
    found: list[Checked] = []
    is_interrupted = False
    try:
        check_cases(
            kept,
            known,
            limits=limits,
            metric_limits=exceeding,
            processes=processes,
            on_checked=checked.append,
        )
        check_cases(
            new,
            {},
            limits=limits,
            metric_limits=exceeding,
            processes=processes,
            deadline_s=deadline_s,
            on_checked=found.append,
        )
    except KeyboardInterrupt:
        is_interrupted = True
    checked, found = in_order(kept, checked), in_order(new, found)
    for file, write in files:
        if file is not None:
            write_text(file, write([*checked, *found]))
    is_updated = update and not is_interrupted
    locked = [one for one in checked if one.case.id in current]
    if is_updated:
        write_text(lock, lock_text(locked, known))
    for line in _describe([*checked, *found], lock, known, is_updated=is_updated):
        say(line)
    if not no_database:
        accepted = current if is_updated else ()
        try:
            stay, passed = keep_failures(database, [*checked, *found], failed, accepted)
        except OSError as problem:
            raise BadInput(f"cannot write to {database} ({problem.strerror}): give another "
                           "--database, or --no-database") from None  # fmt: skip
        for case_id in passed:
            say(f"dropped  {case_id}: {'is in the lock' if case_id in accepted else 'passes'}, "
                f"and is kept in {database} no more")  # fmt: skip
        if stay:
            say(f"kept     {len(stay):,} in {database}, run first the next time")
    if is_interrupted:
        return INTERRUPTED
    silent = [one for one in (*checked, *found) if one.got.outcome == NOT_JUDGED]
    if NOT_JUDGED in words and silent:
        say(f"failed on {NOT_JUDGED}: {', '.join(one.case.id for one in silent[:SHOWN])}")
        return FOUND
    others = [one for one in checked if one.case.id not in current]
    return _code(locked, [*others, *found], is_updated=update)


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
        end = first + 1 if match[2] is None else int(match[2])
        if not first < end <= first + SEEDS_MOST:
            raise BadInput(
                f"regress: --seeds {part}: the first seed must be below the end, "
                f"by {SEEDS_MOST:_} at most"
            )
        for seed in range(first, end):
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


def _describe(
    checked: list[Checked], lock: Path, known: Mapping[str, Expected], *, is_updated: bool
) -> Iterator[str]:
    from rebalance_sim.spark.regress import CHANGED as OTHER_STEPS
    from rebalance_sim.spark.regress import FAILED
    from rebalance_sim.spark.reports.regression import counts_of, headline, unjudged_of

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
    unjudged = unjudged_of(checked)
    for one in unjudged[:SHOWN]:
        yield f"{one.got.outcome} {one.case.id}: {one.reason}"
    if len(unjudged) > SHOWN:
        yield f"         and {len(unjudged) - SHOWN:,} more of which not everything was judged"
    left = sorted(known.keys() - {one.case.id for one in checked})
    if left:
        more = f" and {len(left) - SHOWN:,} more" if len(left) > SHOWN else ""
        yield f"not run  {len(left):,} of the lock: {', '.join(left[:SHOWN])}{more}"
    if is_updated:
        stderr().print(f"{lock} has what they come to now{_left_out(checked)}")


def _left_out(checked: Sequence[Checked]) -> str:
    count = sum(not one.is_judged for one in checked)
    if not count:
        return ""
    return (
        f", but for {count:,} that a limit of this machine ended: give a longer --time-limit-s or "
        "a larger --memory-limit-mib"
    )


def _code(kept: list[Checked], fresh: list[Checked], *, is_updated: bool) -> int:
    """With ``--update`` what comes into the lock is right by definition; fresh seeds do not."""
    verdicts = {one.verdict for one in fresh}
    verdicts |= {one.verdict for one in kept if not (is_updated and one.is_judged)}
    if "failed" in verdicts:
        return FOUND
    return CHANGED if "changed" in verdicts else OK
