"""A world as a property about some kinds of client sees it: without the clients of other kinds."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.step import ClientView, ShardView, WorldView


class ViewOfKinds:
    """A ``WorldView`` in which all clients are of these kinds: those of now, for one full check."""

    def __init__(self, view: WorldView, kinds: tuple[str, ...]) -> None:
        self._view = view
        self._clients = {n: c for n, c in view.clients().items() if c.member.kind in kinds}
        self.group_id = view.group_id
        self.config = view.config
        self.semantics = view.semantics

    @property
    def has_data_plane(self) -> bool:
        """As of the world."""
        return self._view.has_data_plane

    @property
    def now_ms(self) -> int:
        """As of the world."""
        return self._view.now_ms

    def acting_shard(self) -> ShardView | None:
        """As of the world."""
        return self._view.acting_shard()

    def clients(self) -> Mapping[str, ClientView]:
        """Client name -> its present process, in ascending name."""
        return self._clients
