"""Requests of one member that are in flight: how each is sent, answered, or lost.

The sender of a request says what follows on its answer, and what follows if there is none; no one
else keeps books of what is in flight. Source: client §2.1, §2.4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from rebalance_sim.protocol.clients.common import effects, events
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug


class Loss(Enum):
    """How a request came to have no answer."""

    TRANSPORT = "the connection was lost"
    NOT_SENT = "it ran out of time before it left the client"
    CUT = "the member has closed the connection itself"


COORDINATOR_LOST = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})
"""Errors by which a broker says that it is not the coordinator, or no longer."""

_ANSWERS: Mapping[type, tuple[type, ...]] = MappingProxyType(
    {
        effects.FindCoordinator: (events.CoordinatorFound, events.CoordinatorSearchFailed),
        effects.SendHeartbeat: (events.HeartbeatAnswered,),
        effects.SendCommit: (events.CommitAnswered,),
        effects.SendOffsetFetch: (events.OffsetFetchAnswered,),
        effects.SendPrepareAssignment: (events.AssignmentPrepared,),
        effects.SendInstallAssignment: (events.AssignmentInstalled,),
        effects.SendJoinGroup: (events.JoinGroupAnswered,),
        effects.SendSyncGroup: (events.SyncGroupAnswered,),
        effects.SendClassicHeartbeat: (events.ClassicHeartbeatAnswered,),
        effects.SendLeaveGroup: (events.LeaveGroupAnswered,),
    }
)
"""Effect that asks for a request -> events that answer it."""


@dataclass(slots=True, eq=False)
class _Open:
    """A request in flight. ``late_ms``: from when on its answer comes too late; None: never."""

    kind: type
    on_answered: Callable[[Any], None]
    on_lost: Callable[[Loss], None]
    late_ms: int | None


class Requests:
    """All requests of a member that have neither been answered nor lost, in the order of sending.

    ``wanted`` collects the effects that the member hands to its host. ``late_ms``: when the first
    answer is too late; None while none can be.
    """

    def __init__(self, wanted: list[effects.Effect]) -> None:
        self._effects = wanted
        self._open: dict[int, _Open] = {}
        self.last_correlation_id = 0
        self.late_ms: int | None = None

    def send(
        self,
        kind: type[effects.SendRequest[Any]],
        *,
        request: Any,
        on_answered: Callable[[Any], None],
        on_lost: Callable[[Loss], None],
        late_ms: int | None = None,
        **fields: Any,
    ) -> int:
        """Send a request, and return its number. ``kind`` is the class of the effect, ``fields``
        are what it holds besides; ``on_answered`` gets the response."""
        number = self.last_correlation_id = self.last_correlation_id + 1
        self._open[number] = _Open(kind, on_answered, on_lost, late_ms)
        if late_ms is not None and (self.late_ms is None or late_ms < self.late_ms):
            self.late_ms = late_ms
        self._effects.append(kind(number, request, late_ms, **fields))
        return number

    def search(
        self,
        *,
        on_answered: Callable[[events.CoordinatorFound | events.CoordinatorSearchFailed], None],
        on_lost: Callable[[Loss], None],
    ) -> None:
        """Look for the coordinator; ``on_answered`` gets the event."""
        number = self.last_correlation_id = self.last_correlation_id + 1
        self._open[number] = _Open(effects.FindCoordinator, on_answered, on_lost, None)
        self._effects.append(effects.FindCoordinator(correlation_id=number))

    def answer(self, event: Any, content: Any) -> None:
        """A request was answered. Raises ProtocolBug if none of that number and kind is in
        flight."""
        request = self._open.get(event.correlation_id)
        if request is None or type(event) not in _ANSWERS[request.kind]:
            raise ProtocolBug(
                f"{type(event).__name__} answers request {event.correlation_id}, which is not in "
                "flight"
            )
        del self._open[event.correlation_id]
        if request.late_ms is not None:
            self._note_first_late()
        request.on_answered(content)

    def lose(self, correlation_id: int, loss: Loss) -> None:
        """A request will have no answer. Raises ProtocolBug if it is not in flight."""
        request = self._open.pop(correlation_id, None)
        if request is None:
            raise ProtocolBug(f"request {correlation_id} was lost, but it is not in flight")
        if request.late_ms is not None:
            self._note_first_late()
        request.on_lost(loss)

    def _note_first_late(self) -> None:
        """One whose answer could be too late is not in flight any more."""
        others = [one.late_ms for one in self._open.values() if one.late_ms is not None]
        self.late_ms = min(others, default=None)

    def lose_all(self, loss: Loss, *kinds: type) -> None:
        """The member has closed its connection: requests of these kinds are lost."""
        for number in [n for n, request in self._open.items() if request.kind in kinds]:
            self.lose(number, loss)

    def is_of(self, correlation_id: int, kind: type) -> bool:
        """Whether the request is in flight, and of this kind."""
        request = self._open.get(correlation_id)
        return request is not None and request.kind is kind

    def count(self, *kinds: type) -> int:
        """How many requests of these kinds are in flight."""
        # Asked after every event of a client: a loop costs half of what a generator does.
        count = 0
        for request in self._open.values():
            if request.kind in kinds:
                count += 1
        return count

    @property
    def open_numbers(self) -> tuple[int, ...]:
        """The numbers of all in flight, in the order of sending."""
        return tuple(self._open)
