"""A broker cannot write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.sim.faults.broker_window import BrokerWindow
from rebalance_sim.sim.faults.fault import End, drawn_by
from rebalance_sim.sim.faults.ports import FaultWorld

_ERRORS = (WriteError.STORAGE, WriteError.NOT_ENOUGH_REPLICAS)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendFailure(BrokerWindow):
    """A broker refuses to write where it leads: its disk is full, or it wants more replicas in
    sync.

    A batch fails as a whole, and with it all requests that it was written for; what needs no write
    continues. ``error`` says which of the two it is: clients look for another coordinator, or wait
    for this one. A coordinator of 4.3.1 writes with ``acks=1``, which too few replicas do not
    refuse (``BrokerSpec.min_insync_replicas`` is how it really goes); that error is what one would
    report that is configured or patched to. What a broker gets from another leader it writes.
    """

    holds_up: ClassVar[bool] = True

    error: WriteError = field(
        default=WriteError.STORAGE, metadata=drawn_by(lambda draw, *_: draw.pick(_ERRORS))
    )

    def __post_init__(self) -> None:
        BrokerWindow.__post_init__(self)
        if self.error not in _ERRORS:
            known = ", ".join(error.value for error in _ERRORS)
            raise ValueError(f"error must be one of {known}, got {self.error.value}")

    def begin(self, world: FaultWorld) -> End | bool:
        broker = self.hit(world)
        if broker is None:
            return False
        broker.append_errors.append(self.error)
        return lambda: broker.append_errors.remove(self.error)
