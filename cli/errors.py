"""The one error of this layer."""

from __future__ import annotations


class BadInput(Exception):
    """What the user gave will not do. The message is one line: the place, and the remedy."""
