"""A resolution of patterns: a task that runs beside the coordinator, on what it was given.

Source: coordinator §7.2. Patterns and topics are those of the moment in
which the task was scheduled; what happens to the group meanwhile is looked at when its result is
applied (``GroupMetadataManager.refreshRegularExpressions``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rebalance_sim.protocol.wire.records import RegularExpressionValue
from rebalance_sim.protocol.wire.topics import MetadataImage


@dataclass(frozen=True, slots=True)
class RegexResolution:
    """All patterns of a group, in ascending order, and the topics they are matched against."""

    patterns: tuple[str, ...]
    image: MetadataImage
    scheduled_at_ms: int

    def run(
        self, compile_regex: Callable[[str], Callable[[str], bool]], began_ms: int
    ) -> dict[str, RegularExpressionValue]:
        """The topics of each pattern; ``began_ms`` is the time of all."""
        found = {}
        for pattern in self.patterns:
            matches = compile_regex(pattern)
            found[pattern] = RegularExpressionValue(
                topics=tuple(name for name in self.image.by_name if matches(name)),
                version=self.image.version,
                timestamp=began_ms,
            )
        return found
