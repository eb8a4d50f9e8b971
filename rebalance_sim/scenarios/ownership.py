"""Who held which partition, and when: as a group's log has it, and as its clients see it.

``ownership_intervals`` is the coordinator's view, read off the records of the log: a member holds a
partition from the record that grants it to the record that takes it away. While it has to
give the partition up, the interval is of kind ``REVOKING``; the time between two holders is the
time without an owner. It is about the consumer protocol alone.

``OwnershipTrace`` is the clients' view, whatever protocol they speak: a client holds a partition
while it may fetch it (``sim.observe.ownership``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    CurrentAssignmentValue,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.observe.ownership import owned_partitions
from rebalance_sim.sim.trace import Trace


class Holding(Enum):
    """How firmly a member holds a partition."""

    ASSIGNED = "assigned"
    REVOKING = "revoking"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class OwnershipInterval:
    """``member_id`` holds ``partition`` from ``from_ms`` (inclusive) to ``to_ms`` (exclusive)."""

    partition: TopicPartition
    from_ms: int
    to_ms: int
    member_id: str
    holding: Holding
    member_epoch: int


class OwnershipTrace(Trace):
    """Keeps who may fetch what; hand it to ``scenarios.run`` as ``trace``.

    Members have the names of their clients; ``member_epoch`` is not known and -1.
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[str, object] = {}
        self._since_ms: dict[tuple[TopicPartition, str], int] = {}
        self._held: dict[str, frozenset[TopicPartition]] = {}
        self._closed: list[OwnershipInterval] = []
        self.fault_times: list[tuple[int, str]] = []

    def on_step(self, step: Step) -> None:
        """Take a step in, and what it changes."""
        super().on_step(step)
        client = step.client
        if step.kind is StepKind.FAULT:
            self.fault_times.append((step.at_ms, step.detail))
        if client is None:
            return
        if step.kind is StepKind.CLIENT_CRASHED:
            self._hold(client.name, frozenset(), step.at_ms)
            return
        member = client.member
        version = (client.incarnation, member.ownership_version, member.running_callback)
        if self._seen.get(client.name) != version:
            self._seen[client.name] = version
            self._hold(client.name, owned_partitions(client), step.at_ms)

    def intervals(self, until_ms: int) -> list[OwnershipInterval]:
        """By partition and time; what is still held lasts until ``until_ms``."""
        still = [
            self._interval(partition, name, since_ms, until_ms)
            for (partition, name), since_ms in self._since_ms.items()
            if since_ms < until_ms
        ]
        return sorted(
            [*self._closed, *still], key=lambda i: (i.partition, i.from_ms, i.to_ms, i.member_id)
        )

    def _hold(self, name: str, partitions: frozenset[TopicPartition], at_ms: int) -> None:
        before = self._held.get(name, frozenset())
        self._held[name] = partitions
        for partition in sorted(before - partitions):
            since_ms = self._since_ms.pop((partition, name))
            if since_ms < at_ms:
                self._closed.append(self._interval(partition, name, since_ms, at_ms))
        for partition in sorted(partitions - before):
            self._since_ms[partition, name] = at_ms

    def _interval(
        self, partition: TopicPartition, name: str, from_ms: int, to_ms: int
    ) -> OwnershipInterval:
        return OwnershipInterval(
            partition=partition,
            from_ms=from_ms,
            to_ms=to_ms,
            member_id=name,
            holding=Holding.ASSIGNED,
            member_epoch=-1,
        )


def ownership_intervals(
    batches: Iterable[tuple[int, tuple[Record, ...]]], *, group_id: str, until_ms: int
) -> list[OwnershipInterval]:
    """The intervals of one group, by partition and time.

    ``batches`` are (time in ms, records) in the order of the log, as ``Shard.batches`` has them;
    what is still held at the end lasts until ``until_ms``. Intervals of no length are left out.
    """
    open_since: dict[tuple[TopicPartition, str], tuple[int, Holding, int]] = {}
    closed: list[OwnershipInterval] = []

    def close(key: tuple[TopicPartition, str], at_ms: int) -> None:
        from_ms, holding, epoch = open_since.pop(key)
        if at_ms > from_ms:
            closed.append(
                OwnershipInterval(
                    partition=key[0],
                    from_ms=from_ms,
                    to_ms=at_ms,
                    member_id=key[1],
                    holding=holding,
                    member_epoch=epoch,
                )
            )

    for at_ms, member_id, value in _changes(batches, group_id):
        now = _held(value)
        epoch = -1 if value is None else value.member_epoch
        before = [key for key in open_since if key[1] == member_id]
        for key in before:
            if now.get(key[0]) is not open_since[key][1]:
                close(key, at_ms)
        for partition, holding in now.items():
            open_since.setdefault((partition, member_id), (at_ms, holding, epoch))
    for key in list(open_since):
        close(key, until_ms)
    return sorted(closed, key=lambda i: (i.partition, i.from_ms, i.to_ms, i.member_id))


def _changes(
    batches: Iterable[tuple[int, tuple[Record, ...]]], group_id: str
) -> Iterator[tuple[int, str, CurrentAssignmentValue | None]]:
    for at_ms, records in batches:
        for record in records:
            if (
                isinstance(record, ConsumerGroupCurrentMemberAssignment)
                and record.group_id == group_id
            ):
                yield at_ms, record.member_id, record.value


def _held(value: CurrentAssignmentValue | None) -> Mapping[TopicPartition, Holding]:
    if value is None:
        return {}
    held = dict.fromkeys(sorted(value.assigned), Holding.ASSIGNED)
    return {**held, **dict.fromkeys(sorted(value.pending_revocation), Holding.REVOKING)}
