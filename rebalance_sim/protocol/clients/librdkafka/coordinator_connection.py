"""The way to the coordinator: searches, the connection, and what its loss means.

Source: client §10.1 (rows "connection lost", "connection closed", "NOT_COORDINATOR") and
client §2.5. Several searches may be under way: librdkafka asks again whenever it has a reason to,
and once more when it has just learnt of a coordinator that it did not know.
"""

from __future__ import annotations

from collections.abc import Callable

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.common.backoff import BACKOFF_JITTER
from rebalance_sim.protocol.clients.common.deadlines import earliest
from rebalance_sim.protocol.clients.common.effects import (
    CloseConnection,
    ConnectCoordinator,
)
from rebalance_sim.protocol.clients.common.events import CoordinatorFound, CoordinatorSearchFailed
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import nobody_listens
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import LibrdkafkaCore
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState
from rebalance_sim.protocol.wire.errors import ErrorCode

_S = CoordinatorState

# Members of enums that every event asks for: to look one up takes as long as a call.
_INIT = _S.INIT
_TERM = _S.TERM
_UP = _S.UP
_WAIT_BROKER_TRANSPORT = _S.WAIT_BROKER_TRANSPORT

COORDINATOR_QUERY_INTERVAL_MS = 600_000  # coordinator.query.interval.ms

_QUERY_INTERVAL_MS = {
    _S.QUERY_COORD: 500,
    _WAIT_BROKER_TRANSPORT: 1_000,
    _UP: COORDINATOR_QUERY_INTERVAL_MS,
}
"""How long after the last search another one is due, by the state."""

_QUERY_JITTER_BASE_MS = 500

_NEXT_BROKER_MS = 50
"""After a lost search another broker is asked at once; if that is lost too, after so long, then
twice as long, up to the interval. librdkafka asks when one of its connections is up."""

_RECONNECT_MIN_MS = 100
_RECONNECT_MAX_MS = 10_000
"""``reconnect.backoff.ms`` and ``.max.ms`` of librdkafka; jitter -25 % to +50 %."""

_RETRIABLE = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT})


