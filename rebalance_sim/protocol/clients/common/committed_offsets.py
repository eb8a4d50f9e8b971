"""What follows from a committed offset of an assigned partition.

Source: client §8.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.clients.common.effects import ResetPositions, ValidatePositions
from rebalance_sim.protocol.clients.common.member_core import MemberCore
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.wire.offset_messages import NO_OFFSET
from rebalance_sim.protocol.wire.topics import TopicPartition


def apply_committed_offsets(core: MemberCore, offsets: Mapping[TopicPartition, int]) -> None:
    """What is committed, by partition: the next step of each towards a position (client §8).

    Partitions that have gone, or have a position by now, are left alone.
    """
    found: dict[TopicPartition, int] = {}
    missing: set[TopicPartition] = set()
    for partition, offset in offsets.items():
        state = core.subscription.assigned.get(partition)
        if state is None or state.fetch_state is not FetchState.INITIALIZING:
            continue
        if offset == NO_OFFSET:
            missing.add(partition)
            core.subscription.set_fetch_state(partition, FetchState.AWAIT_RESET)
        else:
            found[partition] = offset
            core.subscription.set_fetch_state(partition, FetchState.AWAIT_VALIDATION)
    if found:
        core.effects.append(ValidatePositions(positions=found))
    if missing:
        core.effects.append(ResetPositions(partitions=frozenset(missing)))
