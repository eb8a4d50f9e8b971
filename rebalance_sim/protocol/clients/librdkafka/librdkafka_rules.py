"""The decisions of a librdkafka member in which versions or defects differ.

What librdkafka 2.16.0 gets wrong is in ``protocol/defects``. Source: client §10.1.
"""

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules
from rebalance_sim.protocol.wire.errors import ErrorCode


class LibrdkafkaRules(CommitRules):
    """The decisions of librdkafka 2.16.0 without its known issues, for both protocols."""

    # --- the consumer protocol --------------------------------------------------------------------

    omits_unfinished_from_full_request = False
    """Whether a full request has nothing but the last finished rebalance for owned, and not what is
    being taken over, or given up (coordinator D12)."""

    says_everything_after_late_answer = True
    """A heartbeat whose answer did not come in time is followed by a full one."""

    leaves_when_application_returns = True
    """A member whose application is away from ``poll`` for too long leaves when it is back, and has
    given up what it had; else at once."""

    def is_fatal(self, error_code: ErrorCode) -> bool:
        """Whether a heartbeat that is refused with an error which no retry changes ends it all."""
        return True

    # --- the classic protocol ---------------------------------------------------------------------

    loses_partitions_of_unknown_member = True
    """A member whose JoinGroup fails with UNKNOWN_MEMBER_ID gives up what it has kept so far."""

    leader_watches_topics_of_all = True
    """A leader joins again when any topic of the group that it has assigned is not what it was, and
    not only one that it subscribes to itself (classic §4.2)."""

    keeps_generation_while_rebalancing = True
    """A commit that is refused with ILLEGAL_GENERATION while the client rebalances, or joins, says
    nothing about the generation of by then."""
