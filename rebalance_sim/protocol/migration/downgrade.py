"""A consumer group in which only classic members remain becomes a classic group again.

Source: classic §7.8.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_member import ClassicMember
from rebalance_sim.protocol.classic.classic_rebalance import prepare_rebalance
from rebalance_sim.protocol.classic.operation import Operation
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer, member_timers
from rebalance_sim.protocol.migration.migration_rules import MigrationContext
from rebalance_sim.protocol.runtime.outcome import Continuation, Outcome
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.wire.embedded import CONSUMER_PROTOCOL_TYPE, assignment_of
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupPartitionMetadata,
    ConsumerGroupRegularExpression,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    Record,
)

_ALLOWED_BY = ("bidirectional", "downgrade")
_OF_CLASSIC_REQUESTS = (ConsumerTimer.REJOIN, ConsumerTimer.RESYNC)
"""Timers by which a consumer group waits for a JoinGroup or a SyncGroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downgrade(Continuation):
    """A conversion under way, to ``classic``: undone if the write fails."""

    group_id: str
    classic: ClassicGroup

    def write_failed(
        self, context: MigrationContext, error: ErrorCode, *, is_undone: bool, now_ms: int
    ) -> Outcome:
        """If it is undone, what was there before is there again: the consumer group, or even the
        classic group that the same batch had turned into one."""
        if not is_undone:
            return Outcome()
        groups = context.groups_of(ClassicGroup)
        if groups.get(self.group_id) is self.classic:
            del groups[self.group_id]
        # Members that have joined the classic group meanwhile would wait for ever.
        op = Operation(context, now_ms=now_ms)
        op.answer_parked(self.classic, error)
        return Outcome(completions=tuple(op.completions))


def can_downgrade(
    context: MigrationContext, group: ConsumerGroup, leaving: Collection[Member]
) -> bool:
    """Do only classic members remain, at least one, and may and can they be a classic group?"""
    remaining = len(group.members) - len(leaving)
    leaving_classic = sum(1 for member in leaving if member.classic_metadata is not None)
    return (
        0 < remaining <= context.config.group_max_size
        and group.classic_member_count - leaving_classic == remaining
        and context.config.group_consumer_migration_policy in _ALLOWED_BY
    )


def can_downgrade_by_replacement(
    context: MigrationContext, group: ConsumerGroup, replaced: Member
) -> bool:
    """Is ``replaced`` the last of the consumer protocol, with a classic member in its place?"""
    return (
        context.rules.downgrades_on_replacement
        and replaced.classic_metadata is None
        and group.classic_member_count == len(group.members) - 1
        and len(group.members) <= context.config.group_max_size
        and context.config.group_consumer_migration_policy in _ALLOWED_BY
    )


def downgrade(
    context: MigrationContext,
    group: ConsumerGroup,
    op: Operation,
    *,
    leaving: Collection[Member] = (),
    joiner: Member | None = None,
    replaced: Member | None = None,
    rebalances: bool = True,
) -> ClassicGroup:
    """Write the tombstones of the consumer group and the record of the classic one.

    ``joiner`` takes the place, and the target, of ``replaced``; its records are in ``op`` already.
    The classic group is in force at once, as soft state is.
    """
    gone = {member.member_id for member in leaving}
    if replaced is not None:
        gone.add(replaced.member_id)
    members = {i: member for i, member in group.members.items() if i not in gone}
    tombstoned = set(group.members)
    if joiner is not None and replaced is not None:
        tombstoned.discard(replaced.member_id)
        tombstoned.add(joiner.member_id)
        members[joiner.member_id] = joiner
    op.records += _tombstones(group, sorted(tombstoned))
    rules = context.rules
    kept = () if rules.ends_timers_of_former_protocol else _OF_CLASSIC_REQUESTS
    for member_id in sorted(group.members):
        timers = member_timers(group.group_id, group.members[member_id])
        op.timers += [timer for timer in timers if timer.key.kind not in kept]

    classic = ClassicGroup(
        group.group_id,
        now_ms=op.wall_ms,
        first_of=rules.first_member,
        first_generation=rules.first_generation(context.term),
    )
    classic.leader_id = rules.first_converted(members)
    for member_id in sorted(members):
        classic.add(_classic_member(members[member_id]), CONSUMER_PROTOCOL_TYPE)
    classic.start_stable(group.group_epoch)
    for member_id, member in classic.members.items():
        is_successor = replaced is not None and joiner is not None and member_id == joiner.member_id
        target_id = replaced.member_id if is_successor and replaced is not None else member_id
        metadata = member.metadata_for(classic.protocol_name or "")
        member.assignment = assignment_of(group.target_of(target_id), context.image, metadata)
    op.write(classic)
    for member_id in sorted(classic.members):
        op.renew_session(classic, classic.members[member_id])
    if rebalances:
        prepare_rebalance(op, classic, RebalanceCause.MIGRATION)
    op.on_commit = Downgrade(group_id=group.group_id, classic=classic)
    context.groups_of(ClassicGroup)[group.group_id] = classic
    return classic


def _classic_member(member: Member) -> ClassicMember:
    metadata = member.classic_metadata
    if metadata is None:
        raise TypeError(f"member {member.member_id} uses the consumer protocol")
    return ClassicMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=metadata.session_timeout_ms,
        protocols=metadata.supported_protocols,
    )


def _tombstones(group: ConsumerGroup, member_ids: list[str]) -> list[Record]:
    group_id = group.group_id
    regexes = sorted(group.resolved_regexes)
    return [
        *(ConsumerGroupCurrentMemberAssignment(group_id, i, None) for i in member_ids),
        *(ConsumerGroupTargetAssignmentMember(group_id, i, None) for i in member_ids),
        ConsumerGroupTargetAssignmentMetadata(group_id, None),
        *(ConsumerGroupMemberMetadata(group_id, i, None) for i in member_ids),
        *(ConsumerGroupRegularExpression(group_id, regex, None) for regex in regexes),
        ConsumerGroupPartitionMetadata(group_id),
        ConsumerGroupMetadata(group_id, None),
    ]
