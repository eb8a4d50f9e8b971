"""What happens in a world, and the cause under which the rebalance after it is counted.

Source: classic §6.
"""

from __future__ import annotations

from typing import Any

import pytest
from test_classic_clients import COOPERATIVE, EAGER, METADATA_MS, classic, story
from worlds import Watched

from rebalance_sim.sim.faults.clients import ClientClose, ClientCrash, PollStall, SubscriptionChange
from rebalance_sim.sim.faults.deployments import RollingMigration
from rebalance_sim.sim.faults.topics import TopicCreate, TopicGrow

PERTURBED_MS = 20_000


def causes(watched: Watched) -> dict[str, int]:
    """How often which rebalance has begun so far."""
    counts = watched.world.coverage.counts()
    prefix = "rebalance."
    return {k.removeprefix(prefix): n for k, n in counts.items() if k.startswith(prefix)}


def new_causes(watched: Watched, until_ms: int) -> set[str]:
    """Names of the rebalances that began since the warm-up."""
    watched.advance_to(PERTURBED_MS - 1)
    before = causes(watched)
    watched.advance_to(until_ms)
    return {name for name, count in causes(watched).items() if count > before.get(name, 0)}


STORIES: list[tuple[Any, str]] = [
    (ClientClose(at_ms=PERTURBED_MS, client="b"), "classic.member_left"),
    (ClientCrash(at_ms=PERTURBED_MS, client="b"), "classic.session_timeout"),
    (
        PollStall(at_ms=PERTURBED_MS, duration_ms=20_000, client="b"),
        "classic.poll_timeout",
    ),
    (
        TopicGrow(at_ms=PERTURBED_MS, topic="orders", partition_count=9),
        "classic.topics_changed",
    ),
    (
        SubscriptionChange(at_ms=PERTURBED_MS, client="b", topics=("orders", "payments")),
        "classic.subscription_changed",
    ),
    (
        RollingMigration(at_ms=PERTURBED_MS, to_kind="java", down_ms=1_000, clients=("b",)),
        "consumer.migration",
    ),
]


@pytest.mark.parametrize(("fault", "cause"), STORIES, ids=[cause for _, cause in STORIES])
def test_a_perturbation_is_counted_under_its_cause(fault: Any, cause: str) -> None:
    watched = story(classic("a"), classic("b", max_poll_interval_ms=10_000), faults=(fault,))
    assert cause in new_causes(watched, PERTURBED_MS + 25_000)


def test_nothing_begins_where_nothing_happens() -> None:
    watched = story(classic("a"), classic("b"))
    assert new_causes(watched, PERTURBED_MS + 4 * METADATA_MS) == set()


def test_a_newcomer_makes_cooperative_members_rebalance_twice() -> None:
    watched = story(classic("a", COOPERATIVE), classic("b", COOPERATIVE, start_ms=PERTURBED_MS))
    assert new_causes(watched, PERTURBED_MS + 15_000) == {
        "classic.member_joined",
        "classic.partitions_revoked",
    }
    watched = story(classic("a", EAGER), classic("b", EAGER, start_ms=PERTURBED_MS))
    assert new_causes(watched, PERTURBED_MS + 15_000) == {"classic.member_joined"}


def test_a_pattern_that_matches_a_new_topic_is_noticed_by_its_client() -> None:
    watched = story(
        classic("a", topics=(), topic_regex="orders.*"),
        classic("b", topics=(), topic_regex="orders.*"),
        faults=(TopicCreate(at_ms=PERTURBED_MS, topic="orders-new", partition_count=2),),
    )
    assert "classic.pattern_matched" in new_causes(watched, PERTURBED_MS + 15_000)
