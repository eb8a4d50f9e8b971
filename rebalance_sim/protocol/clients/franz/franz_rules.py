"""The decisions of a franz-go member in which versions or defects differ.

What franz-go 1.22.3 gets wrong is in ``protocol/defects``. Source: franz §1-§7.
"""

from __future__ import annotations

from rebalance_sim.protocol.clients.common.commit_rules import CommitRules


class FranzRules(CommitRules):
    """The decisions of franz-go 1.22.3 without its known issues, for both protocols."""

    loses_partitions_of_unknown_member = True
    """A member whose JoinGroup fails with UNKNOWN_MEMBER_ID gives up what it has kept so far."""

    tells_of_what_it_has = True
    """A member that leaves has all revoked that it was assigned, and not what it was given last."""

    revokes_before_eager_sync = True
    """A member of a cooperative group that goes over to eager revokes what it has before it syncs,
    and not when it has been given something else."""

    watches_missing_topics = True
    """A leader also looks for those topics of others that do not exist yet."""

    leaves_given_up_out_of_commits = True
    """A commit that waits, or is sent again, no longer names what the member has given up."""

    names_instance_in_leave = True
    """The leave of a static member of the consumer protocol says which instance it is."""
