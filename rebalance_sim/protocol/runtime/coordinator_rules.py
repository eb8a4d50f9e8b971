"""The decisions about offsets and settings in which versions, or known defects, differ.

They concern groups of every type; each type's own rules inherit these.
"""

from __future__ import annotations

from typing import Any, Protocol

from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.records import OffsetCommitValue


class Desk(Protocol):
    """What rules have at hand: ``protocol/runtime/rule_desk.py``."""

    now_ms: int
    context: Any


class CoordinatorRules:
    """The correct rules.

    ``desk``: what they have at hand while the coordinator handles something; they keep nothing in
    attributes.
    """

    desk: Desk

    def __setattr__(self, name: str, value: object) -> None:
        if "desk" in vars(self):
            raise AttributeError(
                f"a rule sets its attribute {name}, which no snapshot has: declare it in the "
                f"class, as {name} = GroupState(...)"
            )
        object.__setattr__(self, name, value)

    @property
    def now_ms(self) -> int:
        """The time of what is being handled, by the clock of timers."""
        return self.desk.now_ms

    @property
    def context(self) -> Any:
        """Topics, settings and groups of the coordinator, for functions that ask for a
        ``CoordinatorContext``."""
        return self.desk.context

    def after_load(self, group: Any) -> None:
        """A coordinator has read this group from the log, and serves from now on: a rule may set
        its state and its timers again, which no log has."""

    writes_topic_id_of_offsets = True
    """Record 1 carries the topic id (coordinator §8.4)."""

    writes_topic_id_of_txn_offsets = True
    """So does that of an offset in a transaction (transactions §3)."""

    takes_topic_ids_of_offsets = True
    """OffsetCommit and OffsetFetch know version 10, which names topics by id."""

    deletes_offsets_with_group = True
    """coordinator §8.6: the offsets of a group go before the group does."""

    deletes_offsets_with_topic = True
    """coordinator §8.4: the offsets of a topic go when it does."""

    fences_txn_commits = True
    """transactions §3: offsets are added to a transaction by members at their epoch (KIP-447)."""

    hides_pending_offsets = True
    """transactions §3: a fetch that requires stable offsets is not shown those of a partition that
    an open transaction has."""

    fences_old_markers = True
    """transactions §2.4: a marker of a coordinator of transactions that another has followed is
    refused."""

    aborts_timed_out_transactions = True
    """transactions §2.5: a transaction that is open for longer than its timeout is aborted."""

    drops_aborted_offsets = True
    """transactions §3: offsets of a transaction that aborts do not count."""

    forgets_deleted_offsets = True
    """A load takes the tombstone of an offset for what it is (coordinator §9.3)."""

    has_assignment_interval = True
    """There is a least time between two targets of a group (KIP-1263, coordinator §4.3)."""

    def offset_expires(
        self, value: OffsetCommitValue, *, is_subscribed: bool, age_ms: int, retention_ms: int
    ) -> bool:
        """coordinator §8.5: the retention is over, and no member subscribes to the topic. An expiry
        time of the offset's own counts instead of the retention: the host of the decision looks at
        it."""
        return not is_subscribed and age_ms >= retention_ms

    def configs_in_force(self, known: ConfigsInForce, reported: ConfigsInForce) -> ConfigsInForce:
        """coordinator §10.2: settings that were altered count from the next heartbeat on."""
        return reported
