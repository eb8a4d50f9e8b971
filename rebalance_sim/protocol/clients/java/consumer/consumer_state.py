"""What the fields of the Java consumer's machine mean for the question whether two of its states go
on alike (``protocol/runtime/snapshot.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.commit_queue import CommitQueue
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.requests import Requests
from rebalance_sim.protocol.clients.common.subscription_state import SubscriptionState
from rebalance_sim.protocol.clients.common.values import LocalAssignment
from rebalance_sim.protocol.clients.java.blocking_calls import BlockingCalls
from rebalance_sim.protocol.clients.java.consumer.consumer_subscription import ConsumerSubscription
from rebalance_sim.protocol.clients.java.consumer.heartbeats import Heartbeats
from rebalance_sim.protocol.clients.java.consumer.membership import Membership
from rebalance_sim.protocol.clients.java.java_commits import Commit, JavaCommits
from rebalance_sim.protocol.clients.java.offset_lookup import Lookup
from rebalance_sim.protocol.clients.java.topic_names import TopicNames
from rebalance_sim.protocol.runtime.snapshot import StateFields

_LONGEST_BACKOFF_MS = 1_000
_LONG_AGO_MS = 60_000

CONSUMER_STATE: Mapping[type, StateFields] = MappingProxyType(
    {
        MemberCore: StateFields(
            caches=frozenset(
                {
                    *("now_ms", "transition_count", "ownership_version"),
                    *("assigned", "fetchable", "initializing", "_deliverable"),
                }
            )
        ),
        Requests: StateFields(
            caches=frozenset({"last_correlation_id", "late_ms"}), key_ordinals={"_open": "request"}
        ),
        RequestPacer: StateFields(times={"backoff_until_ms": 0}),
        Application: StateFields(
            times={"last_poll_at_ms": _LONG_AGO_MS},
            caches=frozenset({"has_work", "poll_timer_deadline_ms"}),
        ),
        BlockingCalls: StateFields(times={"deadline_ms": 0}),
        CommitQueue: StateFields(times={"_interval_due_ms": 0}, ordinals={"_made_count": "commit"}),
        JavaCommits: StateFields(
            ordinals={"_stored": "commit", "_sent": "commit"},
            unordered=frozenset({"_sent_offsets"}),
        ),
        Commit: StateFields(times={"deadline_ms": 0}, ordinals={"number": "commit"}),
        Lookup: StateFields(times={"deadline_ms": 0}),
        LocalAssignment: StateFields(ordinals={"local_epoch": "target"}),
        SubscriptionState: StateFields(
            caches=frozenset({"version", "_views_of_version", "_fetchable", "_initializing"})
        ),
        ConsumerSubscription: StateFields(
            caches=frozenset({"_deliverable", "_deliverable_version"})
        ),
        Heartbeats: StateFields(
            times={"_interval_deadline_ms": 0, "_last_response_ms": _LONG_AGO_MS},
            caches=frozenset({"_steady"}),
            ordinals={"_sent_count": "heartbeat"},
            continuations={"_on_answered": ("heartbeat", "join")},
        ),
        Membership: StateFields(ordinals={"join_count": "join"}),
        TopicNames: StateFields(
            times={"_requested_at_ms": _LONGEST_BACKOFF_MS},
            unordered=frozenset({"_cache", "_metadata"}),
        ),
    }
)
