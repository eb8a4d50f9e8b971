"""What a timeline shows: who owned what, epochs, faults, what happened and what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata, GroupMetadata
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.ownership import OwnershipInterval, OwnershipTrace
from rebalance_sim.sim.faults.fault import Fault

_LIFE = {StepKind.CLIENT_STARTED: "starts", StepKind.CLIENT_CRASHED: "crashes"}
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
    """A partition without an owner, from the loss of one to the next, or to the end."""

    partition: TopicPartition
    from_ms: int
    to_ms: int


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

    def _on_client(self, name: str, step: Step, epoch: int) -> None:
        if step.kind in _LIFE:
            self.moments.append(Moment(step.at_ms, name, _LIFE[step.kind]))
        gone = step.kind is StepKind.CLIENT_CRASHED
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

    @property
    def partitions(self) -> list[TopicPartition]:
        """Those that somebody owned at some time, in ascending order."""
        return sorted({row.partition for row in self.intervals})

    @property
    def members(self) -> list[str]:
        """The clients that owned something, in ascending order."""
        return sorted({row.member_id for row in self.intervals})

    def name_of(self, partition: TopicPartition) -> str:
        """``orders-3``; with the number of its id where a topic was made again."""
        topic = partition.topic_id.split(":")[0]
        ids = {row.partition.topic_id for row in self.intervals}
        is_plain = sum(one.split(":")[0] == topic for one in ids) == 1
        return f"{topic if is_plain else partition.topic_id}-{partition.partition}"
