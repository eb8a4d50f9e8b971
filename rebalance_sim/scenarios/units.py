"""Numbers as people read them: in seconds rather than milliseconds, with as many digits as tell
something."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

_SECONDS = 1000.0

COMPARED: Mapping[str, str] = {
    "unowned_partition_ms": "time without an owner, summed over partitions",
    "unowned_partition_ms_max": "longest time without an owner of one partition",
    "rebalance_unowned_partition_ms": (
        "time without an owner during rebalances, summed over partitions"
    ),
    "availability_loss_percent": "share of partitions without an owner during rebalances",
    "member_stopped_ms": "time of members without any partition, that had some before and after",
    "group_stopped_ms": "time of whole groups without any partition",
    "overlap_partition_ms": "time in which more than one client could fetch a partition",
    "rebalance_episodes": "rebalances, from the first sign to the last client at rest",
    "rebalance_ms": "length of all rebalances",
    "rebalance_ms_max": "longest rebalance",
    "member_rebalance_ms": "time of members busy with a rebalance",
    "crash_detection_ms_max": (
        "longest time from the death of a process until the group is rid of it"
    ),
    "first_assignment_ms_mean": "mean time from the start of a process to its first partition",
    "duration_ms": "length of the phase",
    "settling_ms": "from the last fault to the last change",
    "partition_moves": "times a partition changed its consumer",
    "partition_moves_beyond_need": "partitions moved by a rebalance that need not have been",
    "needless_revocations": "partitions given up and got back",
    "callbacks_run": "rebalance callbacks",
    "rebalance_requests": "membership requests during rebalances",
    "heartbeats_sent": "heartbeats sent",
    "group_records_written": "records of groups in the log",
    "group_bytes_written": "size of records of groups in the log",
    "lag_record_seconds": "lag, integrated over time",
    "lag_records_max": "the highest lag of a partition",
    "first_record_after_loss_ms_mean": "mean wait of a moved partition for its first record",
    "first_record_after_loss_ms_max": "longest wait of a moved partition for its first record",
    "records_reprocessed": "records processed again",
    "records_lost": "records handed out and never processed",
}
"""The metrics that are held side by side, in this order: each is a cost, less of it is better."""


_WORDS: Mapping[str, str] = {
    **COMPARED,
    "first_assignment_ms_max": "longest time from the start of a process to its first partition",
    "assignment_delay_ms": "from a rise of the group epoch to its target, summed over rises",
    "assignment_delay_ms_max": "longest time from a rise of the group epoch to its target",
    "reconciliation_delay_ms": (
        "from a rise of the group epoch until the group is stable, summed over rises"
    ),
    "reconciliation_delay_ms_max": (
        "longest time from a rise of the group epoch until the group is stable"
    ),
    "rebalance_coordinator_ms": "time in which coordinators rebalanced a group",
    "rebalance_coordinator_ms_max": "longest time in which a coordinator rebalanced a group",
    "member_rebalance_ms_max": "longest time of a member busy with a rebalance",
    "crash_detection_ms_mean": (
        "mean time from the death of a process until the group is rid of it"
    ),
    "first_record_after_assignment_ms_max": (
        "longest time from the assignment of a moved partition to its first record"
    ),
    "first_record_after_assignment_ms_mean": (
        "mean time from the assignment of a moved partition to its first record"
    ),
    "rebalance_episodes_open": "rebalances that are not over at the end",
    "partition_moves_needed": "partitions moved by a rebalance that had to be",
    "idle_clients": "clients that never could fetch a partition",
    "fences": "times a client found itself fenced",
    "records_skipped": "records that no application received",
    "records_written": "records of the offsets topic",
    "rebalances": "rises of the epoch of a consumer group",
    "records_redelivered": "records delivered again",
    "lag_records_at_end": "lag at the end",
    "poison_pill_hits": "times an application came to a poison pill",
    "poison_pill_hits_max": "times applications came to the same poison pill, at most",
    "records_processed_after_loss": "records of lost partitions that workers processed",
    "transactions_committed": "transactions that applications committed",
    "transactions_aborted": "transactions that applications aborted",
    "producers_fenced": "producers that were fenced",
    "records_read_aborted": "records read that were aborted",
    "unstable_records_max": "the most records of a partition that were not stable",
    "open_transaction_ms_max": "the longest that a transaction was open in a partition",
    "fatal_clients": "clients that ended with an error",
}


_UNITS: Mapping[str, str] = {
    "lag_record_seconds": "record-seconds",
    "lag_records_max": "records",
    "lag_records_at_end": "records",
    "group_bytes_written": "bytes",
}
"""Of metrics whose words do not say what is counted."""


_UNITS_OF_SETTINGS: Mapping[str, str] = {
    "ms": "ms",
    "s": "s",
    "minutes": "minutes",
    "bytes": "bytes",
    "mib": "MiB",
    "percent": "%",
}
"""Of settings, by the last word of their names."""


def unit_of(metric: str) -> tuple[str, float]:
    """What a metric is shown in, and by what its values are divided."""
    words = metric.rpartition(".")[2].split("_")  # without the phase that it is of
    if "ms" in words:
        is_sum = "partition" in words and words[-1] == "ms"  # over partitions; else of one
        return ("partition-seconds" if is_sum else "s", _SECONDS)
    if "percent" in words:
        return ("%", 1.0)
    return (_UNITS.get("_".join(words), ""), 1.0)


def number(value: float) -> str:
    """Three or four digits that tell something."""
    if math.isnan(value):
        return "?"
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def simulated_time(ms: float) -> str:
    """``59.3 simulated hours``, or minutes where those would be none."""
    if ms < 3_600_000:
        return f"{ms / 60_000:,.1f} simulated minutes"
    return f"{ms / 3_600_000:,.1f} simulated hours"


def shown_in_unit(metric: str, value: float) -> str:
    """A value of a metric in its unit, without naming it."""
    return number(value / unit_of(metric)[1])


def words_of(metric: str) -> str:
    """A metric in words, also of a phase: as people say it, or else its name without the unit."""
    phase, _, name = metric.rpartition(".")
    plain = " ".join(word for word in name.split("_") if word not in ("ms", "percent"))
    words = _WORDS.get(name, plain)
    return f"in phase {phase}: {words}" if phase else words


def compared(metrics: Iterable[str]) -> list[str]:
    """Of these metrics, those that are held side by side, in their order: of whole runs, then of
    each phase."""
    names = set(metrics)
    phases = sorted({name.rpartition(".")[0] for name in names} | {""})
    prefixes = [f"{phase}." if phase else "" for phase in phases]
    return [f"{prefix}{name}" for prefix in prefixes for name in COMPARED if prefix + name in names]


def title_of(metric: str) -> str:
    """A metric in words, with the unit that it is shown in."""
    return _with_unit(words_of(metric), metric)


def named(metric: str) -> str:
    """A metric by its name, as options take it, with the unit that it is shown in."""
    return _with_unit(metric, metric)


def parameter_title(name: str) -> str:
    """A parameter in words, with the unit that its values are in: what its name ends in."""
    *words, last = name.split("_")
    unit = _UNITS_OF_SETTINGS.get(last) if words else None
    return f"{' '.join(words)} ({unit})" if unit else " ".join((*words, last))


def _with_unit(text: str, metric: str) -> str:
    unit, _ = unit_of(metric)
    return f"{text} ({unit})" if unit else text


def explained(metric: str) -> str:
    """A metric in words with its unit, and its name as a remark."""
    return f"{title_of(metric)}\n`{metric}`"
