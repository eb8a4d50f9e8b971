"""librdkafka 2.12 to 2.14 with the consumer protocol (client Appendix A.2)."""

from rebalance_sim.protocol.clients.common.client_kind import GroupProtocol
from rebalance_sim.protocol.clients.common.client_version import ClientVersion
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rules import LibrdkafkaRules
from rebalance_sim.protocol.wire.errors import ErrorCode

_FATAL = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    }
)


class LeavesAtOnce(LibrdkafkaRules):
    """Issue #5541."""

    leaves_when_application_returns = False

    def is_fatal(self, error_code: ErrorCode) -> bool:
        """See ``LibrdkafkaRules``; after any other error the next heartbeat follows."""
        return error_code in _FATAL


VERSION = ClientVersion(
    library="librdkafka",
    name="2.14",
    about="an application that stays away costs the membership at once; fewer errors are fatal",
    changes=(LeavesAtOnce,),
    protocol=GroupProtocol.CONSUMER,
)
