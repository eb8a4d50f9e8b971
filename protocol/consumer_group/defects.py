"""Known coordinator defects and mutants of the bug zoo, each one replaced rule.

Source: bug-zoo.md, one section per name. A defect is a mixin put in front of a version's rules by
``Semantics.with_defects``; all are off by default.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["COORDINATOR_DEFECTS"]

COORDINATOR_DEFECTS: Mapping[str, type] = {}
