"""Why a group rebalances: the causes of classic §6, by name.

A coordinator names one whenever a classic group enters PreparingRebalance, and whenever the epoch
of a consumer group rises; hosts count them (``Outcome.rebalances``). What only a client can know,
it says with the reason of its request, in the words of the Java client.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple


class RebalanceCause(Enum):
    """The value is the name under which it is counted."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    MEMBER_FENCED = "member_fenced"
    """A member was removed for an epoch that it cannot have (text of KIP-848)."""
    POLL_TIMEOUT = "poll_timeout"
    """An application stayed away from poll for too long, and its client left for it."""
    SESSION_TIMEOUT = "session_timeout"
    REBALANCE_TIMEOUT = "rebalance_timeout"
    """A member did not revoke, or join again, in time (consumer groups)."""
    SYNC_TIMEOUT = "sync_timeout"
    TOPICS_CHANGED = "topics_changed"
    """Partitions or topics came or went: noticed by the leader, or by the coordinator itself."""
    PATTERN_MATCHED = "pattern_matched"
    """A pattern matches other topics than before."""
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_REVOKED = "partitions_revoked"
    """The second rebalance of cooperative members (classic §3.5)."""
    ENFORCED = "enforced"
    """The application asked for it."""
    ASSIGNORS_CHANGED = "assignors_changed"
    """What a member says to client-side assignors, or offers of them; or another server-side
    assignor is preferred."""
    LEADER_REJOINED = "leader_rejoined"
    """For a reason that the leader did not give."""
    METADATA_CHANGED = "metadata_changed"
    """A follower joined again with other claims, for a reason that it did not give."""
    STATIC_REPLACEMENT = "static_replacement"
    WRITE_FAILED = "write_failed"
    """The leader's assignment could not be written."""
    CAPACITY = "capacity"
    """A load found more members than the group may have by now."""
    MIGRATION = "migration"
    """The group was converted to the other protocol."""


class Rebalance(NamedTuple):
    """One rebalance that begins: ``protocol`` is ``classic`` or ``consumer``."""

    protocol: str
    cause: RebalanceCause

    @property
    def name(self) -> str:
        """``classic.member_joined``."""
        return f"{self.protocol}.{self.cause.value}"


REASONS: Mapping[RebalanceCause, str] = MappingProxyType(
    {
        RebalanceCause.MEMBER_LEFT: "the consumer is being closed",
        RebalanceCause.POLL_TIMEOUT: "consumer poll timeout has expired.",
        RebalanceCause.TOPICS_CHANGED: "cached metadata has changed",
        RebalanceCause.PATTERN_MATCHED: "subscription has changed, as the pattern matches others",
        RebalanceCause.SUBSCRIPTION_CHANGED: "subscription has changed",
        RebalanceCause.PARTITIONS_REVOKED: "need to revoke partitions and re-join",
        RebalanceCause.ENFORCED: "rebalance enforced by user",
    }
)
"""How the reason of a JoinGroup or LeaveGroup begins."""

_LONGEST_FIRST = sorted(REASONS.items(), key=lambda item: -len(item[1]))


def cause_by_reason(reason: str) -> RebalanceCause | None:
    """The cause that a client's reason stands for; None for any other reason, or none."""
    for cause, text in _LONGEST_FIRST:
        if reason.startswith(text):
            return cause
    return None


def cause_of_leave(reasons: Iterable[str]) -> RebalanceCause:
    """Why the members of a LeaveGroup have left, by the reason of each."""
    causes = {cause_by_reason(reason) for reason in reasons}
    if causes == {RebalanceCause.POLL_TIMEOUT}:
        return RebalanceCause.POLL_TIMEOUT
    return RebalanceCause.MEMBER_LEFT
