"""What faults do to the processes of one client, for as long as their windows are open."""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.clients import CallbackKind
from rebalance_sim.sim.faults.faults import (
    CallbackFailure,
    CallbackSlowdown,
    ClientPause,
    Fault,
    MetadataLag,
    PollStall,
)
from rebalance_sim.sim.network.cluster_requests import MetadataResponse

__all__ = ["ClientConditions"]


class ClientConditions:
    """The open windows of one client. A pause or a stall ends with the process that it hit.

    ``is_paused``: the process does not run. ``is_stalled``: the application stays away from
    ``poll``.
    """

    def __init__(self, draw_callback_ms: Callable[[], int]) -> None:
        self._draw_callback_ms = draw_callback_ms
        self._open: list[Fault] = []
        self._metadata: MetadataResponse | None = None
        self.is_paused = False
        self.is_stalled = False

    def begin(self, fault: Fault) -> None:
        """The window of a fault opens."""
        self._open.append(fault)
        self._refresh()

    def end(self, fault: Fault) -> None:
        """The window of a fault closes; nothing happens if it is closed already."""
        if fault in self._open:
            self._open.remove(fault)
            self._refresh()

    def on_new_process(self) -> None:
        """A process starts: it runs, and it polls."""
        self._open = [f for f in self._open if not isinstance(f, ClientPause | PollStall)]
        self._refresh()

    def _refresh(self) -> None:
        self.is_paused = any(isinstance(fault, ClientPause) for fault in self._open)
        self.is_stalled = any(isinstance(fault, PollStall) for fault in self._open)

    # --- what a process asks ----------------------------------------------------------------------

    def callback_ms(self, kind: CallbackKind) -> int:
        """How long a callback takes that starts now. The usual length is drawn in any case, so that
        a fault shifts no later draw."""
        usual_ms = self._draw_callback_ms()
        slow = [
            fault.callback_ms
            for fault in self._open
            if isinstance(fault, CallbackSlowdown) and fault.callback in (None, kind)
        ]
        return max(slow, default=usual_ms)

    def callback_fails(self, kind: CallbackKind) -> bool:
        """Whether a callback that ends now throws."""
        return any(
            isinstance(fault, CallbackFailure) and fault.callback in (None, kind)
            for fault in self._open
        )

    def metadata_seen(self, metadata: MetadataResponse) -> MetadataResponse:
        """What the client takes for the present metadata when it asks now."""
        lags = any(isinstance(fault, MetadataLag) for fault in self._open)
        if not lags or self._metadata is None:
            self._metadata = metadata
        return self._metadata
