"""What all clients of a world share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rebalance_sim.invariants.step import ClientView
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.client.ports import ClientSteps
from rebalance_sim.sim.client.task_store import TaskStore
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.data_plane.data_plane import DataPlane
from rebalance_sim.sim.machines import Machines
from rebalance_sim.sim.network.network import Network
from rebalance_sim.sim.streams import Streams


@dataclass(slots=True, kw_only=True)
class ClientEnvironment:
    """``group_of``: the group that a client belongs to. ``on_gone``: a process has closed its
    consumer and ended. ``machines`` makes members. ``task_stores`` are those of Streams instances,
    by group and process id.
    """

    clock: Clock
    streams: Streams
    network: Network
    data_plane: DataPlane
    semantics: Semantics
    steps: ClientSteps
    group_of: Callable[[ClientSpec], str]
    on_gone: Callable[[ClientView], None]
    machines: Machines
    task_stores: dict[tuple[str, str], TaskStore] = field(default_factory=dict)
