"""Clients of classic groups, played by hand: a connection, requests, and what comes back."""

from __future__ import annotations

from typing import Any

from rebalance_sim.protocol.wire.classic_messages import (
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupRequest,
    MemberIdentity,
    SyncGroupRequest,
)
from rebalance_sim.protocol.wire.embedded import Assignment, NamedPartitions, Subscription
from rebalance_sim.sim.network.network import Connection, ConnectionState, Purpose
from rebalance_sim.sim.world import World

__all__ = ["REBALANCE_MS", "SESSION_MS", "Driver", "assigned"]

SESSION_MS, REBALANCE_MS = 10_000, 20_000


def assigned(*numbers: int) -> Assignment:
    """An assignment of partitions of ``orders``."""
    return Assignment(partitions=(NamedPartitions("orders", numbers),))


class Driver:
    """One client; ``answers`` holds (time in ms, response) as they arrive.

    It remembers its member id and generation, and nothing else.
    """

    def __init__(
        self, world: World, name: str, *, broker: int = 0, group_id: str = "group"
    ) -> None:
        self.world = world
        self.name = name
        self.group_id = group_id
        self.member_id = ""
        self.generation_id = -1
        self.answers: list[tuple[int, Any]] = []
        self._sent = 0
        self.connect(broker)

    def connect(self, broker: int) -> None:
        """Open a new connection, beside any other."""
        self.connection = Connection(
            self.world.network,
            owner=self,
            client_name=self.name,
            broker=self.world.brokers[broker],
            purpose=Purpose.COORDINATOR,
        )
        self.connection.open()

    # -- what a connection tells ---------------------------------------------------------------

    def on_connected(self, connection: Connection) -> None:
        """Nothing to do."""

    def on_answer(self, connection: Connection, correlation_id: int, response: Any) -> None:
        """Write it down."""
        self.answers.append((self.world.now_ms, response))
        if getattr(response, "member_id", ""):
            self.member_id = response.member_id
        if getattr(response, "generation_id", -1) >= 0:
            self.generation_id = response.generation_id

    def on_closed(self, connection: Connection) -> None:
        """Nothing to do."""

    # -- requests ------------------------------------------------------------------------------

    def send(self, request: Any) -> None:
        """Send any request."""
        assert self.connection.state is ConnectionState.OPEN
        self._sent += 1
        self.connection.send(self._sent, request)

    def join(self, *topics: str, instance_id: str | None = None) -> None:
        """A JoinGroup with the one assignor ``range``."""
        metadata = Subscription(topics=topics or ("orders",))
        self.send(
            JoinGroupRequest(
                group_id=self.group_id,
                member_id=self.member_id,
                group_instance_id=instance_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                protocols=(JoinGroupProtocol("range", metadata),),
            )
        )

    def sync(self, assignments: dict[str, Assignment] | None = None) -> None:
        """A SyncGroup; with assignments it is the leader's."""
        self.send(
            SyncGroupRequest(
                group_id=self.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
                assignments=assignments or {},
            )
        )

    def heartbeat(self) -> None:
        """A Heartbeat."""
        self.send(
            HeartbeatRequest(
                group_id=self.group_id,
                generation_id=self.generation_id,
                member_id=self.member_id,
            )
        )

    def leave(self) -> None:
        """A LeaveGroup."""
        self.send(
            LeaveGroupRequest(group_id=self.group_id, members=(MemberIdentity(self.member_id),))
        )

    # -- what came -----------------------------------------------------------------------------

    @property
    def last(self) -> Any:
        """The newest answer."""
        return self.answers[-1][1]

    @property
    def codes(self) -> list[str]:
        """The codes of all answers so far."""
        return [response.error_code.name for _, response in self.answers]
