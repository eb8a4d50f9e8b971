"""Which defects a run could show: those whose rules it asks for at all.

Rules are attributes of rules classes, and a defect replaces some of them. A run that never reads
one that a defect replaces is the same with the defect, step by step, so it need not be made.
"""

from __future__ import annotations

from typing import Any

from rebalance_sim.protocol.defects import DEFECTS, Defect, register

NOTING = "notes-rules-asked"
"""Id under which scenarios of this process switch the noting on; it changes nothing."""

_asked: set[tuple[type, str]] = set()


class _Noted:
    """A rule that notes that it was read, and is what it is without."""

    def __init__(self, base: type) -> None:
        self._base = base

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, kind: type) -> Any:
        _asked.add((self._base, self._name))
        order = kind.__mro__
        for one in order[order.index(self._owner) + 1 :]:
            if self._name in vars(one):
                found = vars(one)[self._name]
                bind = getattr(type(found), "__get__", None)
                return found if bind is None else bind(found, instance, kind)
        raise AttributeError(self._name)


def note_rules() -> None:
    """From now on scenarios may name ``NOTING``; what was noted is forgotten."""
    _asked.clear()
    if NOTING in DEFECTS:
        return
    replaced: dict[type, set[str]] = {}
    for defect in DEFECTS.values():
        for base, name in _replaced_by(defect):
            replaced.setdefault(base, set()).add(name)
    rules = tuple(
        type(f"Noted{base.__name__}", (base,), {name: _Noted(base) for name in sorted(names)})
        for base, names in replaced.items()
    )
    register(Defect(id=NOTING, title="Rules note that they are read", rules=rules))


def defects_asked() -> tuple[str, ...]:
    """The defects of which a rule was read since ``note_rules``."""
    return tuple(
        sorted(
            defect.id
            for defect in DEFECTS.values()
            if defect.id != NOTING and not _asked.isdisjoint(_replaced_by(defect))
        )
    )


def _replaced_by(defect: Defect) -> set[tuple[type, str]]:
    """The rules that a defect replaces, each by the class that it derives from and its name."""
    return {
        (rule.__bases__[0], name)
        for rule in defect.rules
        for name in vars(rule)
        if not name.startswith("__")
    }
