"""The way to the coordinator: looked up when something is to be sent, kept until it is refused.

Source: franz §2.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from rebalance_sim.protocol.clients.common.effects import SendRequest
from rebalance_sim.protocol.clients.common.events import CoordinatorFound, CoordinatorSearchFailed
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.franz.franz_core import (
    COORDINATOR_ERRORS,
    RETRIES,
    FranzCore,
)
from rebalance_sim.protocol.wire.errors import ErrorCode

_LOSSES_MOST = 2
"""Requests in a row that are lost before the metadata have shown that the broker is gone."""


class Coordinator:
    """The broker that the group's requests go to."""

    def __init__(self, core: FranzCore) -> None:
        self._core = core
        self._is_wanted = False
        self._is_in_flight = False
        self._fails = 0
        self._losses = 0
        self._due_ms = core.now_ms

    def is_known(self) -> bool:
        """Whether a request can be sent; if not, the coordinator is looked up."""
        if self._core.coordinator_id is not None:
            return True
        if not self._is_wanted:
            self._is_wanted = True
            self._core.change_count += 1
        return False

    def ready_ms(self, due_ms: int) -> int | None:
        """When what is due then can be done; None while the coordinator is being looked up."""
        is_away = self._core.coordinator_id is None and self._is_wanted
        return None if is_away else due_ms

    def _forget(self) -> None:
        """It is another one by now: look it up when it is needed next."""
        self._core.coordinator_id = None

    def note_lost(self) -> None:
        """A request to it was lost: the broker may be gone."""
        self._losses += 1
        if self._losses >= _LOSSES_MOST:
            self._losses = 0
            self._forget()

    def note_answered(self, code: ErrorCode) -> None:
        """It has answered, as coordinators do, or says that it is none."""
        if code in COORDINATOR_ERRORS:
            self._forget()
        else:
            self._losses = 0

    def run(self) -> None:
        """Look it up, if it is wanted and the backoff is over."""
        core = self._core
        if not self._is_due() or core.now_ms < self._due_ms:
            return
        self._is_in_flight = True
        core.requests.search(on_answered=self._on_answered, on_lost=self._on_lost)

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        return self._due_ms if self._is_due() else None

    def _is_due(self) -> bool:
        return self._is_wanted and self._core.coordinator_id is None and not self._is_in_flight

    def _on_answered(self, event: CoordinatorFound | CoordinatorSearchFailed) -> None:
        if not isinstance(event, CoordinatorFound):
            self._fail()
            return
        self._is_in_flight = self._is_wanted = False
        self._fails = self._losses = 0
        self._core.coordinator_id = event.node_id
        self._core.change_count += 1

    def _on_lost(self, loss: Loss) -> None:
        self._fail()

    def _fail(self) -> None:
        self._is_in_flight = False
        self._fails += 1
        self._due_ms = self._core.now_ms + self._core.retry_backoff_ms(self._fails)


class RetriedRequest:
    """One request at a time, sent again while it is lost, or refused by a broker that is not the
    coordinator, up to 20 times, and as long as the backoff ends within ``limit_ms``.

    ``request`` is what is sent, and sent again.
    """

    def __init__(self, core: FranzCore, coordinator: Coordinator, *, limit_ms: int) -> None:
        self._core = core
        self._coordinator = coordinator
        self._limit_ms = limit_ms
        self.request: Any = None
        self._send: Callable[..., int] | None = None  # while it waits, or is in flight
        self._on_over: Callable[[Any], None] | None = None
        self._due_ms: int | None = None  # None: in flight
        self._tries = 0
        self._began_ms = 0
        self._number = 0

    @property
    def is_open(self) -> bool:
        """Whether a request has no end yet."""
        return self._send is not None

    @property
    def is_in_flight(self) -> bool:
        """Whether an answer is awaited."""
        return self.is_open and self._due_ms is None

    def send(
        self,
        kind: type[SendRequest[Any]],
        request: Any,
        on_over: Callable[[Any], None],
        **fields: Any,
    ) -> None:
        """Send a request. ``on_over`` gets the answer; None: there is none."""
        self._number += 1
        self.request = request
        self._send = partial(self._core.requests.send, kind, **fields)
        self._on_over = on_over
        self._tries = 0
        self._began_ms = self._due_ms = self._core.now_ms
        self._core.change_count += 1

    def drop(self) -> None:
        """No one waits for it any more; what is in flight is not looked at."""
        self._number += 1
        self.request = self._send = self._on_over = self._due_ms = None

    def run(self) -> None:
        """Send what is due."""
        due_ms = self._due_ms
        if self._send is None or due_ms is None or self._core.now_ms < due_ms:
            return
        if not self._coordinator.is_known():
            return
        self._due_ms = None
        self._tries += 1
        self._send(
            request=self.request,
            on_answered=partial(self._on_answered, self._number),
            on_lost=partial(self._on_lost, self._number),
        )

    @property
    def deadline_ms(self) -> int | None:
        """When ``run`` has something to do."""
        due_ms = self._due_ms
        return None if due_ms is None else self._coordinator.ready_ms(due_ms)

    def _on_answered(self, number: int, response: Any) -> None:
        code = code_of(response)
        self._coordinator.note_answered(code)
        if number == self._number and not (code in COORDINATOR_ERRORS and self._retry()):
            self._end(response)

    def _on_lost(self, number: int, loss: Loss) -> None:
        self._coordinator.note_lost()
        if number == self._number and not self._retry():
            self._end(None)

    def _retry(self) -> bool:
        now_ms = self._core.now_ms
        at_ms = now_ms + self._core.retry_backoff_ms(self._tries)
        if self._tries > RETRIES or at_ms - self._began_ms > self._limit_ms:
            return False
        self._due_ms = at_ms
        return True

    def _end(self, response: Any) -> None:
        on_over = self._on_over
        self.drop()
        self._core.change_count += 1
        if on_over is not None:
            on_over(response)


def code_of(response: Any) -> ErrorCode:
    """The error of an answer; of a commit, that of its first partition."""
    code = getattr(response, "error_code", None)
    if code is None:
        errors = response.errors
        code = errors[min(errors)] if errors else ErrorCode.NONE
    return ErrorCode(code)
