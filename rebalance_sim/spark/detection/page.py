"""The page of a measurement of defects: which are noticed, how often, and by what."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.spark.detection.figures import DefectFigures
from rebalance_sim.spark.detection.mix import command_of
from rebalance_sim.spark.reports.page_plots import shares


def defects_document(figures: Sequence[DefectFigures], *, seeds: int, enough: int) -> doc.Document:
    """The page; ``seeds`` and ``enough`` are what the measurement was asked for."""
    noticed = [one for one in figures if one.noticed]
    unnoticed = [one for one in figures if not one.noticed]
    words = f"{len(noticed)} of {len(figures)} defects noticed"
    parts: list[doc.Part] = [
        doc.Verdict(words, "known" if unnoticed else "good"),
        (
            f"Asked: does a sweep notice each of {len(figures)} defects, switched on one at a "
            f"time? At most {seeds:,} runs of all profiles in turn for each"
            + (f", fewer once {enough:,} of them noticed it." if enough else ".")
        ),
        doc.Tiles(
            [
                (f"{len(noticed)}", "noticed", "good"),
                (f"{sum(o.reached > 0 for o in unnoticed)}", "reached, but not noticed", "known"),
                (f"{sum(o.reached == 0 for o in unnoticed)}", "not reached", ""),
            ]
        ),
    ]
    if unnoticed:
        parts += [doc.Heading("Not noticed"), doc.Table(_unnoticed_rows(unnoticed))]
    if noticed:
        rarest = sorted(noticed, key=lambda one: (one.density.value, one.defect))
        rows = [(o.defect, o.density.value, o.density.low, o.density.high) for o in rarest]
        parts += [
            doc.Heading("How often they are noticed"),
            "Share of runs that notice a defect, with its 95 % interval.",
            doc.Plot("Share of runs", lambda: [[shares(rows, "% of runs")]]),
            doc.Table(_noticed_rows(rarest)),
        ]
    return doc.Document("Which defects a sweep notices", parts)


def _unnoticed_rows(figures: Sequence[DefectFigures]) -> list[list[str]]:
    rows = [["defect", "where", "runs", "reached", "known", "noticed in less than"]]
    for one in figures:
        counts = (f"{count:,}" for count in (one.runs, one.reached, one.known))
        rows.append([f"`{one.defect}`", one.component, *counts, f"{one.density.high:.2%}"])
    return rows


def _noticed_rows(figures: Sequence[DefectFigures]) -> list[list[str]]:
    rows = [["defect", "where", "noticed by", "share of runs", "95 %", "runs", "first run"]]
    for one in figures:
        share = one.density
        rows.append(
            [
                f"`{one.defect}`",
                one.component,
                f"`{one.by}`",
                f"{share.value:.2%}",
                f"{share.low:.2%} .. {share.high:.2%}",
                f"{one.runs:,}",
                "" if one.first is None else f"`{command_of(one.first, one.defect)}`",
            ]
        )
    return rows
