"""How the map of partition owners follows the members (coordinator §3.2)."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.wire.errors import ReplayError
from rebalance_sim.protocol.wire.topics import TopicPartition

NO_OWNER = -1
"""Partition epoch of a partition without owner. -2 is a valid owner epoch (coordinator §1.3)."""

Epochs = dict[TopicPartition, int]
"""Partition -> epoch of the member that owns it."""


class OwnershipRules:
    """How a member update changes the ownership map (coordinator §3.2).

    ``update`` is the code's own detector of double ownership: live, it raises ReplayError when it
    adds over an existing entry or removes one of another epoch.
    """

    removes_in_order = True
    """A member's current assignment and target go before the member (coordinator §9.3)."""

    def update(
        self, epochs: Epochs, old: Member | None, new: Member | None, *, strict: bool
    ) -> None:
        """Remove all entries of ``old``, then add all of ``new``."""
        if (
            old is not None
            and new is not None
            and old.assigned is new.assigned
            and old.pending_revocation is new.pending_revocation
        ):
            if old.member_epoch == new.member_epoch:
                return
            if not new.pending_revocation:
                self.renew(epochs, new.assigned, old.member_epoch, new.member_epoch, strict=strict)
                return
        if old is not None:
            self.remove(epochs, old.assigned, old.member_epoch, strict=strict)
            self.remove(epochs, old.pending_revocation, old.member_epoch, strict=strict)
        if new is not None:
            self.add(epochs, new.assigned, new.member_epoch, strict=strict)
            self.add(epochs, new.pending_revocation, new.member_epoch, strict=strict)

    def remove(
        self, epochs: Epochs, partitions: Mapping[TopicPartition, int], epoch: int, *, strict: bool
    ) -> None:
        """Forget the owner of each partition."""
        for partition in partitions:
            found = epochs.get(partition, NO_OWNER)
            if found == epoch:
                del epochs[partition]
            elif strict:
                raise _wrong_release(partition, epoch, found)

    def add(
        self, epochs: Epochs, partitions: Mapping[TopicPartition, int], epoch: int, *, strict: bool
    ) -> None:
        """Enter the owner of each partition."""
        for partition in partitions:
            if strict and partition in epochs:
                raise ReplayError(
                    f"{partition} is granted at epoch {epoch} "
                    f"although it is owned at {epochs[partition]}"
                )
            epochs[partition] = epoch

    def renew(
        self,
        epochs: Epochs,
        partitions: Mapping[TopicPartition, int],
        former_epoch: int,
        epoch: int,
        *,
        strict: bool,
    ) -> None:
        """The owner of these partitions has come to another epoch: ``remove`` and ``add`` in one,
        for a change of the group epoch brings every member here, and takes little from most."""
        for partition in partitions:
            if strict and (found := epochs.get(partition, NO_OWNER)) != former_epoch:
                raise _wrong_release(partition, former_epoch, found)
            epochs[partition] = epoch


def _wrong_release(partition: TopicPartition, epoch: int, found: int) -> ReplayError:
    return ReplayError(f"{partition} is released at epoch {epoch}, owned at {found}")
