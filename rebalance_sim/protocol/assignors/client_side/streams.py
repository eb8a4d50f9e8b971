"""A client-side assignor like that of Kafka Streams: active, standby and warm-up tasks.

Source: KIP-848, "Assignor Behavior" and "Member Behavior". The placement itself is in
``streams_placement.py``, the bytes are in ``streams_metadata.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    AssignmentSpec,
    AssignorMetadata,
    ComputedAssignment,
)
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    NEWEST_VERSION,
    OLDEST_VERSION,
    AssignmentError,
    MetadataReason,
    StreamsAssignment,
    StreamsMember,
    decode_member,
    encode_assignment,
    encode_member,
)
from rebalance_sim.protocol.assignors.client_side.streams_placement import (
    Placement,
    StreamsConfig,
    StreamsInstance,
)
from rebalance_sim.protocol.wire.assignment_messages import InstalledMember, PreparedMember
from rebalance_sim.protocol.wire.topics import TopicPartition

_NO_TAGS: Mapping[str, str] = {}
_NO_LAGS: Mapping[TopicPartition, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsAssignor:
    """The assignor of one member of a Streams application.

    ``process_id``, ``client_tags`` and ``topology_hash`` are the member's own; ``config`` counts
    when this member computes. ``metadata_version`` is the version in which the member writes.
    Raises ValueError for versions that are not known, or not in order.
    """

    process_id: str
    client_tags: Mapping[str, str] = field(default_factory=lambda: _NO_TAGS)
    topology_hash: int = 0
    config: StreamsConfig = field(default_factory=StreamsConfig)
    minimum_version: int = OLDEST_VERSION
    maximum_version: int = NEWEST_VERSION
    metadata_version: int = NEWEST_VERSION

    placement = Placement
    name = "streams"

    def __post_init__(self) -> None:
        versions = (
            OLDEST_VERSION,
            self.minimum_version,
            self.metadata_version,
            self.maximum_version,
            NEWEST_VERSION,
        )
        if list(versions) != sorted(versions):
            raise ValueError(
                f"versions must lie within [{OLDEST_VERSION}, {NEWEST_VERSION}], and "
                f"metadata_version within the assignor's own: got {self.metadata_version} in "
                f"[{self.minimum_version}, {self.maximum_version}]"
            )

    def metadata(self) -> AssignorMetadata:
        """See ``PartitionAssignor.metadata``: a member that has just started has no state."""
        return self.metadata_with(_NO_LAGS, MetadataReason.NONE)

    def metadata_with(
        self, task_lags: Mapping[TopicPartition, int], reason: MetadataReason
    ) -> AssignorMetadata:
        """What the member says when these are the lags of its tasks."""
        member = StreamsMember(
            process_id=self.process_id,
            client_tags=self.client_tags,
            topology_hash=self.topology_hash,
            task_lags=task_lags,
        )
        return AssignorMetadata(
            reason=reason,
            metadata_version=self.metadata_version,
            metadata_bytes=encode_member(member, self.metadata_version),
        )

    def assign(self, spec: AssignmentSpec) -> ComputedAssignment:
        """See ``PartitionAssignor.assign``. An error does not keep tasks from being placed."""
        error = AssignmentError.NONE
        says: dict[str, StreamsMember] = {}
        for member_id, member in spec.members.items():
            try:
                says[member_id] = decode_member(member.metadata_bytes, member.metadata_version)
            except ValueError:
                error = AssignmentError.ASSIGNMENT_ERROR
                says[member_id] = StreamsMember(process_id=member_id)
        if error is AssignmentError.NONE and _differ_in_topology(spec.members, says):
            error = AssignmentError.INCONSISTENT_TOPOLOGY
        if any(m.reason == MetadataReason.SHUTDOWN for m in spec.members.values()):
            error = AssignmentError.SHUTDOWN
        instances = {
            member_id: StreamsInstance(
                says=says[member_id],
                subscribed_topic_ids=member.subscribed_topic_ids,
                target=member.topic_partitions,
            )
            for member_id, member in spec.members.items()
        }
        counts = {topic_id: topic.partition_count for topic_id, topic in spec.topics.items()}
        shares = self.placement(instances, counts, self.config).shares()
        rows = (self._row(member, shares[member.member_id]) for member in spec.members.values())
        return ComputedAssignment(members=tuple(rows), error=error)

    def _row(self, member: PreparedMember, share: StreamsAssignment) -> InstalledMember:
        version = self.version_for(member)
        return InstalledMember(
            member_id=member.member_id,
            partitions=share.active,
            metadata_version=version,
            metadata_bytes=encode_assignment(share, version),
        )

    def version_for(self, member: PreparedMember) -> int:
        """The version in which a member is written to: its own (coordinator §12.4)."""
        if OLDEST_VERSION <= member.metadata_version <= NEWEST_VERSION:
            return member.metadata_version
        return OLDEST_VERSION


def _differ_in_topology(
    members: Mapping[str, PreparedMember], says: Mapping[str, StreamsMember]
) -> bool:
    """Do those members that can say it run different topologies?"""
    hashes = {
        says[member_id].topology_hash
        for member_id, member in members.items()
        if member.metadata_version >= 1
    }
    return len(hashes) > 1
