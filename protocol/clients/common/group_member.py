"""What every kind of client looks like to its host, and to whoever watches it.

A kind is a machine of its own (``ConsumerMember`` is the Java client); hosts, invariants, traces
and metrics know only what stands here. Sources: client §0, §12.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

from rebalance_sim.protocol.assignors.client_side.client_side_assignor import PartitionAssignor
from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.clients.common.events import Event
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.common.member_states import ClientState, ComputingState
from rebalance_sim.protocol.clients.common.values import (
    Call,
    CommitIdentity,
    LocalAssignment,
    PartitionState,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


class ClassicView(NamedTuple):
    """What a member of the classic protocol shows besides.

    ``is_cooperative``: it keeps partitions through a rebalance. ``state``: in the words of its
    library. ``is_rebalancing``: from its JoinGroup to the answer to its SyncGroup.
    """

    is_cooperative: bool
    state: Enum
    is_rebalancing: bool


class GroupMember(Protocol):
    """One consumer process, of whatever kind; everything but ``on_event`` is for reading only.

    The host's duties: hand in one event at a time; carry out the effects in their order; send a
    ``Tick`` when ``next_deadline_ms`` has come; and, while the application polls, a ``Poll`` at the
    application's first ``poll`` at or after ``poll_due_ms``.
    """

    kind: ClassVar[str]
    """``java``, ``librdkafka`` or ``classic``, as a scenario names it."""

    watches_connection: ClassVar[bool]
    """Whether it wants to be told of its connection to the coordinator (``ConnectCoordinator``)."""

    commits_without_poll: ClassVar[bool]
    """Whether it does so as a rule, and every host has to handle ``reads_positions``."""

    polls_at_once: ClassVar[bool]
    """Whether a ``poll`` that waits for records goes on at once with what has come to be due, as if
    it were the application's next one (classic §4.2)."""

    def on_event(self, event: Event, *, now_ms: int) -> tuple[Any, ...]:
        """Take one event in; the effects are to be carried out in their order."""
        ...

    # --- when the host is wanted ------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``Tick`` is due at the latest; None if only another event can change anything."""
        ...

    @property
    def poll_due_ms(self) -> int | None:
        """From when on a ``Poll`` does more than restart the poll timer; None: not foreseeable."""
        ...

    def reads_positions(self, event: Event, *, now_ms: int) -> bool:
        """Whether this event may commit positions outside of ``poll``, or end the fetching. The
        host says first, with ``RecordsReturned``, what was handed out; for a kind that does not
        commit without a ``poll``, only a host that integrates rates does."""
        ...

    # --- the group --------------------------------------------------------------------------------

    @property
    def config(self) -> MemberConfig:
        """The settings of this consumer."""
        ...

    @property
    def state(self) -> ClientState:
        """The state, in the words that all kinds have in common."""
        ...

    @property
    def member_id(self) -> str:
        """The client's own, for the life of the process; of the classic protocol, the one that the
        coordinator has given, "" before that and after it is lost."""
        ...

    @property
    def member_epoch(self) -> int:
        """0 before a join is answered; of the classic protocol, the generation."""
        ...

    @property
    def commit_identity(self) -> CommitIdentity | None:
        """What commits are signed with now."""
        ...

    @property
    def current(self) -> LocalAssignment:
        """The last assignment fully reconciled: what an owned list says."""
        ...

    @property
    def target(self) -> LocalAssignment:
        """The last assignment received."""
        ...

    @property
    def coordinator_id(self) -> int | None:
        """The broker that requests go to; None while none can be sent."""
        ...

    @property
    def heartbeat_interval_ms(self) -> int:
        """As the coordinator set it; 0 until its first good answer."""
        ...

    @property
    def heartbeats_in_flight(self) -> int:
        """Heartbeats that have neither been answered nor failed."""
        ...

    @property
    def next_heartbeat_due_ms(self) -> int | None:
        """When the next heartbeat is due; None while one is in flight, or none is to be sent."""
        ...

    @property
    def reconciliation_count(self) -> int:
        """How many reconciliations run: never more than one."""
        ...

    @property
    def is_reconciling(self) -> bool:
        """Whether a reconciliation runs."""
        ...

    @property
    def classic(self) -> ClassicView | None:
        """What only members of the classic protocol show; None: it speaks the consumer protocol."""
        ...

    @property
    def local_assignors(self) -> tuple[PartitionAssignor, ...]:
        """Its client-side assignors, most preferred first (the KIP's text only)."""
        ...

    @property
    def computing_state(self) -> ComputingState | None:
        """How far it has come with a target for its group; None: it has no client-side assignors
        to compute one with."""
        ...

    # --- the application --------------------------------------------------------------------------

    @property
    def has_subscription(self) -> bool:
        """Whether the application is subscribed to anything."""
        ...

    @property
    def subscribed_topic_names(self) -> frozenset[str]:
        """Topics of the subscription."""
        ...

    @property
    def subscribed_topic_regex(self) -> str | None:
        """The pattern that the broker matches."""
        ...

    @property
    def metadata_topics(self) -> frozenset[str]:
        """Topics whose metadata the client wants."""
        ...

    @property
    def is_polling(self) -> bool:
        """Between ``PollingResumed`` and ``PollingStopped``."""
        ...

    @property
    def last_poll_at_ms(self) -> int:
        """When the poll timer was last restarted."""
        ...

    @property
    def running_callback(self) -> RunCallback | None:
        """The callback that blocks the application."""
        ...

    @property
    def blocked_in(self) -> Call | None:
        """``unsubscribe`` or ``close``, while it has not returned."""
        ...

    @property
    def leave_is_pending(self) -> bool:
        """Whether a blocking call waits for the leave to be over."""
        ...

    @property
    def is_closed(self) -> bool:
        """``close`` has returned: the process may end."""
        ...

    # --- partitions -------------------------------------------------------------------------------

    @property
    def assigned(self) -> Mapping[TopicPartition, PartitionState]:
        """A of client §12: what ``assignment()`` of the consumer holds, with all flags."""
        ...

    @property
    def fetchable(self) -> frozenset[TopicPartition]:
        """F of client §12: partitions that may be fetched and handed out right now."""
        ...

    @property
    def deliverable(self) -> frozenset[TopicPartition]:
        """What ``poll`` hands buffered records out from: ``fetchable``, unless a defect is on."""
        ...

    @property
    def ownership_version(self) -> int:
        """Grows whenever an assigned partition, one of its flags, or F changes."""
        ...
