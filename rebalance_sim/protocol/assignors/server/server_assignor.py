"""What an assignor is given and what it hands back.

Source: assignors §1. "Current" always means the previous *target*, never what a member has
confirmed to own: an assignor sees neither epochs nor the state of reconciliation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Protocol

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.value import value

MemberOrder = Callable[[Collection[str]], list[str]]
"""Puts member ids in the order in which an assignor visits them (assignors §2)."""


class SubscriptionType(Enum):
    """Do all members subscribe to the same topics? Decided by the caller (assignors §1.3)."""

    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


@value
class MemberSpec:
    """One member as an assignor sees it.

    ``rack_id`` is carried because the broker's interface carries it; no assignor reads it
    (assignors §8). ``current`` is the member's current target and may hold partitions of topics
    that it no longer subscribes to.
    """

    instance_id: str | None = None
    rack_id: str | None = None
    subscribed_topic_ids: frozenset[str] = frozenset()
    current: frozenset[TopicPartition] = frozenset()


@value
class GroupSpec:
    """The members of a group by id, and the kind of group the caller states it to be.

    Which partitions are unassigned follows from the members' ``current``; there is no separate
    inverted map that could disagree with it. Preconditions: ``preconditions.validate``.
    """

    members: Mapping[str, MemberSpec]
    subscription_type: SubscriptionType


class PartitionAssignorError(Exception):
    """No target can be computed.

    Causes: a subscribed topic without a partition count, or (uniform, homogeneous group)
    partitions that no one may take, which only inconsistent current targets can bring about.
    The coordinator answers UNKNOWN_SERVER_ERROR and writes nothing (assignors §1.1).
    """


class Assignor(Protocol):
    """A server-side assignor: a pure function with a name that is unique on a broker."""

    name: str

    def assign(
        self, spec: GroupSpec, partition_counts: Mapping[str, int]
    ) -> dict[str, frozenset[TopicPartition]]:
        """The new target of each member; a member left out has an empty target.

        ``partition_counts`` maps topic id to number of partitions. A member whose target stays as
        it is gets the very object it brought as ``current``, so that ``is`` tells "unchanged".
        Raises PartitionAssignorError.
        """
