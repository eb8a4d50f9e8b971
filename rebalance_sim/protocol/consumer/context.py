"""What the handlers of consumer groups share beside the groups."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.runtime.context import CoordinatorContext
from rebalance_sim.protocol.wire.topics import MetadataImage

ConsumerContext = CoordinatorContext[ConsumerGroupRules]


def metadata_hash(names: Iterable[str], image: MetadataImage) -> int:
    """A 64-bit hash over all existing topics of these names: name, id, partitions, and their racks.

    0 if none of them exists (coordinator §1.1). The function is our own, as only equality matters.
    """
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = image.by_name.get(name)
        if topic is not None:
            found = True
            digest.update(f"{name}\0{topic.topic_id}\0{topic.partition_count}\n".encode())
            if topic.replica_racks:
                digest.update(repr(topic.replica_racks).encode())
    return int.from_bytes(digest.digest(), "big", signed=True) or 1 if found else 0
