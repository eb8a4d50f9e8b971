"""Rules in force: correct rules, with changes in front of them.

A *rules class* holds decisions in which versions or defects differ, each a small method or a value,
and decides correctly. A *change* is a class that derives from a rules class and replaces some of
its decisions: what a version does differently, or a defect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol, Self, TypeVar, cast

_Rules = TypeVar("_Rules")


class _Named(Protocol):
    name: str


_NamedRules = TypeVar("_NamedRules", bound=_Named)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSet:
    """Correct rules with ``changes``, the last one foremost.

    A change applies to every rules class that is, or inherits, the one that it derives from. A
    rules class that is made of others names them: ``parts`` maps an attribute to rules classes, and
    the attribute becomes a mapping from name to object (``named``).
    """

    changes: tuple[type, ...] = ()

    def rules(self, base: type[_Rules]) -> type[_Rules]:
        """The rules class with the changes that apply to it; itself if none does."""
        changed: type[_Rules] = _composed(cast(Any, base), _applying(cast(Any, base), self.changes))
        return changed

    def named(self, kinds: Iterable[type[_NamedRules]]) -> dict[str, _NamedRules]:
        """One object of each class, with its changes, by its name."""
        return {kind.name: self.rules(kind)() for kind in kinds}

    def changed_by(self, *changes: type) -> Self:
        """The same with more changes in front; those that are there already stay in place."""
        return replace(self, changes=tuple(dict.fromkeys((*self.changes, *changes))))


@lru_cache(maxsize=1024)
def _applying(base: Any, changes: tuple[type, ...]) -> tuple[type, ...]:
    """The changes that apply to a rules class or to a part of it; every world asks again."""
    kinds = (base, *(kind for row in getattr(base, "parts", {}).values() for kind in row))
    return tuple(c for c in changes if any(_applies(c, kind) for kind in kinds))


def _applies(change: type, base: type) -> bool:
    return issubclass(base, change.__bases__[0])


@lru_cache(maxsize=1024)
def _composed(base: Any, changes: tuple[type, ...]) -> Any:
    """Equal changes give the same class, so that rules can be compared with ``is``."""
    if not changes:
        return base
    rule_set = RuleSet(changes=changes)
    parts = {name: rule_set.named(kinds) for name, kinds in getattr(base, "parts", {}).items()}
    changed_base = type(base.__name__, (base,), parts) if parts else base
    changed = [change for change in reversed(changes) if _applies(change, base)]
    return type(f"{base.__name__}WithChanges", (*changed, changed_base), {})


def compose_anew() -> None:
    """Forget what was put together: a rules class has got another part."""
    _applying.cache_clear()
    _composed.cache_clear()
