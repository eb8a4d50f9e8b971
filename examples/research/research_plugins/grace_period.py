"""A rule with a timer and state of its own: after a member has gone, the group waits for it.

In Kafka the next heartbeat of any member computes a new target. The proposal, as Kafka Connect has
it (scheduled.rebalance.max.delay.ms): what the member had stays reserved for some time, and goes to
who joins meanwhile; only then is it shared out.
"""

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.scenarios.plugins import GroupState, GroupTimer, Rule

GRACE_PERIOD_MS = 60_000


class WaitsForReturn(ConsumerGroupRules):
    is_waiting = GroupState(False)
    grace = GroupTimer("grace_is_over")

    def on_members_removed(self, group, members, cause):
        if len(members) < len(group.members):
            self.is_waiting[group.group_id] = True
            self.grace.set(group.group_id, after_ms=GRACE_PERIOD_MS)

    def computes_target(self, group, member):
        joins = member is not None and member.member_id not in group.members
        if joins and self.is_waiting[group.group_id]:
            self.grace.cancel(group.group_id)
            self.is_waiting[group.group_id] = False
        return not self.is_waiting[group.group_id]

    def grace_is_over(self, group):
        self.is_waiting[group.group_id] = False

    def after_load(self, group):
        if isinstance(group, ConsumerGroup) and group.target_assignment_epoch < group.group_epoch:
            self.on_members_removed(group, (), None)


GRACE_PERIOD = Rule(
    id="research-grace-period",
    title="A new target is computed only some time after a member has gone, or when one joins",
    rules=(WaitsForReturn,),
    replaces=("liveness.converges", "liveness.partitions_owned", "liveness.target_computed"),
)
