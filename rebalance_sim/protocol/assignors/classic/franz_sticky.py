"""``cooperative-sticky`` as franz-go's members speak it: each tells the assignor what it owns.

Source: the traces ``classic_cooperative`` of franz-go. Which of equal members gets which partition
is computed as the Java client does (franz §8).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rebalance_sim.protocol.assignors.classic.sticky import (
    CooperativeStickyAssignor,
    StickyUserData,
)
from rebalance_sim.protocol.wire.embedded import NamedPartitions


class FranzCooperativeStickyAssignor(CooperativeStickyAssignor):
    """``CooperativeStickyBalancer``."""

    def user_data(
        self, *, last_assigned: Sequence[NamedPartitions] | None, last_generation_id: int
    ) -> Hashable | None:
        """See ``ClassicAssignor.user_data``; before the first assignment it is empty."""
        return StickyUserData(tuple(last_assigned or ()), last_generation_id)
