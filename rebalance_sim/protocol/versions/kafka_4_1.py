"""Apache Kafka 4.1 (coordinator §16; classic §7.4, §7.8)."""

from __future__ import annotations

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.shared_defects import EVERY_BROKER, EVERY_VERSION
from rebalance_sim.protocol.versions.version import Version


class Kafka41(MigrationRules):
    """The coordinator of 4.1."""

    initial_group_epoch = 0
    writes_assignment_epochs = False
    writes_assignment_timestamp = False
    writes_topic_id_of_offsets = writes_topic_id_of_txn_offsets = False
    takes_topic_ids_of_offsets = False
    has_assignment_interval = False
    describes_pending_revocation = False
    rejoins_at_group_epoch = True
    repeats_target_of_successor = True

    def revoking_epoch(self, member: Member) -> int | None:
        """The epoch rises by one, which distinguishes the second revocation from the first."""
        return member.member_epoch + 1


class RevokesOutsidePoll(MemberRules):
    """The consumer of 4.1.2, without automatic commits."""

    revokes_outside_poll = True
    skips_poll_events = False


VERSION = Version(
    name="kafka-4.1",
    about="what Apache Kafka 4.1 does",
    releases=("4.0", "4.1"),
    changes=(Kafka41, RevokesOutsidePoll),
    shipped_defects=(
        *EVERY_VERSION,
        *EVERY_BROKER,
        "KAFKA-20434",
        "KAFKA-20442",
        "KAFKA-20601",
        "KAFKA-20747",
        "KAFKA-19233",
        "KAFKA-19431",
        "KAFKA-20273",
        "KAFKA-20066",
        "KAFKA-20640",
        "KAFKA-20332",
        "KAFKA-19813",
    ),
)
