"""``rebalance-sim hunt``: a search that learns from what its runs have reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import FOUND, INTERRUPTED, OK
from rebalance_sim.cli.output import print_json, say, stderr

if TYPE_CHECKING:
    from rebalance_sim.scenarios.hunt.hunt import Found
    from rebalance_sim.spark.hunt.carry_out import Hunted
    from rebalance_sim.spark.hunt.folder import RoundRow

ROUND = 24
"""As of ``scenarios.hunt.hunt``, which is not imported for ``--help``; a test compares them."""


def hunt(
    profile: Annotated[
        list[str],
        typer.Option(
            "--profile", "-p", help="A profile's name, or a TOML file; several take turns."
        ),
    ],
    corpus: Annotated[
        str, typer.Option(help="Folder or URL for the corpus and findings; new, or to continue in.")
    ],
    minutes: Annotated[float | None, typer.Option(help="Stop after so many wall minutes.")] = None,
    runs: Annotated[
        int | None, typer.Option(help="Stop at so many runs in all, to whole rounds.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", "-s", min=0, help="What everything is drawn from,"
        " and the first seed of the profile.")] = 0,
    semantics: cli_options.SemanticsName = None,
    repair: cli_options.Repairs = None,
    set_: cli_options.Settings = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Seeds only, as in a sweep: nothing is learned.")
    ] = False,
    round_size: Annotated[
        int, typer.Option("--round", help="Runs of a round; what they reach is merged after it.")
    ] = ROUND,
    stop_after: cli_options.StopAfter = None,
    backend: Annotated[str, typer.Option(help="pool: processes here, or spark.")] = "pool",
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes of the pool; without it, one per core.")
    ] = None,
    master: cli_options.Master = None,
    conf: cli_options.SparkSetting = None,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    time_limit_s: cli_options.TimeLimit = cli_options.LIMITS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = cli_options.LIMITS.memory_mib,
) -> int:  # fmt: skip
    """Look for scenarios that fail, near those that reached something new.

    In rounds: some scenarios are seeds of the profile, the others are made of what is in the
    corpus, by moving a fault into an operation, doubling, dropping or borrowing one, splicing two
    scenarios, or changing a setting. Each finding is a scenario file. Exit code 1 if there are any.
    """
    from rebalance_sim.scenarios.version import code_version
    from rebalance_sim.spark.hunt.carry_out import HuntInterrupted, HuntOptions
    from rebalance_sim.spark.hunt.carry_out import hunt as carry_out

    if "://" not in corpus and Path(corpus).is_file():
        raise BadInput(f"hunt: --corpus {corpus} is a file: give a folder")
    options = HuntOptions(
        runs=runs,
        seconds=None if minutes is None else minutes * 60,
        start_seed=seed,
        round_size=round_size,
        learns=not plain,
        backend=backend,
        processes=processes,
        master=master,
        spark_settings=cli_options.spark_settings(conf),
        limits=cli_options.limits_of(time_limit_s, memory_limit_mib),
        stop_after=stop_after,
    )
    variants = tuple(cli_options.variant_of(one, semantics, repair, set_) for one in profile)
    try:
        with _progress_line() as (on_round, on_note):
            hunted = carry_out(variants, corpus, options, on_round=on_round, on_note=on_note)
    except HuntInterrupted as stopped:
        stderr().print(f"rebalance-sim: {stopped}; they are kept, the same command continues")
        return INTERRUPTED
    page = _write_page(hunted, corpus, "+".join(profile))
    if json:
        print_json({"code": code_version(), "profiles": profile, **_as_json(hunted)})
    else:
        for line in _describe(hunted, corpus):
            say(line)
        if page:
            say(f"report: {page}")
    return FOUND if hunted.corpus.findings else OK


def _write_page(hunted: Hunted, folder: str, profiles: str) -> str:
    """``report.html`` in the folder of the hunt; empty without Plotly."""
    from rebalance_sim.spark.hunt.page import hunt_document
    from rebalance_sim.spark.reports.markdown import PAGE_FILE, write_page
    from rebalance_sim.spark.store.opening import open_store
    from rebalance_sim.spark.store.store import shown

    store = open_store(folder)
    has_page = write_page(store, hunt_document(hunted, profiles))
    return shown(store.location(PAGE_FILE)) if has_page else ""


def _describe(hunted: Hunted, folder: str) -> Iterator[str]:
    corpus = hunted.corpus
    last = hunted.rows[-1] if hunted.rows else None
    cpu = f", {last.cpu_s:,.1f} CPU seconds" if last else ""
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(corpus.outcomes.items()))
    rounds = "1 round" if corpus.rounds == 1 else f"{corpus.rounds:,} rounds"
    yield f"{corpus.runs:,} runs in {rounds}{cpu}: {counts}"
    yield (
        f"{len(corpus.reached):,} situations reached; {len(corpus.kept):,} scenarios kept in "
        f"{folder}; {corpus.discarded:,} mutants discarded"
    )
    for first, count, command in hunted.kinds():
        times = "1 run" if count == 1 else f"{count:,} runs"
        name = f" {first.what}" if first.what else ""
        yield f"{first.outcome}{name} in {times}, first in round {first.round + 1}, {first.made}"
        yield f"         {first.reason}"
        yield f"         {command}"


def _as_json(hunted: Hunted) -> dict[str, Any]:
    from dataclasses import asdict

    corpus = hunted.corpus
    return {
        "runs": corpus.runs,
        "rounds": [asdict(row) for row in hunted.rows],
        "outcomes": dict(sorted(corpus.outcomes.items())),
        "discarded": corpus.discarded,
        "kept": len(corpus.kept),
        "reached": dict(sorted(corpus.reached.items())),
        "settings": dict(sorted(corpus.settings.items())),
        "found": [
            {
                "file": hunted.files[one.scenario.hash],
                "outcome": one.outcome,
                "what": one.what,
                "reason": one.reason,
                "made": one.made,
                "round": one.round,
            }
            for one in corpus.found
        ],
    }


@contextmanager
def _progress_line() -> Iterator[
    tuple[Callable[[RoundRow, list[Found]], None], Callable[[str], None]]
]:
    """One line on a terminal that is written over; elsewhere findings and notes only."""

    def note(text: str) -> None:
        stderr().print(text)

    def tell(found: list[Found]) -> None:
        for one in found:
            stderr().print(f"found: {one.outcome} {one.what} ({one.made})")

    if not stderr().is_terminal:
        yield lambda row, found: tell(found), note
        return
    with stderr().status("hunting") as status:

        def show(row: RoundRow, found: list[Found]) -> None:
            tell(found)
            status.update(
                f"round {row.round:,}: {row.runs:,} runs, {row.reached:,} situations, "
                f"{row.kept:,} scenarios kept, {row.findings:,} findings"
            )

        yield show, note
