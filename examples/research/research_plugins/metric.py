"""A metric of one's own: how many members a group had at most."""

from rebalance_sim.sim.observe.metric import Metric


class LargestGroup(Metric):
    name = "research_members_max"
    _most = 0

    def after_step(self, step):
        shard = self.world.acting_shard()
        found = shard and shard.coordinator.project(self.world.group_id)
        self._most = max(self._most, len(found.members) if found else 0)

    def value(self):
        return self._most
