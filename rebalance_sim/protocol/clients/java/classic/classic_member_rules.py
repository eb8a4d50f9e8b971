"""The decisions of a classic member in which defects differ.

``ClassicMemberRules`` decides as kafka-clients 4.3.1 does, but for its known issues; what a defect
changes is in ``protocol/defects``. Source: classic §3, §4.
"""

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules


class ClassicMemberRules(CommitRules):
    """The decisions of the Java consumer with ``group.protocol=classic``."""

    keeps_member_id_on_retriable_error = True
    """A join that is to be repeated goes out with the member id that the client has."""

    beats_while_the_group_rebalances = True
    """Heartbeats continue until the JoinGroup, however long the application takes for it."""

    compares_with_joined_topics = True
    """A subscription that changes while the client joins lets it join once more."""

    learns_from_refused_commits = True
    """A commit that is refused because the member is unknown, or late, ends its generation."""

    keeps_generation_of_refused_sync = True
    """Nothing is lost when a SyncGroup comes too late because the group rebalances again."""

    limits_preparation = True
    """The commit before a JoinGroup is tried again for max.poll.interval.ms in all."""

    asks_for_topics_of_others = True
    """A leader has metadata of all topics that its group subscribes to before it assigns."""

    static_members_stay = True
    """A member with an instance id that is away from ``poll`` for too long does not leave."""

    stops_fetching_before_commit = True
    """EAGER: what is about to be revoked is not fetched while it is committed."""

    gives_up_lost_topics = True
    """Before a JoinGroup, a commit that was refused because a topic is gone is not repeated
    (classic §4.3, classic-deleted-topic-delay)."""
