"""What a gateway is made from: the keys of its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rebalance_sim.gateway.rules import Rule
from rebalance_sim.gateway.topics import check_topic
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import DEFAULT_SEMANTICS, Semantics, simulated
from rebalance_sim.scenarios.codec import decode
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.toml import parse_toml, read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySettings:
    """Raises ScenarioError, with the key, for values that will not do."""

    semantics: str = DEFAULT_SEMANTICS.name
    """The version, as of scenarios."""
    defects: tuple[str, ...] = ()
    """Defects that are switched on, by id (``rebalance-sim defects``)."""
    repairs: tuple[str, ...] = ()
    """Known issues of the version that are repaired."""
    topics: Mapping[str, int] = field(default_factory=dict)
    """Topic -> how many partitions it has at the start."""
    coordinator: CoordinatorConfig = field(default_factory=CoordinatorConfig)
    """Settings of the coordinator, as of scenarios."""
    rules: tuple[Rule, ...] = ()
    """Faults by rule."""
    seed: int = 0
    """Of what rules with a probability draw."""

    def __post_init__(self) -> None:
        self.rules_of_protocol()
        for name, count in self.topics.items():
            try:
                check_topic(name, count)
            except ValueError as problem:
                raise ScenarioError(str(problem), place=f"topics.{name}") from None

    def rules_of_protocol(self) -> Semantics:
        """The version with what is switched on and repaired in it."""
        try:
            return simulated(self.semantics, defects=self.defects, repairs=self.repairs)
        except ValueError as problem:
            raise ScenarioError(str(problem)) from None


def load_settings(path: Path) -> GatewaySettings:
    """Read a file. Raises ScenarioError with file, key and remedy."""
    try:
        return decode(GatewaySettings, parse_toml(read_text(path)))
    except ScenarioError as problem:
        raise problem if problem.source else problem.within(str(path)) from None
