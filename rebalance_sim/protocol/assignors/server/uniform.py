"""The assignor "uniform": balance over all topics first, then stickiness.

Source: assignors §4. Instance ids and racks have no influence.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.protocol.assignors.server.server_assignor import (
    GroupSpec,
    MemberOrder,
    SubscriptionType,
)
from rebalance_sim.protocol.assignors.server.uniform_heterogeneous import assign_heterogeneous
from rebalance_sim.protocol.assignors.server.uniform_homogeneous import (
    assign_homogeneous,
    extra_stays_with_holder,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


class UniformAssignor:
    """Chooses the algorithm by the kind of group that the caller states.

    ``order`` says in which order members are visited: ascending id by default,
    ``java_hash_map_order`` to do as a real broker does.
    """

    name = "uniform"

    takes_extra = staticmethod(extra_stays_with_holder)
    """Which members of a homogeneous group hold one partition more; a subclass may replace it."""

    def __init__(self, *, order: MemberOrder = sorted) -> None:
        self.order = order

    def assign(
        self, spec: GroupSpec, partition_counts: Mapping[str, int]
    ) -> dict[str, frozenset[TopicPartition]]:
        """See ``Assignor.assign``. The result is empty if no member subscribes to a topic."""
        if spec.subscription_type is SubscriptionType.HOMOGENEOUS:
            return assign_homogeneous(
                spec, partition_counts, order=self.order, takes_extra=self.takes_extra
            )
        return assign_heterogeneous(spec, partition_counts, order=self.order).targets
