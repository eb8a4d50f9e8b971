"""Deadlines of several parts."""

from __future__ import annotations


def earliest(*deadlines_ms: int | None) -> int | None:
    """The first of some deadlines; None: there is none."""
    first: int | None = None
    for deadline_ms in deadlines_ms:
        if deadline_ms is not None and (first is None or deadline_ms < first):
            first = deadline_ms
    return first
