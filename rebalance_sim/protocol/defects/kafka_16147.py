"""KAFKA-16147: Ownership entry lost when a pending revocation is cancelled."""

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.consumer.ownership_rules import Epochs
from rebalance_sim.protocol.defects._shared import NoDoubleOwnershipAlarm
from rebalance_sim.protocol.defects.defect import Defect, wrong


class _SeparateDiffsOwnership(NoDoubleOwnershipAlarm):
    """Assigned and pending revocation are diffed one after the other, and a removal
    does not look at the epoch it removes."""

    def update(
        self, epochs: Epochs, old: Member | None, new: Member | None, *, strict: bool
    ) -> None:
        for name in ("assigned", "pending_revocation"):
            before = getattr(old, name) if old else {}
            after = getattr(new, name) if new else {}
            if before == after and old and new and old.member_epoch == new.member_epoch:
                continue
            for partition in before:
                epochs.pop(partition, None)
            if new is not None:
                self.add(epochs, after, new.member_epoch, strict=False)


DEFECT = Defect(
    id="KAFKA-16147",
    title="Ownership entry lost when a pending revocation is cancelled",
    source="apache/kafka#15212",
    versions="3.7.0 (early access); fixed in 3.8.0",
    rules=(wrong(ConsumerGroupRules, ownership=_SeparateDiffsOwnership()),),
    properties=("defects S1",),
)