class CoordinatorLink:
    """Finds the coordinator and keeps a connection to it.

    ``on_up`` is called when requests can be sent again, ``on_cut`` when the member itself has
    closed the connection, so that what was in flight has failed, and how.
    """

    def __init__(self, core: LibrdkafkaCore, application: Application) -> None:
        self._core = core
        self._application = application
        self._node_id: int | None = None
        self._is_connected = False
        self._is_connecting = False
        self._cut_ms: int | None = None  # when the member closed the connection, and opened another
        self._lost_searches = 0
        self._lost_search_ms: int | None = None
        self._last_query_ms: int | None = None  # None: the next search is due at once
        self._query_backoff_ms = 0
        self._search_due_ms = core.now_ms  # not before, after a lost search
        self._next_search_ms: int | None = None  # as it follows from these and the state
        self._last_reconnect_ms: int | None = None
        self._reconnect_backoff_ms = _RECONNECT_MIN_MS
        self._reconnect_due_ms = core.now_ms
        self.on_up: Callable[[], None] = nobody_listens
        self.on_cut: Callable[[Loss], None] = nobody_listens

    def is_up(self) -> bool:
        """Whether requests can be sent to the coordinator."""
        return self._core.coordinator_state is _UP

    @property
    def is_reconnecting(self) -> bool:
        """Whether the member has just closed the connection, and another is not up yet."""
        return self._cut_ms is not None

    # --- the manager ------------------------------------------------------------------------------

    def run(self) -> None:
        """Search and connect, as far as either is due."""
        core = self._core
        state = core.coordinator_state
        if state is _TERM:
            return
        if state is _INIT:
            self._set_state(_S.QUERY_COORD)
        if self._cut_ms is not None and core.now_ms > self._cut_ms:
            self._cut_ms = None
            if self.is_up():
                self._set_state(_S.QUERY_COORD)
        if core.coordinator_state is _WAIT_BROKER_TRANSPORT and self._is_connected:
            self._set_state(_UP)
            self.on_up()
        else:
            deadline_ms = self._next_search_ms
            if deadline_ms is not None and core.now_ms >= deadline_ms:
                self.search()
        if not self._is_connected and self._may_connect() and core.now_ms >= self._reconnect_due_ms:
            self._connect()

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        due_ms = self._next_search_ms
        if self._cut_ms is not None:
            due_ms = earliest(due_ms, self._cut_ms + 1)
        if not self._is_connected and self._may_connect():
            due_ms = earliest(due_ms, self._reconnect_due_ms)
        return due_ms

    def _plan_search(self) -> None:
        """The state has changed, or when a search was made, or may be made."""
        interval_ms = _QUERY_INTERVAL_MS.get(self._core.coordinator_state)
        if interval_ms is None:
            self._next_search_ms = None
        elif self._last_query_ms is None:
            self._next_search_ms = self._search_due_ms
        else:
            next_ms = self._last_query_ms + interval_ms + self._query_backoff_ms
            self._next_search_ms = max(next_ms, self._search_due_ms)

    def _may_connect(self) -> bool:
        return (
            self._node_id is not None
            and not self._is_connecting
            and self._core.coordinator_state is not _TERM
        )

    def _connect(self) -> None:
        core = self._core
        last_ms = self._last_reconnect_ms
        if last_ms is None or core.now_ms - last_ms > _RECONNECT_MAX_MS:
            self._reconnect_backoff_ms = _RECONNECT_MIN_MS
        # -25 % to +50 %; without jitter the nominal length.
        jitter = core.jitter()
        share = 1 + jitter * (0.5 if jitter > 0 else 0.25)
        backoff_ms = min(int(self._reconnect_backoff_ms * share), _RECONNECT_MAX_MS)
        self._last_reconnect_ms = core.now_ms
        self._reconnect_due_ms = core.now_ms + backoff_ms
        self._reconnect_backoff_ms = min(2 * self._reconnect_backoff_ms, _RECONNECT_MAX_MS)
        self._is_connecting = True
        assert self._node_id is not None
        core.effects.append(ConnectCoordinator(node_id=self._node_id))

    # --- searches ---------------------------------------------------------------------------------

    def search(self) -> None:
        """Ask a broker for the coordinator, whatever is under way already."""
        core = self._core
        if core.coordinator_state is _TERM:
            return
        core.requests.search(on_answered=self._on_answered, on_lost=self._on_search_lost)
        if core.coordinator_state is _S.QUERY_COORD:
            self._set_state(_S.WAIT_COORD)
        self._last_query_ms = core.now_ms
        self._query_backoff_ms = int(_QUERY_JITTER_BASE_MS * BACKOFF_JITTER * core.jitter())
        self._plan_search()

    def _on_answered(self, event: CoordinatorFound | CoordinatorSearchFailed) -> None:
        if isinstance(event, CoordinatorFound):
            self._on_found(event.node_id)
        else:
            self._on_error(event.error_code)

    def _on_found(self, node_id: int) -> None:
        self._lost_searches = 0
        is_news = node_id != self._node_id
        if is_news:
            self._forget_coordinator()
            self._node_id = node_id
            self._core.expedite_heartbeat()
            self._last_query_ms = None
            self._search_due_ms = self._core.now_ms
            self._reconnect_due_ms = self._core.now_ms
            self._plan_search()
        if is_news or not self.is_up():
            self._set_state(_WAIT_BROKER_TRANSPORT)

    def _on_error(self, error_code: ErrorCode) -> None:
        """The next search comes on the interval."""
        if error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._forget_coordinator()
        elif error_code not in _RETRIABLE:
            self._application.queue_error(error_code, "FindCoordinator response error")
        self._set_state(_S.QUERY_COORD)

    def _on_search_lost(self, loss: Loss) -> None:
        if self._core.coordinator_state is not _TERM:
            self._put_search_off()
            self._set_state(_S.QUERY_COORD)

    def _put_search_off(self) -> None:
        now_ms = self._core.now_ms
        if self._lost_search_ms == now_ms:
            return  # several were under way on one connection
        self._lost_search_ms = now_ms
        wait_ms = 0
        if self._lost_searches:
            wait_ms = _NEXT_BROKER_MS << min(self._lost_searches - 1, 10)
        self._lost_searches += 1
        self._last_query_ms = None
        self._search_due_ms = now_ms + min(wait_ms, _QUERY_INTERVAL_MS[_S.QUERY_COORD])
        self._plan_search()

    # --- the connection ---------------------------------------------------------------------------

    def on_connected(self) -> None:
        """The connection is up."""
        self._cut_ms = None
        self._is_connecting = False
        self._is_connected = True

    def on_closed(self, *, is_isolated: bool) -> None:
        """The connection is gone, or was not established. An isolated client restarts: it looks
        for its coordinator as if it had never known one."""
        self._is_connecting = False
        self._is_connected = False
        if is_isolated and self._node_id is not None:
            self._node_id = None
            self._core.expedite_heartbeat()
        if self.is_up() or (
            self._node_id is None and self._core.coordinator_state is _WAIT_BROKER_TRANSPORT
        ):
            self._set_state(_S.QUERY_COORD)

    def mark_dead(self) -> None:
        """The coordinator has moved, or a commit was lost with the connection: forget it, and look
        for it again at once."""
        if self._core.coordinator_state is _TERM:
            return
        self._forget_coordinator()
        self._set_state(_S.QUERY_COORD)
        self.search()

    def cut(self) -> None:
        """Close the connection, and open another at once. If that takes any time, the coordinator
        counts as lost until it is there: it may be another one by now."""
        if self._node_id is None:
            return
        self._cut_ms = self._core.now_ms
        self._core.effects.append(CloseConnection(node_id=self._node_id))
        self._is_connected = False
        self._connect()
        self.on_cut(Loss.CUT)

    def close(self) -> None:
        """The end: nothing is searched, connected or sent any more."""
        self._set_state(_TERM)

    def _forget_coordinator(self) -> None:
        """No one is the coordinator; a known one is disconnected, with all that is in flight."""
        if self._node_id is None:
            return
        self._core.effects.append(CloseConnection(node_id=self._node_id))
        self._node_id = None
        self._is_connected = self._is_connecting = False
        self._core.expedite_heartbeat()
        self.on_cut(Loss.TRANSPORT)

    def _set_state(self, state: CoordinatorState) -> None:
        self._core.set_coordinator_state(state)
        self._core.coordinator_id = self._node_id if state is _UP else None
        self._plan_search()
