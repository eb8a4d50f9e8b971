"""Runs that leap over rest, and the same runs step by step beside them.

What a leap leaves out is nothing but a routine (``sim/leaps.py``), so a run that leaps comes to the
same. A leap to the end changes nothing else; after one in the middle, delays are drawn from another
place of their streams, and what happens then is as likely, and not the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.result import PASSING, RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario

COMPARED_OF = 16
"""One seed in so many is run both ways."""

COUNTERS = frozenset(
    (
        *("heartbeats_sent", "commits_sent", "records_written", "rebalance_requests"),
        "coordinator_searches_sent",
    )
)
"""What a group at rest adds to; a leap adds as much."""

OF_RECORDS = frozenset(
    (
        *("records_delivered", "records_processed", "lag_records_max", "lag_records_at_end"),
        *("lag_record_seconds", "settling_ms"),
    )
)
"""Records go on while steps are left out, and polls no longer cut their processing into pieces; the
last acknowledgement of a storm comes somewhat sooner or later."""

SHARE_MOST = 0.05
COUNT_MOST = 15
"""A counter may differ by this share of what it is, or by so many: where a leap begins, a client is
somewhere in its interval, and delays are added with their mean."""

RECORDS_SHARE_MOST = 0.01
RECORDS_COUNT_MOST = 50
"""The same of a metric of records."""


def run_leaping(
    scenario: Scenario,
    *,
    prove: Prove,
    is_compared: bool = False,
    ends_at_violation: bool = False,
) -> RunResult:
    """Run a scenario, and leap over the time in which its world is at rest.

    A run that fails is made step by step as well, and is what that comes to. ``is_compared``: so is
    any other, and what differs beyond the tolerance is said (``RunResult.leap_difference``).
    ``ends_at_violation``: as of ``run``.
    """
    leapt = run(scenario, prove=prove, leaps=True, ends_at_violation=ends_at_violation)
    if not leapt.leaps:
        return leapt
    if leapt.outcome not in PASSING:
        return run(scenario, prove=prove, ends_at_violation=ends_at_violation)
    if not is_compared:
        return leapt
    whole = run(scenario, prove=Prove.NONE)
    draws_alike = leapt.leaps[0][0] >= scenario.world.duration_ms
    found = "; ".join(differences(leapt, whole, draws_alike=draws_alike))
    return replace(leapt, leap_difference=found)


def differences(leapt: RunResult, whole: RunResult, *, draws_alike: bool) -> Iterator[str]:
    """What two runs of a scenario differ in: outcome, violated properties, length and, if both draw
    the same numbers, metrics; counters beyond the tolerance."""
    for name in ("outcome", "simulated_ms"):
        mine, other = getattr(leapt, name), getattr(whole, name)
        if mine != other:
            yield f"{name} {mine}, not {other}"
    mine, other = _violated(leapt), _violated(whole)
    if mine != other:
        yield f"violated {mine}, not {other}"
    if not draws_alike:
        return
    for name, value in whole.metrics.items():
        found = leapt.metrics.get(name)
        most: float = 0
        kind = name.rpartition(".")[2]  # without the phase that it is of
        if kind in COUNTERS:
            most = max(COUNT_MOST, SHARE_MOST * abs(value))
        elif kind in OF_RECORDS:
            most = max(RECORDS_COUNT_MOST, RECORDS_SHARE_MOST * abs(value))
        if found is None or abs(found - value) > most:
            yield f"{name} {found}, not {value}"


def _violated(result: RunResult) -> list[str]:
    """Known issues violate as well: whether they were proven is no difference."""
    found = {row.property for row in result.violations}
    found.update(one.row.property for one in result.suspected)
    found.update(row.property for row in result.known_issues)
    return sorted(found)
