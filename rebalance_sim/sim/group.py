"""One group of clients: what its invariants see of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.re2_engine import covers
from rebalance_sim.sim.broker.cluster import Cluster
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.by_name import ByName
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.clock import Clock


class Group:
    """The view of one group (``invariants.step.WorldView``): the shards of its partition of
    ``__consumer_offsets``, and its own clients.

    Brokers, topics and network are shared with all other groups.
    """

    def __init__(
        self,
        group_id: str,
        *,
        cluster: Cluster,
        clock: Clock,
        semantics: Semantics,
        client_specs: Iterable[ClientSpec],
        has_data_plane: bool,
        tie_break: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self.group_id = group_id
        self.config = cluster.environment.config
        self.semantics = semantics
        self.has_data_plane = has_data_plane
        self.partition = cluster.partition_of(group_id)
        self.tie_break = tie_break
        self.client_specs = tuple(client_specs)
        self._processes: ByName[ClientProcess] = ByName()

    @property
    def now_ms(self) -> int:
        """The time."""
        return self._clock.now_ms

    def acting_shard(self) -> ShardHost | None:
        """The active shard of the group's partition with the highest leader epoch there has been,
        or None."""
        return self._cluster.acting_shard_of(self.partition)

    def clients(self) -> Mapping[str, ClientProcess]:
        """Client name -> its present process, in ascending name."""
        return self._processes.in_order()

    def on_process_start(self, process: ClientProcess) -> None:
        """A client has a new process."""
        self._processes.put(process.name, process)

    def is_stable(self) -> bool:
        """Whether a shard serves the group, and calls it stable, or has none."""
        shard = self.acting_shard()
        if shard is None:
            return False
        group = shard.coordinator.project(self.group_id)
        return group is None or group.is_settled

    def subscribes_to(self, topic_name: str) -> bool:
        """Whether some client subscribes to the topic from the start."""
        return any(covers(one.topics, one.topic_regex, topic_name) for one in self.client_specs)
