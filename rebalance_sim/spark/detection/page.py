"""The page of a measurement of defects: which are noticed, how often, and by what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalance_sim.scenarios.documents import document as doc
from rebalance_sim.spark.detection.figures import DefectFigures
from rebalance_sim.spark.detection.mix import command_of
from rebalance_sim.spark.detection.oracles import Oracle
from rebalance_sim.spark.reports.page_plots import shares

_ABOUT = {
    Oracle.LAWS: "laws: a property is violated, the run is stuck, or fails, and is not without it",
    Oracle.REFERENCE: "the reference: machines without the defect, fed the same, decide otherwise",
}


def defects_document(figures: Sequence[DefectFigures], *, seeds: int, enough: int) -> doc.Document:
    """The page; ``seeds`` and ``enough`` are what the measurement was asked for."""
    unnoticed = [one for one in figures if not one.is_noticed]
    words = f"{len(figures) - len(unnoticed)} of {len(figures)} defects noticed"
    oracles = list(figures[0].by_oracle)
    counts = [sum(one.by_oracle[oracle].noticed > 0 for one in figures) for oracle in oracles]
    parts: list[doc.Part] = [
        doc.Verdict(words, "known" if unnoticed else "good"),
        (
            f"Asked: does a sweep notice each of {len(figures)} defects, switched on one at a "
            f"time? At most {seeds:,} runs of the profiles in turn for each"
            + (f", fewer once {enough:,} of them noticed it." if enough else ".")
            + f" Judged by {'; or by '.join(_ABOUT[oracle] for oracle in oracles)}."
        ),
        doc.Tiles(
            [
                *(
                    (f"{count}", f"noticed by {oracle}", "good")
                    for oracle, count in zip(oracles, counts, strict=True)
                ),
                (f"{sum(o.is_reached for o in unnoticed)}", "reached, but not noticed", "known"),
                (f"{sum(not o.is_reached for o in unnoticed)}", "not reached", ""),
            ]
        ),
    ]
    if unnoticed:
        parts += [doc.Heading("Not noticed"), doc.Table(_unnoticed_rows(unnoticed))]
    for oracle in oracles:
        parts += _how_often(figures, oracle)
    return doc.Document("Which defects a sweep notices", parts)


def _unnoticed_rows(figures: Sequence[DefectFigures]) -> list[list[str]]:
    rows = [["defect", "where", "by", "runs", "reached", "noticed in less than"]]
    for one in figures:
        for oracle, found in one.by_oracle.items():
            counts = (f"{count:,}" for count in (found.runs, found.reached))
            less = f"{found.density.high:.2%}"
            rows.append([f"`{one.defect}`", one.component, str(oracle), *counts, less])
    return rows


def _how_often(figures: Sequence[DefectFigures], oracle: Oracle) -> Iterator[doc.Part]:
    """Plot and table of what an oracle notices, the rarest first."""
    noticed = [one for one in figures if one.by_oracle[oracle].noticed]
    if not noticed:
        return
    noticed.sort(key=lambda one: (one.by_oracle[oracle].density.value, one.defect))
    densities = [(one.defect, one.by_oracle[oracle].density) for one in noticed]
    rows = [(defect, one.value, one.low, one.high) for defect, one in densities]
    yield doc.Heading(f"How often: {oracle}")
    yield "Share of runs that notice a defect, with its 95 % interval."
    yield doc.Plot("Share of runs", lambda: [[shares(rows, "% of runs")]])
    yield doc.Table(_noticed_rows(noticed, oracle))


def _noticed_rows(figures: Sequence[DefectFigures], oracle: Oracle) -> list[list[str]]:
    rows = [["defect", "where", "noticed by", "share of runs", "95 %", "runs", "first run"]]
    for one in figures:
        found = one.by_oracle[oracle]
        share = found.density
        rows.append(
            [
                f"`{one.defect}`",
                one.component,
                f"`{found.by}`",
                f"{share.value:.2%}",
                f"{share.low:.2%} .. {share.high:.2%}",
                f"{found.runs:,}",
                "" if found.first is None else f"`{command_of(found.first, one.defect)}`",
            ]
        )
    return rows
