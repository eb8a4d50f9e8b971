"""What an invariant sees: one group of a world through narrow views, and each step as it happens.

The simulator fills in one ``Step`` per atomic change, *after* the change is complete (records are
appended and replayed, timers are armed, indices are up to date), and shows it to the checker. A
step object is reused; a checker copies what it wants to keep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce, CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Continuation, TimerCommand, TimerKey
from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import TopicPartition


class StepKind(StrEnum):
    """The kinds of atomic change, with the fields of ``Step`` that each fills in.

    A value is the name used in traces. ``index`` and ``at_ms`` are always set.
    """

    COORDINATOR_REQUEST = "coordinator.request"
    """A shard handled a request: shard, request, response, records, timers, operation. There is no
    response if the request is parked, or answered by a completion."""
    COORDINATOR_TIMER = "coordinator.timer"
    """A shard's timer fired: shard, event (its TimerKey), records, timers."""
    COORDINATOR_LOADED = "coordinator.loaded"
    """A shard finished loading and is active: shard, timers."""
    COORDINATOR_UNLOADED = "coordinator.unloaded"
    """A shard gave up, crashed, or could not load: shard, detail."""
    LOG_COMMITTED = "log.committed"
    """The high watermark of a leader advanced: shard (of the leader)."""
    LOG_TRUNCATED = "log.truncated"
    """A replica lost a tail that was not committed: shard (of that replica). Of an active shard: it
    could not write a batch, and its memory is back where the log ends."""
    RESPONSE_RELEASED = "response.released"
    """A broker let an answer go: shard, request, response, operation."""
    CLIENT_EVENT = "client.event"
    """A member machine took an event: client, event, effects."""
    CLIENT_STARTED = "client.started"
    """A new process, also after a restart: client."""
    CLIENT_CRASHED = "client.crashed"
    """A process is gone without a word: client."""
    METADATA_CHANGED = "metadata.changed"
    """A shard took a new metadata image: shard (one step for each shard), timers."""
    FAULT = "fault"
    """A fault began or ended: fault (its value), detail (which of the two, in words)."""
    CONFIG_CHANGED = "config.changed"
    """A shard took altered settings: shard."""
    ADMIN_RETURNED = "admin.returned"
    """An administrator's client is done with a request: request, response (None: it gave up)."""
    COORDINATOR_WRITTEN = "coordinator.written"
    """What hung on a commit has happened, or on the failure of one: shard, event (the value that
    the coordinator gave, which has a ``group_id``, or ``CommitsLeftOut``), records, timers, detail
    (the error, or empty)."""
    COORDINATOR_ESCAPED = "coordinator.escaped"
    """An exception escaped from a handler of the coordinator, and hard state is as before: shard,
    detail (the exception), and what was handled: request (whose sender is answered
    UNKNOWN_SERVER_ERROR), or event (the TimerKey of a timer, which is ignored; the value that hung
    on a commit; None where topics or settings changed, or the log was loaded)."""
    LEAPT = "leapt"
    """A time in which a world at rest does nothing but the same was left out: event (how many
    milliseconds), timers (those that came nearer by as much: sessions of members that are gone).
    ``at_ms`` is the same before and after it."""
    RECORDS_WRITTEN = "records.written"
    """The leader of a partition wrote records of a transaction there, or its marker: event
    (``RecordsWritten``)."""


@dataclass(frozen=True, slots=True)
class CommitsLeftOut(Continuation):
    """What members have committed in a time that was left out is written."""

    group_id: str


class ShardView(Protocol):
    """One coordinator shard on one broker. Its log may hold records of other groups, too.

    Offsets count records from 0. Above the high watermark the log has one record per offset; below
    it compaction may have removed some.
    """

    name: str
    leader_epoch: int

    @property
    def coordinator(self) -> GroupCoordinator:
        """The present one; a load makes another."""

    @property
    def is_active(self) -> bool:
        """Whether it serves."""

    @property
    def log_end_offset(self) -> int:
        """Offset of the next record."""

    @property
    def high_watermark(self) -> int:
        """Everything below this offset is committed, as far as this replica knows."""

    @property
    def armed_timers(self) -> Mapping[TimerKey, Any]:
        """Timers that are armed, by key."""

    @property
    def configs(self) -> ConfigsInForce:
        """The settings that its broker has heard of, whatever the coordinator makes of them."""

    def log_records(self) -> Sequence[Record]:
        """Every record of this replica's log, in offset order."""


