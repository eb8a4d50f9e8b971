"""The general sticky algorithm against its literal form, with groups that come and go."""

from __future__ import annotations

import random

import pytest
from sticky_literal import LiteralBalancing

from rebalance_sim.protocol.assignors.classic.classic_assignor import ClaimingMember, ungrouped
from rebalance_sim.protocol.assignors.classic.sticky import (
    CooperativeStickyAssignor,
    StickyAssignor,
)
from rebalance_sim.protocol.wire.embedded import NamedPartitions, Subscription

LAST = tuple[NamedPartitions, ...]


class _LiteralSticky(StickyAssignor):
    balancing = LiteralBalancing  # type: ignore[assignment]


class _LiteralCooperative(CooperativeStickyAssignor):
    balancing = LiteralBalancing  # type: ignore[assignment]


PAIRS = (
    (StickyAssignor(), _LiteralSticky()),
    (CooperativeStickyAssignor(), _LiteralCooperative()),
)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair[0].name)
def test_each_generation_gets_what_the_literal_form_gives(
    pair: tuple[StickyAssignor, StickyAssignor], seed: int
) -> None:
    fast, literal = pair
    rng = random.Random(seed)
    topics = [f"t{number}" for number in range(rng.randint(2, 8))]
    counts = {topic: rng.randint(0, 25) for topic in topics}
    group: dict[str, tuple[str, ...]] = {}
    last: dict[str, tuple[LAST, int]] = {}
    moved = 0
    for generation in range(1, 7):
        for number in range(rng.randint(0, 8)):
            subscription = tuple(t for t in topics if rng.random() < 0.5)
            group[f"{rng.randrange(100):02}-{generation}-{number}"] = subscription
        for gone in [m for m in sorted(group) if rng.random() < 0.2]:
            del group[gone]
        counts[rng.choice(topics)] = rng.randint(0, 40)
        members = [_row(fast, m, subscribed, last.get(m)) for m, subscribed in group.items()]
        result = fast.assign(partition_counts=counts, members=members)
        assert literal.assign(partition_counts=counts, members=members) == result
        for member_id, share in result.items():
            before = last.get(member_id, ((), 0))[0]
            moved += len({*ungrouped(share)}.difference(ungrouped(before)))
            if rng.random() < 0.8:  # The others miss the answer: their claims are of older ones.
                last[member_id] = share, generation
    assert moved


def _row(
    assignor: StickyAssignor, member_id: str, topics: tuple[str, ...], last: tuple[LAST, int] | None
) -> ClaimingMember:
    share, generation = last or (None, -1)
    owned = (share or ()) if assignor.supports_cooperative else ()
    return ClaimingMember(
        member_id=member_id,
        subscription=Subscription(
            topics=topics,
            owned_partitions=owned,
            generation_id=generation,
            user_data=assignor.user_data(last_assigned=share, last_generation_id=generation),
        ),
    )
