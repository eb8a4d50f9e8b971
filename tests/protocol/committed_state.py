"""A coordinator that keeps history, held against ones that have read a part of the log only."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from coordinator_builders import GROUP_ID, Bench, load, state_of

from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ListGroupsRequest,
)
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest
from rebalance_sim.protocol.wire.topics import TopicPartition

READS: tuple[Any, ...] = (
    ConsumerGroupDescribeRequest(group_ids=(GROUP_ID, "no one")),
    ListGroupsRequest(),
    *(
        OffsetFetchRequest(
            group_id=GROUP_ID,
            partitions=frozenset({TopicPartition("foo", 0), TopicPartition("bar", 1)}),
            member_id=member_id,
            member_epoch=-1 if member_id is None else 3,
            require_stable=False,
        )
        for member_id in (None, "A", "D")
    ),
)
"""Everything that is answered from committed state."""


def keeper(bench: Bench) -> GroupCoordinator:
    """A coordinator that has replayed the whole log of a bench, none of it committed."""
    coordinator = GroupCoordinator(
        config=CoordinatorConfig(),
        semantics=bench.semantics,
        image=bench.shard.coordinator.image,
        new_member_id=lambda: "no one asks for one",
        keeps_history=True,
    )
    for offset, record in enumerate(bench.shard.log):
        coordinator.replay(record, offset=offset)
    return coordinator


def assert_reads_and_reverts_at_every_batch(bench: Bench) -> None:
    """coordinator C15, C19: at each offset the state is that of the log up to it, seen from beyond
    and after going back."""
    records = list(bench.shard.log)
    ends = [0, *accumulate(len(batch) for _, batch in bench.shard.batches)]
    forwards, backwards = keeper(bench), keeper(bench)
    newest = state_of(forwards)
    for end in ends:
        forwards.commit_to(end)
        so_far = load(bench.semantics, records[:end], strict=True)
        so_far.update_image(forwards.image)
        for request in READS:
            assert forwards.read(request) == so_far.read(request), (end, request)
    assert state_of(forwards) == newest
    for end in reversed(ends):
        backwards.revert_to(end)
        assert state_of(backwards) == state_of(load(bench.semantics, records[:end], strict=True))
