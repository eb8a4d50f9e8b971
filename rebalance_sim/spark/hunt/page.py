"""The page of a hunt: what it found, how to see it, and how far each round came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.spark.hunt.carry_out import Hunted
from rebalance_sim.spark.reports.page_plots import curve, not_judged, tile_of

RAREST_LISTED = 40


def hunt_document(hunted: Hunted, profiles: str) -> doc.Document:
    """The page; ``profiles`` are what the hunt began from."""
    return doc.Document(f"Hunt from `{profiles}`", [*_head(hunted), *_found(hunted),
                                                    *_rounds(hunted), *_rest(hunted)])  # fmt: skip


def _head(hunted: Hunted) -> Iterator[doc.Part]:
    corpus = hunted.corpus
    kinds, runs = len(corpus.findings), sum(corpus.findings.values())
    left = corpus.runs - corpus.outcomes.get("ok", 0) - corpus.outcomes.get("known", 0)
    rest = not_judged(left)
    if kinds:
        yield doc.Verdict(
            f"{kinds:,} kinds of failure, in {runs:,} of {corpus.runs:,} runs.", "bad"
        )
    elif known := corpus.outcomes.get("known", 0):
        yield doc.Verdict(
            f"Nothing but known issues: {known:,} of {corpus.runs:,} runs show some, none fails "
            f"otherwise{rest}.", "known"
        )  # fmt: skip
    elif left == corpus.runs > 0:
        yield doc.Verdict(f"Not known: none of {corpus.runs:,} runs could be judged.", "")
    else:
        kind = "good" if corpus.runs else ""
        yield doc.Verdict(f"No failure in {corpus.runs:,} runs{rest}.", kind)
    yield doc.Tiles([(f"{count:,}", f"{name} (of {corpus.runs:,} runs)", tile_of(name))
                     for name, count in sorted(corpus.outcomes.items())])  # fmt: skip
    cpu = f"{hunted.rows[-1].cpu_s:,.1f} s" if hunted.rows else "0 s"
    yield doc.Tiles(
        [
            (f"{len(corpus.reached):,}", "situations reached", ""),
            (f"{len(corpus.kept):,}", "scenarios kept, as each reached something new", ""),
            (f"{corpus.discarded:,}", "mutants discarded, as no scenario", ""),
            (cpu, f"CPU time, {corpus.rounds:,} rounds", ""),
        ]
    )


def _found(hunted: Hunted) -> Iterator[doc.Part]:
    if not hunted.corpus.findings:
        return
    yield doc.Heading("What it found")
    rows = [["failure", "runs", "first round", "made by", "see it"]]
    for first, count, command in hunted.kinds():
        name = f"{first.outcome} `{first.what}`" if first.what else first.outcome
        rows.append([f"{name}\n{first.reason}", f"{count:,}", f"{first.round + 1:,}", first.made,
                     f"`{command}`"])  # fmt: skip
    yield doc.Table(rows)


def _rounds(hunted: Hunted) -> Iterator[doc.Part]:
    if len(hunted.rows) < 2:
        return
    yield doc.Heading("How far it came")
    runs = [row.runs for row in hunted.rows]

    def drawn() -> list[list[Any]]:
        return [
            [
                curve("situations reached", "runs", runs, [row.reached for row in hunted.rows]),
                curve("runs that failed", "runs", runs, [row.findings for row in hunted.rows]),
            ]
        ]

    yield doc.Plot("Rounds", drawn)


def _rest(hunted: Hunted) -> Iterator[doc.Part]:
    rarest = sorted(hunted.corpus.reached.items(), key=lambda row: (row[1], row[0]))
    rows = [["situation", "runs"], *([name, f"{count:,}"] for name, count in rarest)]
    title = f"Situations reached: {len(rarest):,}, rarest first"
    yield doc.Fold(title, [doc.Table(rows, RAREST_LISTED, "more situations")])
