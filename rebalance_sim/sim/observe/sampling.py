"""Series of a run: every probe is read at regular times, between the events of the world.

A reading makes no event and draws nothing, so a run that is sampled is the same run, digest and
all. A sample taken at a time shows what everything before that time has come to.

    world = World(spec, metrics_interval_ms=1_000)
    world.sampler.register(probe)      # before the world runs
    samples = world.run().samples

A probe is a function that takes the time and gives ``Reading`` values; code with something to
show registers one. What is at hand as a number costs nothing until it is read.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

Tags = tuple[tuple[str, str], ...]
"""Names and values that distinguish readings of one metric, in ascending name."""

DEFAULT_INTERVAL_MS = 1_000
"""The default interval: fine enough for heartbeats, coarse enough to keep."""

_NEVER = sys.maxsize


class Reading(NamedTuple):
    """One value. ``node_id`` is the broker that publishes it, None for what is no broker's."""

    metric: str
    value: float
    node_id: int | None = None
    tags: Tags = ()


class MetricSample(NamedTuple):
    """A reading with its time, in milliseconds of simulated time."""

    at_ms: int
    node_id: int | None
    metric: str
    tags: Tags
    value: float


Probe = Callable[[int], Iterable[Reading]]


class Sampler:
    """Reads the probes every ``interval_ms``; never, if that is None.

    ``next_ms`` is when the next sample is due. Raises ValueError for an interval below 1.
    """

    def __init__(self, interval_ms: int | None = None) -> None:
        check_interval(interval_ms)
        self._interval_ms = interval_ms
        self._probes: list[Probe] = []
        self.next_ms = _NEVER if interval_ms is None else interval_ms
        self.samples: list[MetricSample] = []

    @property
    def is_on(self) -> bool:
        """Whether samples are taken at all."""
        return self._interval_ms is not None

    def register(self, probe: Probe) -> None:
        """Read this probe too, after those that are registered already."""
        self._probes.append(probe)

    def take(self, at_ms: int) -> None:
        """Read every probe; ``at_ms`` is the time of the sample."""
        if self._interval_ms is None:
            return
        self.next_ms = at_ms + self._interval_ms
        add = self.samples.append
        for probe in self._probes:
            for metric, value, node_id, tags in probe(at_ms):
                add(MetricSample(at_ms, node_id, metric, tags, value))


def check_interval(metrics_interval_ms: int | None) -> None:
    """Raise ValueError for what is no whole number above 0; None, for no samples, is all right."""
    if metrics_interval_ms is None:
        return
    if not isinstance(metrics_interval_ms, int) or metrics_interval_ms < 1:
        raise ValueError(
            f"metrics_interval_ms must be a whole number >= 1, got {metrics_interval_ms!r}"
        )
