"""Read operations: they show what is committed, and wait for nothing.

Source: coordinator §6.2, §6.3, §8.2, §9.4.
"""

from __future__ import annotations

from typing import TypeGuard

from rebalance_sim.protocol.classic.classic_describe import describe_classic, describe_no_classic
from rebalance_sim.protocol.consumer.committed_group import CommittedGroup
from rebalance_sim.protocol.consumer.consumer_describe import describe, describe_missing
from rebalance_sim.protocol.consumer.context import CoordinatorContext
from rebalance_sim.protocol.runtime.group_directory import Directory
from rebalance_sim.protocol.runtime.group_store import GroupStore
from rebalance_sim.protocol.runtime.timeline import committed
from rebalance_sim.protocol.wire.classic_messages import DescribedGroup, DescribeGroupsRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ListGroupsRequest,
    Response,
)
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchRequest

__all__ = ["ReadRequest", "Reads", "is_read"]

ReadRequest = (
    ConsumerGroupDescribeRequest | DescribeGroupsRequest | ListGroupsRequest | OffsetFetchRequest
)


def is_read(request: object) -> TypeGuard[ReadRequest]:
    """Whether this is a read operation.

    An offset fetch that requires stable offsets is a write without records instead
    (coordinator §8.2).
    """
    if isinstance(request, OffsetFetchRequest):
        return not request.require_stable
    return isinstance(
        request, ConsumerGroupDescribeRequest | DescribeGroupsRequest | ListGroupsRequest
    )


class Reads:
    """The read operations of one coordinator."""

    def __init__(
        self, context: CoordinatorContext, store: GroupStore, directory: Directory
    ) -> None:
        self._context = context
        self._store = store
        self._directory = directory

    def answer(self, request: ReadRequest) -> Response:
        """Answer from the last committed offset; of classic groups the state is the live one."""
        match request:
            case ConsumerGroupDescribeRequest():
                return tuple(self._describe(group_id) for group_id in request.group_ids)
            case DescribeGroupsRequest():
                return tuple(self._describe_classic(i, request) for i in request.group_ids)
            case ListGroupsRequest():
                return self._directory.rows(request)
            case OffsetFetchRequest():
                group = committed(self._store.groups).get(request.group_id)
                view = None if group is None else CommittedGroup(group)
                return self._store.offsets.fetch_committed(request, view)

    def _describe(self, group_id: str) -> ConsumerGroupDescribeResponse:
        group = committed(self._store.groups).get(group_id)
        if group is None:
            is_classic = group_id in committed(self._store.classic_groups)
            return describe_missing(group_id, is_classic=is_classic)
        return describe(self._context, CommittedGroup(group))

    def _describe_classic(self, group_id: str, request: DescribeGroupsRequest) -> DescribedGroup:
        group = committed(self._store.classic_groups).get(group_id)
        if group is None:
            is_consumer = group_id in committed(self._store.groups)
            return describe_no_classic(request, group_id, is_consumer=is_consumer)
        return describe_classic(group)
