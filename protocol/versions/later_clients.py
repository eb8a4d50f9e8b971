"""Brokers of 4.3 with the Java client of releases after 4.3.1 (client Appendix A).

Nobody has recorded such a client: the difference is that of KAFKA-20145.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.versions import kafka_4_3
from rebalance_sim.protocol.versions.version import Version


class LaterClient(MemberRules):
    """The client of the consumer protocol."""

    # A target waits for its names instead of being acknowledged in part again and again.
    acknowledges_unresolved_target = False


VERSION = Version(
    name="kafka-4.3-later-clients",
    about="brokers of 4.3 with the Java client of releases after 4.3.1",
    changes=(LaterClient,),
    shipped_defects=kafka_4_3.VERSION.shipped_defects,
)
