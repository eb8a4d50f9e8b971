"""The markers of one producer in one log, as a transaction that is being verified sees them.

Source: transactions §2.3 (``VerificationGuard``).
"""

from __future__ import annotations

from rebalance_sim.protocol.wire.transaction_messages import NO_PRODUCER_EPOCH
from rebalance_sim.protocol.wire.value import value


@value
class ProducerMarkers:
    """``count``: how many there are. ``before``: how many of them come before the last ones, which
    all have the epoch ``last_epoch``."""

    count: int = 0
    before: int = 0
    last_epoch: int = NO_PRODUCER_EPOCH

    def with_one(self, producer_epoch: int) -> ProducerMarkers:
        """These, and one of this epoch."""
        before = self.before if producer_epoch == self.last_epoch else self.count
        return ProducerMarkers(count=self.count + 1, before=before, last_epoch=producer_epoch)

    def seen_by(self, producer_epoch: int, *, verify_only: bool) -> int:
        """A number that changes when a marker comes that ends a transaction of this epoch. One of
        version 2, which is not only verified, has the epoch of the marker that ends the transaction
        before it (KAFKA-18654)."""
        is_next = not verify_only and producer_epoch == self.last_epoch
        return self.before if is_next else self.count
