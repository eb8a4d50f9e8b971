"""What an exploration has come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from rebalance_sim.scenarios.explore.actions import Action
from rebalance_sim.scenarios.explore.coordinator_states import Finding
from rebalance_sim.scenarios.explore.scope import Scope


class Path(NamedTuple):
    """How something came to be found: the shortest way there. ``states``: before each action, and
    after the last one if there is a state then."""

    finding: Finding
    actions: tuple[Action, ...]
    states: tuple[int, ...]


@dataclass(slots=True, kw_only=True)
class Progress:
    """How far an exploration has come."""

    states: int = 0
    frontier: int = 0
    depth: int = 0
    seconds: float = 0.0
    memory_mb: int = 0

    @property
    def rate(self) -> float:
        """States a second."""
        return self.states / self.seconds if self.seconds else 0.0


@dataclass(slots=True, kw_only=True)
class Explored:
    """What came of it. ``cut_off``: why it ended early, or empty; ``calls``: real calls of
    machines; ``transitions``: steps from one state of the whole to another."""

    scope: Scope
    progress: Progress
    cut_off: str = ""
    paths: list[Path] = field(default_factory=list)
    calls: int = 0
    transitions: int = 0

    @property
    def violated(self) -> list[Path]:
        """The paths to what no known issue can be the reason of."""
        return [path for path in self.paths if not path.finding.suspects]
