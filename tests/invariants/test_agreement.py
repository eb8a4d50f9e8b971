"""The cheap check after each step and the full check of the whole world find the same breaches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from coordinator_world import GROUP, CoordinatorWorld
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_history import ACTIONS, RANDOM_CONFIG, play

from rebalance_sim.invariants.engine.discovery import INVARIANTS
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    MemberState,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition

OF_STATES = {kind.id for kind in INVARIANTS if kind.judges_states()}


class Compared(CoordinatorWorld):
    """Runs both checks after every step and remembers what each found first."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.found_by_steps: set[str] = set()
        self.found_by_full: set[str] = set()
        super().__init__(*args, stop_at_first=False, **options)

    def after_step(self, step: Any) -> None:
        if self.has_found:
            return
        watchers = [kind(self.checker.model) for kind in INVARIANTS if kind.judges_states()]
        self.found_by_full = {w.id for w in watchers if w.full(self) is not None}
        self.found_by_steps = OF_STATES & {v.property.id for v in self.checker.unexplained}

    @property
    def has_found(self) -> bool:
        return bool(self.found_by_full or self.found_by_steps)


# --- falsehoods: what a coordinator might write instead of a record -------------------------------


def _current(change: Callable[[Any, int], dict[str, Any]]) -> Callable[[Record, int], Record]:
    def falsify(record: Record, number: int) -> Record:
        if isinstance(record, ConsumerGroupCurrentMemberAssignment) and record.value is not None:
            return replace(record, value=replace(record.value, **change(record.value, number)))
        return record

    return falsify


def _with(partitions: Any, number: int, epoch: int) -> dict[TopicPartition, int]:
    return {**partitions, TopicPartition("id-orders", number % 4): epoch}


def _without(partitions: Any, number: int) -> dict[TopicPartition, int]:
    gone = sorted(partitions)[number % len(partitions)] if partitions else None
    return {p: e for p, e in partitions.items() if p != gone}


def _swap_state(value: Any, number: int) -> dict[str, Any]:
    return {"state": list(MemberState)[number % 3]}


def _target(record: Record, number: int) -> Record:
    if isinstance(record, ConsumerGroupTargetAssignmentMember) and record.value is not None:
        return replace(record, value=record.value ^ {TopicPartition("id-orders", number % 4)})
    return record


def _target_epoch(record: Record, number: int) -> Record:
    if isinstance(record, ConsumerGroupTargetAssignmentMetadata) and record.value is not None:
        epoch = record.value.assignment_epoch + number % 3 - 1
        return replace(record, value=replace(record.value, assignment_epoch=epoch))
    return record


def _group_epoch(record: Record, number: int) -> Record:
    if isinstance(record, ConsumerGroupMetadata) and record.value is not None:
        epoch = record.value.epoch + number % 4 - 2
        return replace(record, value=replace(record.value, epoch=epoch))
    return record


FALSEHOODS: dict[str, Callable[[Record, int], Record]] = {
    "takes one more": _current(lambda v, n: {"assigned": _with(v.assigned, n, v.member_epoch)}),
    "forgets one": _current(lambda v, n: {"assigned": _without(v.assigned, n)}),
    "must revoke one more": _current(
        lambda v, n: {"pending_revocation": _with(v.pending_revocation, n, v.member_epoch)}
    ),
    "forgets a revocation": _current(
        lambda v, n: {"pending_revocation": _without(v.pending_revocation, n)}
    ),
    "has another state": _current(_swap_state),
    "has another epoch": _current(lambda v, n: {"member_epoch": v.member_epoch + n % 5 - 2}),
    "has another target": _target,
    "has another target epoch": _target_epoch,
    "has another group epoch": _group_epoch,
}


@pytest.mark.parametrize("falsehood", FALSEHOODS)
@given(
    before=ACTIONS,
    request_of=st.tuples(
        st.sampled_from(("join", "ack", "beat", "full", "leave")),
        st.sampled_from(("m0", "m2", "m3", "m4")),
        st.integers(0, 7),
    ),
    number=st.integers(0, 7),
)
@settings(max_examples=60, deadline=None)
def test_both_checks_find_the_same_after_false_records(falsehood, before, request_of, number):
    """One operation writes something else than it decided; both checks see the same of it."""
    world = Compared(config=RANDOM_CONFIG)
    for action in before[:20]:
        play(world, action)
    assert not world.has_found

    def lie(outcome: Outcome) -> Outcome:
        records = tuple(FALSEHOODS[falsehood](record, number) for record in outcome.records)
        return replace(outcome, records=records)

    original = world.request
    world.request = lambda request, **options: original(request, change=lie)  # type: ignore[method-assign]
    play(world, request_of)
    assert world.found_by_steps == world.found_by_full


@given(before=ACTIONS, number=st.integers(0, 15))
@settings(max_examples=100, deadline=None)
def test_both_checks_find_an_ownership_entry_that_was_lost_with_its_step(before, number):
    """Memory loses an entry while the step that touches it is handled (as in KAFKA-16147)."""
    world = Compared(config=RANDOM_CONFIG)
    for action in before:
        play(world, action)
    group = world.shard.coordinator.groups_of(ConsumerGroup).get(GROUP)
    if group is None or not group.current_partition_epoch:
        return
    lost = sorted(group.current_partition_epoch)[number % len(group.current_partition_epoch)]
    owner = next(
        m
        for m, member in sorted(group.members.items())
        if lost in member.assigned or lost in member.pending_revocation
    )
    # A member that is away sends no heartbeat, so there is no step to lose the entry with.
    assume(group.members[owner].member_epoch > 0)
    del group.current_partition_epoch[lost]
    world.heartbeat(owner, group.members[owner].member_epoch, rack_id=f"rack-{number}")
    assert world.found_by_steps == world.found_by_full
