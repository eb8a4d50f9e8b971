"""Apache Kafka 4.4: the correct rules, and the defects that it was released with."""

from __future__ import annotations

from rebalance_sim.protocol.versions.version import Version

VERSION = Version(
    name="kafka-4.4",
    about="what Apache Kafka 4.4 does",
    releases=("4.4",),
    shipped_defects=(
        "classic-dropped-group",
        "classic-early-conversion",
        "classic-stranded-members",
        "PR-23542",
        "sim-kept-timers",
        "sim-lost-pattern-withdrawal",
        "sim-stale-subscription-type",
        "tied-assignor-votes",
    ),
)
