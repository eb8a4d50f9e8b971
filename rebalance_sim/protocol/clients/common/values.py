"""Small values that several parts of a member share.

Source: client §0.2, §8.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from rebalance_sim.protocol.wire.topics import TopicPartition


class LocalAssignment(NamedTuple):
    """A set of partitions with the number of the received target that it comes from.

    Two are equal only if both fields are: receiving A, then B, then A gives three targets.
    """

    local_epoch: int
    partitions: frozenset[TopicPartition]


NO_ASSIGNMENT = LocalAssignment(-1, frozenset())
"""NONE of the reference: nothing has been reconciled, or received."""


class CommitIdentity(NamedTuple):
    """What commits and offset fetches are signed with while the member is in the group."""

    member_id: str
    member_epoch: int


class CallbackKind(Enum):
    """The callbacks of a rebalance listener. The value is Kafka's method name."""

    REVOKED = "onPartitionsRevoked"
    ASSIGNED = "onPartitionsAssigned"
    LOST = "onPartitionsLost"


class Call(Enum):
    """Calls of the application that block it until the member says that they return."""

    UNSUBSCRIBE = "unsubscribe"
    CLOSE = "close"


class MembershipOperation(Enum):
    """Option of ``close``: what becomes of the membership (client §6.2)."""

    DEFAULT = "DEFAULT"
    LEAVE_GROUP = "LEAVE_GROUP"
    REMAIN_IN_GROUP = "REMAIN_IN_GROUP"


class FetchState(Enum):
    """How far a partition's position is known. Only FETCHING has a valid position."""

    INITIALIZING = "INITIALIZING"
    AWAIT_VALIDATION = "AWAIT_VALIDATION"
    AWAIT_RESET = "AWAIT_RESET"
    FETCHING = "FETCHING"


# Each event asks for it: to look an enum's member up takes as long as a call.
_FETCHING = FetchState.FETCHING


@dataclass(slots=True, kw_only=True)
class PartitionState:
    """What a consumer knows about one assigned partition. Read-only outside of the member.

    ``position`` is the offset of the next record to hand out; it is valid in FETCHING only.
    """

    fetch_state: FetchState = FetchState.INITIALIZING
    position: int = -1
    pending_revocation: bool = False
    awaiting_assigned_callback: bool = False

    @property
    def has_valid_position(self) -> bool:
        """Whether a position is known, so that it can be committed and fetched from."""
        return self.fetch_state is _FETCHING

    @property
    def is_fetchable(self) -> bool:
        """Whether records may be fetched and handed to the application."""
        return (
            self.fetch_state is _FETCHING
            and not self.pending_revocation
            and not self.awaiting_assigned_callback
        )


def nobody_listens(*_: object) -> None:
    """Where somebody may be called, and no one has to be."""
