"""Requests that clients send to any broker, beside those of the group protocol.

Kafka's FindCoordinator, Metadata and ListOffsets, reduced to what a consumer of one group needs.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import ReplicaRacks, TopicPartition
from rebalance_sim.protocol.wire.value import value


@value
class FindCoordinatorRequest:
    """Which broker coordinates the group, or, if one is named, has the transactional id?"""

    group_id: str
    transactional_id: str | None = None


@value
class FindCoordinatorResponse:
    """COORDINATOR_NOT_AVAILABLE while the broker knows no leader."""

    error_code: ErrorCode = ErrorCode.NONE
    node_id: int = -1


@value
class MetadataRequest:
    """Which topics are there?"""


@value
class MetadataResponse:
    """Topic id -> name, as the broker knows them; name -> number of partitions, and the racks of
    their replicas for those that have any."""

    topic_names: Mapping[str, str]
    partition_counts: Mapping[str, int]
    replica_racks: Mapping[str, ReplicaRacks]


@value
class ListOffsetsRequest:
    """Where do these partitions begin or end? Stands for the check of a committed offset, too.

    ``positions`` holds the offsets to check; ``partitions`` have none, and start at the end if
    ``at_end``, else at 0.
    """

    positions: Mapping[TopicPartition, int]
    partitions: frozenset[TopicPartition] = frozenset()
    at_end: bool = True
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED


@value
class ListOffsetsResponse:
    """Partition -> position to start at. Those that there are not are left out: a client may have
    the name of one from its leader, and look it up among topics that are gone."""

    positions: Mapping[TopicPartition, int]
