"""``rebalance-sim defects``: which defects do sweeps notice, and how soon?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli import options as cli_options
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.output import check_folder, print_json, say, write_text
from rebalance_sim.cli.sweep_output import progress_bar

if TYPE_CHECKING:
    from rebalance_sim.spark.detection.figures import DefectFigures, OracleFigures

SEEDS = 2_000
ENOUGH = 20
"""As of ``spark.detection.measure``, which is not imported for ``--help``; a test compares them."""


class Judges(StrEnum):
    """Which oracles are asked."""

    LAWS = "laws"
    REFERENCE = "reference"
    BOTH = "both"


def defects(
    ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of defects; without any, all.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Runs of the mix for each defect, at most.")
    ] = SEEDS,
    enough: Annotated[
        int, typer.Option(min=0, help="A defect that so many runs noticed is done; 0: never.")
    ] = ENOUGH,
    oracle: Annotated[
        Judges,
        typer.Option(
            help="Who judges a run: the laws; a reference without the defect, fed the same; "
            "or both, each by itself."
        ),
    ] = Judges.BOTH,
    profiles: Annotated[
        str | None, typer.Option(help="Only the runs of these profiles, names between commas.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the runs and a page; new, or to continue in.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes; without it, one per core.")
    ] = None,
    shrink: Annotated[
        bool,
        typer.Option("--shrink", help="Make the first run in which laws noticed each small."),
    ] = False,
    require_noticed: Annotated[
        bool,
        typer.Option("--require-noticed", help="Exit with 1 unless some oracle notices every one."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    time_limit_s: cli_options.TimeLimit = cli_options.LIMITS.soft_s,
    memory_limit_mib: cli_options.MemoryLimit = cli_options.LIMITS.memory_mib,
) -> int:
    """Switch defects on, one at a time, and run the default profiles until they are noticed.

    Profiles take turns, the same for every defect, in versions without known issues. Laws notice a
    defect in a run if something is violated that is not without the defect; the reference if a
    decision differs. Density: the share of runs that notice it, with its 95 % interval.
    """
    from rebalance_sim.scenarios.version import code_version
    from rebalance_sim.spark.detection.measure import MeasureOptions, measure_defects
    from rebalance_sim.spark.detection.oracles import Oracle

    check_folder("defects", "--out", out)
    options = MeasureOptions(
        seeds=seeds,
        enough=enough,
        oracles=tuple(Oracle) if oracle is Judges.BOTH else (Oracle(oracle.value),),
        profiles=tuple(profiles.replace(" ", "").split(",")) if profiles else (),
        processes=processes,
        shrinks=shrink,
        limits=cli_options.limits_of(time_limit_s, memory_limit_mib),
    )
    with progress_bar("defects") as on_progress:
        figures = measure_defects(ids or (), out=out, options=options, on_progress=on_progress)
    page = _write_page(figures, out, seeds=seeds, enough=enough)
    if json:
        head = {"code": code_version(), "seeds": seeds, "enough": enough, "profiles": profiles}
        print_json({**head, "defects": [_as_json(one) for one in figures]})
    else:
        for line in _describe(figures):
            say(line)
        if page is not None:
            say(f"report: {page}")
    is_complete = all(one.is_noticed for one in figures)
    return OK if is_complete or not require_noticed else FOUND


def _write_page(
    figures: Sequence[DefectFigures], out: Path | None, *, seeds: int, enough: int
) -> Path | None:
    """``report.html`` in the folder of the runs; None without a folder, or without Plotly."""
    from rebalance_sim.scenarios.documents.html_page import has_plotly, html_page
    from rebalance_sim.spark.detection.page import defects_document
    from rebalance_sim.spark.reports.markdown import PAGE_FILE

    if out is None or not has_plotly():
        return None
    file = out / PAGE_FILE
    document = defects_document(figures, seeds=seeds, enough=enough)
    write_text(file, html_page(document))
    return file


def _as_json(one: DefectFigures) -> dict[str, Any]:
    return {**asdict(one), "component": one.component}


def _describe(figures: Sequence[DefectFigures]) -> Iterator[str]:
    width = max(len(one.defect) for one in figures)
    for one in figures:
        for oracle, found in one.by_oracle.items():
            yield f"{_line(found, f'{one.defect:<{width}}  {oracle:<9}')}{_size(one, oracle)}"
    counts = [
        f"{sum(one.by_oracle[oracle].noticed > 0 for one in figures)} by "
        + ("the reference" if oracle == "reference" else "laws")
        for oracle in figures[0].by_oracle
    ]
    if len(counts) > 1:
        counts.append(f"{sum(one.is_noticed for one in figures)} by one of the two")
    reached = sum(one.is_reached for one in figures)
    yield f"of {len(figures)} defects noticed: {', '.join(counts)}; {reached} reached"


def _line(found: OracleFigures, words: str) -> str:
    share, runs = found.density, f"of {found.runs:,} runs"
    if found.noticed:
        percent = f"{share.value:.2%} ({share.low:.2%} .. {share.high:.2%})"
        return f"noticed    {words}  {percent} {runs}, first {found.first_run}, by {found.by}"
    how_far = f"reached in {found.reached:,}" if found.reached else "unreached"
    return f"unnoticed  {words}  {how_far} {runs}; below {share.high:.2%}"


def _size(one: DefectFigures, oracle: str) -> str:
    small = one.shrunk
    if small is None or oracle != "laws":
        return ""
    return (
        f"; shrunk to {small.faults} faults, {small.clients} clients, "
        f"{small.steps:,} steps, {small.seconds:,.1f} s"
    )
