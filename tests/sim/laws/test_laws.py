"""What the Consumer's documentation says of positions, commits and records holds in runs."""

from __future__ import annotations

import pytest
from committed_laws import the_committed_offset_is_the_last_one_confirmed
from hand_out_laws import in_order_without_gaps, only_to_who_may_fetch
from lives import with_records
from recording import Recording, record
from start_laws import at_the_committed_offset_or_where_reset_says

from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.profile import PROFILES

LAWS = (
    in_order_without_gaps,
    only_to_who_may_fetch,
    at_the_committed_offset_or_where_reset_says,
    the_committed_offset_is_the_last_one_confirmed,
)

SEEDS = range(100, 101)
MAX_STEPS = 8_000


def assert_laws(recording: Recording) -> None:
    """None is violated."""
    assert {law.__name__: found for law in LAWS if (found := law(recording)[:5])} == {}


@pytest.mark.parametrize("profile", sorted(PROFILES))
@pytest.mark.parametrize("seed", SEEDS)
def test_every_law_holds_in_runs_with_records(profile: str, seed: int) -> None:
    world = with_records(generate(profile, seed=seed).world)
    assert_laws(record(world, max_steps=MAX_STEPS))
