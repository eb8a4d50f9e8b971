"""What a test in any language asks of a gateway and tells it, over HTTP at the same port.

Bodies are JSON, in both directions. A request that will not do is answered 400, what is not there
404, each with a line under ``error``. Every answer ends its connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import unquote

import h11

from rebalance_sim.gateway.recording import Recordings
from rebalance_sim.gateway.rules import Rules
from rebalance_sim.gateway.topics import Topics
from rebalance_sim.invariants.property import Stuck
from rebalance_sim.scenarios.errors import ScenarioError

FIRST_BYTES = frozenset({b"G", b"P", b"D"})
"""With which GET, POST and DELETE begin; a frame begins with its size, which is not so large."""
MAX_BODY_BYTES = 1024 * 1024
_PART_BYTES = 64 * 1024
_TIMEOUT_S = 10.0


class Site(Protocol):
    """The gateway, as this page of it sees it."""

    rules: Rules
    topics: Topics
    recordings: Recordings

    @property
    def violations(self) -> Sequence[object]: ...
    @property
    def group_ids(self) -> Sequence[str]: ...
    @property
    def escapes(self) -> Sequence[object]: ...
    def add_records(self, topic: str, values: Sequence[bytes], partition: int | None) -> None: ...
    def set_topic(self, name: str, partition_count: int) -> None: ...
    def delete_topic(self, name: str) -> None: ...
    def move_coordinator(self, *, lost_records: int = 0, load_ms: int = 0) -> None: ...
    def close_connections(self, client_id: str) -> None: ...
    def state(self, group_id: str) -> str: ...
    def members(self, group_id: str) -> frozenset[str]: ...
    def committed(self, group_id: str) -> Mapping[tuple[str, int], int]: ...
    def unsettled(self, group_id: str) -> Sequence[Stuck]: ...
    def not_judged(self, group_id: str) -> Sequence[str]: ...


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, problem: str) -> None:
        super().__init__(problem)
        self.status = status


async def serve(
    site: Site, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer one request, which begins with ``first``."""
    connection = h11.Connection(h11.SERVER)
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            method, path, body = await _read(connection, first, reader)
        status, answer = HTTPStatus.OK, _answer(site, method, path, body)
    except TimeoutError:
        return
    except _Refused as problem:
        status, answer = problem.status, {"error": str(problem)}
    except h11.RemoteProtocolError as problem:
        status, answer = HTTPStatus(problem.error_status_hint), {"error": str(problem)}
    data = json.dumps(answer).encode() + b"\n"
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Length", str(len(data))),
        ("Connection", "close"),
    ]
    for event in (
        h11.Response(status_code=status.value, reason=status.phrase, headers=headers),
        h11.Data(data),
        h11.EndOfMessage(),
    ):
        writer.write(connection.send(event) or b"")
    with suppress(ConnectionError):
        await writer.drain()


async def _read(
    connection: h11.Connection, first: bytes, reader: asyncio.StreamReader
) -> tuple[str, list[str], Any]:
    connection.receive_data(first)
    method, target, data = "", "", b""
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        match event:
            case h11.Request():
                method, target = event.method.decode(), event.target.decode("latin-1")
            case h11.Data():
                data += event.data
                if len(data) > MAX_BODY_BYTES:
                    raise _Refused(
                        HTTPStatus.BAD_REQUEST, f"a body has at most {MAX_BODY_BYTES} bytes"
                    )
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(_PART_BYTES))
    try:
        body = json.loads(data) if data.strip() else {}
    except (ValueError, RecursionError) as problem:
        raise _Refused(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {problem}") from None
    if not isinstance(body, dict):
        raise _Refused(HTTPStatus.BAD_REQUEST, "the body is an object of JSON")
    path = target.partition("?")[0]
    return method, [unquote(part) for part in path.split("/") if part], body


def _answer(site: Site, method: str, path: list[str], body: Mapping[str, Any]) -> Any:
    try:
        return _done(site, method, path, body)
    except (ScenarioError, ValueError, TypeError, IndexError) as problem:
        raise _Refused(HTTPStatus.BAD_REQUEST, str(problem)) from None
    except KeyError as problem:
        raise _Refused(HTTPStatus.NOT_FOUND, str(problem.args[0])) from None


def _done(site: Site, method: str, path: list[str], body: Mapping[str, Any]) -> Any:
    match method, path:
        case "GET", []:
            return {
                "violations": list(map(str, site.violations)),
                "bugs": list(map(repr, site.escapes)),
                "topics": dict(site.topics.counts),
                "groups": list(site.group_ids),
            }
        case "GET", ["rules"]:
            return _rules(site)
        case "POST", ["rules"]:
            if "rule" in body:
                raise ValueError("the body has the keys of a rule")
            site.rules.add(**body)
            return _rules(site)
        case "DELETE", ["rules"]:
            site.rules.clear()
            return _rules(site)
        case "GET", ["groups", group_id]:
            return _group(site, group_id)
        case "GET", ["groups", group_id, "trace"]:
            if group_id not in site.recordings.group_ids:
                raise KeyError(
                    f"no trace of {group_id!r}: no request has named it, or none is kept"
                )
            return site.recordings.trace(group_id)
        case "POST", ["topics", name]:
            site.set_topic(name, _take(body, "partitions", int))
        case "DELETE", ["topics", name]:
            site.delete_topic(name)
        case "POST", ["topics", name, "records"]:
            partition = _take(body, "partition", int) if "partition" in body else None
            values = _take(body, "values", list)
            if not all(isinstance(value, str) for value in values):
                raise ValueError("values is a list of texts")
            site.add_records(name, [value.encode() for value in values], partition)
        case "POST", ["move_coordinator"]:
            given = {key: _take(body, key, int) for key in body}
            unknown = given.keys() - {"lost_records", "load_ms"}
            if unknown:
                raise ValueError(f"{min(unknown)} is none of lost_records, load_ms")
            site.move_coordinator(**given)
        case "POST", ["close_connections"]:
            site.close_connections(_take(body, "client_id", str))
        case _:
            raise KeyError(f"there is no {method} /{'/'.join(path)} (docs/gateway.md)")
    return {}


def _rules(site: Site) -> list[dict[str, Any]]:
    return [asdict(rule) | {"hits": hits} for rule, hits in site.rules.in_force]


def _group(site: Site, group_id: str) -> dict[str, Any]:
    committed: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(site.committed(group_id).items()):
        committed.setdefault(topic, {})[str(number)] = offset
    return {
        "state": site.state(group_id),
        "members": sorted(site.members(group_id)),
        "committed": committed,
        "unsettled": list(map(str, site.unsettled(group_id))),
        "not_judged": list(site.not_judged(group_id)),
    }


def _take(body: Mapping[str, Any], key: str, kind: type[Any]) -> Any:
    value = body.get(key)
    if type(value) is not kind:
        raise ValueError(f"{key} is missing, or no {kind.__name__}")
    return value
