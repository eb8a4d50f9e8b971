"""The decisions of a classic member in which defects differ.

``ClassicMemberRules`` decides as kafka-clients 4.3.1 does, but for its known issues; what a defect
changes is in ``protocol/defects``. Source: classic §3, §4.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules


class ClassicMemberRules(CommitRules):
    """The decisions of the Java consumer with ``group.protocol=classic``."""

    keeps_member_id_on_retriable_error = True
    """A join that is to be repeated goes out with the member id that the client has."""

    stops_fetching_before_commit = True
    """EAGER: what is about to be revoked is not fetched while it is committed."""

    overlooks_outdated_commit_errors = True
    """A refused commit of a generation that is over says nothing about the present one."""

    gives_up_lost_topics = True
    """Before a JoinGroup, a commit that was refused because a topic is gone is not repeated
    (classic §4.3, classic-deleted-topic-delay)."""
