"""Numbers as people read them: in seconds rather than milliseconds, with as many digits as tell
something."""

from __future__ import annotations

import math

_SECONDS = 1000.0


def unit_of(metric: str) -> tuple[str, float]:
    """What a metric is shown in, and by what its values are divided."""
    words = metric.rpartition(".")[2].split("_")  # without the phase that it is of
    if "ms" in words:
        is_sum = "partition" in words and words[-1] == "ms"  # over partitions; else of one
        return ("partition-seconds" if is_sum else "s", _SECONDS)
    if "percent" in words:
        return ("%", 1.0)
    return ("", 1.0)


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


def title_of(metric: str) -> str:
    """A metric with the unit that it is shown in."""
    unit, _ = unit_of(metric)
    return f"{metric} ({unit})" if unit else metric
