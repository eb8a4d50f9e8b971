"""Apache Kafka 4.3: what it does otherwise than 4.4, and the defects that it was released with."""

from __future__ import annotations

from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions import kafka_4_4
from rebalance_sim.protocol.versions.version import Version


class Kafka43(MigrationRules):
    """The coordinator of 4.3."""

    repeats_target_of_successor = True


VERSION = Version(
    name="kafka-4.3",
    about="what Apache Kafka 4.3 does",
    releases=("4.3",),
    changes=(Kafka43,),
    shipped_defects=(
        *kafka_4_4.VERSION.shipped_defects,
        "KAFKA-20434",
        "KAFKA-20442",
        "KAFKA-20601",
        "KAFKA-20747",
    ),
)
