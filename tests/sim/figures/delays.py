"""Figures of how long an epoch waits for its target and its members, as docs/results.md says."""

from __future__ import annotations

from counts import StepOfGroup, before_and_after, rises
from recording import Recording

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.wire.records import ConsumerGroupTargetAssignmentMetadata, Record


def delay_figures(recording: Recording) -> dict[str, float]:
    """The figures of all groups together."""
    assignment: list[int] = []
    reconciliation: list[int] = []
    targets = 0
    steps = before_and_after(recording)
    for group_id in recording.spec.group_ids:
        of_group = [step for step in steps if step[2] == group_id]
        written = [
            (index, moment, after, target_epoch(moment.records, group_id), bool(moment.records))
            for index, moment, _, _, after in acting_only(of_group)
        ]
        targets += sum(target is not None for *_, target, _ in written)
        of_rises = [(i, m, epoch) for i, m, of, epoch in rises(recording) if of == group_id]
        acting = {index for index, *_ in written}
        of_rises = [rise for rise in of_rises if rise[0] in acting]
        for index, moment, epoch in of_rises:
            # Another rise to no more than this: a failover has taken this one back.
            undone = [i for i, _, other in of_rises if i > index and other <= epoch]
            last = min([*undone, len(recording.moments)])
            later = [w for w in written if index <= w[0] < last and w[4]]
            waits_for_target = waits_for_members = True
            for _, now, seen, target, _ in later:
                if waits_for_target and target is not None and target >= epoch:
                    assignment.append(now.at_ms - moment.at_ms)
                    waits_for_target = False
                if seen is None or seen.type != "consumer" or seen.state == "Empty":
                    break
                if waits_for_members and seen.state == "Stable" and seen.epoch >= epoch:
                    reconciliation.append(now.at_ms - moment.at_ms)
                    waits_for_members = False
    return {
        "assignment_delay_ms": sum(assignment),
        "assignment_delay_ms_max": max(assignment, default=0),
        "reconciliation_delay_ms": sum(reconciliation),
        "reconciliation_delay_ms_max": max(reconciliation, default=0),
        "targets_computed": targets,
    }


def target_epoch(records: tuple[Record, ...], group_id: str) -> int | None:
    """The epoch of the target that these records install, if they do. Of two, which a conversion
    writes, the first is no more than the assignment of the classic group."""
    epochs = [
        record.value.assignment_epoch
        for record in records
        if isinstance(record, ConsumerGroupTargetAssignmentMetadata)
        and record.group_id == group_id
        and record.value is not None
    ]
    return max(epochs, default=None)


def acting_only(steps: list[StepOfGroup]) -> list[StepOfGroup]:
    """Steps that concern the group, without those of a leader whose successor has acted."""
    found: list[StepOfGroup] = []
    leader_epoch = 0
    for step in steps:
        moment, group_id, before, after = step[1:]
        shard = moment.shard
        assert shard is not None
        if moment.kind is StepKind.COORDINATOR_LOADED and group_id in shard.groups:
            leader_epoch = max(leader_epoch, shard.leader_epoch)
        writes = any(record.group_id == group_id for record in moment.records)
        if shard.leader_epoch < leader_epoch or not (writes or before != after):
            continue
        if writes:
            leader_epoch = shard.leader_epoch
        found.append(step)
    return found
