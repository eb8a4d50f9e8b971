"""Which groups a request is about, and how a broker answers what concerns several of them.

Source: coordinator §6.2, §6.3. Each group lives in one partition of ``__consumer_offsets``, and
each partition that the broker coordinates answers for its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rebalance_sim.protocol.hosting.ports import Reply
from rebalance_sim.protocol.hosting.shard import Shard, ShardState
from rebalance_sim.protocol.runtime.outcome import TimerKey
from rebalance_sim.protocol.wire.classic_messages import DescribeGroupsRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)


def group_ids_of(what: object) -> Sequence[str] | None:
    """The groups that a request, a timer key, or the value of a commit is about; None
    for what is about all groups of a shard."""
    group_id: str | None = getattr(what, "group_id", None)
    if group_id is not None:
        # Timers of the whole shard have no group (coordinator §8.5).
        return None if isinstance(what, TimerKey) and not group_id else (group_id,)
    group_ids: Sequence[str] | None = getattr(what, "group_ids", None)
    return group_ids


class GroupRequests:
    """The requests of groups that one broker receives.

    ``shards``: one for each partition of ``__consumer_offsets``, in order; ``partition_of``: the
    partition that holds a group.
    """

    def __init__(self, shards: Sequence[Shard], partition_of: Callable[[str], int]) -> None:
        self._shards = shards
        self._partition_of = partition_of
        self._answers: Mapping[type, Callable[[Any, int], Any]] = {
            ConsumerGroupDescribeRequest: self.describe,
            DescribeGroupsRequest: self.describe,
            ListGroupsRequest: self.list,
        }

    def on_request(
        self, request: Any, reply: Reply, *, client_id: str, client_host: str, now_ms: int
    ) -> None:
        """Answer a list or a description now; let the shard of the group handle all others."""
        answer = self._answers.get(type(request))
        if answer is not None:
            reply(answer(request, now_ms))
        else:
            self._shards[self._partition_of(request.group_id)].on_request(
                request, reply, client_id=client_id, client_host=client_host, now_ms=now_ms
            )

    def describe(
        self, request: ConsumerGroupDescribeRequest | DescribeGroupsRequest, now_ms: int
    ) -> tuple[Any, ...]:
        """A row for every group that was asked for, in this order; an error for those of other
        coordinators."""
        by_partition: dict[int, list[str]] = {}
        for group_id in request.group_ids:
            by_partition.setdefault(self._partition_of(group_id), []).append(group_id)
        found: dict[str, Any] = {}
        for partition, group_ids in by_partition.items():
            part = replace(request, group_ids=tuple(group_ids))
            rows = self._shards[partition].read(part, now_ms)
            found.update((row.group_id, row) for row in rows)
        return tuple(found[group_id] for group_id in request.group_ids)

    def list(self, request: ListGroupsRequest, now_ms: int) -> ListGroupsResponse:
        """The groups of all partitions that this broker coordinates, in ascending id.

        Partitions of other coordinators are left out; one that is being loaded fails the whole
        request.
        """
        for shard in self._shards:
            if shard.state is ShardState.LOADING:
                refused: ListGroupsResponse = shard.refuse_read(request)
                return refused
        rows: list[ListedGroup] = []
        for shard in self._shards:
            if shard.is_active:
                part: ListGroupsResponse = shard.read(request, now_ms)
                if part.error_code:
                    return part
                rows += part.groups
        return ListGroupsResponse(groups=tuple(sorted(rows, key=lambda row: row.group_id)))
