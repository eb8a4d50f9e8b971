"""The error of recordings."""

from __future__ import annotations


class RecordError(Exception):
    """A recording cannot be made. The message is one line: what is wrong, and the remedy."""
