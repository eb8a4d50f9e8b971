"""Known client defects: each a mixin that overrides one decision of ``MemberRules``."""

from __future__ import annotations

from protocol.member.rules import MemberRules

__all__ = ["MEMBER_DEFECTS"]

MEMBER_DEFECTS: dict[str, type[MemberRules]] = {}
