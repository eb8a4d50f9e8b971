"""Patterns: resolved to what they match, and not more often than every 10 seconds.

Source: coordinator §7.2.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.wire.records import ConsumerGroupRegularExpression

ORDER = 55

RESOLUTION_INTERVAL_MS = 10_000
"""coordinator §7.2, rule 7."""

_PLAIN = re.compile(r"[\w\-.*+|()?\[\]]*")
"""Patterns that mean the same to every engine."""


def plain_pattern(text: str) -> Callable[[str], object] | None:
    """What tells whether a whole name matches; None for a pattern that engines may not have
    alike."""
    if not _PLAIN.fullmatch(text):
        return None
    try:
        return re.compile(text).fullmatch
    except re.error:
        return None  # Whether RE2 takes it is another question (coordinator V12).


class PatternTopics(Property):
    """coordinator §7.2, rule 2."""

    id = "pattern.as_matched"
    sentence = "A pattern is resolved to exactly the topics whose whole name it matches."
    clauses = ("coordinator §7.2",)
    violated_by = ("test:pattern-matches-part",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Match the names that there are, if the coordinator has seen the same."""
        if not change.patterns:
            return None
        image = step.shard.coordinator.image
        for record in change.records:
            if (
                type(record) is not ConsumerGroupRegularExpression
                or record.group_id != self.model.group_id
                or record.value is None
                or record.value.version != image.version
            ):
                continue
            matches = plain_pattern(record.regular_expression)
            if matches is None:
                continue
            expected = {name for name in image.by_name if matches(name)}
            if {*record.value.topics} != expected:
                return Finding(
                    f"the pattern {record.regular_expression} was resolved to "
                    f"[{', '.join(sorted(record.value.topics))}], and matches "
                    f"[{', '.join(sorted(expected))}]"
                )
        return None


class PatternPace(Property):
    """coordinator §7.2, rule 7. No stored pattern, no limit."""

    id = "pattern.pace"
    sentence = (
        "Patterns are resolved anew only when more than 10 seconds have passed since the last time "
        "of which a pattern is stored."
    )
    clauses = ("coordinator §7.2",)
    violated_by = ("test:patterns-resolved-at-once",)
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._resolved_ms: dict[str, dict[str, int]] = {}
        """Shard -> stored pattern -> when it was handed to the resolver."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """What a log holds is not counted: its pace was judged when it was written."""
        self._resolved_ms.pop(step.shard.name, None)
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """Some of it may not have been written."""
        self._resolved_ms.pop(step.shard.name, None)
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare the times."""
        if not change.patterns and not change.is_group_removed:
            return None
        name = step.shard.name
        stored = self._resolved_ms.setdefault(name, {})
        last_ms = max(stored.values(), default=None)
        new_ms = None
        for record in change.records:
            if type(record) is not ConsumerGroupRegularExpression:
                continue
            if record.group_id != self.model.group_id:
                continue
            if record.value is None:
                stored.pop(record.regular_expression, None)
            else:
                new_ms = stored[record.regular_expression] = record.value.timestamp
        if change.is_group_removed:
            stored.clear()
        if new_ms is None or last_ms is None or new_ms > last_ms + RESOLUTION_INTERVAL_MS:
            return None
        return Finding(f"patterns were resolved at {last_ms} ms, and again at {new_ms} ms")
