"""mut-expire-keeps-ownership: Expired member keeps its ownership entries."""

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.consumer.ownership_rules import Epochs
from rebalance_sim.protocol.defects._shared import NoDoubleOwnershipAlarm
from rebalance_sim.protocol.defects.defect import Defect, wrong


class _ExpiredKeepsOwnership(NoDoubleOwnershipAlarm):
    """The tombstone of a current assignment frees nothing."""

    def update(
        self, epochs: Epochs, old: Member | None, new: Member | None, *, strict: bool
    ) -> None:
        if new is not None and new.member_epoch == -1:
            return
        super().update(epochs, old, new, strict=strict)


DEFECT = Defect(
    id="mut-expire-keeps-ownership",
    title="Expired member keeps its ownership entries",
    rules=(wrong(ConsumerGroupRules, ownership=_ExpiredKeepsOwnership()),),
    properties=("defects L1", "defects L2"),
)
