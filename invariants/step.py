"""What an invariant sees: the world through narrow views, and the step that has just happened.

The simulator fills in one ``Step`` per atomic change and shows it to every checker that listens to
its kind. A step object is reused; a checker copies what it wants to keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Protocol

from protocol.config import CoordinatorConfig
from protocol.coordinator import GroupCoordinator
from protocol.member import ConsumerMember
from protocol.outcome import TimerCommand
from protocol.records import Record
from protocol.semantics import Semantics

__all__ = ["ClientView", "ShardView", "Step", "StepKind", "WorldView"]


class StepKind(Enum):
    """The kinds of atomic change. A value is the name used in traces."""

    COORDINATOR_REQUEST = "coordinator.request"  # a shard handled a request
    COORDINATOR_TIMER = "coordinator.timer"  # a shard's timer fired
    COORDINATOR_LOADED = "coordinator.loaded"  # a shard finished loading and is active
    COORDINATOR_UNLOADED = "coordinator.unloaded"  # a shard gave up or crashed
    LOG_COMMITTED = "log.committed"  # a high watermark advanced
    LOG_TRUNCATED = "log.truncated"  # an uncommitted tail was lost
    RESPONSE_RELEASED = "response.released"  # a broker let an answer go
    CLIENT_EVENT = "client.event"  # a member machine took an event
    CLIENT_STARTED = "client.started"
    CLIENT_CRASHED = "client.crashed"
    METADATA_CHANGED = "metadata.changed"
    FAULT = "fault"  # a fault began or ended


class ShardView(Protocol):
    """One coordinator shard on one broker."""

    name: str
    coordinator: GroupCoordinator
    is_active: bool
    leader_epoch: int
    log_end_offset: int
    high_watermark: int
    armed_timers: Mapping[Any, Any]

    def log_records(self) -> Sequence[Record]:
        """Every record of this replica's log, in offset order."""
        ...


class ClientView(Protocol):
    """One client process; a restart is a new incarnation with a new member machine."""

    name: str
    incarnation: int
    member: ConsumerMember
    is_alive: bool


class WorldView(Protocol):
    """Everything an invariant may look at."""

    now_ms: int
    group_id: str
    config: CoordinatorConfig
    semantics: Semantics

    def acting_shard(self) -> ShardView | None:
        """The active shard with the highest leader epoch; None while nobody serves the group."""
        ...

    def clients(self) -> Mapping[str, ClientView]:
        """Client name -> its present process, in ascending name."""
        ...


class Step:
    """One atomic change. Fields that do not apply to a kind are None or empty."""

    __slots__ = (
        "at_ms",
        "client",
        "detail",
        "effects",
        "event",
        "index",
        "kind",
        "records",
        "request",
        "response",
        "shard",
        "timers",
    )

    def __init__(self) -> None:
        self.index = 0
        self.at_ms = 0
        self.kind = StepKind.FAULT
        self.shard: ShardView | None = None
        self.request: Any = None
        self.response: Any = None
        self.records: tuple[Record, ...] = ()
        self.timers: tuple[TimerCommand, ...] = ()
        self.client: ClientView | None = None
        self.event: Any = None
        self.effects: tuple[Any, ...] = ()
        self.detail = ""
