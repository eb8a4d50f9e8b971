"""Which clients of a scenario leave for good."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash
from rebalance_sim.sim.faults.deployments import SurgeDeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.scaling import Rollout


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
