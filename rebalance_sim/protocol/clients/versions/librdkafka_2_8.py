"""librdkafka 2.6.1 to 2.9 with the classic protocol (client Appendix A.2)."""

from rebalance_sim.protocol.clients.common.client_kind import GroupProtocol
from rebalance_sim.protocol.clients.common.client_version import ClientVersion
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules


class DropsGeneration(LibrdkafkaRules):
    """Issue #4059, fixed by #4908."""

    keeps_generation_while_rebalancing = False


VERSION = ClientVersion(
    library="librdkafka",
    name="2.8",
    about="a commit that is refused during a rebalance costs the generation that follows",
    changes=(DropsGeneration,),
    protocol=GroupProtocol.CLASSIC,
)
