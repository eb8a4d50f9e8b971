"""What a timeline shows: who owned what, epochs, faults, what happened and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata, GroupMetadata
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.ownership import OwnershipInterval, OwnershipTrace
from rebalance_sim.sim.faults.clients import ClientPause, PollStall
from rebalance_sim.sim.faults.fault import Fault

MOST_COLOURS = 8
"""More than people tell apart."""

_STARTS = "starts"
_LIFE = {StepKind.CLIENT_STARTED: _STARTS, StepKind.CLIENT_CRASHED: "crashes"}
_HINDERS: Mapping[type[Fault], str] = {ClientPause: "paused", PollStall: "away"}
_FENCED = frozenset({ClientState.FENCED, ClientState.FATAL})
_LOADING = {StepKind.COORDINATOR_LOADED: "loaded", StepKind.COORDINATOR_UNLOADED: "unloaded"}


class FaultBand(NamedTuple):
    """A fault from when it began to when it ended; one that does not last ends as it begins."""

    text: str
    from_ms: int
    to_ms: int


class Moment(NamedTuple):
    """Something that happened to a client or a coordinator, or was found."""

    at_ms: int
    actor: str
    text: str


class Gap(NamedTuple):
    """A partition without an owner, from the loss of one to the next, or to the end. ``why``: what
    had become of the last owner, ``crashed`` or ``fenced``; empty for one that gave it up."""

    partition: TopicPartition
    from_ms: int
    to_ms: int
    why: str = ""


class Trouble(NamedTuple):
    """A time in which a client could not do its part: ``why`` is ``paused`` (the process does not
    run), ``away`` (its application does not poll), ``crashed`` or ``fenced`` (by the coordinator,
    or by an error that it does not survive)."""

    client: str
    from_ms: int
    to_ms: int
    why: str


Epochs = tuple[tuple[int, int], ...]
"""(time in ms, epoch), from each time on."""


class TimelineTrace(OwnershipTrace):
    """Keeps what a timeline shows; hand it to ``scenarios.run`` as ``trace``."""

    def __init__(self) -> None:
        super().__init__()
        self.member_epochs: dict[str, list[tuple[int, int]]] = {}
        self.group_epochs: dict[str, list[tuple[int, int]]] = {}
        self.moments: list[Moment] = []
        self._bands: list[tuple[Fault, str, int, int | None]] = []
        self._out: dict[str, tuple[int, str]] = {}
        self._troubles: list[Trouble] = []

    def on_step(self, step: Step) -> None:
        """Take a step in, and what it changes."""
        super().on_step(step)
        client = step.client
        if client is not None:
            self._on_client(client.name, step, client.member.member_epoch)
        elif step.kind is StepKind.FAULT:
            self._on_fault(step)
        elif step.kind in _LOADING and step.shard is not None:
            self.moments.append(Moment(step.at_ms, step.shard.name, _LOADING[step.kind]))
        for record in step.records:
            if isinstance(record, ConsumerGroupMetadata) and record.value is not None:
                self._epoch(self.group_epochs, record.group_id, step.at_ms, record.value.epoch)
            elif isinstance(record, GroupMetadata) and record.value is not None:
                generation = record.value.generation
                self._epoch(self.group_epochs, record.group_id, step.at_ms, generation)

    @property
    def deleted_topics(self) -> frozenset[str]:
        """Topics that were deleted at some time, by name."""
        faults = (fault for fault, *_ in self._bands if fault.ends_topic)
        return frozenset(str(getattr(fault, "topic", "")) for fault in faults)

    def bands(self, until_ms: int) -> tuple[FaultBand, ...]:
        """Every fault that took effect, by time; what is still open lasts until ``until_ms``."""
        return tuple(
            FaultBand(text, from_ms, until_ms if to_ms is None else to_ms)
            for _, text, from_ms, to_ms in self._bands
        )

    def troubles(self, until_ms: int) -> tuple[Trouble, ...]:
        """By client and time; what is not over lasts until ``until_ms``."""
        still = [Trouble(name, since_ms, until_ms, why)
                 for name, (since_ms, why) in self._out.items()]  # fmt: skip
        windows = [
            Trouble(
                fault.client, from_ms, until_ms if to_ms is None else to_ms, _HINDERS[type(fault)]
            )
            for fault, _, from_ms, to_ms in self._bands
            if isinstance(fault, ClientPause | PollStall)
        ]
        return tuple(sorted([*self._troubles, *still, *windows]))

    def _on_client(self, name: str, step: Step, epoch: int) -> None:
        if step.kind in _LIFE:
            self.moments.append(Moment(step.at_ms, name, _LIFE[step.kind]))
        gone = step.kind is StepKind.CLIENT_CRASHED
        client = step.client
        is_fenced = client is not None and client.member.state in _FENCED
        self._is_out(name, "crashed" if gone else "fenced" if is_fenced else "", step.at_ms)
        self._epoch(self.member_epochs, name, step.at_ms, 0 if gone else max(0, epoch))

    def _on_fault(self, step: Step) -> None:
        fault: Fault = step.fault
        if step.detail.startswith(f"{fault.kind} ends"):
            for place, (other, text, from_ms, to_ms) in enumerate(self._bands):
                if other is fault and to_ms is None:
                    self._bands[place] = (other, text, from_ms, step.at_ms)
        else:
            lasts = step.detail.startswith(f"{fault.kind} begins")
            end = None if lasts else step.at_ms
            self._bands.append((fault, str(fault), step.at_ms, end))

    def _is_out(self, name: str, why: str, at_ms: int) -> None:
        since_ms, before = self._out.get(name, (at_ms, ""))
        if why != before:
            if before and since_ms < at_ms:
                self._troubles.append(Trouble(name, since_ms, at_ms, before))
            self._out[name] = (at_ms, why)
        if not why:
            self._out.pop(name, None)

    @staticmethod
    def _epoch(rows: dict[str, list[tuple[int, int]]], name: str, at_ms: int, epoch: int) -> None:
        known = rows.setdefault(name, [])
        if not known or known[-1][1] != epoch:
            known.append((at_ms, epoch))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRows:
    """What is drawn of a run. ``findings`` are violated properties and known issues; ``moments``
    what befell clients and coordinators. Epochs of a process that is gone are 0."""

    title: str
    until_ms: int
    intervals: tuple[OwnershipInterval, ...]
    gaps: tuple[Gap, ...]
    member_epochs: Mapping[str, Epochs]
    group_epochs: Mapping[str, Epochs]
    bands: tuple[FaultBand, ...]
    moments: tuple[Moment, ...]
    findings: tuple[Moment, ...]
    troubles: tuple[Trouble, ...] = ()

    def hindered(self) -> list[tuple[OwnershipInterval, Trouble]]:
        """Where an owner did not run, or its application did not poll: the part of the interval."""
        return [
            (replace(row, from_ms=max(row.from_ms, one.from_ms), to_ms=min(row.to_ms, one.to_ms)),
             one)
            for one in self.troubles if one.why in ("paused", "away")
            for row in self.intervals
            if row.member_id == one.client and row.from_ms < one.to_ms and one.from_ms < row.to_ms
        ]  # fmt: skip

    def standstill(self) -> list[tuple[int, int]]:
        """(time in ms, members at a standstill), from each time on: those that own nothing, and
        owned something before and after in the same process (metric ``member_stopped_ms``)."""
        starts = [(one.actor, one.at_ms) for one in self.moments if one.text == _STARTS]
        changes: Counter[int] = Counter()
        for name in self.members:
            held = sorted((r.from_ms, r.to_ms) for r in self.intervals if r.member_id == name)
            until_ms = held[0][1]
            for from_ms, to_ms in held[1:]:
                is_new = any(n == name and until_ms <= ms <= from_ms for n, ms in starts)
                if from_ms > until_ms and not is_new:
                    changes[until_ms] += 1
                    changes[from_ms] -= 1
                until_ms = max(until_ms, to_ms)
        count, found = 0, [(0, 0)]
        for at_ms, change in sorted(changes.items()):
            count += change
            found.append((at_ms, count))
        return found

    @property
    def partitions(self) -> list[TopicPartition]:
        """Those that somebody owned at some time, in ascending order."""
        return sorted({row.partition for row in self.intervals})

    @property
    def members(self) -> list[str]:
        """The clients that owned something, in ascending order."""
        return sorted({row.member_id for row in self.intervals})

    @property
    def lines(self) -> list[tuple[str, list[str]]]:
        """What has a colour of its own: each member; of more than eight the seven that owned most
        for longest, and the others together."""
        members = self.members
        if len(members) <= MOST_COLOURS:
            return [(name, [name]) for name in members]
        owned: Counter[str] = Counter()
        for row in self.intervals:
            owned[row.member_id] += row.to_ms - row.from_ms
        most = sorted(members, key=lambda name: (-owned[name], name))[: MOST_COLOURS - 1]
        others = [name for name in members if name not in most]
        return [*((name, [name]) for name in sorted(most)), (f"{len(others)} others", others)]

    def name_of(self, partition: TopicPartition) -> str:
        """``orders-3``; with the number of its id where a topic was made again."""
        topic = partition.topic_id.split(":")[0]
        ids = {row.partition.topic_id for row in self.intervals}
        is_plain = sum(one.split(":")[0] == topic for one in ids) == 1
        return f"{topic if is_plain else partition.topic_id}-{partition.partition}"
