"""What happened in a run, in a dozen lines for the person who ran it.

Each figure is a metric of the run (docs/results.md defines them), or of its rebalances, with its
unit. A figure that the run has not measured is left out, and so is a line without any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from rebalance_sim.scenarios.result import PASSING, RunResult
from rebalance_sim.scenarios.units import number
from rebalance_sim.sim.observe.rebalances import Episode
from rebalance_sim.sim.phases import PhaseSpan

_LONGEST_SHOWN = 3


def what_happened(result: RunResult) -> list[str]:
    """A line for each thing that people ask about; nothing for a run that failed, which has its
    own story to tell."""
    if result.outcome not in PASSING or not result.metrics:
        return []
    return [f"  {name:<11} {text}" for name, text in lines_of(result)]


def lines_of(result: RunResult) -> Iterator[tuple[str, str]]:
    """Each thing by its name; empty for one more line about the thing before."""
    metrics = result.metrics
    yield "rebalances", _rebalances(result.rebalances, metrics)
    longest = sorted(result.rebalances, key=lambda one: (-one.duration_ms, one.at_ms))
    for one in longest[:_LONGEST_SHOWN]:
        yield "", _rebalance(one)
    yield (
        "unowned",
        f"{_seconds(metrics, 'unowned_partition_ms', 'partition-seconds')}; "
        f"one partition for at most {_seconds(metrics, 'unowned_partition_ms_max')}",
    )
    yield (
        "standstill",
        _standstill(metrics),
    )
    moved = metrics["partition_moves_needed"] + metrics["partition_moves_beyond_need"]
    yield (
        "moved",
        f"partitions changed their client {_count(metrics, 'partition_moves')} times; "
        f"rebalances moved {moved:,.0f}, {_count(metrics, 'partition_moves_beyond_need')} of them "
        "without need",
    )
    if "records_processed" in metrics:
        yield (
            "records",
            f"{_count(metrics, 'records_delivered')} delivered, "
            f"{_count(metrics, 'records_redelivered')} of them again; "
            f"{_count(metrics, 'records_reprocessed')} processed again, "
            f"{_count(metrics, 'records_skipped')} skipped, {_count(metrics, 'records_lost')} lost",
        )
        yield (
            "lag",
            f"at most {_count(metrics, 'lag_records_max')} records in one partition; "
            f"{_count(metrics, 'lag_records_at_end')} in all at the end",
        )
    if "poison_pill_hits" in metrics:
        yield (
            "poison",
            f"applications came to poison pills {_count(metrics, 'poison_pill_hits')} times, to "
            f"one of them {_count(metrics, 'poison_pill_hits_max')} times; "
            f"{_count(metrics, 'records_dropped')} dropped, "
            f"{_count(metrics, 'records_dead_lettered')} written elsewhere",
        )
    if "transactions_committed" in metrics:
        yield (
            "transactions",
            f"{_count(metrics, 'transactions_committed')} committed, "
            f"{_count(metrics, 'transactions_aborted')} aborted; "
            f"producers fenced {_count(metrics, 'producers_fenced')}",
        )
    if "records_processed_after_loss" in metrics:
        yield (
            "workers",
            f"processed {_count(metrics, 'records_processed_after_loss')} records of partitions "
            "that their client had lost",
        )
    yield (
        "removed",
        f"members by session timeout {_count(metrics, 'session_timeouts')}, "
        f"by rebalance timeout {_count(metrics, 'rebalance_timeouts')}; "
        f"clients fenced {_count(metrics, 'fences')}",
    )
    has_faults = any(name.startswith("fault.") for name in result.coverage)
    since = "the last fault began or ended" if has_faults else "the start, without any fault"
    yield (
        "settled",
        "not stable at the end"
        if metrics["settling_ms"] < 0
        else f"{_seconds(metrics, 'settling_ms')} after {since}",
    )
    for phase in result.phases:
        yield from _phase(phase, metrics)


def _phase(phase: PhaseSpan, run: Mapping[str, float]) -> Iterator[tuple[str, str]]:
    """The headlines of a part of the run."""
    start = f"{phase.name}."
    metrics = {name.removeprefix(start): run[name] for name in run if name.startswith(start)}
    rest = {None: "", True: ", at rest", False: ", not at rest"}[phase.at_rest]
    yield (
        "phase",
        f"{phase.name}, {phase.from_ms / 1000:,.3f} s to {phase.until_ms / 1000:,.3f} s{rest}: "
        f"rebalances {_count(metrics, 'rebalance_episodes')}, "
        f"{_seconds(metrics, 'rebalance_ms')} in all; "
        f"partitions changed their client {_count(metrics, 'partition_moves')} times",
    )
    yield (
        "",
        f"unowned {_seconds(metrics, 'unowned_partition_ms', 'partition-seconds')}, one partition "
        f"for at most {_seconds(metrics, 'unowned_partition_ms_max')}; {_standstill(metrics)}",
    )
    if "lag_records_max" in metrics:
        yield (
            "",
            f"records {_count(metrics, 'records_delivered')} delivered, "
            f"{_count(metrics, 'records_redelivered')} of them again; "
            f"{_count(metrics, 'records_reprocessed')} processed again; "
            f"lag at most {_count(metrics, 'lag_records_max')} in one partition",
        )


def _standstill(metrics: Mapping[str, float]) -> str:
    return (
        "members with partitions before and after had none for "
        f"{_seconds(metrics, 'member_stopped_ms')} in all; "
        f"the whole group for {_seconds(metrics, 'group_stopped_ms')}"
    )


def _rebalances(episodes: tuple[Episode, ...], metrics: Mapping[str, float]) -> str:
    causes = Counter(_cause(one) for one in episodes)
    by_cause = ", ".join(f"{cause} {count}" for cause, count in sorted(causes.items()))
    text = f"{len(episodes):,}"
    if episodes:
        text += f", {_seconds(metrics, 'rebalance_ms')} in all ({by_cause})"
    if len(episodes) > _LONGEST_SHOWN:
        text += "; the three longest"
    still = metrics["rebalance_episodes_open"]
    return f"{text}; {still:g} not over at the end" if still else text


def _rebalance(one: Episode) -> str:
    return (
        f"{one.duration_ms / 1000:,.3f} s from {one.at_ms / 1000:,.3f} s on: {_cause(one)}; "
        f"partitions moved {one.moved:,}, unowned {number(one.unowned_partition_ms / 1000)} "
        "partition-seconds"
    )


def _cause(one: Episode) -> str:
    """``consumer.member_joined`` is "member joined"."""
    return one.cause.rpartition(".")[2].replace("_", " ")


def _seconds(metrics: Mapping[str, float], name: str, unit: str = "s") -> str:
    seconds = metrics[name] / 1000
    return f"{seconds:,.3f} {unit}" if seconds else f"0 {unit}"


def _count(metrics: Mapping[str, float], name: str) -> str:
    return f"{metrics[name]:,.0f}"
