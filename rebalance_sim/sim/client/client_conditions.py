"""What faults do to the processes of one client, for as long as their windows are open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.sim.network.cluster_requests import MetadataResponse


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Condition:
    """What one open window does to a client; two that say the same are still two.

    ``pauses``: the process does not run. ``stalls``: the application stays away from ``poll``.
    ``metadata_lags``: metadata stay as they are. ``callback_ms``: how long callbacks take.
    ``callbacks_fail``: they throw. Both are about callbacks of one kind, or (None) of all.
    """

    pauses: bool = False
    stalls: bool = False
    metadata_lags: bool = False
    callback_ms: int | None = None
    callbacks_fail: bool = False
    callback: CallbackKind | None = None


class ClientConditions:
    """The open windows of one client. A pause or a stall ends with the process that it hit.

    ``is_paused``: the process does not run. ``is_stalled``: the application stays away from
    ``poll``. ``clock_ahead_ms``: how far the wall clock of its host is ahead of the world's.
    """

    def __init__(self, draw_callback_ms: Callable[[], int]) -> None:
        self._draw_callback_ms = draw_callback_ms
        self._open: list[Condition] = []
        self._metadata: MetadataResponse | None = None
        self.is_paused = False
        self.is_stalled = False
        self.clock_ahead_ms = 0

    def open(self, condition: Condition) -> Callable[[], None]:
        """A window opens; the function closes it, if it is not closed already."""

        def close() -> None:
            if condition in self._open:
                self._open.remove(condition)
                self._refresh()

        self._open.append(condition)
        self._refresh()
        return close

    def on_new_process(self) -> None:
        """A process starts: it runs, and it polls."""
        self._open = [c for c in self._open if not c.pauses and not c.stalls]
        self._refresh()

    def _refresh(self) -> None:
        self.is_paused = any(condition.pauses for condition in self._open)
        self.is_stalled = any(condition.stalls for condition in self._open)

    # --- what a process asks ----------------------------------------------------------------------

    def callback_ms(self, kind: CallbackKind) -> int:
        """How long a callback takes that starts now. The usual length is drawn in any case, so that
        a fault shifts no later draw."""
        usual_ms = self._draw_callback_ms()
        slow = [
            condition.callback_ms
            for condition in self._open
            if condition.callback_ms is not None and condition.callback in (None, kind)
        ]
        return max(slow, default=usual_ms)

    def callback_fails(self, kind: CallbackKind) -> bool:
        """Whether a callback that ends now throws."""
        return any(c.callbacks_fail and c.callback in (None, kind) for c in self._open)

    def metadata_seen(self, metadata: MetadataResponse) -> MetadataResponse:
        """What the client takes for the present metadata when it asks now."""
        lags = any(condition.metadata_lags for condition in self._open)
        if not lags or self._metadata is None:
            self._metadata = metadata
        return self._metadata
