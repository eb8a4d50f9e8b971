"""What happened in a run, from its trace: messages, changes of state, faults, the violation.

What only continues as before is left out: heartbeats that change nothing, and the requests of an
administrator who looks on. State is shown as changes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from rebalance_sim.scenarios.traces.exchanges import ADMIN, Exchange, exchanges_of
from rebalance_sim.scenarios.traces.run_trace import RunTrace, TraceStep
from rebalance_sim.scenarios.traces.wording import Wording, partitions_in

_ROUND = 8
"""Entries of a round that may repeat itself: a few clients with request and refusal each."""

_OFFSET_REQUESTS = ("OffsetCommitRequest", "OffsetFetchRequest")
_ABOUT_OFFSETS = ("offset", "commit", "start", "position")
"""Parts of the ids of properties that are about committed offsets."""

_CLIENT_FIELDS = {"state": "", "member_epoch": "epoch ", "assigned": "assigned "}
"""What of a client is shown when it changes, with the words before it."""

_EFFECTS_TOLD = {
    "RunCallback": lambda wording, effect: (
        f"{effect['kind']}({wording.partitions(effect['partitions'])})"
    ),
    "RaiseError": lambda wording, effect: (
        f"raises {effect.get('error_code', 'an error')} to its application: {effect['message']}"
    ),
    "CallReturned": lambda wording, effect: f"{effect['call']}() returns",
}

_RECORD_FIELDS = {
    "member_epoch": "epoch",
    "assigned_partitions": "assigned",
    "partitions_pending_revocation": "to be revoked",
    "topic_partitions": "",
    "subscribed_topic_names": "subscribes to",
    "subscribed_topic_regex": "pattern",
    "assignment_epoch": "",
    "epoch": "",
    "offset": "",
}
_RECORD_FIELDS_LEFT_OUT = frozenset(
    {"metadata_hash", "assignment_timestamp", "commit_timestamp", "current_state_timestamp",
     "timestamp", "client_id", "client_host", "rebalance_timeout_ms", "previous_member_epoch",
     "topic_id", "leader_epoch", "version", "expire_timestamp", "protocol_type", "rack_id"}
)  # fmt: skip
_MEMBER_STATES = ("STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS")
"""States of a member at the coordinator, by number (coordinator §9.1)."""

_TITLES = {
    "ConsumerGroupMetadata": "group epoch",
    "ConsumerGroupTargetAssignmentMetadata": "target epoch",
    "ConsumerGroupTargetAssignmentMember": "target of {}",
    "ConsumerGroupCurrentMemberAssignment": "assignment of {}",
    "ConsumerGroupMemberMetadata": "member {}",
    "ConsumerGroupRegularExpression": "pattern {}",
    "GroupMetadata": "classic group:",
    "OffsetCommit": "committed {}",
}


class Role(Enum):
    """What an entry tells of."""

    MESSAGE = "message"
    CHANGE = "change"
    FAULT = "fault"
    VIOLATION = "violation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Something that happened at a step, to ``actor``: a client, a broker, or no one.

    A message goes from ``actor`` to ``to`` and is there at the step ``arrives``; None: it got lost,
    or was still on its way at the end.
    """

    step: int
    at_ms: int
    role: Role
    text: str
    actor: str = ""
    to: str = ""
    arrives: int | None = None

    def __str__(self) -> str:
        if self.role is Role.VIOLATION:
            return f"VIOLATED  {self.text}"
        if self.role is Role.MESSAGE:
            lost = "" if self.arrives is not None else "  (not received)"
            return f"{self.actor} -> {self.to}  {self.text}{lost}"
        return f"{self.actor}  {self.text}" if self.actor else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """An entry, and how often it came in a row or in a short round of entries."""

    entry: Entry
    count: int = 1

    def __str__(self) -> str:
        times = f"  (x {self.count})" if self.count > 1 else ""
        return f"{self.entry}{times}"


def folded(entries: Iterable[Entry]) -> list[Line]:
    """The entries without what repeats itself, such as a request that is refused for a minute."""
    lines: list[Line] = []
    for entry in entries:
        text = str(entry)
        for index in range(len(lines) - 1, max(-1, len(lines) - 1 - _ROUND), -1):
            if str(lines[index].entry) == text:
                lines[index] = replace(lines[index], count=lines[index].count + 1)
                break
        else:
            lines.append(Line(entry=entry))
    return lines


