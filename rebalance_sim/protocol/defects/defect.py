"""What is known of a defect, beside the rules that it replaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

_COMPONENTS = {"assignors": "assignor", "clients": "client", "hosting": "broker"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A real bug of history, or a mutant, that can be switched on by its id.

    ``rules`` are put in front of the rules class that each of them derives from, the last one
    foremost. ``source`` is the report (empty where the id names it, and for a mutant), ``versions``
    the releases that had it (empty for a mutant). ``properties`` are rows of the reference such as
    ``defects S1``; a run of the scenario of this id violates a property of one of them. Where no
    property is violated, ``measured`` names the metric that the defect makes larger; where nothing
    shows at all, ``unobserved`` says why, and there is no scenario.

    ``replaces``: of a rule of a plug-in, ids of the properties that it makes untrue on purpose. A
    run is not judged by these once the rule has decided otherwise than what it replaces.
    """

    id: str
    title: str
    rules: tuple[type, ...]
    source: str = ""
    versions: str = ""
    properties: tuple[str, ...] = ()
    measured: str = ""
    unobserved: str = ""
    replaces: tuple[str, ...] = ()

    @property
    def component(self) -> str:
        """Where the wrong rule stands: ``coordinator``, ``broker``, ``client`` or ``assignor``."""
        return _COMPONENTS.get(self.rules[0].__bases__[0].__module__.split(".")[2], "coordinator")

    @property
    def has_scenario(self) -> bool:
        """Whether there is a scenario in which the defect shows."""
        return not self.unobserved


DECLARED: list[Defect] = []
"""The defects that are classes, as their modules are imported."""

_Rules = TypeVar("_Rules", bound=type)


def defect(id: str, title: str, **known: Any) -> Callable[[_Rules], _Rules]:
    """Let the class be the one rule of a defect; ``known`` as the fields of ``Defect``."""

    def declare(rule: _Rules) -> _Rules:
        DECLARED.append(Defect(id=id, title=title, rules=(rule,), **known))
        return rule

    return declare


def wrong(rules: type, **values: Any) -> type:
    """A rule that only replaces these values of a rules class, or decisions by ``always``."""
    return type(f"Wrong{rules.__name__}", (rules,), values)


def always(decision: Any) -> Callable[..., Any]:
    """A decision that comes out so, whatever it is about."""

    def decide(*about: Any, **more: Any) -> Any:
        return decision

    return decide
