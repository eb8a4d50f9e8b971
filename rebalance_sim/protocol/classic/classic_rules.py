"""The decisions of a classic group in which versions or defects differ.

The rules are correct ones; where Kafka decides otherwise, a defect that it ships with says so.

Source: classic §1, §2. A defect overrides one of them (``protocol/defects``).
"""

from __future__ import annotations

from collections.abc import Collection

from rebalance_sim.protocol.runtime.coordinator_rules import CoordinatorRules
from rebalance_sim.protocol.wire.classic_messages import JoinGroupRequest

_FIRST_VERSION_WITH_MEMBER_ID_REQUIRED = 4


_GENERATIONS_IN_A_TERM = 1 << 16


class ClassicGroupRules(CoordinatorRules):
    """Apache Kafka 4.1 and 4.3, which do not differ here, without their known issues."""

    has_sync_deadline = True
    """A generation whose members do not all sync in time is given up (classic §2.9)."""

    rebalances_on_replacement_while_completing = True
    """A static member that returns before the leader's assignment starts another rebalance
    (classic §2.5): the assignment is keyed by its old id."""

    rechecks_join_phase_without_pending = True
    """The join phase may end when an id that it waits for expires or leaves (classic §2.8,
    §2.9)."""

    syncs_when_committed = True
    """A SyncGroup to a Stable group is answered when all that was written before it is committed,
    the conversion that made the group so above all (classic §7.8, classic-early-sync)."""

    rebalances_on_return = True
    """A static member that returns to a Stable group starts a rebalance if it leads the group,
    subscribes to other topics than before, or was to join again once it has given partitions up:
    no one else would notice what has changed (classic §2.5, classic-quiet-return)."""

    takes_timeouts_of_successor = True
    """A static member that returns brings its own timeouts (classic §2.5, KAFKA-14009)."""

    renews_sessions_of_synced = True
    """The session of a member restarts when its SyncGroup is answered (classic §2.9, PR-451)."""

    silent_leader_gives_way = True
    """A leader that has not joined gives way to a member that has (classic §1.5)."""

    fences_joins = True
    """A JoinGroup of a member that owns something, and has missed the generation which the group is
    at, is refused, as its Heartbeat would be: what it owns may be somebody else's (classic §8.2,
    classic-reused-generation)."""

    takes_offered_assignors = True
    """A SyncGroup may name any assignor that its sender offers: which one a JoinGroup was answered
    with is not known any more once the group has been converted (classic §7.3, §7.8,
    classic-forgotten-assignor)."""

    expires_in_rebalances = False
    """Offsets of topics that the last generation did not subscribe to expire during a rebalance as
    well, though somebody may have joined who does (classic §8.5, KAFKA-13636)."""

    loads_protocol_type = True
    """A group without members keeps the protocol type that its record names (classic §8.2,
    KAFKA-6421)."""

    replaces_simple_group = True
    """Records of a consumer group replace a group that was inferred from offsets (KAFKA-20254)."""

    ends_undelayed_phase_at_once = True
    """Without an initial delay the first join phase ends within the JoinGroup that began it. A
    broker ends it in a timer of 0 ms, so that a request that comes before it is handled first
    (classic §1.5)."""

    def first_member(self, member_ids: Collection[str]) -> str:
        """Who leads where any member may: Kafka takes the first of a hash map (classic §1.6)."""
        return min(member_ids)

    def first_generation(self, term: int) -> int:
        """The smallest generation that a coordinator of this term makes of a group which it has
        not created: a number that a former coordinator gave away, and did not write, is never used
        again (classic §8.2, classic-reused-generation)."""
        return term * _GENERATIONS_IN_A_TERM

    def requires_member_id(self, request: JoinGroupRequest) -> bool:
        """A dynamic member learns its id before it becomes a member (classic §2.3)."""
        return (
            request.group_instance_id is None
            and request.api_version >= _FIRST_VERSION_WITH_MEMBER_ID_REQUIRED
        )
