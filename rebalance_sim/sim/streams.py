"""Named random streams: one for each concern and actor, independent of the order of creation.

A stream depends on the version of this scheme, the seed and its name alone. So leaving out one
fault, or one client, shifts no draw of anybody else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from hashlib import blake2b
from random import Random

from rebalance_sim.sim.delays import DelaySpec

_VERSION = "streams-1"
_TAIL_LIMIT = 20
"""A tail is cut off at this many means: no single delay dwarfs a run (chance 2e-9 a draw)."""


class Streams:
    """The streams of one world; each is made when it is first asked for."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, Random] = {}

    def get(self, name: str) -> Random:
        """The stream of this name, such as ``latency/client-1``."""
        stream = self._streams.get(name)
        if stream is None:
            text = f"{_VERSION}/{self._seed}/{name}".encode()
            stream = Random(int.from_bytes(blake2b(text, digest_size=16).digest(), "big"))
            self._streams[name] = stream
        return stream


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
