"""The server: connections, requests one after the other, and the faults that rules ask for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from rebalance_sim.conformance.as_on_a_broker import as_on_a_broker
from rebalance_sim.conformance.codec import Message
from rebalance_sim.conformance.errors import WireError
from rebalance_sim.gateway import http
from rebalance_sim.gateway.call import Call
from rebalance_sim.gateway.handlers.table import HANDLERS
from rebalance_sim.gateway.host import GroupHost
from rebalance_sim.gateway.laws import GroupViolation, Laws
from rebalance_sim.gateway.recording import Recordings
from rebalance_sim.gateway.reports import Reports
from rebalance_sim.gateway.rules import Action, Rule, Rules, groups_in
from rebalance_sim.gateway.settings import GatewaySettings
from rebalance_sim.gateway.steps import LogLost, Steps
from rebalance_sim.gateway.topics import LEADER_EPOCH, Topics
from rebalance_sim.gateway.wire.frames import (
    LARGE_BYTES,
    Request,
    Room,
    frame_of,
    read_frame,
    request_of,
)
from rebalance_sim.gateway.wire.records import batch_of, batches_in
from rebalance_sim.invariants.property import Stuck
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.wire.errors import ErrorCode

HOST = "127.0.0.1"
MAX_CONNECTIONS = 5_000
_KEPT_EXCHANGES = 200
_KEPT_ESCAPES = 100
_CLOSING_S = 0.2
_BACKLOG_BYTES = 64 * 1024
_LAST_COMMIT_WITHOUT_IDS = 9
_FIRST_OF_REPORTS = b"{"
"""A frame begins with its size, which is not so large."""
_ABOUT_REPORTERS = ("group", "client_id", "library", "protocol")
_CLOSING = (Action.CLOSE, Action.CLOSE_AFTER)


class Exchange(NamedTuple):
    """A request of a group, and its answer; None if there is none yet, or never will be."""

    at_ms: int
    client_id: str
    api: str
    version: int
    message: Message
    answer: list[Message | None]
    fault: str

    def __str__(self) -> str:
        (answer,) = self.answer
        if self.api == "report":
            return f"{self.at_ms} ms {self.client_id} reports\n  {_short(self.message)}"
        fault = f"  [{self.fault}]" if self.fault else ""
        return (
            f"{self.at_ms} ms {self.client_id or '-'} {self.api} v{self.version}{fault}\n"
            f"  {_short(self.message)}\n"
            f"  -> {'no answer yet' if answer is None else _short(answer)}"
        )


class Found(NamedTuple):
    """A violated property with the exchanges of its group before it, the last one last."""

    violation: GroupViolation
    exchanges: tuple[Exchange, ...]

    def __str__(self) -> str:
        before = "\n".join(str(one) for one in self.exchanges)
        return f"{self.violation}\nbefore it:\n{before}"


class Server:
    """To be made and used inside one event loop. ``violations`` and ``escapes`` are those of the
    session. ``records_traces``: whether there are ``recordings`` of groups, which take memory."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        on_violation: Callable[[Found], object] = lambda found: None,
        records_traces: bool = True,
    ) -> None:
        semantics = as_on_a_broker(settings.rules_of_protocol())
        self.settings = settings
        self.rules = Rules(settings.rules, seed=settings.seed)
        self.topics = Topics()
        for name, count in settings.topics.items():
            self.topics.set(name, count)
        self.newest: dict[str, int] = {}
        if not semantics.coordinator.writes_topic_id_of_offsets:
            versions = dict.fromkeys(("OffsetCommit", "OffsetFetch"), _LAST_COMMIT_WITHOUT_IDS)
            self.newest = versions
        self.violations: list[Found] = []
        self.escapes: list[Exception] = []
        self.address = (HOST, 0)
        self._on_violation = on_violation
        self._records_traces = records_traces
        self._exchanges: deque[Exchange] = deque(maxlen=_KEPT_EXCHANGES)
        self._connections: dict[asyncio.Task[None], str | None] = {}
        """Each with the client id of its last request; None: none yet, or it brings reports."""
        self._open: dict[Call, asyncio.StreamReader] = {}
        """Requests under way."""
        self._room = Room()
        self.steps = Steps()
        self.laws = Laws(
            config=settings.coordinator, semantics=semantics, on_violation=self._violated
        )
        self.host = GroupHost(
            config=settings.coordinator,
            semantics=semantics,
            topics=self.topics,
            listener=self.steps,
        )
        self.steps.shard = self.host
        self.recordings = Recordings(settings.coordinator, semantics)
        self.reports = Reports(
            self.topics,
            lambda: self.host.now_ms,
            self.committed,
            self._client_step,
            self._note_report,
        )
        self.steps.watchers += (self.laws.after_step, self.recordings.after_step)

    async def start(self, port: int = 0, *, host: str = HOST, advertised_host: str = "") -> None:
        """Serve on a port of this machine, 0: any free one, at an address of it; clients are told
        to connect to ``advertised_host``, or to that address. Raises OSError if it is taken."""
        self.host.load()
        self._server = await asyncio.start_server(self._connected, host, port, limit=_BACKLOG_BYTES)
        taken: int = self._server.sockets[0].getsockname()[1]
        self.address = advertised_host or host, taken

    async def stop(self) -> None:
        """Close everything."""
        self._server.close()
        self.host.stop()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        # Who does not read what is left for it holds nothing up.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), _CLOSING_S)

    def watch(self, group_id: str, client_id: str) -> None:
        """As of ``Site``. Nothing about a group without a name: records of transactions have none,
        either."""
        if not group_id:
            return
        self.laws.watch(group_id, self.host)
        if self._records_traces:
            self.recordings.watch(group_id, self.topics.image)
        self.recordings.client_id = client_id

    def notice_ends(self, client_id: str) -> None:
        """As of ``Site``."""
        for call, reader in list(self._open.items()):
            if call.request.client_id == client_id and reader.at_eof():
                call.lost()

    def move_coordinator(self, *, lost_records: int = 0, load_ms: int = 0) -> None:
        """The coordinator gives up its groups, and loads them again. Raises ValueError for less
        than 0."""
        if min(lost_records, load_ms) < 0:
            raise ValueError("lost_records and load_ms are 0 or more")
        if lost_records:
            self.steps.show(StepKind.FAULT, fault=LogLost(), detail="records are lost")
        self.host.move(lost_records=lost_records, after_ms=load_ms)

    def close_connections(self, client_id: str) -> None:
        """Close the connections of a client; ``*`` stands for any letters."""
        for task, owner in list(self._connections.items()):
            if owner is not None and fnmatchcase(owner, client_id):
                task.cancel()

    # -- topics and groups -----------------------------------------------------------------------

    def add_records(self, topic: str, values: Sequence[bytes], partition: int | None) -> None:
        """Append records: to one partition, or to all in turn. Raises KeyError for a topic, and
        IndexError for a partition, that there is not."""
        logs = self.topics.named(topic).partitions
        if partition is not None and not 0 <= partition < len(logs):
            raise IndexError(f"topic {topic!r} has {len(logs)} partitions, and no {partition}")
        parts: dict[int, list[bytes]] = {}
        for number, value in enumerate(values):
            parts.setdefault(number % len(logs) if partition is None else partition, []).append(
                value
            )
        for number, rows in parts.items():
            log = logs[number]
            log.append(batches_in(batch_of(rows, self.host.now_ms), log.end_offset, LEADER_EPOCH))
        self.topics.on_append()

    def set_topic(self, name: str, partition_count: int) -> None:
        """Make a topic, or give it more partitions."""
        self.topics.set(name, partition_count)
        self.host.show_topics()

    def delete_topic(self, name: str) -> None:
        """Delete a topic. Raises KeyError if there is none."""
        self.topics.delete(name)
        self.host.show_topics()

    @property
    def group_ids(self) -> Sequence[str]:
        """The groups that requests have named; without traces, those that are watched."""
        return self.recordings.group_ids if self._records_traces else self.laws.group_ids

    def state(self, group_id: str) -> str:
        """The state of a group, as Kafka names it; empty without a group."""
        self.host.advance()
        group = self.host.coordinator.project(group_id)
        return "" if group is None else group.state

    def members(self, group_id: str) -> frozenset[str]:
        """The ids of the members of a group."""
        self.host.advance()
        group = self.host.coordinator.project(group_id)
        return frozenset() if group is None else frozenset(group.members)

    def unsettled(self, group_id: str) -> list[Stuck]:
        """What has to happen once nothing disturbs a group, and has not yet."""
        self.host.advance()
        return self.laws.unsettled(group_id, self.host.now_ms)

    def not_judged(self, group_id: str) -> list[str]:
        """What is not judged of a group, each in a line."""
        refused = self.reports.refused
        more = [f"what was reported wrongly, such as: {refused[0]}"] if refused else []
        return [*self.laws.not_judged(group_id), *more]

    def end_offsets(self, topic: str) -> Mapping[tuple[str, int], int]:
        """Topic and partition -> offset of the next record. Raises KeyError without a topic."""
        logs = self.topics.named(topic).partitions
        return {(topic, number): log.end_offset for number, log in enumerate(logs)}

    def committed(self, group_id: str) -> Mapping[tuple[str, int], int]:
        """Topic and partition -> committed offset."""
        stored = self.host.coordinator.offsets.committed_of_group(group_id)
        return {partition: value.offset for partition, value in stored.items()}

    # -- connections -----------------------------------------------------------------------------

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) < MAX_CONNECTIONS:
            self._connections[task] = None
            try:
                with suppress(asyncio.CancelledError):  # by us, to close it
                    await self.serve(reader, writer)
            finally:
                del self._connections[task]
        writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other until the connection is to be closed.

        An exception that is no client's doing is a bug of this project; it is kept in
        ``escapes``.
        """
        try:
            first = await reader.read(1)
            task = asyncio.current_task()
            if first == _FIRST_OF_REPORTS:
                await self.reports.serve(first, reader, writer)
                return
            if first in http.FIRST_BYTES:
                await http.serve(self, first, reader, writer)
                return
            while (frame := await read_frame(reader, first, self._room)) is not None:
                first, request = b"", request_of(frame)
                if task in self._connections:
                    self._connections[task] = request.client_id
                rule = self.rules.take(request)
                call = Call(self, request, f"/{HOST}")
                self._open[call] = reader
                try:
                    if await self._answer(call, rule, writer):
                        continue
                    if rule is not None and rule.action not in _CLOSING:
                        await _hear_nothing(reader, rule.delay_ms)
                    return
                finally:
                    del self._open[call]
                    call.lost()
        except (WireError, ConnectionError):
            pass
        except Exception as problem:
            if len(self.escapes) < _KEPT_ESCAPES:
                self.escapes.append(problem)

    async def _answer(self, call: Call, rule: Rule | None, writer: asyncio.StreamWriter) -> bool:
        """Handle a request as its rule wants it. False: it is not answered."""
        request = call.request
        action = None if rule is None else rule.action
        answers: list[Message | None] = [None]
        self._note(request, answers, "" if action is None else action.value)
        if action in (Action.CLOSE, Action.SILENCE):
            return False
        if rule is not None:
            await self._prepare(rule, call)
        answers[0] = message = await HANDLERS[request.api.name](call)
        if action in (Action.CLOSE_AFTER, Action.LOSE_ANSWER):
            return False
        if rule is not None and action is Action.DELAY_ANSWER:
            await asyncio.sleep(rule.delay_ms / 1000)
        call.answered()
        is_unasked = request.api.name == "Produce" and request.message["acks"] == 0
        if not is_unasked:
            frame = frame_of(request, message)
            if len(frame) > LARGE_BYTES:
                answers[0] = {"bytes": len(frame)}
            with self._room.hold(len(frame)):
                writer.write(frame)
                await writer.drain()
        return True

    async def _prepare(self, rule: Rule, call: Call) -> None:
        if rule.action is Action.DELAY_REQUEST:
            await asyncio.sleep(rule.delay_ms / 1000)
        elif rule.action is Action.DELAY_COMMIT:
            call.commit_delay_ms = rule.delay_ms
        elif rule.action is Action.ERROR:
            call.error = ErrorCode[rule.error]
        elif rule.action is Action.MOVE_COORDINATOR:
            self.move_coordinator(lost_records=rule.lost_records, load_ms=rule.load_ms)

    # -- what was seen ---------------------------------------------------------------------------

    def _note(self, request: Request, answers: list[Message | None], fault: str) -> None:
        group_ids = groups_in(request.message)
        if fault or (group_ids and request.api.name != "FindCoordinator"):
            shown = request.message
            if request.size > LARGE_BYTES:
                shown = {
                    "bytes": request.size,
                    "group_ids": [g for g in group_ids[:10] if len(g) < 1_000],
                }
            about = self.host.now_ms, request.client_id, request.api.name, request.version
            self._exchanges.append(Exchange(*about, shown, answers, fault))

    def _note_report(self, group_id: str, said: Mapping[str, Any]) -> None:
        shown = {"group_id": group_id} | {
            key: value for key, value in said.items() if key not in _ABOUT_REPORTERS
        }
        at_ms, client_id = self.host.now_ms, str(said.get("client_id"))
        self._exchanges.append(Exchange(at_ms, client_id, "report", 0, shown, [{}], ""))

    def _client_step(self, group_id: str, step: Step) -> None:
        self.host.advance()
        step.at_ms = self.host.now_ms
        self.steps.number(step)
        self.laws.after_client_step(group_id, step, self.reports.clients, self.host)

    def _violated(self, violation: GroupViolation) -> None:
        of_group = [one for one in self._exchanges if violation.group_id in groups_in(one.message)]
        found = Found(violation, tuple(of_group[-10:]))
        self.violations.append(found)
        self._on_violation(found)


async def _hear_nothing(reader: asyncio.StreamReader, until_ms: int) -> None:
    """Take what comes until the client closes the connection, or this time is over (0: never)."""

    async def hear() -> None:
        while await reader.read(_BACKLOG_BYTES):
            pass

    with suppress(TimeoutError):
        await asyncio.wait_for(hear(), until_ms / 1000 or None)


def _short(message: Any) -> str:
    """A message in a line, without what is empty."""
    text = repr({key: value for key, value in message.items() if value not in (None, b"", [], ())})
    return text if len(text) <= 400 else f"{text[:400]} ..."
