"""What the checker remembers of one process of the classic protocol between its events."""

from __future__ import annotations

from rebalance_sim.invariants.explanation import Seen
from rebalance_sim.invariants.step import ClientView
from rebalance_sim.protocol.wire.topics import TopicPartition


class ClassicClientEntry:
    """A classic client as it was after its last event. ``outlived``: what it has gone on with since
    the coordinator told its JoinGroup that the group does not know it."""

    __slots__ = ("fetchable", "incarnation", "member", "name", "outlived", "version")

    def __init__(self, client: ClientView) -> None:
        self.name = client.name
        self.incarnation = client.incarnation
        self.member = client.member
        self.fetchable: frozenset[TopicPartition] = frozenset()
        self.outlived: dict[TopicPartition, Seen] = {}
        self.version = -1
