"""How the machines of a world come into being, so that something may watch each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.versions.semantics import Semantics


class Machines(Protocol):
    """Makes coordinators and members; without more, each as it is."""

    def coordinator(self, **settings: Any) -> GroupCoordinator:
        """The coordinator of a shard that begins to load; settings are those of its class."""
        return GroupCoordinator(**settings)

    def member(
        self,
        make: Callable[[Callable[[], float]], GroupMember],
        *,
        jitter: Callable[[], float],
        version: str | None,
        semantics: Semantics,
    ) -> GroupMember:
        """The member of a new process. ``make`` makes it, given what draws its jitter; ``version``
        is that of its library, None for the one that its kind is."""
        return make(jitter)


class SingleMachines(Machines):
    """Makes each machine as it is, with nothing beside it."""
