"""Figures that count requests, records, timers and rises, as docs/results.md defines them."""

from __future__ import annotations

from typing import Any

from recording import GroupSeen, Moment, Recording

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
)

SENT = {
    "heartbeats_sent": ("SendHeartbeat", "SendClassicHeartbeat"),
    "commits_sent": ("SendCommit",),
    "joins_sent": ("SendJoinGroup",),
    "syncs_sent": ("SendSyncGroup",),
    "leaves_sent": ("SendLeaveGroup",),
    "offset_fetches_sent": ("SendOffsetFetch",),
    "coordinator_searches_sent": ("FindCoordinator",),
    "callbacks_run": ("RunCallback",),
}
AT_REST = ("Stable", "Empty", "Dead")
OFFSET_RECORDS = (
    "OffsetCommit",
    "TxnOffsetCommit",
    "TransactionMarker",
    "TransactionMetadata",
)

StepOfGroup = tuple[int, Moment, str, GroupSeen | None, GroupSeen | None]
"""A step of a shard, by index, with a group as the shard had it before, and has it after."""


def effects(recording: Recording, *names: str) -> list[tuple[Moment, Any]]:
    """What members wanted done, of these types."""
    return [
        (moment, effect)
        for moment in recording.moments
        for effect in moment.effects
        if type(effect).__name__ in names
    ]


def count_figures(recording: Recording) -> dict[str, float]:
    """The figures of all groups together."""
    found: dict[str, float] = {
        name: len(effects(recording, *kinds)) for name, kinds in SENT.items()
    }
    found["fences"] = sum(
        effect.to_state.value == "FENCED" for _, effect in effects(recording, "StateChanged")
    )
    records = [record for moment in recording.moments for record in moment.records]
    found["records_written"] = len(records)
    found["group_records_written"] = len([r for r in records if not is_offset(r)])
    found["session_timeouts"] = timed_out(recording, is_session=True)
    found["rebalance_timeouts"] = timed_out(recording, is_session=False)
    found["rebalances"] = len(rises(recording))
    found["settling_ms"] = settling_ms(recording)
    return found


def is_offset(record: Any) -> bool:
    """Whether a record is an offset, and not one of a group."""
    return type(record).__name__ in OFFSET_RECORDS


def before_and_after(
    recording: Recording,
) -> list[StepOfGroup]:
    """Every step of a shard with each of its groups, as it was for it before and is after it."""
    found: list[StepOfGroup] = []
    before: dict[tuple[str, str], GroupSeen | None] = {}
    for index, moment in enumerate(recording.moments):
        shard = moment.shard
        if shard is None:
            continue
        for group_id in recording.spec.group_ids:
            after = shard.groups.get(group_id)
            key = (shard.name, group_id)
            found.append((index, moment, group_id, before.get(key), after))
            before[key] = after
    return found


def timed_out(recording: Recording, *, is_session: bool) -> int:
    """Members that a timer removed: the one of their session, or any other."""
    count = 0
    for _, moment, _, before, after in before_and_after(recording):
        if moment.kind is not StepKind.COORDINATOR_TIMER or before is None:
            continue
        key: TimerKey = moment.event
        if key.kind.value.endswith("session") == is_session:
            left = before.members - (frozenset() if after is None else after.members)
            count += len(left)
    return count


def rises(recording: Recording) -> list[tuple[int, Moment, str, int]]:
    """Every step that raises the epoch of a consumer group, with the group and the new epoch. One
    that is converted, or begins, rises from 0."""
    found = []
    for index, moment, group_id, before, _ in before_and_after(recording):
        epoch = before.epoch if before is not None and before.type == "consumer" else 0
        written = [
            record.value.epoch
            for record in moment.records
            if isinstance(record, ConsumerGroupMetadata)
            and record.group_id == group_id
            and record.value is not None
        ]
        if written and max(written) > epoch:
            found.append((index, moment, group_id, max(written)))
    return found


def settling_ms(recording: Recording) -> int:
    """From the last fault to the last change of a group or a client; -1: not at rest at the end.
    That a pattern was looked up is no change."""
    stands = [None if seen is None else seen.state for seen in recording.at_end.values()]
    if recording.unserved or any(state not in (None, *AT_REST) for state in stands):
        return -1
    fault_ms = max([0, *(m.at_ms for m in recording.moments if m.kind is StepKind.FAULT)])
    if any(topic.poison_pills for topic in recording.spec.topics):
        fault_ms = max(fault_ms, recording.spec.duration_ms)  # They are like others from then on.
    changes = [m.at_ms for m, _ in effects(recording, "StateChanged")]
    changes += [
        m.at_ms
        for m in recording.moments
        if any(
            not is_offset(r) and not isinstance(r, ConsumerGroupRegularExpression)
            for r in m.records
        )
    ]
    return max(0, max([0, *changes]) - fault_ms)
