"""Which defects a run could show: those that would decide otherwise somewhere in it.

Rules are attributes of rules classes, and a defect replaces some of them. A run that never reads
one of those is the same with the defect, step by step, so it need not be made; nor one in which
every decision that was asked for comes out as it would with the defect.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import partial
from types import FunctionType
from typing import Any

from rebalance_sim.protocol.defects import DEFECTS, Defect, register

NOTING = "notes-rules-asked"
"""Id under which scenarios of this process switch the noting on; it changes nothing."""

_PLAIN = (bool, int, float, str, Enum)
"""Decisions of these types are made by looking alone, so that a second opinion does no harm."""

_asked: set[str] = set()


class _Noted:
    """A rule that notes which defects would change it where it is asked for."""

    def __init__(self, wrong: Mapping[str, Any]) -> None:
        self._wrong = wrong
        """What the rule is under each defect that replaces it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner, self._name = owner, name

    def __get__(self, instance: object, kind: type) -> Any:
        order = kind.__mro__
        for one in order[order.index(self._owner) + 1 :]:
            if self._name in vars(one):
                return self._noted(vars(one)[self._name], instance, kind)
        raise AttributeError(self._name)

    def _noted(self, rule: Any, instance: object, kind: type) -> Any:
        bind = getattr(type(rule), "__get__", None)
        bound = rule if bind is None else bind(rule, instance, kind)
        if isinstance(rule, FunctionType) and instance is not None:
            return partial(self._decide, bound, instance)
        _asked.update(self._wrong)
        return bound

    def _decide(self, rule: Any, instance: object, *arguments: Any, **named: Any) -> Any:
        decision = rule(*arguments, **named)
        for defect_id, wrong in self._wrong.items():
            if defect_id not in _asked and not _agrees(
                decision, wrong, (instance, *arguments), named
            ):
                _asked.add(defect_id)
        return decision


def _agrees(decision: Any, wrong: Any, arguments: tuple[Any, ...], named: Any) -> bool:
    """Whether a wrong rule decides the same; if it cannot be asked alone, it does not."""
    if not isinstance(wrong, FunctionType) or not isinstance(decision, _PLAIN):
        return False
    try:
        other = wrong(*arguments, **named)
    except Exception:  # whatever it raises, it does not decide the same
        return False
    return type(other) is type(decision) and bool(other == decision)


def note_rules() -> None:
    """From now on scenarios may name ``NOTING``; what was noted is forgotten."""
    _asked.clear()
    if NOTING in DEFECTS:
        return
    wrong: dict[type, dict[str, dict[str, Any]]] = {}
    for defect in DEFECTS.values():
        for rule in defect.rules:
            for name, value in vars(rule).items():
                if not name.startswith("__"):
                    of_base = wrong.setdefault(rule.__bases__[0], {})
                    of_base.setdefault(name, {})[defect.id] = value
    rules = tuple(
        type(f"Noted{base.__name__}", (base,), {name: _Noted(ids) for name, ids in names.items()})
        for base, names in wrong.items()
    )
    register(Defect(id=NOTING, title="Rules note that they are read", rules=rules))


def defects_asked() -> tuple[str, ...]:
    """The defects that would have decided something otherwise since ``note_rules``."""
    return tuple(sorted(_asked))
