"""What a host reports to a member.

A member is driven by these values alone; time comes beside them, as ``now_ms``. The first group is
what the application does, the second what comes from the network, the third the clock.
``correlation_id`` is the one of the effect that asked for the request (``effects.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Generic, TypeVar

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import (
    AssignorMetadata,
    ComputedAssignment,
)
from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentResponse,
    ConsumerGroupPrepareAssignmentResponse,
)
from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitResponse, OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import ReplicaRacks, TopicPartition
from rebalance_sim.protocol.wire.value import value

# --- the application -----------------------------------------------------------------------------


@value
class Subscribe:
    """``subscribe``: a list of topics, or one of two kinds of pattern.

    ``topic_regex`` is matched by the broker. ``matches_locally`` says that the client matches a
    pattern itself and reports the topics with ``PatternMatched``. Raises ValueError if more than
    one of the three is used, or none.
    """

    topic_names: frozenset[str] = frozenset()
    topic_regex: str | None = None
    matches_locally: bool = False
    has_listener: bool = True

    def __post_init__(self) -> None:
        kinds = bool(self.topic_names) + (self.topic_regex is not None) + self.matches_locally
        if kinds != 1:
            raise ValueError(
                "subscribe needs exactly one of topic_names, topic_regex, matches_locally; "
                "an empty list of topics is Unsubscribe"
            )


@value(kw_only=False)
class Unsubscribe:
    """``unsubscribe``; the application is blocked until ``CallReturned``."""


@value
class Close:
    """``close``; the application is blocked until ``CallReturned``, then the member is done with.

    Raises ValueError for a negative timeout.
    """

    timeout_ms: int = 30_000
    operation: MembershipOperation = MembershipOperation.DEFAULT

    def __post_init__(self) -> None:
        if self.timeout_ms < 0:
            raise ValueError(f"timeout_ms must be >= 0, got {self.timeout_ms}")


@value(kw_only=False)
class Poll:
    """One iteration inside ``poll``: callbacks, joining, reconciliation, commit, positions.

    It must not come while a callback runs, or while ``unsubscribe`` or ``close`` blocks.
    ``returns_records``: it has records to hand out and returns with them, so that callbacks that it
    leads to wait for the next one (client §0.1). ``submits_event``: whether more happens in it than
    callbacks.
    """

    returns_records: bool = False
    submits_event: bool = True


@value(kw_only=False)
class PollingResumed:
    """From now on the application calls ``poll`` over and over, so the poll timer cannot run out.

    The host need not generate a ``Poll`` for each of these calls: only when ``poll_due_ms`` says
    that one would do more than restart the poll timer. A running callback suspends this by itself.
    """


@value(kw_only=False)
class PollingStopped:
    """The application has just left its last ``poll``, and stays away: the poll timer runs."""


@value
class CallbackCompleted:
    """The callback of the last ``RunCallback`` has returned, or thrown.

    ``poll_follows`` says that it has outlasted the timeout of the ``poll`` around it, so that the
    application's next ``poll`` begins at once, before the member does anything else (client §0.1).
    """

    failed: bool = False
    poll_follows: bool = False


@value
class CommitOffsets:
    """``commitSync`` or ``commitAsync``; ``offsets`` None means all that has been consumed.

    ``commit_id`` is the host's own and comes back in ``CommitReturned``. ``timeout_ms`` None means
    ``default_api_timeout_ms``; only a synchronous commit has one.
    """

    commit_id: int
    is_sync: bool
    offsets: Mapping[TopicPartition, int] | None = None
    timeout_ms: int | None = None


@value(kw_only=False)
class EnforceRebalance:
    """``enforceRebalance``: join again with the next ``poll``. Only the classic protocol has it."""


@value
class RecordsReturned:
    """``poll`` has handed records to the application: the positions stand behind them now.

    A host that integrates rates reports it when the positions matter: before a ``Poll``, a
    ``Close``, a ``CommitOffsets``. Partitions without a valid position are ignored.
    """

    positions: Mapping[TopicPartition, int]


@value
class SendOffsetsToTransaction:
    """``groupMetadata``, and ``sendOffsetsToTransaction`` of the application's own producer, with
    the records from ``starts`` up to ``offsets``. Nothing follows for the consumer.

    ``written``: how many records the transaction has in each partition of its output topic; None:
    they are not simulated."""

    starts: Mapping[TopicPartition, int]
    offsets: Mapping[TopicPartition, int]
    producer_id: int
    producer_epoch: int
    written: Mapping[TopicPartition, int] | None = None


@value
class TransactionEnded:
    """The producer has ended that transaction, or was fenced in it or before. Nothing follows for
    the consumer."""

    committed: bool
    is_fenced: bool = False


@value
class Seek:
    """``seek``: hand out what comes from these positions on; what was fetched is dropped."""

    positions: Mapping[TopicPartition, int]


# --- the network ---------------------------------------------------------------------------------


_Response = TypeVar("_Response")


@value(kw_only=False)
class Answered(Generic[_Response]):
    """The coordinator's answer to a request, good or bad."""

    correlation_id: int
    response: _Response


