"""Apache Kafka 4.3 (coordinator §16)."""

from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.shared_defects import EVERY_BROKER, EVERY_VERSION
from rebalance_sim.protocol.versions.version import Version


class Kafka43(MigrationRules):
    """The coordinator of 4.3."""

    repeats_target_of_successor = True
    writes_topic_id_of_txn_offsets = False


VERSION = Version(
    name="kafka-4.3",
    about="what Apache Kafka 4.3 does",
    releases=("4.3",),
    changes=(Kafka43,),
    shipped_defects=(
        *EVERY_VERSION,
        *EVERY_BROKER,
        "KAFKA-20434",
        "KAFKA-20442",
        "KAFKA-20601",
        "KAFKA-20747",
    ),
)
