"""What the handlers of one coordinator share: configuration, rules, topics, and small look-ups."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b

from protocol.config import CoordinatorConfig
from protocol.consumer_group.rules import ConsumerGroupRules
from protocol.errors import ErrorCode, GroupError
from protocol.topics import MetadataImage

__all__ = ["CoordinatorContext", "metadata_hash"]


class CoordinatorContext:
    """Configuration and rules never change; ``image`` is replaced when topics change."""

    __slots__ = ("config", "image", "new_member_id", "rules")

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        rules: ConsumerGroupRules,
        image: MetadataImage,
        new_member_id: Callable[[], str],
    ) -> None:
        self.config = config
        self.rules = rules
        self.image = image
        self.new_member_id = new_member_id

    def topic_ids(self, names: Iterable[str]) -> frozenset[str]:
        """Ids of the topics that exist under these names; unknown names are skipped (5.2)."""
        by_name = self.image.by_name
        return frozenset(by_name[name].topic_id for name in names if name in by_name)


def metadata_hash(names: Iterable[str], image: MetadataImage) -> int:
    """A 64-bit hash over name, id and partition count of all existing topics of these names.

    0 if none of them exists (section 1.1). The function is our own, as only equality matters.
    """
    digest = blake2b(digest_size=8)
    found = False
    for name in sorted(names):
        topic = image.by_name.get(name)
        if topic is not None:
            found = True
            digest.update(f"{name}\0{topic.topic_id}\0{topic.partition_count}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True) or 1 if found else 0


def unknown_member(member_id: str, group_id: str) -> GroupError:
    """Section 2.12: the refusal of a member id that the group does not know."""
    return GroupError(
        ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}."
    )


def fenced_instance(member_id: str, instance_id: str, holder_id: str) -> GroupError:
    """Section 2.12: the instance id is held by another member id."""
    return GroupError(
        ErrorCode.FENCED_INSTANCE_ID,
        f"Static member {member_id} with instance id {instance_id} "
        f"was fenced by member {holder_id}.",
    )
