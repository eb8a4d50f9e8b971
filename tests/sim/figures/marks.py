"""Offsets of one partition, each marked by itself: a byte a record, for runs with millions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Marks = NDArray[np.bool_]


def marked(spans: Iterable[tuple[int, int]]) -> Marks:
    """Every offset of these spans, whose ends are exclusive; as long as the last one needs."""
    spans = list(spans)
    found = np.zeros(max((end for _, end in spans), default=0), dtype=np.bool_)
    for start, end in spans:
        found[start:end] = True
    return found


def only_in(these: Marks, others: Marks) -> Marks:
    """What is marked in these and not in the others."""
    found = these.copy()
    common = min(len(these), len(others))
    found[:common] &= ~others[:common]
    return found


def count(these: Marks) -> int:
    """How many offsets are marked."""
    return int(np.count_nonzero(these))
