"""Delta debugging: the smallest part of a list, or the smallest number, that still fails.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002). The test
is expensive here (a whole simulation), so that what matters is the number of tests; callers bound
it and remember what they have tried.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def minimal_sublist(
    items: Sequence[T], still_fails: Callable[[tuple[T, ...]], bool]
) -> tuple[T, ...]:
    """A sublist, in order, from which no single item can be taken away.

    ``still_fails`` must hold for ``items``; it is asked for ever smaller lists, the empty one
    included.
    """
    kept = tuple(items)
    if kept and still_fails(()):
        return ()
    parts = 2
    while len(kept) >= 2:
        smaller = _without_one_part(kept, parts, still_fails)
        if smaller is not None:
            kept = smaller
            parts = max(parts - 1, 2)
        elif parts >= len(kept):
            break
        else:
            parts = min(2 * parts, len(kept))
    return kept


def minimal_number(value: int, lowest: int, still_fails: Callable[[int], bool]) -> int:
    """The smallest number found between ``lowest`` and ``value``, by bisection.

    Minimal only if failing is monotonous; otherwise some number for which it fails.
    """
    if value <= lowest or still_fails(lowest):
        return min(value, lowest)
    passes, fails = lowest, value
    while fails - passes > 1:
        middle = (passes + fails) // 2
        if still_fails(middle):
            fails = middle
        else:
            passes = middle
    return fails


def _without_one_part(
    items: tuple[T, ...], parts: int, still_fails: Callable[[tuple[T, ...]], bool]
) -> tuple[T, ...] | None:
    bounds = [len(items) * i // parts for i in range(parts + 1)]
    for start, end in itertools.pairwise(bounds):
        rest = items[:start] + items[end:]
        if len(rest) < len(items) and still_fails(rest):
            return rest
    return None
