"""The tables of a comparison's pages, as rows of text."""

from __future__ import annotations

from rebalance_sim.scenarios.units import shown_in_unit, title_of
from rebalance_sim.spark.reports.comparison import COMPARED, ComparisonSummary, Estimate
from rebalance_sim.spark.store.tables import OUTCOMES

FAILURES_LISTED = 20

NOTES = (
    "Less is better for every metric here. An interval of 95 % is exact whatever the distribution "
    "is, made of order statistics. With this many of them some miss by chance: one in twenty of "
    "those that hold nothing. A seed is *won* where the protocol has less than the base, *lost* "
    "where it has more.",
    "All protocols have the session timeout and the heartbeat interval of the scenario. Classic "
    "groups also wait for more members when the first one comes "
    "(`group_initial_rebalance_delay_ms`, 3 s by default), and their clients look for new "
    "partitions every ten seconds, if not more often. Lag begins with a partition's first "
    "consumer: a late start shows in the time without an owner, not in the lag.",
    "A protocol with a run that did not pass has no figures, but says what became of its runs: "
    "seeds that survive are the easy ones. A seed counts when its run ended `ok` or `known` under "
    "all other protocols. A metric that a run does not have (no partition moved, so none waited) "
    "leaves its seed out of that row; `seeds` is how many are left, the same under each protocol.",
)


def compared_line(summary: ComparisonSummary) -> str:
    """How many seeds are compared, under which protocols, and why not under all."""
    plan = summary.plan
    compared = f"{summary.seeds_compared:,} of {len(plan.seeds):,} seeds of {plan.base}"
    if not summary.failed:
        return f"{compared} passed under all {len(plan.protocols)} protocols and are compared"
    failed = ", ".join(f"{name} ({words})" for name, words in summary.failed.items())
    return f"{compared} passed under {len(summary.compared)} protocols; no figures of {failed}"


def headline_rows(summary: ComparisonSummary, *, in_words: bool = False) -> list[list[str]]:
    """One row for each metric: its median under each protocol, with the interval; ``in_words``:
    with what it is."""
    names = summary.plan.protocols
    rows = [["metric", *(["what it is"] if in_words else []), "seeds", *names]]
    by_place = {(e.metric, e.protocol): e for e in summary.estimates}
    for metric in COMPARED:
        found = [by_place.get((metric.name, name)) for name in names]
        seeds = max((e.seeds for e in found if e), default=0)
        if seeds:
            words = [metric.words] if in_words else []
            medians = (
                summary.failed.get(name, "") if e is None else _median(e)
                for name, e in zip(names, found, strict=True)
            )
            rows.append([title_of(metric.name), *words, f"{seeds:,}", *medians])
    return rows


def difference_rows(summary: ComparisonSummary, protocol: str) -> list[list[str]]:
    """One row for each metric: a protocol against the base, seed by seed."""
    rows = [["metric", "seeds", "median difference", "95 %", "won", "tied", "lost", "mean", "p95"]]
    failed = summary.failure_against_base(protocol)
    if failed:
        return [*rows, ["all", "0", failed, *[""] * 6]]
    for e in summary.estimates:
        if e.protocol == protocol:
            rows.append(
                [
                    title_of(e.metric),
                    f"{e.seeds:,}",
                    *difference(e),
                    *(f"{count / e.seeds:.1%}" for count in (e.won, e.tied, e.lost)),
                    shown_in_unit(e.metric, e.mean),
                    shown_in_unit(e.metric, e.p95),
                ]
            )
    return rows


def difference(e: Estimate) -> tuple[str, str]:
    """The median of the differences to the base, and its interval, in the unit of the metric."""
    low, high = (shown_in_unit(e.metric, end) for end in (e.difference_low, e.difference_high))
    return shown_in_unit(e.metric, e.difference), f"[{low}, {high}]"


def _median(e: Estimate) -> str:
    low, high = (shown_in_unit(e.metric, end) for end in (e.median_low, e.median_high))
    return f"{shown_in_unit(e.metric, e.median)} [{low}, {high}]"


def outcome_rows(summary: ComparisonSummary) -> list[list[str]]:
    """One row for each protocol."""
    rows = [["protocol", *OUTCOMES, "not stable at the end, of those compared"]]
    for name, counts in summary.outcomes.items():
        of_each = (f"{counts.get(outcome, 0):,}" for outcome in OUTCOMES)
        rows.append([f"`{name}`", *of_each, f"{summary.unstable.get(name, 0):,}"])
    return rows


def known_rows(summary: ComparisonSummary) -> list[list[str]]:
    """One row for each known issue that showed."""
    names = sorted({name for counts in summary.known.values() for name in counts})
    rows = [["known issue", *summary.plan.protocols]]
    for name in names:
        of_each = (f"{counts.get(name, 0):,}" for counts in summary.known.values())
        rows.append([name, *of_each])
    return rows


def failure_rows(summary: ComparisonSummary) -> list[list[str]]:
    """One row for each run that did not pass, with the command that shows it again."""
    rows = [["seed", "protocol", "outcome", "reason", "see it"]]
    for seed, protocol, outcome, reason in summary.failures[:FAILURES_LISTED]:
        command = f"`{summary.replay_command(seed, protocol)}`"
        rows.append([str(seed), protocol, outcome, reason, command])
    left = len(summary.failures) - FAILURES_LISTED
    if left > 0:
        rows.append(["...", "", "", f"{left:,} more in `runs/`", ""])
    return rows


def meaning_rows() -> list[list[str]]:
    """What each metric is."""
    return [["metric", "meaning"], *([metric.name, metric.words] for metric in COMPARED)]
