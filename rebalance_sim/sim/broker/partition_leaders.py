"""Which broker leads a partition of a topic, so that clients fetch from it.

Partitions are spread over the brokers. A broker that is fenced (its session has run out, or it
shuts down in good order, or it is cut off) loses its partitions to the next live one, and does not
get them back in the time of a run (``leader.imbalance.check.interval.seconds`` is five minutes).
The replicas of topics are not modelled: every leader has all records.
"""

from __future__ import annotations

from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.broker.broker import Broker


class PartitionLeaders:
    """Leaders by *home*: partitions that began on one broker move together.

    ``brokers`` in ascending id; it may be filled later.
    """

    def __init__(self, brokers: list[Broker], *, broker_count: int) -> None:
        self._brokers = brokers
        self._leader_of_home = list(range(broker_count))
        self._first_home: dict[str, int] = {}
        self._fenced: set[int] = set()

    def on_topic_created(self, topic_id: str) -> None:
        """The first partitions of successive topics begin on successive brokers."""
        self._first_home.setdefault(topic_id, len(self._first_home))

    def on_topic_deleted(self, topic_id: str) -> None:
        """No one leads partitions of this topic any more."""
        del self._first_home[topic_id]

    def leader_of(self, partition: TopicPartition) -> Broker | None:
        """The broker that leads a partition, dead or alive; None for a deleted topic."""
        first = self._first_home.get(partition.topic_id)
        if first is None:
            return None
        home = (first + partition.partition) % len(self._leader_of_home)
        return self._brokers[self._leader_of_home[home]]

    def on_fenced(self, broker: Broker) -> None:
        """A broker loses what it leads, if there is another one to lead it."""
        self._fenced.add(broker.node_id)
        count = len(self._leader_of_home)
        for step in range(1, count):
            successor = (broker.node_id + step) % count
            if self._may_lead(successor):
                self._move(broker.node_id, successor)
                return

    def on_broker_up(self, broker: Broker) -> None:
        """A broker is back, and takes over what no one could lead."""
        self._fenced.discard(broker.node_id)
        for node_id in sorted(self._fenced):
            self._move(node_id, broker.node_id)

    def _may_lead(self, node_id: int) -> bool:
        broker = self._brokers[node_id]
        is_reachable = broker.is_alive and not broker.is_cut_off and not broker.is_stopping
        return is_reachable and node_id not in self._fenced

    def _move(self, old: int, new: int) -> None:
        self._leader_of_home = [new if leader == old else leader for leader in self._leader_of_home]
