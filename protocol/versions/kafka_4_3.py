"""Apache Kafka 4.3: the correct rules, and the defects that it was released with."""

from __future__ import annotations

from rebalance_sim.protocol.versions.version import Version

VERSION = Version(
    name="kafka-4.3",
    about="what Apache Kafka 4.3 does",
    releases=("4.3",),
    shipped_defects=(
        "classic-early-conversion",
        "classic-stranded-members",
        "PR-23542",
        "KAFKA-20601",
        "sim-kept-timers",
        "sim-lost-pattern-withdrawal",
        "sim-stale-subscription-type",
    ),
)
