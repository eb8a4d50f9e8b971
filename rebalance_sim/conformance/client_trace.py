"""Loading of traces recorded from real clients, and what one process of a client did in them.

``conformance/traces/clients/README.md`` describes the format.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from rebalance_sim.conformance.broker_trace import read_json
from rebalance_sim.conformance.classic_bodies import with_metadata
from rebalance_sim.conformance.client_bodies import check_response
from rebalance_sim.conformance.errors import TraceError
from rebalance_sim.protocol.assignors.classic import ClassicAssignor
from rebalance_sim.protocol.clients.common.client_kind import ClientKind, GroupProtocol
from rebalance_sim.protocol.clients.common.member_config import MemberConfig
from rebalance_sim.protocol.clients.kinds import CLASSIC, KINDS, LIBRDKAFKA_CLASSIC, kind_of
from rebalance_sim.protocol.clients.versions import versions_of

TraceEvent = Mapping[str, Any]

_KEYS = ("name", "client", "client_configs", "topics", "events")
JAVA_CLIENT, LIBRDKAFKA = KINDS[CLASSIC].library, KINDS[LIBRDKAFKA_CLASSIC].library
"""Libraries that log states, as traces and kinds name them."""

_KNOWN_CLIENTS = {kind.library: versions_of(name) for name, kind in KINDS.items()}
_SURROUNDINGS = ("admin", "broker")
_GROUP_APIS = ("ConsumerGroupHeartbeat", "JoinGroup")

_FIELDS: Mapping[str, tuple[str, ...]] = {
    "request": ("id", "conn", "api", "body"),
    "response": ("id", "api", "body"),
    "state": ("from", "to"),
    "callback_begin": ("callback", "partitions"),
    "callback_end": ("callback", "assignment", "throws"),
    "records": ("offsets",),
    "metadata": ("topics",),
    "action": ("action",),
    "action_begin": ("action",),
    "action_end": ("action",),
    "fault": ("what",),
}
_OWN_FIELDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    JAVA_CLIENT: {"state": ("member_epoch",)},
    LIBRDKAFKA: {"state": ("what",), "note": ("text",)},
}
"""What an event of one client has besides."""

_STRATEGY = "partition.assignment.strategy"
_ASSIGNORS_BY_CLASS = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_READERS: Mapping[Any, Callable[[str], Any]] = {
    int: int,
    bool: lambda text: str(text).lower() == "true",
    str: str,
    str | None: str,
}
"""Type of a setting -> what reads its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientProcess:
    """One process of one client: its events, and those of the broker, in the trace's order.

    ``version`` is the release line of the client. ``topics``: name -> partition count, at the
    start. ``config`` is a ``ClassicConsumerConfig`` of
    a process that speaks the classic protocol.
    """

    name: str
    kind: ClientKind
    version: str
    member_id: str
    config: MemberConfig
    topics: Mapping[str, int]
    events: Sequence[TraceEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientTrace:
    """A recorded trace; ``client`` is the library, as kinds have it."""

    path: str
    name: str
    about: str
    client: str
    processes: tuple[ClientProcess, ...]


def load_client_trace(path: str | Path) -> ClientTrace:
    """Read one trace. Raises TraceError with one line naming the place and the remedy."""
    data = read_json(Path(path))
    missing = [key for key in _KEYS if key not in data]
    if missing:
        raise TraceError(f"{path}: has no {missing[0]!r}; expected keys {', '.join(_KEYS)}")
    client, version = _client(path, str(data["client"]))
    try:
        events = with_metadata(data["events"])
    except (KeyError, TypeError, AttributeError) as error:
        raise TraceError(
            f"{path}: a JoinGroup is missing or misspelt ({error}); fetch the file again"
        ) from error
    _check_events(path, events, _OWN_FIELDS.get(client, {}))
    try:
        processes = _processes(path, data, events, client, version)
    except (KeyError, TypeError, AttributeError) as error:
        raise TraceError(
            f"{path}: client_configs or an event lacks a field ({error}); fetch the file again"
        ) from error
    return ClientTrace(
        path=str(path),
        name=data["name"],
        about=data.get("about", ""),
        client=client,
        processes=processes,
    )


def _client(path: str | Path, text: str) -> tuple[str, str]:
    """Library and release line."""
    name, _, rest = text.partition(" ")
    version = ".".join(rest.split(" ")[0].split(".")[:2])
    if version not in _KNOWN_CLIENTS.get(name, ()):
        known = ", ".join(f"{n} {v}" for n, vs in sorted(_KNOWN_CLIENTS.items()) for v in vs)
        raise TraceError(f"{path}: client {text!r} is not modelled; known clients: {known}")
    return name, version


def _check_events(
    path: str | Path, events: Sequence[TraceEvent], own_fields: Mapping[str, tuple[str, ...]]
) -> None:
    """Raise TraceError for the first event that could not be replayed."""
    for number, event in enumerate(events, 1):
        try:
            kind = event["kind"]
            for key in ("at_ms", "client", *_FIELDS.get(kind, ()), *own_fields.get(kind, ())):
                if key not in event:
                    raise KeyError(key)
            if event["kind"] == "response":
                check_response(event["api"], event["body"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise TraceError(
                f"{path}: event {number} lacks or misspells {error}; fetch the file again"
            ) from error


def _processes(
    path: str | Path,
    data: Mapping[str, Any],
    events: Sequence[TraceEvent],
    library: str,
    version: str,
) -> tuple[ClientProcess, ...]:
    """One entry per ``create`` of each client; what comes before the second one is the first's."""
    names = sorted({e["client"] for e in events} - set(_SURROUNDINGS))
    processes: list[ClientProcess] = []
    for name in names:
        starts = [
            index
            for index, event in enumerate(events)
            if event["client"] == name and event.get("action") == "create"
        ]
        for number, start in enumerate(starts, 1):
            begin = 0 if number == 1 else start
            end = starts[number] if number < len(starts) else len(events)
            own = [e for e in events[begin:end] if e["client"] in (name, *_SURROUNDINGS)]
            processes.append(_process(path, library, version, name, number, data, own))
    if not processes:
        raise TraceError(f"{path}: no client was created; the file is cut off, fetch it again")
    return tuple(processes)


def _process(
    path: str | Path,
    library: str,
    version: str,
    client: str,
    number: int,
    data: Mapping[str, Any],
    events: Sequence[TraceEvent],
) -> ClientProcess:
    client_configs: Mapping[str, Mapping[str, str]] = data["client_configs"]
    settings = client_configs.get(f"{client} (process {number})") or client_configs[client]
    requests = [e for e in events if e["kind"] == "request" and e["api"] in _GROUP_APIS]
    ids = [e["body"]["member_id"] for e in requests if e["body"]["member_id"]]
    name = client if number == 1 else f"{client}, process {number}"
    kind = _kind(library, settings)
    return ClientProcess(
        name=name,
        kind=kind,
        version=version,
        member_id=ids[0] if ids else f"{client}#{number}",
        config=_config(path, kind, name, settings, requests),
        topics=data["topics"],
        events=events,
    )


def _kind(library: str, settings: Mapping[str, str]) -> ClientKind:
    is_consumer = settings.get("group.protocol") == GroupProtocol.CONSUMER.value
    return kind_of(library, GroupProtocol.CONSUMER if is_consumer else GroupProtocol.CLASSIC)


def _assignors(kind: ClientKind, settings: Mapping[str, str]) -> tuple[ClassicAssignor, ...]:
    """Java names classes, librdkafka names assignors; raises ValueError for unknown ones."""
    listed = settings.get(_STRATEGY, "range").split(",")
    names = [name.strip().rpartition(".")[2] for name in listed]
    names = [_ASSIGNORS_BY_CLASS.get(name, name) for name in names]
    for name in names:
        if name not in kind.assignors:
            known = ", ".join(sorted(kind.assignors))
            raise ValueError(f"{_STRATEGY} names {name!r}; known assignors: {known}")
    return tuple(kind.assignors[name] for name in names)


def _config(
    path: str | Path,
    kind: ClientKind,
    name: str,
    settings: Mapping[str, str],
    requests: Sequence[TraceEvent],
) -> MemberConfig:
    """Settings that a member does not read are left out."""
    types = get_type_hints(kind.config)
    values: dict[str, Any] = {}
    try:
        for key, text in settings.items():
            field = key.replace(".", "_")
            read = _READERS.get(types.get(field))
            if read is not None:
                values[field] = read(text)
        values["group_id"] = requests[0]["body"]["group_id"] if requests else "group"
        if kind.is_classic:
            values["assignors"] = _assignors(kind, settings)
        return kind.config(**values)
    except ValueError as error:
        raise TraceError(f"{path}: client_configs of {name}: {error}") from error
