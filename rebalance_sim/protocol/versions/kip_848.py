"""The protocol as the accepted text of KIP-848 has it, where that differs from shipped brokers.

Source: coordinator §13 ("KIP text versus trunk"). The coordinator computes targets on its own,
joins are not reconciled at once, responses name pending partitions, a member with a wrong epoch is
removed.

The KIP's case studies describe two moments at which a released partition passes to its next owner.
This version promotes the receiver at the release, which is a known issue of its own
(``sim-unheard-grant``); with ``LazyPromotion`` the partition passes at the receiver's next
heartbeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from rebalance_sim.protocol.consumer.client_side.selection import loses_computing_member
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import TopicIds
from rebalance_sim.protocol.consumer.timer_keys import assignment_key
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.runtime.outcome import ScheduleTimer, TimerCommand
from rebalance_sim.protocol.versions.shared_defects import EVERY_VERSION
from rebalance_sim.protocol.versions.version import Version
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMetadata,
    GroupMetadata,
    MemberState,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


class Kip848(MigrationRules):
    """The coordinator of the text; the records are those of 4.1."""

    assigns_in_heartbeat = False
    removes_fenced_member = True
    reports_pending = True
    refuses_non_positive_rebalance_timeout = True
    notices_topics_itself = True
    answers_parked_if_converted = False
    tolerates_older_commits = False
    has_client_assignors = True
    settles_emptied_group = False
    raises_epoch_for_assignor = False
    repeats_target_of_successor = True
    initial_group_epoch = 0
    writes_assignment_epochs = False
    writes_assignment_timestamp = False
    writes_topic_id_of_offsets = writes_topic_id_of_txn_offsets = False
    takes_topic_ids_of_offsets = False
    has_assignment_interval = False
    describes_pending_revocation = False

    def follow_up(
        self,
        group: ConsumerGroup,
        records: tuple[Record, ...],
        topic_ids: TopicIds,
        now_ms: int,
    ) -> tuple[tuple[Record, ...], tuple[TimerCommand, ...]]:
        """Promote receivers of what was released; compute a target, or look for somebody who does,
        when the epoch rose or the member that computes is lost.

        A group that is converted to a classic one has no more receivers.
        """
        if isinstance(records[-1], GroupMetadata):
            return (), ()
        more: tuple[Record, ...] = ()
        if self.promotes_on_release:
            more = tuple(
                ConsumerGroupCurrentMemberAssignment(
                    group.group_id,
                    member.member_id,
                    member.current_assignment(with_epochs=self.writes_assignment_epochs),
                )
                for member in self._promotions(group, records, topic_ids)
            )
        raised = any(isinstance(r, ConsumerGroupMetadata) and r.value is not None for r in records)
        if not raised and not loses_computing_member(group, records):
            return more, ()
        return more, (ScheduleTimer(assignment_key(group.group_id), now_ms),)

    def _promotions(
        self, group: ConsumerGroup, records: Sequence[Record], topic_ids: TopicIds
    ) -> list[Member]:
        """Members at the target epoch that wait for a partition which these records release, and
        still subscribe to its topic; none whose assignment the records write or remove."""
        promoted: dict[str, Member] = {}
        written = {
            record.member_id
            for record in records
            if isinstance(record, ConsumerGroupCurrentMemberAssignment)
        }
        for partition in _released(group, records):
            waiting_id = group.inverted_target.get(partition)
            if waiting_id is None or waiting_id in written:
                continue
            member = promoted.get(waiting_id) or group.members.get(waiting_id)
            if member is None or not _is_waiting(group, member):
                continue
            target = self.target_in_force(
                group.target_of(waiting_id), topic_ids(group.names_of(member))
            )
            if partition in target:
                promoted[waiting_id] = _with_granted(group, member, partition, target)
        return [promoted[member_id] for member_id in sorted(promoted)]


class LazyPromotion(MigrationRules):
    """The promotion rule of shipped brokers, for the text."""

    promotes_on_release = False


def _released(group: ConsumerGroup, records: Iterable[Record]) -> Iterator[TopicPartition]:
    """Everything that these records let go."""
    for record in records:
        if not isinstance(record, ConsumerGroupCurrentMemberAssignment):
            continue
        old = group.members.get(record.member_id)
        if old is None:
            continue
        held = {**old.assigned, **old.pending_revocation}
        for partition in sorted(held):
            value = record.value
            if value is None or not (
                partition in value.assigned or partition in value.pending_revocation
            ):
                yield partition


def _is_waiting(group: ConsumerGroup, member: Member) -> bool:
    """Only who has nothing left to revoke may be given anything: revoke before assign.

    A classic member learns of it by rejoining, for which it gets REBALANCE_IN_PROGRESS.
    """
    return (
        member.state is MemberState.UNRELEASED_PARTITIONS
        and member.classic_metadata is None
        and member.member_epoch == group.target_assignment_epoch
    )


def _with_granted(
    group: ConsumerGroup, member: Member, partition: TopicPartition, target: Set[TopicPartition]
) -> Member:
    # The previous epoch stays, so that a lost response of the receiver is still tolerated.
    assigned = {**member.assigned, partition: group.target_assignment_epoch}
    complete = all(p in assigned for p in target)
    state = MemberState.STABLE if complete else MemberState.UNRELEASED_PARTITIONS
    return replace(member, assigned=assigned, state=state)


VERSION = Version(
    name="kip-848",
    about="what the text of KIP-848 says, where it differs from the code",
    changes=(Kip848,),
    shipped_defects=(*EVERY_VERSION, "sim-unheard-grant"),
)
