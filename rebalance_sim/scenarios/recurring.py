"""Faults that come again and again: one entry of a file stands for many.

[[world.faults]]
kind = "poll_stall"
at_ms = 30_000        # the first
every_ms = 60_000     # and so much later the next; until the end, or
times = 10            # so many in all
jitter_ms = 5_000     # each up to so much later, drawn from the seed
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import FAULTS_MOST
from rebalance_sim.sim.streams import Streams

EVERY, TIMES, JITTER = "every_ms", "times", "jitter_ms"
MEANINGS = {
    EVERY: "The fault comes again so much later, until the world ends.",
    TIMES: "It comes so many times in all.",
    JITTER: "Each comes up to so much later, drawn from the seed.",
}
"""Keys that every fault of a file may have; a kind that has one itself keeps it for itself."""


def each_time(faults: Sequence[Any], world: Mapping[str, Any]) -> Iterator[Any]:
    """One entry for each time that a fault comes; what is no recurring fault stays as it is.

    ``world`` is the table they stand in. Raises ScenarioError, with the place, for values that make
    no sense.
    """
    if not any(map(_recurrence, faults)):
        yield from faults
        return
    seed = _number(world, "seed", 0, "world", None)
    duration_ms = _number(world, "duration_ms", 1, "world", None)
    streams = Streams(seed)
    for index, fault in enumerate(faults):
        recurrence = _recurrence(fault)
        if not recurrence:
            yield fault
            continue
        place = f"world.faults[{index}]"
        own = {key: value for key, value in fault.items() if key not in recurrence}
        draw = streams.get(f"recurring/{index}")
        jitter_ms = _number(recurrence, JITTER, 0, place, 0)
        for at_ms in _times_ms(own, recurrence, duration_ms, place):
            late_ms = draw.randint(0, jitter_ms) if jitter_ms else 0
            yield {**own, "at_ms": min(at_ms + late_ms, duration_ms - 1)}


def _recurrence(fault: Any) -> dict[str, Any]:
    """The keys of an entry that make it recur, with their values; none of what is no fault, which
    the reader of the file refuses."""
    kind: Any = Fault.kinds().get(str(fault.get("kind"))) if isinstance(fault, dict) else None
    if kind is None:
        return {}
    own = {field.name for field in fields(kind)}
    return {key: fault[key] for key in MEANINGS if key in fault and key not in own}


def _times_ms(
    fault: Mapping[str, Any], recurrence: Mapping[str, Any], duration_ms: int, place: str
) -> range:
    if EVERY not in recurrence:
        given = TIMES if TIMES in recurrence else JITTER
        raise ScenarioError(f"is one of a recurring fault: give {EVERY}", place=f"{place}.{given}")
    first_ms = _number(fault, "at_ms", 0, place, None)
    every_ms = _number(recurrence, EVERY, 1, place, None)
    times = _number(recurrence, TIMES, 1, place, max(1, -(-(duration_ms - first_ms) // every_ms)))
    last_ms = first_ms + (times - 1) * every_ms
    if last_ms >= duration_ms:
        raise ScenarioError(
            f"the last would come at {last_ms}, which must be before duration_ms ({duration_ms})",
            place=f"{place}.{TIMES if TIMES in recurrence else 'at_ms'}",
        )
    if times > FAULTS_MOST:
        raise ScenarioError(f"comes {times:_} times, at most {FAULTS_MOST:_}", place=place)
    return range(first_ms, last_ms + 1, every_ms)


def _number(fault: Mapping[str, Any], key: str, least: int, place: str, default: int | None) -> int:
    value = fault.get(key, default)
    if type(value) is not int or value < least:
        problem = f"must be a whole number >= {least}"
        raise ScenarioError(
            problem if key in fault else f"is missing; {problem}", place=f"{place}.{key}"
        )
    return value
