"""What the Consumer's documentation says of positions, commits and records holds in runs."""

from __future__ import annotations

import pytest
from commit_laws import (
    a_commit_without_offsets_leaves_nothing_out,
    a_new_commit_is_of_what_poll_has_returned,
    nothing_is_committed_that_was_not_handed_out,
)
from committed_laws import the_committed_offset_is_the_last_one_confirmed
from hand_out_laws import (
    in_order_without_gaps,
    no_more_than_max_poll_records,
    nothing_after_it_is_told_of_a_loss,
    nothing_before_it_is_told_of_a_loss,
    only_to_who_may_fetch,
)
from lives import with_records
from recording import Recording, record
from start_laws import at_the_committed_offset_or_where_reset_says
from sum_laws import (
    every_record_is_handed_out_or_skipped_or_still_ahead,
    what_is_ahead_is_lag,
    what_is_lost_was_in_hand,
    what_is_skipped_has_a_cause,
)
from test_figures import assert_figures

from rebalance_sim.protocol.clients.kinds import KINDS
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.profile_file import PROFILES

LAWS = (
    in_order_without_gaps,
    only_to_who_may_fetch,
    nothing_after_it_is_told_of_a_loss,
    nothing_before_it_is_told_of_a_loss,
    no_more_than_max_poll_records,
    nothing_is_committed_that_was_not_handed_out,
    a_new_commit_is_of_what_poll_has_returned,
    a_commit_without_offsets_leaves_nothing_out,
    at_the_committed_offset_or_where_reset_says,
    the_committed_offset_is_the_last_one_confirmed,
    every_record_is_handed_out_or_skipped_or_still_ahead,
    what_is_ahead_is_lag,
    what_is_lost_was_in_hand,
    what_is_skipped_has_a_cause,
)

SEEDS = range(100, 103)
MORE_SEEDS = range(103, 118)
MAX_STEPS = 8_000


def assert_laws(recording: Recording) -> None:
    """None is violated."""
    assert {law.__name__: found for law in LAWS if (found := law(recording)[:5])} == {}


@pytest.mark.quick_one_of(2)
@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("seed", SEEDS)
def test_every_law_holds_in_runs_with_records(profile: str, seed: int) -> None:
    world = with_records(generate(profile, seed=seed).world)
    assert_laws(record(world, max_steps=MAX_STEPS))


def test_a_commit_after_a_fence_is_of_what_poll_had_returned() -> None:
    """Its member was fenced between two polls, and was not told what they had handed out."""
    world = with_records(generate("faulty", seed=120).world)
    assert a_commit_without_offsets_leaves_nothing_out(record(world, max_steps=MAX_STEPS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("seed", MORE_SEEDS)
def test_every_law_holds_in_many_more_runs(profile: str, seed: int) -> None:
    world = generate(profile, seed=seed).world
    assert_laws(record(with_records(world), max_steps=MAX_STEPS))


@pytest.mark.slow
@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("seed", range(103, 130))
def test_figures_and_laws_hold_in_many_more_runs_as_they_are_drawn(profile: str, seed: int) -> None:
    world = generate(profile, seed=seed).world
    recording = record(world, max_steps=MAX_STEPS)
    assert_figures(recording)
    # Where records are written in transactions a position is no count of them (``with_records``).
    if seed < 111 and not world.output_topics:
        assert_laws(recording)


def test_clients_of_every_kind_are_handed_records_in_these_runs() -> None:
    worlds = [generate(profile, seed=seed).world for profile in PROFILES for seed in SEEDS]
    assert {client.kind for world in worlds for client in world.clients} == set(KINDS)
