"""Which clients of a scenario leave for good."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.sim.faults.client_close import ClientClose
from rebalance_sim.sim.faults.client_crash import ClientCrash
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.rollout import Rollout
from rebalance_sim.sim.faults.surge_deploy import SurgeDeploy


def gone_for_good(faults: Iterable[Fault]) -> frozenset[str]:
    """The clients that no process follows: closed or killed without a return, or replaced by
    others. Those that replace them are there again, though they were closed before."""
    gone: set[str] = set()
    for fault in sorted(faults, key=lambda one: one.at_ms):
        if isinstance(fault, ClientClose | ClientCrash) and fault.down_ms is None:
            gone.add(fault.client)
        elif isinstance(fault, SurgeDeploy | Rollout) and fault.successors:
            gone.difference_update(fault.successors)
            gone.update(fault.clients)
    return frozenset(gone)
