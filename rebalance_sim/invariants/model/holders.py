"""Who holds each partition, or is to hold it, where nothing keeps two from the same one."""

from __future__ import annotations

from rebalance_sim.protocol.wire.topics import TopicPartition


class Holders:
    """``owner``: the first holder of each partition that has one. ``rivals``: those beside it,
    empty unless ownership is broken."""

    __slots__ = ("owner", "rivals")

    def __init__(self) -> None:
        self.owner: dict[TopicPartition, str] = {}
        self.rivals: dict[TopicPartition, list[str]] = {}

    def take(self, partition: TopicPartition, member_id: str) -> str:
        """A member has a partition; its owner, which is another member if that has it still."""
        owner = self.owner.setdefault(partition, member_id)
        if owner != member_id:
            self.rivals.setdefault(partition, []).append(member_id)
        return owner

    def release(self, partition: TopicPartition, member_id: str) -> None:
        """It has a partition no more; if others have it as well, one of them is the owner."""
        others = self.rivals.pop(partition, None)
        if others is None:
            if self.owner.get(partition) == member_id:
                del self.owner[partition]
            return
        left = [one for one in (self.owner[partition], *others) if one != member_id]
        self.owner[partition] = left[0]
        if len(left) > 1:
            self.rivals[partition] = left[1:]
