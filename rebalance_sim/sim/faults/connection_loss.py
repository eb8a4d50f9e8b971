"""The connection between a client and its coordinator breaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, ClassVar, Self

from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest, OffsetFetchRequest
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.network.link import Moment


class RequestKind(Enum):
    """What a request is for, in either protocol."""

    JOIN = "join"
    HEARTBEAT = "heartbeat"
    SYNC = "sync"
    LEAVE = "leave"
    COMMIT = "commit"
    OFFSET_FETCH = "offset_fetch"


def kind_of_request(request: Any) -> RequestKind | None:
    """What a request is for; None for what is none of these."""
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        if request.member_epoch == 0:
            return RequestKind.JOIN
        return RequestKind.LEAVE if request.member_epoch < 0 else RequestKind.HEARTBEAT
    return _KINDS.get(type(request))


_KINDS: dict[type, RequestKind] = {
    JoinGroupRequest: RequestKind.JOIN,
    HeartbeatRequest: RequestKind.HEARTBEAT,
    SyncGroupRequest: RequestKind.SYNC,
    LeaveGroupRequest: RequestKind.LEAVE,
    OffsetCommitRequest: RequestKind.COMMIT,
    OffsetFetchRequest: RequestKind.OFFSET_FETCH,
}

_CHOSEN_SHARE = 0.5
"""How many losses wait for a request of a certain kind, where they wait for a request at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLoss(Fault):
    """A TCP reset on the connection between a client and its coordinator.

    A NAT box or load balancer drops the flow, or the broker closes an idle connection. All requests
    in flight on it fail at the client; the client connects again.

    ``request``, with a ``moment`` that waits for a message: only a request of this kind, or its
    answer, will do.
    """

    reaches_admin: ClassVar[bool] = True

    client: str
    moment: Moment = Moment.NOW
    request: RequestKind | None = None

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if self.request is not None and self.moment is Moment.NOW:
            raise ValueError("request needs a moment: before_request, or before_response")

    def begin(self, world: FaultWorld) -> End | bool:
        if self.moment is Moment.NOW:
            return world.network.break_coordinator_connection(self.client)
        awaited = self.request
        world.network.link(self.client).break_at(
            self.moment,
            None if awaited is None else lambda request: kind_of_request(request) is awaited,
        )
        return True

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """Any request will do."""
        if self.request is not None:
            yield replace(self, request=None)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        client = targets.client(draw).name
        moment = draw.pick(tuple(Moment))
        # Drawn in any case: what a loss waits for shifts nothing else.
        is_chosen, kind = draw.chance(_CHOSEN_SHARE), draw.pick(tuple(RequestKind))
        chosen = kind if is_chosen and moment is not Moment.NOW else None
        yield cls(at_ms=at_ms, client=client, moment=moment, request=chosen)
