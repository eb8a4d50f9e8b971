"""What the controller has on record about one partition: leader, epoch, in-sync replicas.

Only an in-sync replica may lead, but for an unclean election.
"""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.broker.replica import Replica


class PartitionRegistration:
    """One partition of ``__consumer_offsets``, of which every broker has a replica.

    ``brokers``: all of the cluster, by node id; may be filled later. ``leader_epoch`` counts the
    elections of this partition. ``in_sync`` is in ascending order.
    """

    def __init__(self, brokers: Sequence[Broker], partition: int, broker_count: int) -> None:
        self._brokers = brokers
        self._order = replica_order(partition, broker_count)
        self.partition = partition
        self.leader_id: int | None = None
        self.leader_epoch = -1
        self.in_sync = list(range(broker_count))

    @property
    def leader(self) -> Broker | None:
        """The broker that was elected last, whether it knows yet or not; None: no one leads."""
        return None if self.leader_id is None else self._brokers[self.leader_id]

    @property
    def leading_replica(self) -> Replica | None:
        """The leader's replica."""
        leader = self.leader
        return None if leader is None else leader.replicas[self.partition]

    @property
    def preferred_leader_id(self) -> int:
        """The broker that leads from the start."""
        return self._order[0]

    # --- elections --------------------------------------------------------------------------------

    def may_lead(self, broker: Broker) -> bool:
        """Whether a replica is live, in touch, and in sync."""
        is_reachable = broker.is_alive and not broker.is_cut_off and not broker.is_stopping
        return is_reachable and broker.node_id in self.in_sync

    def successor(self) -> Broker | None:
        """The next replica, in order of preference after the leader, that may take over."""
        order = self._order
        first = 0 if self.leader_id is None else order.index(self.leader_id) + 1
        for node_id in (*order[first:], *order[:first]):
            broker = self._brokers[node_id]
            if node_id != self.leader_id and self.may_lead(broker):
                return broker
        return None

    def elect(self, broker: Broker | None) -> None:
        """Make a broker the leader at the next epoch; brokers learn of it from the controller."""
        self.leader_id = None if broker is None else broker.node_id
        self.leader_epoch += 1

    def elect_uncleanly(self, broker: Broker) -> None:
        """Make any replica the leader, and the only one in sync."""
        self.in_sync = [broker.node_id]
        self.elect(broker)

    def fence(self, broker: Broker) -> bool:
        """Take a broker out of the in-sync set, and elect another if it led; whether it did.

        The last in-sync replica stays in the set; no one leads while it is dead.
        """
        successor = self.successor()
        is_leader = broker.node_id == self.leader_id
        if is_leader and successor is None:
            if broker.is_alive:
                return False
            self.elect(None)
            return True
        if broker.node_id in self.in_sync and len(self.in_sync) > 1:
            self.shrink(broker.node_id)
        if is_leader:
            self.elect(successor)
        return is_leader

    def take_back(self, broker: Broker) -> bool:
        """A broker is back: find the partition a leader, if it led or no one does; whether that
        changed anything."""
        if broker.node_id == self.leader_id:
            successor = self.successor()
            self.elect(broker if successor is None else successor)
            return True
        if self.leader_id is None and broker.node_id in self.in_sync:
            self.elect(broker)
            return True
        return False

    # --- in-sync replicas -------------------------------------------------------------------------

    def shrink(self, node_id: int) -> None:
        """A replica is no longer in sync: the leader need not wait for it."""
        self.in_sync = [other for other in self.in_sync if other != node_id]
        leader = self.leading_replica
        if leader is not None:
            leader.replication.advance()

    def expand(self, node_id: int) -> None:
        """A replica has caught up."""
        self.in_sync = sorted([*self.in_sync, node_id])


def replica_order(partition: int, broker_count: int) -> tuple[int, ...]:
    """Node ids in the order in which they are preferred as leaders of a partition.

    Leaders go round the brokers, and so do the brokers that come after them, with a shift that
    grows each time that all brokers have had their turn: what one broker led does not all move to
    the same next one. Partition 0 has the brokers in ascending id.
    """
    first = partition % broker_count
    shift = partition // broker_count
    others = broker_count - 1
    return (
        first,
        *((first + 1 + (shift + place) % others) % broker_count for place in range(others)),
    )
