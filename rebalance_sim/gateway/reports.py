"""What applications report of themselves, and what their clients send: steps for the properties
that can be judged from outside.

A report is a line of JSON over a connection of its own, and is answered with a line: ``ok``, or
what is wrong with it. A client reports a callback before it returns from it, and records before it
polls again; what it reports stands before whatever it sends after the answer.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from rebalance_sim.gateway.reported import ReportedClient, ReportedMember
from rebalance_sim.gateway.topics import Topics
from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.clients.common import events
from rebalance_sim.protocol.clients.common.client_kind import GroupProtocol
from rebalance_sim.protocol.clients.common.effects import (
    CommitReturned,
    RunCallback,
    SendCommit,
    SendHeartbeat,
)
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.kinds import JAVA_KINDS, kind_of
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.topics import TopicPartition

MAX_REPORTERS = 1_000
_KEPT_REFUSED = 10
_CALLBACKS = {
    "assigned": CallbackKind.ASSIGNED,
    "revoked": CallbackKind.REVOKED,
    "lost": CallbackKind.LOST,
}
_LENIENT = "librdkafka"
"""As what other libraries are judged: it is allowed most."""
_EVENTS = ("started", *_CALLBACKS, "polled", "committing", "committed", "stopped")

Show = Callable[[str, Step], None]
"""Shows a step of a client to the properties of its group."""


class _Wrong(Exception):
    """What is wrong with a report."""


@dataclass(slots=True, eq=False)
class _Known:
    """A client that reports. ``held``: steps about commits that wait for its next report, as a
    client may commit what its application has got and not reported yet. ``heartbeats``: the last
    two, as laws tell one that is repeated by being the same."""

    group_id: str
    view: ReportedClient
    waits_to_report: bool
    held: list[Step] = field(default_factory=list)
    heartbeats: deque[Any] = field(default_factory=lambda: deque(maxlen=2))


class Reports:
    """Clients that report, by ``client.id``. ``now_ms``: the gateway's clock; ``committed``: the
    committed offsets of a group; ``note`` is called with each report that says something, and its
    group."""

    def __init__(
        self,
        topics: Topics,
        now_ms: Callable[[], int],
        committed: Callable[[str], Mapping[tuple[str, int], int]],
        show: Show,
        note: Callable[[str, Mapping[str, Any]], object],
    ) -> None:
        self._topics = topics
        self._now_ms = now_ms
        self._committed = committed
        self._show_to = show
        self._note = note
        self._known: dict[str, _Known] = {}
        self._numbers = count(1)
        self._incarnations = count(1)
        self.started_count = 0
        self.refused: list[str] = []
        """What was wrong with reports, of the first ones that were."""

    def clients(self, group_id: str) -> Mapping[str, ReportedClient]:
        """Those of a group that have not ended, by name."""
        rows = sorted(self._known.items())
        return {name: known.view for name, known in rows if known.group_id == group_id}

    # -- the connection --------------------------------------------------------------------------

    async def serve(
        self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer reports, of which ``first`` is the beginning, until the connection ends; who has
        not said that it has stopped is taken for one that was killed."""
        mine: set[str] = set()
        try:
            with suppress(ConnectionError, ValueError):  # a line that is too long
                while line := first + await reader.readline():
                    writer.write(self.report(line, mine).encode() + b"\n")
                    await writer.drain()
                    first = b""
        finally:
            for name in sorted(mine):
                self._end(name)

    def report(self, line: bytes, mine: set[str]) -> str:
        """Take a report; the answer to it. ``mine``: clients of this connection."""
        try:
            said = json.loads(line)
            if not isinstance(said, dict):
                raise _Wrong("a report is an object of JSON")
            self._take(said, mine)
        except (_Wrong, UnicodeDecodeError, RecursionError) as problem:
            return self._refused(str(problem))
        except json.JSONDecodeError as problem:
            return self._refused(f"no JSON: {problem}")
        return "ok"

    def _refused(self, problem: str) -> str:
        if len(self.refused) < _KEPT_REFUSED:
            self.refused.append(problem)
        return problem

    def _take(self, said: Mapping[str, Any], mine: set[str]) -> None:
        event, name = _text(said, "event"), _text(said, "client_id")
        if event != "polled" or said.get("records"):
            self._note(_text(said, "group"), said)
        if event == "started":
            self._start(name, said, mine)
            return
        if name not in mine:
            raise _Wrong(f"client_id {name!r} has not started on this connection")
        known = self._known[name]
        for step in known.held:
            self._show(known, step)
        known.held.clear()
        if event in _CALLBACKS:
            self._callback(known, _CALLBACKS[event], said)
        elif event == "polled":
            self._polled(known, said)
        elif event in ("committing", "committed"):
            self._commit(known, event, said)
        elif event == "stopped":
            known.view.reported.close()
            mine.discard(name)
            self._end(name)
        else:
            raise _Wrong(f"no event {event!r}: one of {', '.join(_EVENTS)}")

    def _start(self, name: str, said: Mapping[str, Any], mine: set[str]) -> None:
        if name in self._known:
            raise _Wrong(f"client_id {name!r} has started already: give each process its own")
        if len(self._known) >= MAX_REPORTERS:
            raise _Wrong(f"there are {MAX_REPORTERS} clients that report already")
        try:
            protocol = GroupProtocol(_text(said, "protocol"))
        except ValueError:
            raise _Wrong("protocol is classic or consumer") from None
        try:
            kind = kind_of(_text(said, "library"), protocol).name
        except KeyError:
            kind = kind_of(_LENIENT, protocol).name
        group_id = _text(said, "group")
        is_classic = protocol is GroupProtocol.CLASSIC
        is_earliest = said.get("auto_offset_reset") == "earliest"

        def starts_at(partition: TopicPartition) -> int | None:
            key = partition.topic_id.rpartition("#")[0], partition.partition
            return self._committed(group_id).get(key, 0 if is_earliest else None)

        member = ReportedMember(
            kind,
            group_id=group_id,
            is_classic=is_classic,
            starts_at=starts_at,
            log_end=self._log_end,
        )
        view = ReportedClient(name, next(self._incarnations), member, self._log_end)
        known = self._known[name] = _Known(group_id, view, kind not in JAVA_KINDS)
        self.started_count += 1
        mine.add(name)
        self._show(known, self._step(known, None, kind=StepKind.CLIENT_STARTED))

    def _end(self, name: str) -> None:
        known = self._known.pop(name)
        known.view.is_alive = False
        self._show(known, self._step(known, None, kind=StepKind.CLIENT_CRASHED))

    # -- reports ---------------------------------------------------------------------------------

    def _callback(self, known: _Known, kind: CallbackKind, said: Mapping[str, Any]) -> None:
        member = known.view.reported
        named = _object(said, "partitions")
        partitions = frozenset(
            self._partition(known, topic, number)
            for topic, numbers in named.items()
            for number in _list(numbers, "partitions")
        )
        member.tell(kind, partitions)
        effect = member.running = RunCallback(kind=kind, partitions=partitions)
        self._show(known, self._step(known, events.Tick(), effect))
        member.running = None
        self._show(known, self._step(known, events.CallbackCompleted(failed=False)))

    def _polled(self, known: _Known, said: Mapping[str, Any]) -> None:
        member = known.view.reported
        ends: dict[TopicPartition, int] = {}
        begins: dict[TopicPartition, int] = {}
        for row in _list(said.get("records"), "records"):
            if not isinstance(row, list) or len(row) != 4:
                raise _Wrong("records has rows of topic, partition, first offset, next offset")
            topic, number, first, end = row
            partition = self._partition(known, topic, number)
            begins.setdefault(partition, _number(first, "first offset"))
            ends[partition] = _number(end, "next offset")
        news = {one: offset for one, offset in begins.items() if one in member.waiting}
        for partition, offset in news.items():
            member.waiting.discard(partition)
            member.move_to(partition, offset)
        if news:
            self._show(known, self._step(known, events.PositionsKnown(positions=news)))
        for partition, offset in ends.items():
            member.move_to(partition, offset)
        if ends:
            self._show(known, self._step(known, events.RecordsReturned(positions=ends)))

    def _commit(self, known: _Known, event: str, said: Mapping[str, Any]) -> None:
        commit_id = _number(said.get("commit_id"), "commit_id")
        if event == "committing":
            is_sync = said.get("is_sync") is True
            event_of = events.CommitOffsets(commit_id=commit_id, is_sync=is_sync)
            self._show(known, self._step(known, event_of))
            return
        name = said.get("error")
        if name is not None and name not in ErrorCode.__members__:
            raise _Wrong(f"no error {name!r}")
        code = None if name is None else ErrorCode[name]
        effect = CommitReturned(commit_id=commit_id, error_code=code)
        self._show(known, self._step(known, events.Tick(), effect))

    def _log_end(self, partition: TopicPartition) -> int:
        held = self._topics.by_name.get(partition.topic_id.rpartition("#")[0])
        if held is None or held.topic.topic_id != partition.topic_id:
            return 0
        log = self._topics.partition(held, partition.partition)
        return 0 if log is None else log.end_offset

    def _partition(self, known: _Known, topic: object, number: object) -> TopicPartition:
        """By the name that the application knows: the topic of that name that it has, else the
        present one."""
        if not isinstance(topic, str):
            raise _Wrong(f"{topic!r} is no topic")
        at = _number(number, "a partition")
        for partition in known.view.reported.assigned:
            if partition.partition == at and partition.topic_id.rpartition("#")[0] == topic:
                return partition
        held = self._topics.by_name.get(topic)
        if held is None:
            raise _Wrong(f"there is no topic {topic!r}")
        return TopicPartition(held.topic.topic_id, at)

    # -- requests and answers --------------------------------------------------------------------

    def sent(self, client_id: str, request: Any) -> int:
        """A request is about to be handled. Its number; 0: its sender does not report."""
        known = self._known.get(client_id)
        if known is None or getattr(request, "group_id", None) != known.group_id:
            return 0
        number = next(self._numbers)
        known.view.reported.take(request)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            request = next((one for one in known.heartbeats if one == request), request)
            known.heartbeats.append(request)
            self._show(known, self._step(known, events.Tick(), SendHeartbeat(number, request)))
        elif isinstance(request, OffsetCommitRequest):
            commit = SendCommit(number, self._as_it_means(known, request))
            self._show_commit(known, self._step(known, events.Tick(), commit))
        else:
            self._show(known, self._step(known, events.Tick()))
        return number

    def _as_it_means(self, known: _Known, request: OffsetCommitRequest) -> OffsetCommitRequest:
        """A commit that names topics: a name that is gone, or is another topic's by now, is that of
        the topic that its sender had last."""
        if not request.wire_topics:
            return request
        own = known.view.reported.had
        offsets = {
            own.get((request.wire_topics.get(one.topic_id, ""), one.partition), one): offset
            for one, offset in request.offsets.items()
        }
        is_same = offsets.keys() == request.offsets.keys()
        return request if is_same else replace(request, offsets=offsets)

    def answered(self, client_id: str, number: int, request: Any, response: Any) -> None:
        """The answer to a request with a number is about to be sent."""
        known = self._known.get(client_id)
        if known is None or not number:
            return
        known.view.reported.hear(request, response)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            self._show(known, self._step(known, events.HeartbeatAnswered(number, response)))
        elif isinstance(request, OffsetCommitRequest):
            self._show_commit(known, self._step(known, events.CommitAnswered(number, response)))
        else:
            self._show(known, self._step(known, events.Tick()))

    def lost(self, client_id: str, numbers: Iterable[int]) -> None:
        """The connection of these requests has ended before they were answered."""
        known, ended = self._known.get(client_id), tuple(filter(None, numbers))
        if known is not None and ended:
            event = events.Disconnected(correlation_ids=ended)
            self._show(known, self._step(known, event))

    # -- steps -----------------------------------------------------------------------------------

    def _step(
        self, known: _Known, event: Any, *effects: Any, kind: StepKind = StepKind.CLIENT_EVENT
    ) -> Step:
        step = Step()
        step.kind, step.at_ms, step.client = kind, self._now_ms(), known.view
        step.event, step.effects = event, effects
        return step

    def _show(self, known: _Known, step: Step) -> None:
        self._show_to(known.group_id, step)

    def _show_commit(self, known: _Known, step: Step) -> None:
        if known.waits_to_report:
            known.held.append(step)
        else:
            self._show(known, step)


def _text(said: Mapping[str, Any], key: str) -> str:
    value = said.get(key)
    if not isinstance(value, str) or not value:
        raise _Wrong(f"{key} must be a text, got {value!r}")
    return value


def _object(said: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = said.get(key)
    if not isinstance(value, dict):
        raise _Wrong(f"{key} must be an object, got {value!r}")
    return value


def _list(value: object, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise _Wrong(f"{what} must be a list, got {value!r}")
    return value


def _number(value: object, what: str) -> int:
    if type(value) is not int or value < 0:
        raise _Wrong(f"{what} must be a number from 0, got {value!r}")
    return value
