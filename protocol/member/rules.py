"""Every decision of a member in which versions, or known defects, differ: one small method each."""

from __future__ import annotations

__all__ = ["MemberRules"]


class MemberRules:
    """The decisions of the Java asynchronous consumer, kafka-clients 4.3.1."""
