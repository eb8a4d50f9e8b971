"""A consumer group as it is at the last committed offset, for read operations.

Source: coordinator §9.4. A view over the group, not a copy of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, GroupState, group_state
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.topics import TopicPartition

_EMPTY: frozenset[TopicPartition] = frozenset()


class CommittedGroup:
    """What describe, list and unstable offset fetches look at; the names are those of
    ``ConsumerGroup``."""

    __slots__ = ("_group",)

    def __init__(self, group: ConsumerGroup) -> None:
        self._group = group

    @property
    def group_id(self) -> str:
        """The group's id."""
        return self._group.group_id

    @property
    def group_epoch(self) -> int:
        """The committed group epoch."""
        epoch: int = self._group.committed_field("group_epoch")
        return epoch

    @property
    def target_assignment_epoch(self) -> int:
        """The epoch of the committed target."""
        epoch: int = self._group.committed_field("target_assignment_epoch")
        return epoch

    @property
    def members(self) -> Mapping[str, Member]:
        """The committed members."""
        return committed(self._group.members)

    @property
    def server_assignors(self) -> Mapping[str, int]:
        """The votes of the committed members."""
        return committed(self._group.server_assignors)

    @property
    def client_assignors(self) -> Mapping[str, int]:
        """How many of the committed members offer each client-side assignor."""
        return committed(self._group.client_assignors)

    @property
    def state(self) -> GroupState:
        """coordinator §6.1."""
        target_epoch = self.target_assignment_epoch
        return group_state(
            member_count=len(self.members),
            group_epoch=self.group_epoch,
            target_epoch=target_epoch,
            stable_count=committed(self._group.stable_at).get(target_epoch, 0),
        )

    def target_of(self, member_id: str) -> frozenset[TopicPartition]:
        """The committed target of this member; empty if it has none."""
        return committed(self._group.target_assignment).get(member_id, _EMPTY)
