"""Figures about who could fetch what, from the definitions in docs/results.md."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from recording import Moment, PartitionLife, Recording

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.common.effects import CallReturned, RunCallback
from rebalance_sim.protocol.clients.common.events import CallbackCompleted
from rebalance_sim.protocol.clients.common.values import Call
from rebalance_sim.protocol.wire.topics import TopicPartition

NOTHING: frozenset[TopicPartition] = frozenset()


class Owned(NamedTuple):
    """From now on, a process may fetch this. ``is_start``, ``is_end``: its first and last."""

    step: int
    at_ms: int
    client: str
    partitions: frozenset[TopicPartition]
    is_start: bool = False
    is_end: bool = False


class Span(NamedTuple):
    """For this time a partition had these owners."""

    from_ms: int
    to_ms: int
    owners: frozenset[str]


def ends_process(moment: Moment) -> bool:
    """Whether the process of a client is over with this: killed, or ``close`` has returned."""
    return moment.kind is StepKind.CLIENT_CRASHED or any(
        isinstance(effect, CallReturned) and effect.call is Call.CLOSE for effect in moment.effects
    )


def ownership(recording: Recording, group_id: str) -> list[Owned]:
    """What each client of a group may fetch, whenever it has taken an event. A partition is owned
    from the end of the callback about it to the beginning of the next."""
    found: list[Owned] = []
    in_callback: dict[str, frozenset[TopicPartition]] = {}
    for index, moment in enumerate(recording.moments):
        client = moment.client
        if client is None or client.group_id != group_id:
            continue
        if moment.kind is StepKind.CLIENT_STARTED:
            in_callback[client.name] = NOTHING
            found.append(Owned(index, moment.at_ms, client.name, NOTHING, is_start=True))
            continue
        if isinstance(moment.event, CallbackCompleted):
            in_callback[client.name] = NOTHING
        for effect in moment.effects:
            if isinstance(effect, RunCallback):
                in_callback[client.name] = effect.partitions
        if moment.kind is not StepKind.CLIENT_CRASHED:
            owned = client.fetchable - in_callback[client.name]
            found.append(Owned(index, moment.at_ms, client.name, owned))
        if ends_process(moment):
            found.append(Owned(index, moment.at_ms, client.name, NOTHING, is_end=True))
    return found


def partitions_of(recording: Recording, group_id: str) -> list[PartitionLife]:
    """Partitions of topics that a client of the group subscribes to by its settings."""
    spec = recording.spec
    clients = [one for one in spec.clients if spec.group_of(one) == group_id]
    return [
        life
        for life in recording.partitions
        if any(
            life.topic in one.topics
            or (one.topic_regex is not None and re.fullmatch(one.topic_regex, life.topic))
            for one in clients
        )
    ]


def spans(life: PartitionLife, changes: list[Owned]) -> list[Span]:
    """The owners of a partition over its life, one span after the other."""
    found: list[Span] = []
    owners: frozenset[str] = frozenset()
    since_ms = life.from_ms
    for change in changes:
        if not life.from_ms <= change.at_ms <= life.to_ms:
            continue
        has_it = life.partition in change.partitions
        if has_it != (change.client in owners):
            found.append(Span(since_ms, change.at_ms, owners))
            owners, since_ms = owners ^ {change.client}, change.at_ms
    return [*found, Span(since_ms, life.to_ms, owners)]


def owner_figures(recording: Recording) -> dict[str, float]:
    """The figures of all groups together."""
    unowned_ms = longest_ms = overlap_ms = moves = needless = 0
    member_stopped_ms = group_stopped_ms = 0
    first_ms: list[int] = []
    for group_id in recording.spec.group_ids:
        changes = ownership(recording, group_id)
        for life in partitions_of(recording, group_id):
            of_partition = spans(life, changes)
            without = [s.to_ms - s.from_ms for s in of_partition if not s.owners]
            unowned_ms += sum(without)
            longest_ms = max([longest_ms, *without])
            overlap_ms += sum(s.to_ms - s.from_ms for s in of_partition if len(s.owners) > 1)
            owners = consumers(life, changes)
            moves += sum(a != b for a, b in pairwise(owners))
            needless += given_up_in_vain(life, changes)
        for own in processes(changes):
            first_ms += waits_for_first(own)
            member_stopped_ms += stops([(c.at_ms, bool(c.partitions)) for c in own])
        group_stopped_ms += stops(anybody(changes))
    found: dict[str, float] = {
        "unowned_partition_ms": unowned_ms,
        "unowned_partition_ms_max": longest_ms,
        "overlap_partition_ms": overlap_ms,
        "partition_moves": moves,
        "needless_revocations": needless,
        "member_stopped_ms": member_stopped_ms,
        "group_stopped_ms": group_stopped_ms,
    }
    if first_ms:
        found["first_assignment_ms_max"] = max(first_ms)
        found["first_assignment_ms_mean"] = sum(first_ms) / len(first_ms)
    return found


def consumers(life: PartitionLife, changes: list[Owned]) -> list[str]:
    """Who got the partition, one after the other."""
    found: list[str] = []
    owners: frozenset[str] = frozenset()
    for span in spans(life, changes):
        found += sorted(span.owners - owners)
        owners = span.owners
    return found


def given_up_in_vain(life: PartitionLife, changes: list[Owned]) -> int:
    """How often a process gave the partition up and got it back, and in between no one had it."""
    count = 0
    gave_up: str | None = None
    owners: frozenset[str] = frozenset()
    for change in changes:
        if not life.from_ms <= change.at_ms <= life.to_ms:
            continue
        has_it, had_it = life.partition in change.partitions, change.client in owners
        if has_it and not had_it:
            count += gave_up == change.client and not owners
            gave_up = None
        elif had_it and not has_it:
            gave_up = change.client if owners == {change.client} else None
        if change.is_end and gave_up == change.client:
            gave_up = None
        owners = owners | {change.client} if has_it else owners - {change.client}
    return count


def processes(changes: list[Owned]) -> list[list[Owned]]:
    """The changes of each process."""
    found: list[list[Owned]] = []
    present: dict[str, list[Owned]] = {}
    for change in changes:
        if change.is_start:
            present[change.client] = []
            found.append(present[change.client])
        if not change.is_end:
            present[change.client].append(change)
    return found


def waits_for_first(own: list[Owned]) -> list[int]:
    """How long a process waited for its first partition; nothing if it got none."""
    return [change.at_ms - own[0].at_ms for change in own if change.partitions][:1]


def anybody(changes: list[Owned]) -> list[tuple[int, bool]]:
    """Times, and whether any client of the group could fetch anything from then on."""
    owned: dict[str, frozenset[TopicPartition]] = {}
    found: list[tuple[int, bool]] = []
    for change in changes:
        owned[change.client] = change.partitions
        found.append((change.at_ms, any(owned.values())))
    return found


def stops(states: list[tuple[int, bool]]) -> int:
    """Time without, after and before a time with."""
    total_ms = 0
    lost_ms: int | None = None
    has_something = False
    for at_ms, has in states:
        if has and not has_something:
            total_ms += 0 if lost_ms is None else at_ms - lost_ms
        elif has_something and not has:
            lost_ms = at_ms
        has_something = has
    return total_ms