class IntakeView(Protocol):
    """The records of one client process, in a world with a data plane.

    An offset stands behind the last record of which something is said. None: the client has no
    position in this partition.
    """

    @property
    def longest_batch_ms(self) -> int:
        """How long the application has stayed away from ``poll`` for a batch, at most; 0 if that
        was never longer than from one poll to the next."""

    @property
    def isolation_level(self) -> IsolationLevel:
        """What the client reads of records of transactions."""

    def fetched_offset(self, partition: TopicPartition) -> int | None:
        """What has come from the leader."""

    def handed_out_offset(self, partition: TopicPartition) -> int | None:
        """What ``poll`` has returned."""

    def processed_offset(self, partition: TopicPartition) -> int | None:
        """What the application is done with."""

    def log_end_offset(self, partition: TopicPartition) -> int:
        """What has been produced."""

    def begun_offset(self, partition: TopicPartition) -> int | None:
        """What its first ``poll`` was to return."""

    def records_handed_out(self, partition: TopicPartition) -> int:
        """How many records ``poll`` has returned from there on, of a partition that has a
        position."""


class ClientView(Protocol):
    """One client process; a restart is a new incarnation with a new member machine.

    ``metadata_max_age_ms`` is how often a classic client looks for changed topics.
    ``processing_ms`` is the longest time that its application is away between two polls, unless a
    batch keeps it for longer. ``intake`` is None in a world without a data plane.
    """

    name: str
    incarnation: int
    member: GroupMember
    is_alive: bool

    @property
    def clock_was_set(self) -> bool:
        """Whether the clock that it reads is, or was, another than that of the world."""

    @property
    def metadata_max_age_ms(self) -> int:
        """``metadata.max.age.ms``."""

    @property
    def processing_ms(self) -> int:
        """For how long it is not inside ``poll``, at most."""

    @property
    def transaction_timeout_ms(self) -> int:
        """That of its producer; 0: it has no transactions."""

    @property
    def misled_until_ms(self) -> int:
        """When it last found out that a connection to a coordinator had died silently: now, if it
        has yet to; -1: never."""

    @property
    def intake(self) -> IntakeView | None:
        """The records that it takes."""


class WorldView(Protocol):
    """Everything an invariant may look at: one group, its clients, the shards of its partition."""

    group_id: str
    config: CoordinatorConfig
    semantics: Semantics

    @property
    def has_data_plane(self) -> bool:
        """Whether clients fetch, buffer and process records."""

    @property
    def now_ms(self) -> int:
        """Simulated time."""

    def acting_shard(self) -> ShardView | None:
        """The active shard with the highest leader epoch; None while no one serves the group."""

    def clients(self) -> Mapping[str, ClientView]:
        """Client name -> its present process, in ascending name."""


_NONE = cast(ShardView, None)
_E = TypeVar("_E")


class Step:
    """One atomic change. Fields that do not apply to a kind are None or empty.

    So is ``shard``, though its type does not say so: a property that listens to a kind that has one
    reads it as it is, and ``shard_of`` is for those who take a step from a host.
    ``operation`` numbers the requests of a shard; the release of an answer carries the number of
    the request that it answers. 0: an answer that no coordinator made. ``acted``: the rules that
    decided otherwise than what they replace, and ``rule_state`` what those of the coordinator hold
    after a request, a timer or a commit.
    """

    __slots__ = (
        "acted",
        "at_ms",
        "client",
        "detail",
        "effects",
        "event",
        "fault",
        "index",
        "kind",
        "operation",
        "records",
        "request",
        "response",
        "rule_state",
        "shard",
        "timers",
    )

    def __init__(self) -> None:
        self.index = 0
        self.at_ms = 0
        self.kind = StepKind.FAULT
        self.shard = _NONE
        self.operation = 0
        self.request: Any = None
        self.response: Any = None
        self.records: tuple[Record, ...] = ()
        self.timers: tuple[TimerCommand, ...] = ()
        self.client: ClientView | None = None
        self.event: Any = None
        self.effects: tuple[Any, ...] = ()
        self.fault: Any = None
        self.detail = ""
        self.acted: tuple[str, ...] = ()
        self.rule_state: Mapping[str, object] = MappingProxyType({})

    def effects_of(self, kind: type[_E]) -> Sequence[_E]:
        """Those effects that are of this type."""
        effects = self.effects
        if len(effects) == 1:  # As most often, and then there is nothing to choose.
            return effects if type(effects[0]) is kind else ()
        return [effect for effect in effects if type(effect) is kind]


def shard_of(step: Step) -> ShardView:
    """The shard of a step whose kind has one. Raises ValueError if the host left it out."""
    if step.shard is None:
        raise ValueError(f"a step of kind {step.kind} must name its shard")
    return step.shard


def has_error(response: object) -> bool:
    """Whether an answer has an error in it, be it for one partition."""
    if getattr(response, "error_code", None):
        return True
    errors: Mapping[object, object] = getattr(response, "errors", {})
    return any(errors.values())


def wall_ms(step: Step) -> int:
    """When a step whose kind has a shard was, by the wall clock of its broker: what stands in
    records is such a time."""
    return step.at_ms + step.shard.coordinator.wall_offset_ms
