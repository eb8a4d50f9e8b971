"""sim-kept-timers: Found by this simulator, in the byte code of kafka-group-coordinator 4.3.1, and
recorded of 4.3.1 and 4.4.0.

A member that continues with the other protocol under its id keeps the timers of the former one and
gets none that it would need at once: one of the consumer protocol is removed for a SyncGroup that
it never had to send, or revokes without a limit. Clients make new ids when they change the
protocol, so that none was seen to do this. The timers of JoinGroup and SyncGroup survive a
conversion to a classic group, too, and fire if it is a consumer group again by then
(docs/findings.md).
"""

from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.defects.defect import Defect


class KeepsTimers(ConsumerGroupRules):
    ends_timers_of_former_protocol = False

    def awaits_requests_of(self, member: Member) -> bool:
        return True


DEFECT = Defect(
    id="sim-kept-timers",
    title="A member that changes its protocol keeps the timers of the former one",
    source="docs/findings.md",
    versions="4.3.1",
    rules=(KeepsTimers,),
    properties=("classic H10",),
    unobserved="no client changes the protocol under its id; random requests do",
)
