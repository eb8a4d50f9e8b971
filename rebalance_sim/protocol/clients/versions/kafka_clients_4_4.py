"""kafka-clients 4.4 (client Appendix A)."""

from rebalance_sim.protocol.clients.common.client_version import ClientVersion
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules


class AcknowledgesOnce(MemberRules):
    """KAFKA-20145."""

    repeats_partial_acknowledgement = False


VERSION = ClientVersion(
    library="kafka-clients",
    name="4.4",
    about="a target of which some topics have no name yet is acknowledged once",
    changes=(AcknowledgesOnce,),
)
