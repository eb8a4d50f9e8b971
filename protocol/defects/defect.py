"""What is known of a defect, beside the rules that it replaces."""

from __future__ import annotations

from dataclasses import dataclass

_COMPONENTS = ("coordinator", "client", "assignor", "broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A real bug of history, or a mutant, that can be switched on by its id.

    ``rules`` are put in front of the rules class that each of them derives from, the last one
    foremost. ``component`` is the machine that is wrong, ``source`` the report (empty where the id
    names it, and for a mutant), and ``versions`` the releases that had it (empty for a mutant).
    ``properties`` are rows of the reference such as ``defects S1``; a run of the scenario of this
    id violates a property of one of them. Where no property is violated, ``measured`` names the
    metric that the defect makes larger; where nothing shows at all, ``unobserved`` says why, and
    there is no scenario.

    Raises ValueError for an unknown component, and without rules.
    """

    id: str
    title: str
    component: str
    rules: tuple[type, ...]
    source: str = ""
    versions: str = ""
    properties: tuple[str, ...] = ()
    measured: str = ""
    unobserved: str = ""

    def __post_init__(self) -> None:
        if self.component not in _COMPONENTS:
            known = ", ".join(_COMPONENTS)
            raise ValueError(f"{self.id}: no component {self.component!r}; known: {known}")
        if not self.rules:
            raise ValueError(f"{self.id}: replaces no rule")

    @property
    def has_scenario(self) -> bool:
        """Whether there is a scenario in which the defect shows."""
        return not self.unobserved
