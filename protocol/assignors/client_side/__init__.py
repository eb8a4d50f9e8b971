"""Client-side assignors, as the text of KIP-848 has them: pure functions that members run.

- ``interface``: what an assignor is given and what it hands back. Start reading there.
- ``simple``: the algorithms of brokers, under the names ``range`` and ``sticky``.
- ``streams``: an assignor like that of Kafka Streams; ``streams_placement`` has its rules,
  ``streams_metadata`` the bytes that it exchanges with its members.
"""

from __future__ import annotations

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    AssignmentSpec,
    AssignorMetadata,
    ComputedAssignment,
    PartitionAssignor,
    advertise,
)
from rebalance_sim.protocol.assignors.client_side.simple import (
    SimpleAssignor,
    range_assignor,
    sticky_assignor,
)
from rebalance_sim.protocol.assignors.client_side.streams import StreamsAssignor
from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    AssignmentError,
    MetadataReason,
    StreamsAssignment,
    StreamsMember,
)
from rebalance_sim.protocol.assignors.client_side.streams_placement import StreamsConfig

__all__ = [
    "AssignmentError",
    "AssignmentSpec",
    "AssignorMetadata",
    "ComputedAssignment",
    "MetadataReason",
    "PartitionAssignor",
    "SimpleAssignor",
    "StreamsAssignment",
    "StreamsAssignor",
    "StreamsConfig",
    "StreamsMember",
    "advertise",
    "range_assignor",
    "sticky_assignor",
]
