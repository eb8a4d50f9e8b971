"""Commits that happen when they must, and no others: by themselves, on the interval, before a
revocation.

Sources: client §6.2, §7, §10.1; classic §3.2, §4.2, §4.6. What a commit says is in
``client_offsets.py``, ``client_records.py`` and ``committed_records.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Kind, Late, Property
from rebalance_sim.protocol.clients import (
    ClientState,
)
from rebalance_sim.protocol.clients.kinds import JAVA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 245

_NEVER_MS = -1 << 40

_PASSING = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors of a commit after which another attempt may succeed (client §7)."""


class IntervalCommits(Property):
    """client §7, row "auto, interval". What librdkafka has to commit depends on what it has handed
    out, so it is let off."""

    id = "client.commit.interval"
    sentence = (
        "Once faults stop, a Java client of either protocol that commits by itself does so every "
        "auto.commit.interval.ms, as long as it has positions."
    )
    clauses = ("client §7", "classic §4.2")
    violated_by = ("test:never-commits",)
    client_kinds = JAVA_KINDS
    kind = Kind.EVENTUALLY
    deadline = Deadline.END
    outlives_clock_steps = False

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Clients at rest that have not committed for longer."""
        for name, entry in self.model.every_client():
            member = entry.member
            since_ms = max(entry.committed_ms, entry.state_since_ms)
            limit_ms = member.config.auto_commit_interval_ms + quiet.slack_ms
            if (
                member.kind in JAVA_KINDS
                and member.config.enable_auto_commit
                and member.state is ClientState.STABLE
                and member.is_polling
                and member.running_callback is None
                and member.coordinator_id is not None
                and at_ms - since_ms > limit_ms
                and any(state.has_valid_position for state in member.assigned.values())
            ):
                yield Late(name, "has committed nothing", since_ms)