def story_of(trace: RunTrace) -> list[Entry]:
    """Everything worth telling, in the order of the steps."""
    return _Story(trace).entries


def led_to(trace: RunTrace, *, lines: int = 14) -> list[str]:
    """The last that happened before the first violated property, and that one; nothing for a run
    that violated none."""
    if not trace.violations:
        return []
    last = trace.violations[0].step
    entries = folded(entry for entry in story_of(trace) if entry.step <= last)
    return [
        f"  {line.entry.step:>7}  {line.entry.at_ms / 1000:>10.3f} s  {line}"
        for line in entries[-lines:]
    ]


class _Story:
    """What was there before, and the entries so far."""

    def __init__(self, trace: RunTrace) -> None:
        self.entries: list[Entry] = []
        self._trace = trace
        self._wording = Wording(trace.steps)
        self._clients: dict[str, TraceStep] = {}
        self._asked: dict[str, str] = {}
        self._records: dict[tuple[str, ...], dict[str, Any]] = {}
        self._sent: dict[int, list[Exchange]] = {}
        self._released: dict[int, Exchange] = {}
        has_offsets = any(
            part in row.property for row in trace.violations for part in _ABOUT_OFFSETS
        )
        self._left_out = () if has_offsets else _OFFSET_REQUESTS
        for exchange in exchanges_of(trace.steps):
            if not self._is_routine(exchange):
                if exchange.sent is not None:
                    self._sent.setdefault(exchange.sent["step"], []).append(exchange)
                if exchange.released is not None:
                    self._released[exchange.released["step"]] = exchange
        for step in trace.steps:
            self._tell(step)

    def _is_routine(self, exchange: Exchange) -> bool:
        request, response = exchange.request, exchange.response
        if exchange.client == ADMIN and not request["type"].startswith(("Delete", "Leave")):
            return True
        if request["type"] in self._left_out:
            return True
        if response is None or response.get("error_code", "NONE") != "NONE":
            return False
        if request["type"] == "HeartbeatRequest":
            return True
        return (
            request["type"] == "ConsumerGroupHeartbeatRequest"
            and request["member_epoch"] == response["member_epoch"] > 0
            and response.get("assignment") is None
            and (
                request.get("topic_partitions") is None
                or request.get("subscribed_topic_names") is not None
            )
        )

    def _tell(self, step: TraceStep) -> None:
        kind = step["kind"]
        if kind.startswith("client."):
            self._tell_client(step)
        elif kind == "fault":
            self._add(step, Role.FAULT, step["detail"])
        elif kind == "response.released":
            self._tell_answer(step)
        else:
            self._tell_coordinator(step)
        for row in self._trace.violated_at(step["step"]):
            self._add(step, Role.VIOLATION, f"{row.property}: {row.detail}")

    def _add(
        self,
        step: TraceStep,
        role: Role,
        text: str,
        *,
        actor: str = "",
        to: str = "",
        arrives: TraceStep | None = None,
    ) -> None:
        self.entries.append(
            Entry(
                step=step["step"],
                at_ms=step["at_ms"],
                role=role,
                text=text,
                actor=actor,
                to=to,
                arrives=None if arrives is None else arrives["step"],
            )
        )

    # --- clients ----------------------------------------------------------------------------------

    def _tell_client(self, step: TraceStep) -> None:
        name = step["client"]
        before = self._clients.get(name, {})
        self._clients[name] = step
        changes: list[str] = []
        if step["kind"] == "client.started":
            changes.append("starts" if step["incarnation"] == 1 else "starts again")
        elif step["kind"] == "client.crashed":
            changes.append("crashes")
        else:
            changes += self._client_changes(before, step)
        if changes:
            self._add(step, Role.CHANGE, ", ".join(changes), actor=name)
        for exchange in self._sent.get(step["step"], ()):
            there = exchange.handled or exchange.released
            text = self._wording.request(exchange.request)
            if there is not None:
                self._asked[name] = _broker_of(there)
            to = self._asked.get(name, "coordinator")
            self._add(step, Role.MESSAGE, text, actor=name, to=to, arrives=there)

    def _client_changes(self, before: TraceStep, step: TraceStep) -> Iterator[str]:
        for field, words in _CLIENT_FIELDS.items():
            change = self._change(before.get(field), step[field])
            if change:
                yield words + change
        for effect in step.get("effects", ()):
            if effect["type"] in _EFFECTS_TOLD:
                yield _EFFECTS_TOLD[effect["type"]](self._wording, effect)
        event = step.get("event")
        if isinstance(event, Mapping) and event["type"] == "CallbackCompleted" and event["failed"]:
            yield "its callback fails"

    # --- coordinators -----------------------------------------------------------------------------

    def _tell_answer(self, step: TraceStep) -> None:
        exchange = self._released.get(step["step"])
        if exchange is not None:
            text = self._wording.response(step["response"])
            broker = _broker_of(step)
            self._add(
                step,
                Role.MESSAGE,
                text,
                actor=broker,
                to=exchange.client,
                arrives=exchange.received,
            )

    def _tell_coordinator(self, step: TraceStep) -> None:
        changes: list[str] = []
        kind, event = step["kind"], step.get("event")
        if kind == "coordinator.timer" and isinstance(event, Mapping):
            whose = self._wording.client_of(event["member_id"])
            if step.get("records"):
                changes.append(f"timer {event['kind']} of {whose or event['group_id']} runs out")
        elif kind in ("coordinator.loaded", "coordinator.unloaded", "log.truncated"):
            changes.append(f"{kind.partition('.')[2]} {step.get('detail', '')}".rstrip())
        elif kind in ("metadata.changed", "config.changed"):
            changes.append(kind.replace(".", " "))
        elif kind == "coordinator.escaped":
            changes.append(f"exception {step['detail']}")
        for record in step.get("records", ()):
            change = self._record_change(record)
            if change:
                changes.append(change)
        if changes:
            self._add(step, Role.CHANGE, "; ".join(changes), actor=_broker_of(step))

    def _record_change(self, record: Mapping[str, Any]) -> str:
        """What a record changes in what was written under its key before; empty for nothing."""
        kind, key = record["type"], record["key"]
        if kind == "OffsetCommit":
            if self._left_out:
                return ""
            subject = f"{key['topic']}-{key['partition']}"
        else:
            subject = self._wording.client_of(str(next(iter(key.values()), "")))
        title = _TITLES.get(kind, f"{kind} {{}}").format(subject)
        identity = (kind, *map(str, key.values()))
        if record["value"] is None:
            return f"{title} removed" if self._records.pop(identity, None) else ""
        before, value = self._records.get(identity, {}), record["value"]
        self._records[identity] = value
        parts = []
        for field, item in value.items():
            if field in _RECORD_FIELDS_LEFT_OUT:
                continue
            if kind == "ConsumerGroupCurrentMemberAssignment" and field == "state":
                change = self._state_change(before.get(field, 0), item)
            else:
                change = self._change(before.get(field), item)
            if change:
                parts.append(f"{_RECORD_FIELDS.get(field, field)} {change}".lstrip())
        return f"{title} {', '.join(parts)}" if parts else ""

    @staticmethod
    def _state_change(before: int, after: int) -> str:
        return "" if before == after else f"{_MEMBER_STATES[before]} -> {_MEMBER_STATES[after]}"

    def _change(self, before: Any, after: Any) -> str:
        """``2 -> 3``, or ``+orders-1 -orders-0``; empty if it is as before."""
        if before == after:
            return ""
        now = partitions_in(after)
        if now is not None and (now or partitions_in(before)):
            then = partitions_in(before) or []
            more, less = set(now) - set(then), set(then) - set(now)
            gained = f"+{self._wording.partitions(more)}" if more else ""
            lost = f"-{self._wording.partitions(less)}" if less else ""
            return " ".join(filter(None, (gained, lost)))
        old, new = self._wording.anything(before), self._wording.anything(after)
        if old == new:
            return ""
        return f"{old} -> {new or 'nothing'}" if old else new


def _broker_of(step: TraceStep) -> str:
    """The broker of a step's shard, without the partition that it leads."""
    name: str = step["shard"]
    return name.partition("/")[0]
