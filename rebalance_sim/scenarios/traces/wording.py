"""Values of a trace in the words of Kafka's protocols, short enough for one line.

Members have the names of their clients, partitions by topic: ``orders-0,1`` is partitions 0 and 1
of ``orders``, ``orders:2-0`` is partition 0 of the second topic of that name. What is empty, and
what every request repeats, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from rebalance_sim.scenarios.traces.run_trace import TraceStep

_PARTITION = re.compile(r"(?P<topic>.+):(?P<incarnation>\d+)/(?P<number>\d+)")

_REPEATED = frozenset(
    {"type", "group_id", "api_version", "rebalance_timeout_ms", "throttle_time_ms", "version",
     "metadata_hash", "assignment_timestamp", "commit_timestamp", "current_state_timestamp",
     "timestamp", "client_id", "client_host", "wire_topics", "heartbeat_interval_ms", "topic_id"}
)  # fmt: skip
"""Fields that say the same each time, or nothing to a reader."""

_LONG_RUN = 5
"""Partitions that follow one another are told by the first and the last: 0..4."""

_LEAVING = -1
_LEAVING_FOR_A_WHILE = -2


class Wording:
    """Turns values of one trace into text."""

    def __init__(self, steps: Iterable[TraceStep]) -> None:
        self._client_of: dict[str, str] = {}
        for step in steps:
            if step.get("member_id"):
                self._client_of.setdefault(step["member_id"], step["client"])

    def client_of(self, member_id: str) -> str:
        """The client that had this member id, or the id itself."""
        return self._client_of.get(member_id, member_id)

    def partitions(self, names: Iterable[str]) -> str:
        """``orders-0,1 payments-2``, ``orders-0..59``, or ``nothing``."""
        numbers: dict[str, list[int]] = {}
        for name in names:
            topic, number = _split(name)
            numbers.setdefault(topic, []).append(number)
        listed = (
            f"{topic}-{','.join(_runs(sorted(found)))}" for topic, found in sorted(numbers.items())
        )
        return " ".join(listed) or "nothing"

    def request(self, request: Mapping[str, Any]) -> str:
        """A request: what it is, and what is particular about it."""
        known = _REQUESTS.get(request["type"])
        return known(self, request) if known else self.anything(request)

    def response(self, response: Any) -> str:
        """An answer: its error, or what it brings."""
        if isinstance(response, list):
            return "; ".join(map(self.response, response))
        code = response.get("error_code", "NONE")
        if code != "NONE":
            return str(code)
        known = _RESPONSES.get(response["type"])
        return known(self, response) if known else self.anything(response)

    def anything(self, value: Any) -> str:
        """Any value; empty if there is nothing to say about it."""
        if isinstance(value, str):
            if _PARTITION.fullmatch(value):
                return self.partitions([value])
            return self.client_of(value)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, list):
            return self._list(value)
        return "" if value is None or value is False else str(value)

    def _list(self, values: list[Any]) -> str:
        found = partitions_in(values)
        if values and found is not None:
            return self.partitions(found)
        return ", ".join(filter(None, map(self.anything, values)))

    def _mapping(self, value: Mapping[str, Any]) -> str:
        title = str(value.get("type", "")).removesuffix("Request").removesuffix("Response")
        parts = [title] if title else []
        for name, item in value.items():
            text = "" if name in _REPEATED else self.anything(item)
            if text and text != "NONE":
                parts.append(f"{self.anything(name)} {text}")
        return ", ".join(parts)


def partitions_in(value: Any) -> list[str] | None:
    """The partitions that a list names, however it is spelled; None if it names something else."""
    if not isinstance(value, list):
        return None
    found: list[str] = []
    for item in value:
        if isinstance(item, str) and _PARTITION.fullmatch(item):
            found.append(item)
        elif isinstance(item, Mapping) and "partitions" in item:
            topic = item.get("topic_id") or f"{item.get('topic')}:1"
            found += [f"{topic}/{number}" for number in item["partitions"]]
        else:
            return None
    return found


def _runs(numbers: list[int]) -> Iterator[str]:
    """Each number; of many that follow one another, the first and the last."""
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        found = [str(number) for _, number in run]
        yield from [f"{found[0]}..{found[-1]}"] if len(found) >= _LONG_RUN else found


def _split(name: str) -> tuple[str, int]:
    match = _PARTITION.fullmatch(name)
    if match is None:
        topic, _, number = name.rpartition("/")
        return topic, int(number)
    topic, incarnation, number = match.groups()
    return (topic if incarnation == "1" else f"{topic}:{incarnation}"), int(number)


# --- requests ------------------------------------------------------------------------------------


def _consumer_heartbeat(wording: Wording, request: Mapping[str, Any]) -> str:
    epoch = request["member_epoch"]
    if epoch == _LEAVING:
        return "leave"
    if epoch == _LEAVING_FOR_A_WHILE:
        return "leave for a while (epoch -2)"
    parts = ["join (epoch 0)" if epoch == 0 else f"heartbeat at epoch {epoch}"]
    if request.get("instance_id"):
        parts.append(f"instance {request['instance_id']}")
    if request.get("subscribed_topic_names") is not None:
        topics = ", ".join(request["subscribed_topic_names"]) or "no topic"
        parts.append(f"subscribes to {topics}")
    if request.get("subscribed_topic_regex"):
        parts.append(f"subscribes to the pattern {request['subscribed_topic_regex']}")
    if request.get("server_assignor"):
        parts.append(f"assignor {request['server_assignor']}")
    if request.get("topic_partitions") is not None and epoch != 0:
        parts.append(f"owns {wording.partitions(request['topic_partitions'])}")
    return ", ".join(parts)


def _join(wording: Wording, request: Mapping[str, Any]) -> str:
    parts = ["JoinGroup" if request["member_id"] else "JoinGroup without member id"]
    if request.get("group_instance_id"):
        parts.append(f"instance {request['group_instance_id']}")
    for protocol in request["protocols"]:
        metadata = protocol["metadata"]
        owned = metadata.get("owned_partitions") if isinstance(metadata, Mapping) else None
        owns = f" owning {wording.anything(owned)}" if owned else ""
        parts.append(f"{protocol['name']}{owns}")
    return ", ".join(parts)


def _sync(wording: Wording, request: Mapping[str, Any]) -> str:
    text = f"SyncGroup of generation {request['generation_id']}"
    shares = [
        f"{wording.client_of(member_id)}: {_share(wording, share) or 'nothing'}"
        for member_id, share in request.get("assignments", {}).items()
    ]
    return f"{text}, assigns {'; '.join(shares)}" if shares else text


def _share(wording: Wording, share: Any) -> str:
    return wording.anything(share["partitions"] if isinstance(share, Mapping) else share)


def _classic_heartbeat(wording: Wording, request: Mapping[str, Any]) -> str:
    return f"Heartbeat of generation {request['generation_id']}"


def _commit(wording: Wording, request: Mapping[str, Any]) -> str:
    offsets = _offsets(wording, request["offsets"])
    return f"OffsetCommit at epoch {request['generation_id_or_member_epoch']}: {offsets}"


def _offsets(wording: Wording, offsets: Mapping[str, Any]) -> str:
    return ", ".join(f"{wording.anything(name)} at {at}" for name, at in offsets.items())


def _fetch(wording: Wording, request: Mapping[str, Any]) -> str:
    return f"OffsetFetch of {wording.anything(request.get('partitions') or 'everything')}"


def _leave(wording: Wording, request: Mapping[str, Any]) -> str:
    members = (
        wording.anything(m["member_id"] or m.get("group_instance_id") or "no one")
        for m in request["members"]
    )
    reasons = {m.get("reason") for m in request["members"]}
    why = ", ".join(sorted(filter(None, reasons)))
    return f"LeaveGroup of {', '.join(members)}" + (f": {why}" if why else "")


_Words = Callable[[Wording, Mapping[str, Any]], str]

_REQUESTS: Mapping[str, _Words] = {
    "ConsumerGroupHeartbeatRequest": _consumer_heartbeat,
    "JoinGroupRequest": _join,
    "SyncGroupRequest": _sync,
    "HeartbeatRequest": _classic_heartbeat,
    "LeaveGroupRequest": _leave,
    "OffsetCommitRequest": _commit,
    "OffsetFetchRequest": _fetch,
}


# --- answers -------------------------------------------------------------------------------------


def _consumer_heartbeat_answer(wording: Wording, response: Mapping[str, Any]) -> str:
    parts = [f"epoch {response['member_epoch']}"]
    if response.get("assignment") is not None:
        parts.append(f"assigned {wording.anything(response['assignment']) or 'nothing'}")
    if response.get("pending_topic_partitions"):
        parts.append(f"not yet free {wording.anything(response['pending_topic_partitions'])}")
    if response.get("should_compute_assignment"):
        parts.append("to compute the assignment")
    return ", ".join(parts)


def _join_answer(wording: Wording, response: Mapping[str, Any]) -> str:
    parts = [f"generation {response['generation_id']}"]
    if response.get("protocol_name"):
        parts.append(str(response["protocol_name"]))
    parts.append(f"leader {wording.client_of(response['leader'])}")
    return ", ".join(parts)


def _sync_answer(wording: Wording, response: Mapping[str, Any]) -> str:
    return f"assigned {_share(wording, response.get('assignment') or []) or 'nothing'}"


def _errors(wording: Wording, response: Mapping[str, Any]) -> str:
    refused = {name: code for name, code in response["errors"].items() if code != "NONE"}
    return ", ".join(f"{wording.anything(name)} {code}" for name, code in refused.items()) or "ok"


def _fetch_answer(wording: Wording, response: Mapping[str, Any]) -> str:
    if response.get("errors"):
        return _errors(wording, response)
    return _offsets(wording, response.get("offsets", {})) or "nothing"


def _leave_answer(wording: Wording, response: Mapping[str, Any]) -> str:
    refused = [m for m in response["members"] if m["error_code"] != "NONE"]
    named = (f"{wording.anything(m.get('member_id'))} {m['error_code']}" for m in refused)
    return ", ".join(named) or "ok"


def _nothing_more(wording: Wording, response: Mapping[str, Any]) -> str:
    return "ok"


_RESPONSES: Mapping[str, _Words] = {
    "ConsumerGroupHeartbeatResponse": _consumer_heartbeat_answer,
    "JoinGroupResponse": _join_answer,
    "SyncGroupResponse": _sync_answer,
    "HeartbeatResponse": _nothing_more,
    "LeaveGroupResponse": _leave_answer,
    "OffsetCommitResponse": _errors,
    "OffsetFetchResponse": _fetch_answer,
}
