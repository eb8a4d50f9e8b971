"""Wrong rules that a run can switch on: real bugs of history, and mutants. One module each.

A module holds the replaced rules, each a class that derives from the rules class it changes, and
``DEFECT``, what is known of it. Being in this package is all the registration there is; the
scenario that reaches a defect is ``scenarios/defects/ID.toml``. Source: docs/reference/defects.md,
one section or row for each id.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.defects.defect import Defect
from rebalance_sim.protocol.runtime.discovery import declared_in

__all__ = ["DEFECTS", "Defect"]

DEFECTS: Mapping[str, Defect] = MappingProxyType(
    {defect.id: defect for defect in declared_in(__name__, "DEFECT", Defect)}
)
"""Every defect by id, in the order of the modules' names."""
