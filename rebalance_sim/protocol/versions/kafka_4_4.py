"""Apache Kafka 4.4 (coordinator §16.1)."""

from rebalance_sim.protocol.versions.shared_defects import EVERY_BROKER, EVERY_VERSION
from rebalance_sim.protocol.versions.version import Version

VERSION = Version(
    name="kafka-4.4",
    about="what Apache Kafka 4.4 does",
    releases=("4.4",),
    shipped_defects=(*EVERY_VERSION, *EVERY_BROKER, "tied-assignor-votes"),
)
