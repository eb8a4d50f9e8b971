"""What a run looks like step by step, for a page: every message and change of state, and at each of
them how its members and its coordinator see the group.

The rows are plain data for ``steps.js``, which draws them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rebalance_sim.scenarios.traces.run_trace import RunTrace, TraceStep
from rebalance_sim.scenarios.traces.story import Entry, story_of
from rebalance_sim.scenarios.traces.wording import Wording, partitions_in

MOST_ENTRIES = 1_500
"""A page has so many; of a longer run, the last ones up to the first violated property, or the
first ones of a run that violates none."""

_MOVING = frozenset({"JOINING", "RECONCILING", "ACKNOWLEDGING", "PREPARE_LEAVING", "LEAVING"})
_OUT = frozenset({"FENCED", "FATAL", "STALE"})
_MEMBER_STATES = ("stable", "has to revoke", "waits for partitions")
"""States of a member at the coordinator, by number (coordinator §9.1)."""


def step_rows(trace: RunTrace) -> Mapping[str, Any]:
    """The rows: ``clients`` and ``groups`` by name; ``entries``, each with step, ms, role, actor,
    receiver, text, ms of arrival (None: not received), and whether it raises the group epoch;
    ``states`` by name, each a list of (step, changed fields); ``left_out``, how many entries there
    are beyond ``MOST_ENTRIES``. What is text in entries and states are numbers of ``texts``."""
    reader = _Reader(trace)
    entries = story_of(trace)
    kept = _kept(entries, trace)
    texts: dict[str, int] = {}
    times = {step["step"]: step["at_ms"] for step in trace.steps}
    return {
        "clients": sorted(reader.clients),
        "groups": sorted(reader.groups),
        "entries": [list(_row(one, times, reader.rebalances, texts)) for one in kept],
        "states": {name: _within(rows, kept, texts) for name, rows in reader.states.items()},
        "texts": list(texts),
        "left_out": len(entries) - len(kept),
    }


def _kept(entries: list[Entry], trace: RunTrace) -> list[Entry]:
    if len(entries) <= MOST_ENTRIES or not trace.violations:
        return entries[:MOST_ENTRIES]
    last = trace.violations[0].step
    until = sum(entry.step <= last for entry in entries)
    first = max(0, until - MOST_ENTRIES)
    return entries[first : first + MOST_ENTRIES]


def _row(
    entry: Entry, times: Mapping[int, int], rebalances: set[int], texts: dict[str, int]
) -> Iterator[Any]:
    arrives_ms = None if entry.arrives is None else times[entry.arrives]
    yield from (entry.step, entry.at_ms)
    for text in (entry.role.value, entry.actor, entry.to, entry.text):
        yield texts.setdefault(text, len(texts))
    yield arrives_ms
    yield int(entry.step in rebalances)


def _within(
    rows: list[tuple[int, dict[str, str]]], kept: list[Entry], texts: dict[str, int]
) -> list[tuple[int, dict[str, int]]]:
    """The changes that can be seen at these entries: those before the first of them in one."""
    first, last = (kept[0].step, kept[-1].step) if kept else (0, 0)
    before: dict[str, str] = {}
    found = []
    for step, fields in rows:
        if step < first:
            before.update(fields)
        elif step <= last:
            found.append((step, fields))
    if before:
        found.insert(0, (first, before))
    return [
        (step, {name: texts.setdefault(text, len(texts)) for name, text in fields.items()})
        for step, fields in found
    ]


@dataclass(slots=True)
class _Reader:
    """Goes through a trace once, and keeps what changes."""

    trace: RunTrace
    clients: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    states: dict[str, list[tuple[int, dict[str, str]]]] = field(default_factory=dict)
    rebalances: set[int] = field(default_factory=set)
    _now: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        wording = Wording(self.trace.steps)
        for step in self.trace.steps:
            if "client" in step and "state" in step:
                self._take_client(step, wording)
            group_id = _group_of(step)
            for record in step.get("records", ()):
                self._take_record(step, record, group_id, wording)

    def _take_client(self, step: TraceStep, wording: Wording) -> None:
        name = step["client"]
        self.clients.add(name)
        is_gone = step["kind"] == "client.crashed"
        state = "crashed" if is_gone else step["state"]
        look = "gone" if is_gone else _look(state)
        self._set(
            step,
            f"client {name}",
            state=state,
            look=look,
            epoch="" if is_gone else str(step["member_epoch"]),
            owns="" if is_gone else wording.partitions(step["assigned"]),
        )

    def _take_record(
        self, step: TraceStep, record: Mapping[str, Any], group_id: str, wording: Wording
    ) -> None:
        value, kind = record["value"], record["type"]
        member = f"client {wording.client_of(str(record['key'].get('member_id', '')))}"

        def listed(field_name: str) -> str:
            found = partitions_in((value or {}).get(field_name) or [])
            return wording.partitions(found) if found else ""

        match kind:
            case "ConsumerGroupMetadata" | "ConsumerGroupTargetAssignmentMetadata":
                self.groups.add(group_id)
                is_target = kind == "ConsumerGroupTargetAssignmentMetadata"
                if not is_target:
                    self.rebalances.add(step["step"])
                name = "target epoch" if is_target else "epoch"
                at = "assignment_epoch" if is_target else "epoch"
                self._set(step, f"group {group_id}", **{name: str((value or {}).get(at, ""))})
            case "ConsumerGroupTargetAssignmentMember":
                self._set(step, member, target=listed("topic_partitions"))
            case "ConsumerGroupCurrentMemberAssignment":
                found = value or {}
                at = _MEMBER_STATES[found["state"]] if found else ""
                words = f"epoch {found['member_epoch']}, {at}" if found else "no member"
                self._set(
                    step,
                    member,
                    coordinator=words,
                    granted=listed("assigned_partitions"),
                    **{"to revoke": listed("partitions_pending_revocation")},
                )
            case "GroupMetadata":
                self.groups.add(group_id)
                if value:
                    self.rebalances.add(step["step"])
                    self._set(step, f"group {group_id}", generation=str(value["generation"]))
                    for one in value["members"]:
                        shares = (one.get("assignment") or {}).get("assigned_partitions")
                        share = wording.partitions(partitions_in(shares) or ())
                        of_member = f"client {wording.client_of(one['member_id'])}"
                        self._set(step, of_member, granted=share)

    def _set(self, step: TraceStep, name: str, **fields: str) -> None:
        now = self._now.setdefault(name, {})
        changed = {key: text for key, text in fields.items() if now.get(key, "") != text}
        if changed:
            now.update(changed)
            self.states.setdefault(name, []).append((step["step"], changed))


def _look(state: str) -> str:
    if state in _MOVING:
        return "moving"
    return "out" if state in _OUT else ("gone" if state == "UNSUBSCRIBED" else "well")


def _group_of(step: TraceStep) -> str:
    for part in ("request", "event"):
        found = step.get(part)
        if isinstance(found, Mapping) and found.get("group_id"):
            return str(found["group_id"])
    return "group"
