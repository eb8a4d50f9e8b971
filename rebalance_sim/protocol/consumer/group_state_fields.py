"""What the fields of a consumer group mean for the question whether two of its states behave alike
(``protocol/runtime/snapshot.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.snapshot import StateFields

_LONGEST_INTERVAL_MS = 60_000

CONSUMER_GROUP_STATE: Mapping[type, StateFields] = MappingProxyType(
    {
        ConsumerGroup: StateFields(
            times={
                "target_assignment_timestamp": _LONGEST_INTERVAL_MS,
                "metadata_refresh_deadline_ms": 0,
            },
            caches=frozenset({"_ownership", "_tolerates_gaps", "_frees_former_instance_id"}),
            unordered=frozenset(
                {
                    "members",
                    "target_assignment",
                    "target_metadata",
                    "subscribed_topic_names",
                    "subscribed_regexes",
                    "resolved_regexes",
                    "server_assignors",
                    "client_assignors",
                    "static_members",
                    "classic_protocols",
                    "current_partition_epoch",
                    "inverted_target",
                    "stable_at",
                }
            ),
        )
    }
)
