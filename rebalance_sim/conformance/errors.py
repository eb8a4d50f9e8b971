"""Errors of the conformance replay."""

from __future__ import annotations


class TraceError(Exception):
    """A trace file cannot be used. The message is one line: the place, and the remedy."""
