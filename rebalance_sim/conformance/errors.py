"""Errors of the conformance replay, and of the wire."""

from __future__ import annotations


class TraceError(Exception):
    """A trace file cannot be used. The message is one line: the place, and the remedy."""


class WireError(Exception):
    """Bytes that are no message. The connection that they came on is closed, as by Kafka."""
