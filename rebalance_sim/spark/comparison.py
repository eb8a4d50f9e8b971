"""Every seed under several protocols: run them, hold them against each other, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rebalance_sim.scenarios.compare import PROTOCOLS, protocol_named
from rebalance_sim.scenarios.variant import DEFAULT_PROTOCOLS, Variant
from rebalance_sim.spark.driver import DEFAULTS, carry_out, store_errors
from rebalance_sim.spark.errors import SweepError
from rebalance_sim.spark.options import SweepOptions
from rebalance_sim.spark.plan import SeedRange, Seeds
from rebalance_sim.spark.progress import OnProgress, ignore
from rebalance_sim.spark.reports.comparison import (
    ComparisonSummary,
    summarise_comparison,
    write_table,
)
from rebalance_sim.spark.reports.comparison_report import write_comparison_report
from rebalance_sim.spark.store.store import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def compare(
    *,
    profile: Variant | Path | str,
    seeds: Seeds,
    out: Location,
    protocols: Sequence[str] = DEFAULT_PROTOCOLS,
    base: str | None = None,
    options: SweepOptions = DEFAULTS,
    timeline_seed: int | None = None,
    spark: SparkSession | None = None,
    on_progress: OnProgress = ignore,
) -> ComparisonSummary:
    """Run every seed of ``seeds`` under each of ``protocols`` and hold them against ``base``.

    ``base`` is one of the protocols, the first unless another is named. Everything else is as in
    ``spark.sweep``: results in ``out``, where an unfinished comparison continues; neither series
    nor traces are kept. ``timeline_seed``: whose ownership over time the report draws; one whose
    protocols differ without it. Raises SweepError and ScenarioError (one clear line), and
    SweepInterrupted on Ctrl-C.
    """
    chosen, base = _check_protocols(protocols, base)
    seed_range = SeedRange.of(seeds)
    if timeline_seed is not None and timeline_seed not in seed_range:
        raise SweepError(f"timeline seed {timeline_seed}: give one of the seeds {seed_range}")
    variants = tuple(Variant.of(profile).speaking(protocol) for protocol in chosen)
    options = replace(options, metrics_seeds=0, traces=0)
    with store_errors(out):
        done = carry_out(variants, seed_range, out, options, spark=spark, on_progress=on_progress)
        summary = summarise_comparison(
            done.out, base=base, seeds_run=done.seeds_run, elapsed_s=done.elapsed_s
        )
        write_table(done.out, summary.estimates)
        write_comparison_report(done.out, summary, timeline_seed=timeline_seed)
    return summary


def _check_protocols(protocols: Sequence[str], base: str | None) -> tuple[tuple[str, ...], str]:
    chosen = (protocols,) if isinstance(protocols, str) else tuple(protocols)
    for name in chosen:
        protocol_named(name)
    if len(chosen) < 2:
        raise SweepError(
            f"protocols {', '.join(chosen) or 'none'}: a comparison needs two or more of "
            + ", ".join(PROTOCOLS)
        )
    if base is not None and base not in chosen:
        raise SweepError(f"base {base!r}: choose one of the compared: {', '.join(chosen)}")
    return chosen, chosen[0] if base is None else base
