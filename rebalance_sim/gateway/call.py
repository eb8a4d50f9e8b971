"""One request under way, and what its handler may use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from rebalance_sim.conformance.codec import Message
from rebalance_sim.gateway.host import GroupHost
from rebalance_sim.gateway.reports import Reports
from rebalance_sim.gateway.topics import Topics
from rebalance_sim.gateway.wire.frames import Request
from rebalance_sim.protocol.hosting.error_answers import error_answer
from rebalance_sim.protocol.hosting.routing import group_ids_of
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.transaction_messages import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

OF_TRANSACTIONS = (InitProducerIdRequest, EndTxnRequest, AddPartitionsToTxnRequest)
"""Requests that are about no group."""
NODE_ID = 0
CLUSTER_ID = "rebalance-sim-gateway"


class Site(Protocol):
    """The gateway, to those who handle requests."""

    host: GroupHost
    topics: Topics
    address: tuple[str, int]
    newest: dict[str, int]
    """API -> the newest version that is offered, where that is not the newest served."""

    reports: Reports

    def watch(self, group_id: str, client_id: str) -> None:
        """A request of this client, about this group, is about to be handled."""

    def notice_ends(self, client_id: str) -> None:
        """Connections that this client has closed have ended, whatever is still done for them."""


@dataclass(slots=True, eq=False)
class Call:
    """A request. ``error``: with what a rule wants it answered. ``commit_delay_ms``: how long what
    it writes waits to be committed. ``asked``: what the core was asked for it, each with its number
    (``Reports.sent``) and the answer, once there is one."""

    site: Site
    request: Request
    client_host: str
    error: ErrorCode | None = None
    commit_delay_ms: int = 0
    asked: list[tuple[int, Any, list[Any]]] = field(default_factory=list)
    is_settled: bool = False
    """Whether its sender has been answered, or will never be."""

    @property
    def message(self) -> Message:
        """What was sent."""
        return self.request.message

    @property
    def version(self) -> int:
        """Of the request."""
        return self.request.version

    async def ask(self, request: Any) -> Any:
        """The coordinator's answer to a request of the core."""
        self.site.notice_ends(self.request.client_id)
        answers: list[Any] = []
        # Who has given a request up before it came is past sending it.
        if not self.is_settled and (
            number := self.site.reports.sent(self.request.client_id, request)
        ):
            self.asked.append((number, request, answers))
        answers.append(await self._answer(request))
        return answers[0]

    def answered(self) -> None:
        """The answer is about to be sent."""
        if self.is_settled:
            return
        self.is_settled = True
        for number, request, answers in self.asked:
            self.site.reports.answered(self.request.client_id, number, request, answers[0])

    def lost(self) -> None:
        """The connection has ended before that."""
        if self.is_settled:
            return
        self.is_settled = True
        numbers = [number for number, _, _ in self.asked]
        self.site.reports.lost(self.request.client_id, numbers)

    async def _answer(self, request: Any) -> Any:
        if self.error is not None:
            return error_answer(request, self.error)
        if not isinstance(request, OF_TRANSACTIONS):
            for group_id in group_ids_of(request) or ():
                self.site.watch(group_id, self.request.client_id)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        host = self.site.host
        host.holds_commits_ms = self.commit_delay_ms
        try:
            host.handle(
                request,
                lambda response: None if answer.done() else answer.set_result(response),
                client_id=self.request.client_id,
                client_host=self.client_host,
            )
        finally:
            host.holds_commits_ms = 0
        return await answer


Handler = Callable[[Call], Awaitable[Message]]
