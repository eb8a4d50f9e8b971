"""Wrong rules that a run can switch on: real bugs of history, and mutants.

There is a module for each place where rules are wrong. A replaced rule is a class that derives from
the rules class it changes; ``@defect`` has what is known of it. Those that replace values only
(``wrong``), or several rules, are rows of ``DEFECTS``. Being in this package is all the
registration there is; the scenario that reaches a defect is ``scenarios/defects/ID.toml``. Source:
docs/reference/defects.md, one section or row for each id.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.defects.defect import DECLARED, Defect
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.runtime.discovery import declared_in
from rebalance_sim.protocol.runtime.rule_desk import Declared, watch
from rebalance_sim.protocol.runtime.rule_desk import declared_in as declared_by

__all__ = ["DEFECTS", "Defect", "register"]

_ROWS = [row for table in declared_in(__name__, "DEFECTS", tuple) for row in table]
_ALL = (*_ROWS, *DECLARED)
_DEFECTS = {one.id: one for one in sorted(_ALL, key=lambda one: one.id.lower().replace("-", "_"))}

DEFECTS: Mapping[str, Defect] = MappingProxyType(_DEFECTS)
"""Every defect by id, in alphabetical order; then rules that were registered."""


def register(rule: Defect) -> None:
    """Add a rule whose module lies elsewhere, a proposal or a mutant: scenarios switch it on by its
    id from now on. Raises ValueError for an id that is taken, and for declared state or timers
    whose name another rule has."""
    if rule.id in _DEFECTS:
        raise ValueError(f"there is a defect {rule.id!r} already")
    for change in rule.rules:
        for one in vars(change).values():
            if isinstance(one, Declared) and one.name in _declared_names():
                raise ValueError(
                    f"rule {rule.id!r}: {one.name} is declared by another rule: name it otherwise"
                )
    _DEFECTS[rule.id] = rule
    for change in rule.rules:
        if issubclass(change, CoordinatorRules):
            watch(change, rule.id)


def _declared_names() -> set[str]:
    rules = [change for one in _DEFECTS.values() for change in one.rules]
    return {one.name for change in rules for one in declared_by(change)}
