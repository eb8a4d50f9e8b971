"""The decisions of a librdkafka member in which versions or defects differ.

What librdkafka 2.16.0 gets wrong is in ``protocol/defects``. Source: client §10.1.
"""

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules


class LibrdkafkaRules(CommitRules):
    """The decisions of librdkafka 2.16.0 without its known issues, for both protocols."""

    # --- the consumer protocol --------------------------------------------------------------------

    omits_unfinished_from_full_request = False
    """Whether a full request has nothing but the last finished rebalance for owned, and not what is
    being taken over, or given up (coordinator D12)."""

    says_everything_after_late_answer = True
    """A heartbeat whose answer did not come in time is followed by a full one."""

    # --- the classic protocol ---------------------------------------------------------------------

    loses_partitions_of_unknown_member = True
    """A member whose JoinGroup fails with UNKNOWN_MEMBER_ID gives up what it has kept so far."""

    leader_watches_topics_of_all = True
    """A leader joins again when any topic of the group that it has assigned is not what it was, and
    not only one that it subscribes to itself (classic §4.2)."""
