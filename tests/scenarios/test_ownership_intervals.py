"""Intervals of ownership are read off the log, and plots are drawn from them."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.colors import to_rgba

from rebalance_sim.protocol.wire.records import (
    ConsumerGroupCurrentMemberAssignment,
    CurrentAssignmentValue,
    MemberState,
    Record,
)
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.case_studies import CASE_STUDIES, Promotion, load_case_study
from rebalance_sim.scenarios.case_studies.replay import GROUP_ID, CaseStudyReplay
from rebalance_sim.scenarios.ownership import Holding, OwnershipInterval, ownership_intervals
from rebalance_sim.scenarios.plots import plot_case_study, plot_ownership

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def _current(
    member_id: str, epoch: int, assigned: list[TopicPartition], revoking: list[TopicPartition]
) -> Record:
    value = CurrentAssignmentValue(
        member_epoch=epoch,
        previous_member_epoch=epoch,
        state=MemberState.STABLE,
        assigned=dict.fromkeys(assigned, epoch),
        pending_revocation=dict.fromkeys(revoking, epoch),
    )
    return ConsumerGroupCurrentMemberAssignment("g", member_id, value)


def _rows(intervals: list[OwnershipInterval]) -> list[tuple[int, int, int, str, str, int]]:
    return [
        (i.partition.partition, i.from_ms, i.to_ms, i.member_id, i.holding.value, i.member_epoch)
        for i in intervals
    ]


def test_a_partition_passes_from_one_member_to_the_other_with_a_gap() -> None:
    batches = [
        (0, (_current("a", 1, [P0, P1], []),)),
        (10, (_current("a", 1, [P0], [P1]),)),
        (25, (_current("a", 2, [P0], []),)),
        (30, (_current("b", 2, [P1], []),)),
        (40, (ConsumerGroupCurrentMemberAssignment("g", "a", None),)),
    ]
    assert _rows(ownership_intervals(batches, group_id="g", until_ms=50)) == [
        (0, 0, 40, "a", "assigned", 1),
        (1, 0, 10, "a", "assigned", 1),
        (1, 10, 25, "a", "revoking", 1),
        (1, 30, 50, "b", "assigned", 2),
    ]


def test_other_groups_and_intervals_of_no_length_are_left_out() -> None:
    batches = [(5, (_current("a", 1, [P0], []), _current("a", 1, [], []))), (6, ())]
    assert ownership_intervals(batches, group_id="g", until_ms=9) == []
    assert ownership_intervals(batches[:1], group_id="h", until_ms=9) == []


def test_the_log_of_a_case_study_shows_every_partition_held_by_one_member_at_a_time() -> None:
    for name in CASE_STUDIES:
        player = CaseStudyReplay(load_case_study(name))
        for step in load_case_study(name).steps:
            player.shard.now_ms = step.number  # One millisecond a step; timers wait to be fired.
            player.play(step)
        rows = ownership_intervals(player.shard.batches, group_id=GROUP_ID, until_ms=99)
        for before, after in itertools.pairwise(rows):
            assert before.partition != after.partition or before.to_ms <= after.from_ms


def test_the_plot_of_a_run_has_a_bar_for_each_interval_and_a_line_for_each_mark() -> None:
    intervals = [
        OwnershipInterval(
            partition=P0,
            from_ms=0,
            to_ms=9,
            member_id="a",
            holding=Holding.ASSIGNED,
            member_epoch=1,
        ),
        OwnershipInterval(
            partition=P0,
            from_ms=9,
            to_ms=12,
            member_id="a",
            holding=Holding.REVOKING,
            member_epoch=1,
        ),
    ]
    figure = plot_ownership(intervals, until_ms=20, marks=[(5, "crash")], topic_names={"t": "foo"})
    (axes,) = figure.axes
    assert len(axes.collections) == 2
    assert [bar.get_hatch() for bar in axes.collections] == [None, "////"]
    assert [line.get_xdata()[0] for line in axes.lines] == [0.005]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["foo-0"]


@pytest.mark.parametrize("promotion", Promotion)
@pytest.mark.parametrize("name", CASE_STUDIES)
def test_the_plot_of_a_case_study_has_a_cell_for_each_partition_and_state(
    name: str, promotion: Promotion
) -> None:
    case = load_case_study(name)
    figure = plot_case_study(case, promotion)
    epochs, cells = figure.axes
    partitions = {p for s in case.steps for shares in s.eager.target.values() for p in shares}
    assert len(cells.patches) == len(partitions) * (len(case.steps) + 1)
    owned = [p for p in cells.patches if p.get_facecolor() != to_rgba("#F4F4F4")]
    held = [case.initial, *(step.expect(promotion) for step in case.steps)]
    assert len(owned) == sum(len(c.partitions) for s in held for c in s.current.values())
    assert epochs.get_ylabel() == "epoch"
