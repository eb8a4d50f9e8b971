"""What a client-side assignor is given and what it hands back.

Source: assignors §16. An assignor is a pure function, as those of brokers are; unlike them it sees
metadata that members have written for it, and writes metadata for them. The callback
``on_assignment`` of the KIP's interface is an effect of the member here
(``protocol.clients.common.effects.AssignmentReceived``), so that an assignor has no state to
change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rebalance_sim.protocol.wire.assignment_messages import (
    ClientAssignor,
    ConsumerGroupPrepareAssignmentResponse,
    InstalledMember,
    PreparedMember,
)
from rebalance_sim.protocol.wire.topics import Topic


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorMetadata:
    """What a member says to its assignor. A changed value, or a ``reason`` other than 0, asks the
    group for a new assignment."""

    reason: int = 0
    metadata_version: int = 0
    metadata_bytes: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentSpec:
    """The group to be assigned: members by id, subscribed topics by topic id, both ascending."""

    members: Mapping[str, PreparedMember]
    topics: Mapping[str, Topic]

    @classmethod
    def of(cls, prepared: ConsumerGroupPrepareAssignmentResponse) -> AssignmentSpec:
        """The group as a coordinator has prepared it."""
        members = sorted(prepared.members, key=lambda member: member.member_id)
        topics = sorted(prepared.topics, key=lambda topic: topic.topic_id)
        return cls(
            members={member.member_id: member for member in members},
            topics={topic.topic_id: topic for topic in topics},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputedAssignment:
    """The assignment of a group: every partition of its topics once, and a word to each member.

    ``error`` is sent to all members; 0 is success.
    """

    members: tuple[InstalledMember, ...]
    error: int = 0


class PartitionAssignor(Protocol):
    """A client-side assignor. Versions are those of the metadata that it reads and writes.

    By default an assignor knows version 0 alone, and writes no metadata.
    """

    @property
    def name(self) -> str:
        """Identity of the assignor among those of a group."""

    @property
    def minimum_version(self) -> int:
        """The oldest metadata that it reads."""
        return 0

    @property
    def maximum_version(self) -> int:
        """The newest metadata that it reads."""
        return 0

    def metadata(self) -> AssignorMetadata:
        """What a member says that has just started."""
        return AssignorMetadata()

    def assign(self, spec: AssignmentSpec) -> ComputedAssignment:
        """The new assignment, with each member's metadata in that member's own version."""


def advertise(
    assignor: PartitionAssignor, metadata: AssignorMetadata | None = None
) -> ClientAssignor:
    """An assignor as a heartbeat offers it; ``metadata`` None means that of the start."""
    said = assignor.metadata() if metadata is None else metadata
    return ClientAssignor(
        name=assignor.name,
        minimum_version=assignor.minimum_version,
        maximum_version=assignor.maximum_version,
        reason=said.reason,
        metadata_version=said.metadata_version,
        metadata_bytes=said.metadata_bytes,
    )
