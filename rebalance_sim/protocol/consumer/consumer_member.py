"""A member of a consumer group as the coordinator stores it.

Source: coordinator §1.2. Members are immutable values; an update makes a new value, and "did it
change?" is equality over all fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from rebalance_sim.protocol.wire.assignment_messages import AssignmentMetadata, ClientAssignor
from rebalance_sim.protocol.wire.classic_messages import ClassicMemberMetadata
from rebalance_sim.protocol.wire.records import (
    CurrentAssignmentValue,
    MemberMetadataValue,
    MemberState,
)
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.value import value

_STABLE = MemberState.STABLE
NO_PARTITIONS: Mapping[TopicPartition, int] = {}


@value
class Member:
    """Metadata (record 5), epochs, state and both partition sets (record 8) of one member.

    ``classic_metadata`` is None for a member that uses the consumer protocol. ``assigned`` and
    ``pending_revocation`` map each partition to its assignment epoch. Names are sorted and without
    repetition. ``client_assignors`` are those that the member offers, most preferred first, and
    ``assignment_metadata`` what such an assignor gave it at its present epoch (coordinator §12).
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    server_assignor: str | None = None
    classic_metadata: ClassicMemberMetadata | None = None
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TopicPartition, int] = field(default_factory=lambda: NO_PARTITIONS)
    pending_revocation: Mapping[TopicPartition, int] = field(default_factory=lambda: NO_PARTITIONS)
    client_assignors: tuple[ClientAssignor, ...] = ()
    assignment_metadata: AssignmentMetadata | None = None

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """coordinator §3.1: has the member reached this target epoch with nothing left to wait
        for?"""
        return self.state is _STABLE and self.member_epoch == target_epoch

    def metadata(self) -> MemberMetadataValue:
        """The value of record 5."""
        return MemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=self.subscribed_topic_names,
            subscribed_topic_regex=self.subscribed_topic_regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=self.classic_metadata,
            client_assignors=self.client_assignors or None,
        )

    def with_metadata(self, value: MemberMetadataValue) -> Member:
        """This member with the fields of record 5 replaced; epochs and partitions stay."""
        # Field by field, here and below: ``replace`` takes three times as long.
        return Member(
            member_id=self.member_id,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            subscribed_topic_names=value.subscribed_topic_names,
            subscribed_topic_regex=value.subscribed_topic_regex,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic_metadata=value.classic_member_metadata,
            client_assignors=value.client_assignors or (),
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned=self.assigned,
            pending_revocation=self.pending_revocation,
            assignment_metadata=self.assignment_metadata,
        )

    def current_assignment(self, *, with_epochs: bool) -> CurrentAssignmentValue:
        """The value of record 8."""
        return CurrentAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned=self.assigned,
            pending_revocation=self.pending_revocation,
            with_epochs=with_epochs,
            metadata=self.assignment_metadata,
        )

    def with_current_assignment(self, value: CurrentAssignmentValue) -> Member:
        """This member with the fields of record 8 replaced."""
        return Member(
            member_id=self.member_id,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            subscribed_topic_names=self.subscribed_topic_names,
            subscribed_topic_regex=self.subscribed_topic_regex,
            server_assignor=self.server_assignor,
            classic_metadata=self.classic_metadata,
            client_assignors=self.client_assignors,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=value.state,
            assigned=value.assigned,
            pending_revocation=value.pending_revocation,
            assignment_metadata=value.metadata,
        )

    def without_current_assignment(self) -> Member:
        """What the tombstone of record 8 leaves behind (coordinator §9.3)."""
        return replace(
            self,
            member_epoch=-1,
            previous_member_epoch=-1,
            state=MemberState.STABLE,
            assigned=NO_PARTITIONS,
            pending_revocation=NO_PARTITIONS,
            assignment_metadata=None,
        )
