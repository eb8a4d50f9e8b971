"""How a pod with a client in it is stopped, as Kubernetes does it."""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.clients import MembershipOperation
from rebalance_sim.sim.faults.ports import FaultWorld


def terminate(
    world: FaultWorld, name: str, *, grace_ms: int, again_in_ms: Callable[[], int | None]
) -> None:
    """SIGTERM, at which the application closes its consumer, and SIGKILL if the process still runs
    after ``grace_ms``. ``again_in_ms``: how long until the next process of this client starts, or,
    if that is later, the old one has ended; None: there is none."""
    clients = world.client_processes
    process = clients.live(name)
    delay_ms = again_in_ms()
    if delay_ms is None:
        clients.retire(name)
    else:
        clients.restart_later(name, delay_ms)
        clients.close(name, None, MembershipOperation.DEFAULT)

    def kill() -> None:
        if clients.live(name) is process:
            delay_ms = again_in_ms()
            clients.crash(name, None if delay_ms is None else max(0, delay_ms - grace_ms))

    if process is not None:
        world.later(grace_ms, kill)
