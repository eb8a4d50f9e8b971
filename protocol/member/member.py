"""The member machine: events in, effects out.

Source: consumer-client.md, sections 0 and 13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from protocol.member.config import ConsumerConfig
from protocol.member.effects import Effect, RunCallback
from protocol.member.events import Event
from protocol.member.rules import MemberRules
from protocol.member.states import ClientState
from protocol.member.values import CommitIdentity, LocalAssignment, PartitionState
from protocol.topics import TopicPartition

__all__ = ["ConsumerMember"]


def no_jitter() -> float:
    """Every backoff has its nominal length."""
    return 0.0


class ConsumerMember:
    """One consumer process, from its creation to ``close`` or its crash.

    ``member_id`` is the client's own, for the life of the process. ``jitter`` answers a number in
    [-1, 1] each time a backoff is drawn. ``now_ms`` is any clock that never goes back.

    The host's duties: hand in one event at a time; carry out the effects in their order; send a
    ``Tick`` when ``next_deadline_ms`` has come; and, while the application polls, a ``Poll`` at the
    application's first ``poll`` at or after ``poll_due_ms``.
    """

    def __init__(
        self,
        *,
        config: ConsumerConfig,
        member_id: str,
        rules: MemberRules | type[MemberRules] = MemberRules,
        jitter: Callable[[], float] = no_jitter,
        now_ms: int,
    ) -> None:
        raise NotImplementedError

    def on_event(self, event: Event, *, now_ms: int) -> tuple[Effect, ...]:
        """Take one event in; the effects are to be carried out in their order.

        Raises IllegalTransition or ProtocolBug if the machine, or its host, breaks its rules.
        """
        raise NotImplementedError

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``Tick`` is due at the latest; None if only another event can change anything."""
        raise NotImplementedError

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``Poll`` does more than restart the poll timer; None: not foreseeable.

        May lie in the past (then any poll does), or ahead (the interval commit).
        """
        raise NotImplementedError

    @property
    def poll_is_due(self) -> bool:
        """Whether a ``Poll`` at the time of the last event would do more than restart the timer."""
        raise NotImplementedError

    # --- read-only state, for invariants, traces and hosts ----------------------------------------

    config: ConsumerConfig
    rules: MemberRules
    state: ClientState
    member_id: str  # "" only before the first answer, and only where the coordinator makes the id
    member_epoch: int
    current: LocalAssignment  # the last assignment fully reconciled
    target: LocalAssignment  # the last assignment received
    is_reconciling: bool  # a reconciliation chain runs (also an obsolete one that still waits)
    commit_identity: CommitIdentity | None
    coordinator_id: int | None
    poll_expired: bool  # the last leave was caused by the poll timer
    is_polling: bool  # between PollingResumed and PollingStopped
    last_poll_at_ms: int
    heartbeat_interval_ms: int  # 0 until the first successful answer
    heartbeats_in_flight: int
    running_callback: RunCallback | None
    subscribed_topic_names: frozenset[str]
    subscribed_topic_regex: str | None
    has_subscription: bool
    is_closed: bool  # close has returned: the process may end, events are ignored
    assigned: Mapping[TopicPartition, PartitionState]  # A of section 12
    ownership_version: int  # grows whenever A, F or a flag of a partition changes

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """F of section 12: partitions that may be fetched and handed out right now (section 8)."""
        raise NotImplementedError

    @property
    def deliverable(self) -> frozenset[TopicPartition]:
        """What ``poll`` hands buffered records out from: ``fetchable``, unless a defect is on."""
        raise NotImplementedError
