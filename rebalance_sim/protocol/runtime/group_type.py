"""What a type of group brings to a coordinator.

A coordinator knows no type by name. It is built from a tuple of ``Component`` classes
(``Semantics.group_types``): the group types, and whatever joins two of them. Each brings its
handlers, replay, timers, answers to read operations, and what offsets, lists and checkers need.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, KeysView, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.runtime.outcome import (
    Completion,
    Outcome,
    TimerCommand,
    TimerKey,
    TimerKind,
    Token,
)
from rebalance_sim.protocol.runtime.snapshot import StateFields
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.consumer_messages import ListedGroup
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.protocol.wire.records import OffsetCommitValue
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.protocol.wire.transaction_messages import TxnOffsetCommitRequest

_Request = TypeVar("_Request")


class Group(Protocol):
    """What all groups have, of whatever type."""

    @property
    def group_id(self) -> str:
        """The id, unique among groups of all types."""

    @property
    def is_empty(self) -> bool:
        """It has no members, and may be deleted."""

    def is_subscribed_to(self, topic_name: str) -> bool:
        """Does, or may, a member read this topic?"""


_G = TypeVar("_G", bound=Group)


class Projection(NamedTuple):
    """A group as checkers and metrics of any type see it.

    ``state`` is the name in responses, ``epoch`` the group epoch or generation. ``is_settled``: no
    rebalance is under way.
    """

    group_type: str
    state: str
    epoch: int
    is_settled: bool
    members: KeysView[str]


@dataclass(slots=True, eq=False)
class Call(Generic[_Request]):
    """A request with what came along. ``group`` is the group of its id, of any type; None if there
    is none. ``token`` names a request whose answer may come later."""

    request: _Request
    group: Any
    now_ms: int
    client_id: str
    client_host: str
    token: Token | None

    @property
    def parking_token(self) -> Token:
        """The token of a request that may be parked. Raises TypeError if the host gave none."""
        if self.token is None:
            name = type(self.request).__name__
            raise TypeError(f"{name} needs a token, as its answer may come later")
        return self.token


Handler = Callable[[Call[Any]], Outcome]


class Component(Generic[_G]):
    """One object serves one coordinator. ``timers`` are the kinds that it handles, ``parks`` the
    classes of requests whose answer may come later, ``records`` those that ``replay`` takes;
    ``types``: class of groups -> their type."""

    timers: ClassVar[type[TimerKind] | None] = None
    parks: ClassVar[tuple[type, ...]] = ()
    records: ClassVar[tuple[type, ...]] = ()

    def __init__(self, context: CoordinatorContext[Any]) -> None:
        self._context = context
        self.types: Mapping[type, GroupType[Any]] = {}

    def handlers(self) -> Mapping[type, Handler]:
        """Request class -> what handles it, whichever group it meets."""
        return {}

    def crossings(self) -> Mapping[tuple[type, type], Handler]:
        """(request class, class of the group met) -> what handles it instead."""
        return {}

    def reads(self) -> Mapping[type, Callable[[Any], Any]]:
        """Class of a read operation -> what answers it from committed state."""
        return {}

    def fire(self, key: TimerKey, *, epoch: int, now_ms: int) -> Outcome:
        """A timer of this component has expired. ``epoch`` is what it was armed with."""
        raise ProtocolBug(f"unknown timer {key}")

    def replay(self, record: Any, *, strict: bool) -> None:
        """Apply one of ``records``; ``strict`` is False during a load.

        Raises ReplayError where a live record contradicts the state it meets.
        """
        raise NotImplementedError

    def on_topics_changed(self, names: set[str], *, now_ms: int) -> Iterable[TimerCommand]:
        """Topics of these names have come, gone or changed."""
        return ()

    def on_loaded(self, *, now_ms: int) -> Iterable[TimerCommand]:
        """The log has been replayed: timers of what was found in it."""
        return ()

    def on_reverted(self, armed: Container[TimerKey], *, now_ms: int) -> Iterable[TimerCommand]:
        """A batch was lost, and what it had undone is there again: timers of that which are not
        armed any more. Asked only by hosts that undo what a lost batch has done to timers."""
        return ()

    def on_unloaded(self, *, now_ms: int) -> Iterable[Completion]:
        """Another broker takes over: answers to parked requests."""
        return ()


class GroupType(Component[_G]):
    """``name`` is that in ListGroups.

    The ``groups`` of the type are in a table of their own; no two types have a group of the same
    id, but for the time between a conversion and the replay of its records.
    """

    name: ClassVar[str]
    group_class: ClassVar[type]
    state_fields: ClassVar[Mapping[type, StateFields]] = MappingProxyType({})
    """What the fields of its groups mean where two states are compared."""

    def __init__(self, context: CoordinatorContext[Any]) -> None:
        super().__init__(context)
        self.groups: dict[str, _G] = context.groups_of(self.group_class)
        self.others: Sequence[GroupType[Any]] = ()

    def is_of_other_type(self, group_id: str) -> bool:
        """Is there a committed group of another type under this id?"""
        return any(group_id in committed(other.groups) for other in self.others)

    # -- the log ---------------------------------------------------------------------------

    def claim(self, group_id: str, *, strict: bool) -> None:
        """A record makes a new group of this type: one of another type gives way.

        Raises ReplayError where it does not.
        """
        for other in self.others:
            group = other.groups.get(group_id)
            if group is not None:
                other.give_way(group, self.name, strict=strict)

    def give_way(self, group: _G, group_type: str, *, strict: bool) -> None:
        """A record says that there is a group of another type under this id."""
        del self.groups[group.group_id]

    def adopt_offsets(self, group_id: str) -> bool:
        """Offsets are committed under an id that no group has. True if this type makes one."""
        return False

    def entailed(self, group: _G, outcome: Outcome, *, now_ms: int) -> Outcome:
        """The outcome of a rule's timer with what its records entail."""
        return outcome

    # -- offsets ---------------------------------------------------------------------------

    def check_commit(
        self, group: _G, request: OffsetCommitRequest, partitions: Sequence[TopicPartition]
    ) -> None:
        """Raises GroupError where these offsets may not be committed (coordinator §8.1)."""

    def on_commit_accepted(
        self, group: _G, request: OffsetCommitRequest, *, now_ms: int
    ) -> tuple[TimerCommand, ...]:
        """Timers that an accepted commit renews."""
        return ()

    def check_txn_commit(
        self, group: _G, request: TxnOffsetCommitRequest, partitions: Sequence[TopicPartition]
    ) -> None:
        """Raises GroupError where a transaction may not commit these offsets (transactions §3)."""

    def check_fetch(self, group: _G, request: OffsetFetchRequest, *, is_committed: bool) -> None:
        """Raises GroupError where offsets may not be read (coordinator §8.2). ``is_committed``: go
        by the last committed state."""

    def check_offset_delete(self, group: _G) -> None:
        """Raises GroupError where no offset may be deleted (coordinator §8.3)."""

    def expiry_base(self, group: _G) -> Callable[[OffsetCommitValue], int] | None:
        """From when the retention of an offset counts, in ms; None where none may expire."""
        return time_of_commit

    # -- what is shown ---------------------------------------------------------------------

    def tombstones(self, group: _G) -> tuple[Any, ...]:
        """The records that delete an empty group (coordinator §8.6)."""
        raise NotImplementedError

    def list_row(self, group: _G) -> ListedGroup:
        """The row of ListGroups (coordinator §6.2)."""
        raise NotImplementedError

    def project(self, group: _G) -> Projection:
        """The group for checkers and metrics."""
        raise NotImplementedError

    def assigned_to(self, group: _G, member_id: str) -> Set[TopicPartition] | None:
        """What a member has been assigned, whether it knows or not; None where a coordinator does
        not know, or there is no such member."""
        return None

    def has_matched(self, group: _G) -> bool:
        """Whether every pattern of its members is matched against the topics that there are."""
        return True

    def log_state(self, group: _G) -> Mapping[str, object]:
        """All that its records say of the group, by name: the same in a coordinator that loads the
        log. Empty for a type whose groups are soft state."""
        return {}


class CoordinatorSemantics(Protocol):
    """The part of a simulated version that concerns coordinators."""

    @property
    def coordinator(self) -> Callable[[], CoordinatorRules]:
        """Makes the rules of one coordinator."""

    @property
    def group_types(self) -> tuple[type[Component[Any]], ...]:
        """Group types, and what joins them; earlier ones are asked first."""


def time_of_commit(value: OffsetCommitValue) -> int:
    """In ms."""
    return value.commit_timestamp
