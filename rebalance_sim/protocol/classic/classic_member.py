"""A member of a classic group as the coordinator keeps it: soft state, changed in place.

Source: classic §1.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_sim.protocol.runtime.outcome import Token
from rebalance_sim.protocol.wire.classic_messages import JoinGroupProtocol, names_of
from rebalance_sim.protocol.wire.embedded import (
    Assignment,
    EmbeddedAssignment,
    EmbeddedMetadata,
    Subscription,
)
from rebalance_sim.protocol.wire.errors import ProtocolBug


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """``awaiting_join`` and ``awaiting_sync`` are the tokens of parked requests, None if there is
    none. ``is_new`` holds from the first JoinGroup until its join phase ends. Timeouts in ms."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[JoinGroupProtocol, ...]
    assignment: EmbeddedAssignment = None
    awaiting_join: Token | None = None
    awaiting_sync: Token | None = None
    is_new: bool = False

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """A parked request stands for heartbeats; a new member cannot send any, and is bounded."""
        return not self.is_new and (
            self.awaiting_join is not None or self.awaiting_sync is not None
        )

    def protocol_names(self) -> tuple[str, ...]:
        """The assignors it offers, in its order of preference; one that is named twice counts
        once."""
        return names_of(self.protocols)

    def metadata_for(self, protocol_name: str) -> EmbeddedMetadata:
        """Its metadata for an assignor. Raises ProtocolBug if it does not offer it."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        raise ProtocolBug(f"member {self.member_id} does not support {protocol_name}")

    def vote(self, candidates: set[str]) -> str:
        """The first candidate in its order of preference. Raises ProtocolBug if it has none."""
        for name, _ in self.protocols:
            if name in candidates:
                return name
        raise ProtocolBug(f"member {self.member_id} supports none of {sorted(candidates)}")


def topics_of(protocols: tuple[JoinGroupProtocol, ...]) -> frozenset[str]:
    """The topics that a JoinGroup subscribes to, by whichever assignor."""
    return frozenset(
        topic
        for _, metadata in protocols
        if isinstance(metadata, Subscription)
        for topic in metadata.topics
    )


def to_give_up(
    protocols: tuple[JoinGroupProtocol, ...], assignment: EmbeddedAssignment
) -> frozenset[tuple[str, int]]:
    """Topic and number of what a member owned as it joined, and was not assigned. A cooperative
    leader may give it to no member until its owner joins again without it (classic §3.5, §5.4)."""
    kept = assignment.partitions if isinstance(assignment, Assignment) else ()
    given = frozenset((row.topic, number) for row in kept for number in row.partitions)
    return frozenset(
        (row.topic, number)
        for _, metadata in protocols
        if isinstance(metadata, Subscription)
        for row in metadata.owned_partitions
        for number in row.partitions
        if (row.topic, number) not in given
    )
