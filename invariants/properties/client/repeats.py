"""Requests about offsets that have failed are repeated after a backoff, not at once.

Sources: client §2.2, §7; classic §3.2, §4.3. Only a repetition waits: whether a commit is one is
clear where it follows on the failure in the same step, or where the application has asked for none.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Kind, Late, Property
from rebalance_sim.protocol.clients import (
    ClientState,
)
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.clients.kinds import JAVA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 246

_NEVER_MS = -1 << 40
_NOBODY: set[int] = set()
_NOTHING: dict[int, int] = {}


_TRIED_AGAIN = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
"""After these errors of a lookup the same one is pending, and a ``poll`` begins no other (client
§7); after others its application is told."""


class LookupCompletes(Property):
    """client §7, §8."""

    id = "client.lookup.completes"
    sentence = (
        "Once faults stop, a Java client of either protocol that is in the group and polls looks "
        "up the committed offsets of every partition that it is assigned and that exists."
    )
    clauses = ("client §7", "client §8")
    violated_by = ("KAFKA-18160",)
    client_kinds = JAVA_KINDS
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Partitions without a position, of members at rest."""
        shard = self.model.acting_shard()
        if shard is None:
            return
        topics = shard.coordinator.image.by_id
        for name, entry in self.model.every_client():
            member = entry.member
            if (
                member.kind not in JAVA_KINDS
                or member.state is not ClientState.STABLE
                or not member.is_polling
                or member.running_callback is not None
                or member.coordinator_id is None
                or at_ms - entry.state_since_ms <= quiet.slack_ms
            ):
                continue
            for partition, state in sorted(member.assigned.items()):
                if state.fetch_state is FetchState.INITIALIZING and partition.topic_id in topics:
                    what = f"has no position in {self.model.name_of(partition)}"
                    yield Late(name, what, entry.state_since_ms)
                    break
