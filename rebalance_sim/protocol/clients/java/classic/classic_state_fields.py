"""What the fields of the Java consumer's machine for classic groups mean for the question whether
two of its states behave alike (``protocol/runtime/snapshot.py``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import RequestPacer
from rebalance_sim.protocol.clients.common.classic_topics import TopicCatalogue
from rebalance_sim.protocol.clients.common.commit_queue import CommitQueue
from rebalance_sim.protocol.clients.common.events import JoinGroupAnswered
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.requests import Requests
from rebalance_sim.protocol.clients.common.subscription_state import SubscriptionState
from rebalance_sim.protocol.clients.java.blocking_calls import BlockingCalls
from rebalance_sim.protocol.clients.java.classic.classic_heartbeats import HeartbeatThread
from rebalance_sim.protocol.clients.java.classic.classic_search import ClassicCoordinatorSearch
from rebalance_sim.protocol.clients.java.classic.joining import Joining
from rebalance_sim.protocol.clients.java.classic.prepare import Prepare
from rebalance_sim.protocol.clients.java.java_commits import Commit
from rebalance_sim.protocol.clients.java.offset_lookup import Lookup
from rebalance_sim.protocol.clients.java.topic_names import TopicNames
from rebalance_sim.protocol.runtime.snapshot import StateFields

_LONGEST_BACKOFF_MS = 1_000
_LONG_AGO_MS = 60_000

CLASSIC_CONSUMER_STATE: Mapping[type, StateFields] = MappingProxyType(
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
        JoinGroupAnswered: StateFields(ordinals={"correlation_id": "request"}),
        RequestPacer: StateFields(times={"backoff_until_ms": 0}),
        Application: StateFields(
            times={"last_poll_at_ms": _LONG_AGO_MS},
            caches=frozenset({"has_work", "poll_timer_deadline_ms"}),
        ),
        BlockingCalls: StateFields(times={"deadline_ms": 0}),
        CommitQueue: StateFields(
            times={"_interval_due_ms": 0}, ordinals={"_made_count": "commit", "_newest": "commit"}
        ),
        Commit: StateFields(times={"deadline_ms": 0}, ordinals={"number": "commit"}),
        Lookup: StateFields(times={"deadline_ms": 0}),
        SubscriptionState: StateFields(
            caches=frozenset({"version", "_views_of_version", "_fetchable", "_initializing"})
        ),
        HeartbeatThread: StateFields(times={"_due_ms": 0, "_session_due_ms": 0}),
        ClassicCoordinatorSearch: StateFields(times={"_last_sent_ms": _LONGEST_BACKOFF_MS}),
        Joining: StateFields(times={"retry_due_ms": 0}),
        Prepare: StateFields(times={"_deadline_ms": 0, "_retry_due_ms": 0}),
        TopicCatalogue: StateFields(unordered=frozenset({"_ids", "counts"})),
        TopicNames: StateFields(
            times={"_requested_at_ms": _LONGEST_BACKOFF_MS},
            unordered=frozenset({"_cache", "_metadata"}),
        ),
    }
)
