"""Named random streams: one for each concern and actor, independent of the order of creation.

A stream depends on the version of this scheme, the seed and its name alone. So leaving out one
fault, or one client, shifts no draw of anybody else. A run that branches off draws otherwise from a
moment on: all of its streams begin again, from the number of the branch as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import blake2b
from random import Random
from typing import NamedTuple

from rebalance_sim.sim.delays import DelaySpec

_VERSION = "streams-1"
_TAIL_LIMIT = 20
"""A tail is cut off at this many means: no single delay dwarfs a run (chance 2e-9 a draw)."""


class Branch(NamedTuple):
    """Where a run branches off, in simulated ms, and the number that it draws by from there."""

    at_ms: int
    seed: int


class Streams:
    """The streams of one world; each is made when it is first asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._branch = ""
        self._streams: dict[str, Random] = {}

    def get(self, name: str) -> Random:
        """The stream of this name, such as ``latency/client-1``."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = Random(self._start_of(name))
        return stream

    def branch(self, seed: int) -> None:
        """From now on every stream draws by this number as well; those who have one keep it."""
        self._branch = f"/branch/{seed}"
        for name, stream in self._streams.items():
            stream.seed(self._start_of(name))

    def _start_of(self, name: str) -> int:
        text = f"{_VERSION}/{self._seed}/{name}{self._branch}".encode()
        return int.from_bytes(blake2b(text, digest_size=16).digest(), "big")


def delay_sampler(spec: DelaySpec, stream: Random, *, least_ms: int = 0) -> Callable[[], int]:
    """A function that draws one delay in whole milliseconds, never below ``least_ms``.

    It takes one draw for a uniform part and one for a tail, and none for a constant.
    """
    draw = stream.random
    low = spec.min_ms
    span = (low if spec.max_ms is None else spec.max_ms) - low + 1
    tail_ms = spec.tail_ms
    if tail_ms == 0 and span == 1:
        constant = max(low, least_ms)
        return lambda: constant
    if tail_ms == 0:
        if low >= least_ms:
            return lambda: low + int(draw() * span)
        return lambda: max(least_ms, low + int(draw() * span))

    def with_tail() -> int:
        body = low + int(draw() * span)
        tail = min(-math.log(1.0 - draw()), _TAIL_LIMIT) * tail_ms
        return max(least_ms, body + int(tail))

    return with_tail