class HeartbeatAnswered(Answered[ConsumerGroupHeartbeatResponse]):
    """The answer to a heartbeat of the consumer protocol."""

    __slots__ = ()


class CommitAnswered(Answered[OffsetCommitResponse]):
    """The answer to an OffsetCommit."""

    __slots__ = ()


class OffsetFetchAnswered(Answered[OffsetFetchResponse]):
    """The answer to an OffsetFetch."""

    __slots__ = ()


class AssignmentPrepared(Answered[ConsumerGroupPrepareAssignmentResponse]):
    """The answer to ConsumerGroupPrepareAssignment."""

    __slots__ = ()


class AssignmentInstalled(Answered[ConsumerGroupInstallAssignmentResponse]):
    """The answer to ConsumerGroupInstallAssignment."""

    __slots__ = ()


class JoinGroupAnswered(Answered[JoinGroupResponse]):
    """The answer to a JoinGroup."""

    __slots__ = ()


class SyncGroupAnswered(Answered[SyncGroupResponse]):
    """The answer to a SyncGroup."""

    __slots__ = ()


class ClassicHeartbeatAnswered(Answered[HeartbeatResponse]):
    """The answer to a Heartbeat of the classic protocol."""

    __slots__ = ()


class LeaveGroupAnswered(Answered[LeaveGroupResponse]):
    """The answer to a LeaveGroup."""

    __slots__ = ()


@value
class Disconnected:
    """These requests will never be answered: their connection was lost, or never established.

    A request that waited ``request_timeout_ms`` closes its connection, and with it goes everything
    in flight on it (client §2.4). Coordinator searches may be among them.
    """

    correlation_ids: tuple[int, ...]


@value
class RequestExpired:
    """These requests ran out of time before they left the client: the coordinator stays known."""

    correlation_ids: tuple[int, ...]


@value
class CoordinatorFound:
    """A search was answered with the broker that coordinates the group."""

    correlation_id: int
    node_id: int


@value
class CoordinatorSearchFailed:
    """A search was answered with an error."""

    correlation_id: int
    error_code: ErrorCode


@value
class MetadataKnown:
    """The client's metadata as it now stands: topic id -> topic name, replacing what it knew.

    It may hold more than the subscription; the member looks only at what it is subscribed to.
    ``partition_counts``: topic *name* -> number of partitions; only a member of the classic
    protocol looks at it, which may have to assign the partitions of its group, and so with
    ``replica_racks``: topic name -> racks of the replicas, for topics that have any.
    """

    topic_names: Mapping[str, str]
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    replica_racks: Mapping[str, ReplicaRacks] = field(default_factory=dict)


@value
class PatternMatched:
    """The topics that a pattern of ``Subscribe(matches_locally=True)`` now matches."""

    topic_names: frozenset[str]


@value
class PositionsKnown:
    """Answer to ``ValidatePositions`` or ``ResetPositions``: these positions are valid now."""

    positions: Mapping[TopicPartition, int]


@value(kw_only=False)
class CoordinatorConnected:
    """Answer to ``ConnectCoordinator``: requests can be sent now."""


@value
class CoordinatorConnectionClosed:
    """The connection of ``ConnectCoordinator`` is gone, or was not established.

    What was in flight on it is reported before, with ``Disconnected``. ``is_isolated``: no
    connection to any other broker is left either.
    """

    is_isolated: bool = False


# --- client-side assignors (the text of KIP-848 only) ---------------------------------------------


@value
class AssignorMetadataChanged:
    """The application says something new to one of its assignors, with its next heartbeat."""

    assignor_name: str
    metadata: AssignorMetadata


@value
class AssignmentComputed:
    """The assignor that was run for ``ComputeAssignment`` has returned."""

    computation_id: int
    result: ComputedAssignment


# --- the clock -----------------------------------------------------------------------------------


@value(kw_only=False)
class Tick:
    """Time has passed; due at ``next_deadline_ms`` at the latest, harmless at any time."""


Event = (
    Subscribe
    | Unsubscribe
    | Close
    | Poll
    | PollingResumed
    | PollingStopped
    | CallbackCompleted
    | CommitOffsets
    | RecordsReturned
    | HeartbeatAnswered
    | CommitAnswered
    | OffsetFetchAnswered
    | Disconnected
    | RequestExpired
    | CoordinatorFound
    | CoordinatorSearchFailed
    | MetadataKnown
    | PatternMatched
    | PositionsKnown
    | Tick
    | CoordinatorConnected
    | CoordinatorConnectionClosed
    | AssignorMetadataChanged
    | AssignmentPrepared
    | AssignmentComputed
    | AssignmentInstalled
    | JoinGroupAnswered
    | SyncGroupAnswered
    | ClassicHeartbeatAnswered
    | LeaveGroupAnswered
    | EnforceRebalance
    | SendOffsetsToTransaction
    | TransactionEnded
    | Seek
)
"""A new kind goes to the end: traces number them in this order, and digests are made of that."""
