"""Patterns are resolved to the topics that there are.

Source: coordinator §1.1, §7.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Kind, Late, Property
from rebalance_sim.protocol.clients import ClientState

ORDER = 56


class PatternRefreshed(Property):
    """coordinator §7.2, rule 7: any heartbeat has the patterns resolved that are older than the
    newest topic, though nobody changes anything. Heartbeats of a classic member do not, and what
    is deleted gives no cause to."""

    id = "pattern.refreshed"
    sentence = (
        "Once faults stop, the patterns of a group that a client of the consumer protocol is a "
        "member of are resolved to the topics that there are; those that were deleted may remain."
    )
    clauses = ("coordinator §7.2",)
    violated_by = ("test:stale-pattern",)
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Compare each pattern with the topics."""
        shard, ledger = self.model.acting_shard(), self.model.acting_ledger()
        if shard is None or ledger is None or not ledger.pattern_count:
            return
        if not any(
            entry.member.state is ClientState.STABLE and entry.member.member_id in ledger.members
            for entry in self.model.clients.values()
        ):
            return
        for pattern in sorted(ledger.pattern_count):
            matches = _plain_pattern(pattern)
            if matches is None:
                continue
            expected = {name for name in shard.coordinator.image.by_name if matches(name)}
            resolved = ledger.resolved.get(pattern)
            if resolved is None or not expected <= {*resolved}:
                shown = "unresolved" if resolved is None else f"[{', '.join(sorted(resolved))}]"
                yield Late(
                    f"pattern {pattern}", f"is {shown}, and matches [{', '.join(sorted(expected))}]"
                )


_PLAIN = re.compile(r"[\w\-.*+|()?\[\]]*")
"""Patterns that mean the same to every engine."""


def _plain_pattern(text: str) -> Callable[[str], object] | None:
    """What tells whether a whole name matches; None for a pattern that engines may not have
    alike."""
    if not _PLAIN.fullmatch(text):
        return None
    try:
        return re.compile(text).fullmatch
    except re.error:
        return None  # Whether RE2 takes it is another question (coordinator V12).
