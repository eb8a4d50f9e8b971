"""``rebalance-sim diff``: two sweeps side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import asdict
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.output import print_json, say, write_text

if TYPE_CHECKING:
    from rebalance_sim.spark.reports.difference import Difference

SHOWN = 12


def diff(
    before: Annotated[str, typer.Argument(help="Folder or URL of a sweep.")],
    after: Annotated[str, typer.Argument(help="Folder or URL of another one.")],
    json: Annotated[bool, typer.Option("--json", help="Print all of it as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with plots, a file to open.")
    ] = None,
) -> int:
    """Say what one sweep shows and another does not, over the seeds that both have.

    Exit code 0: every run took the same steps. 1: some did not.
    """
    from rebalance_sim.scenarios.documents.html_page import check_plotly, html_page
    from rebalance_sim.spark.reports.difference import difference_document, difference_of

    if html is not None:
        check_plotly()
        write_text(html, "")  # a file that cannot be written is found out before the work
    found = difference_of(before, after)
    if json:
        values = {name: value for name, value in asdict(found).items()
                  if name not in ("before", "after")}  # fmt: skip
        print_json({"before": str(before), "after": str(after), **values})
    else:
        for line in _describe(found):
            say(line)
    if html is not None:
        write_text(html, html_page(difference_document(before, after, found)))
    return OK if found.is_empty else FOUND


def _describe(found: Difference) -> Iterator[str]:
    seed = "" if found.first_seed is None else f", seed {found.first_seed} first"
    yield f"{found.common:,} runs are in both; {found.other_steps:,} took other steps{seed}"
    for name, before, after in found.plans:
        yield f"  {name}: {before} -> {after}"
    yield from _table("outcome", found.outcomes)
    yield from _table("known issue", found.known)
    for other in found.others[:SHOWN]:
        protocol = f" ({other.protocol})" if other.protocol else ""
        both = f"{other.before} -> {other.after}"
        yield f"seed {other.seed}{protocol}: {both}  {other.reason}".rstrip()
    yield from _more(found.others)
    for cell, words in list(found.failed.items())[:SHOWN]:
        yield f"no figures of {cell}: {words}"
    yield from _more(found.failed)
    for change in found.metrics[:SHOWN]:
        d = change.difference
        yield (
            f"{change.metric}: {d.value:+g} {_interval(d.low, d.high)}, less in "
            f"{change.less:,} and "
            f"more in {change.more:,} of {change.runs:,} runs"
        )
    yield from _more(found.metrics)
    for title, names in (("won", found.won), ("lost", found.lost)):
        if names:
            shown = ", ".join(names[:SHOWN])
            rest = f", and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
            yield f"coverage {title}: {shown}{rest}"


def _interval(low: float, high: float) -> str:
    return "(too few runs for an interval)" if isnan(low) else f"[{low:g}, {high:g}]"


def _table(title: str, counts: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    for name, (before, after) in counts.items():
        if before != after:
            yield f"{title} {name}: {before:,} -> {after:,}"


def _more(items: Sized) -> Iterator[str]:
    if len(items) > SHOWN:
        yield f"  and {len(items) - SHOWN:,} more (--json has them all)"
