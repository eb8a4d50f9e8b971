"""Patterns come and go with the members that have them.

Source: coordinator §1.1, §7.2.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.properties.consumer.patterns import (
    RESOLUTION_INTERVAL_MS,
    plain_pattern,
)
from rebalance_sim.invariants.property import Deadline, Finding, Kind, Late, Property
from rebalance_sim.invariants.step import ShardView, Step, wall_ms
from rebalance_sim.protocol.clients import ClientState
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.consumer.timer_keys import regex_key
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    GroupMetadata,
)
from rebalance_sim.protocol.wire.topics import MetadataImage

ORDER = 56


class PatternForgotten(Property):
    """coordinator §7.2: record 16 is taken back by the operation after which nobody has it."""

    id = "pattern.forgotten"
    sentence = "The resolution of a pattern is kept only while a member has the pattern."
    clauses = ("coordinator §7.2",)
    violated_by = ("test:keeps-abandoned-pattern",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the patterns once members have changed, or one was resolved."""
        if change.is_group_removed or not (change.members or change.patterns):
            return None
        ledger = self.model.ledger_of(step.shard)
        resolved, counts = ledger.resolved, ledger.pattern_count
        if len(resolved) <= len(counts) and resolved.keys() <= counts.keys():
            return None
        unused = sorted(resolved.keys() - counts.keys())
        return Finding(f"nobody has the pattern {unused[0]}, and its topics are kept")


class PatternOrdered(Property):
    """coordinator §7.2, rule 7: the heartbeat that brings a pattern has it resolved, unless one of
    the group was resolved less than 10 seconds ago."""

    id = "pattern.ordered"
    sentence = (
        "When a heartbeat brings a pattern whose topics are not known, its resolution is under "
        "way, unless patterns of the group were resolved within the last 10 seconds."
    )
    clauses = ("coordinator §7.2", "coordinator H12")
    violated_by = ("test:resolves-later",)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Look at the pattern of the sender."""
        request = step.request
        if (
            not change.members
            or type(request) is not ConsumerGroupHeartbeatRequest
            or not request.subscribed_topic_regex
            or change.is_mixed
        ):
            return None
        shard = step.shard
        pattern = request.subscribed_topic_regex
        ledger = self.model.ledger_of(shard)
        group = self.model.group_in(shard)
        if (
            group is None
            or pattern in ledger.resolved
            or pattern not in ledger.pattern_count
            or regex_key(self.model.group_id) in shard.armed_timers
            # The pattern that this request withdraws still counted when it came.
            or any(
                type(record) is ConsumerGroupRegularExpression and record.value is None
                for record in change.records
            )
        ):
            return None
        stored = group.resolved_regexes.values()
        last_ms = max((resolved.timestamp for resolved in stored), default=None)
        if last_ms is not None and wall_ms(step) <= last_ms + RESOLUTION_INTERVAL_MS:
            return None
        return Finding(f"nobody resolves the pattern {pattern}, which is new")


class PatternCause(Property):
    """coordinator §7.2, rule 7, "iff". That it is not too soon is ``pattern.pace``."""

    id = "pattern.cause"
    sentence = (
        "Patterns are ordered to be resolved only when a request brings or withdraws one, when "
        "others are stored than members have, when topics have changed since the last time, or "
        "when that is longer ago than the refresh interval."
    )
    clauses = ("coordinator §7.2",)
    violated_by = ("test:resolves-without-cause",)
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._ordered: dict[str, tuple[int, MetadataImage]] = {}
        """Shard -> when patterns were ordered to be resolved last, and the topics of then."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """What was resolved in another term is not known."""
        self._ordered.pop(step.shard.name, None)
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """Nor is what was not written."""
        self._ordered.pop(step.shard.name, None)
        return None

    def on_timers(self, step: Step) -> Finding | None:
        """Look at orders."""
        key = regex_key(self.model.group_id)
        if all(command.key != key for command in step.timers):
            return None
        shard = step.shard
        image = shard.coordinator.image
        last, now_ms = self._ordered.get(shard.name), wall_ms(step)
        self._ordered[shard.name] = now_ms, image
        refresh_ms = shard.configs.broker.group_consumer_regex_refresh_interval_ms
        if (
            last is None
            or last[1] is not image
            or now_ms > last[0] + refresh_ms
            or getattr(step.request, "subscribed_topic_regex", None) is not None
            or any(type(record) is ConsumerGroupRegularExpression for record in step.records)
            or self._differ(shard)
        ):
            return None
        return Finding(
            f"patterns are to be resolved anew, as they were at {last[0]} ms, and neither they nor "
            "the topics have changed"
        )

    def _differ(self, shard: ShardView) -> bool:
        ledger = self.model.ledger_of(shard)
        return ledger.resolved.keys() != ledger.pattern_count.keys()


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
            matches = plain_pattern(pattern)
            if matches is None:
                continue
            expected = {name for name in shard.coordinator.image.by_name if matches(name)}
            resolved = ledger.resolved.get(pattern)
            if resolved is None or not expected <= {*resolved}:
                shown = "unresolved" if resolved is None else f"[{', '.join(sorted(resolved))}]"
                yield Late(
                    f"pattern {pattern}", f"is {shown}, and matches [{', '.join(sorted(expected))}]"
                )


class HashOfTopics(Property):
    """coordinator §1.1: by this hash a coordinator notices that topics have changed."""

    id = "group.metadata_hash"
    sentence = (
        "The metadata hash that is written with a group epoch is that of all existing topics that "
        "the members subscribe to by then, by name or by pattern; what a member subscribed to that "
        "joins anew in the place of a static one still counts."
    )
    clauses = ("coordinator §1.1", "coordinator §7.1")
    violated_by = ("test:hash-of-nothing",)
    judges_mixed = True

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compute it anew."""
        written = None
        for record in change.records:
            if type(record) is ConsumerGroupMetadata and record.group_id == self.model.group_id:
                written = record.value
            elif type(record) is GroupMetadata:
                return None
        if written is None:
            return None
        shard = step.shard
        names = self.model.ledger_of(shard).all_names()
        expected = metadata_hash(names, shard.coordinator.image)
        if written.metadata_hash == expected:
            return None
        former = self._former_names(change)
        if former and written.metadata_hash == metadata_hash(
            names | former, shard.coordinator.image
        ):
            return None
        return Finding(
            f"the hash that was written with epoch {written.epoch} is not that of "
            f"[{', '.join(sorted(names))}]"
        )

    @staticmethod
    def _former_names(change: Change) -> frozenset[str]:
        """What members subscribed to that have another instance id now. The join of one that takes
        the place of a static member is worked out from the subscription of its predecessor, and its
        own former one is not taken away before the batch is replayed."""
        names: frozenset[str] = frozenset()
        for before, after in change.members.values():
            old = before.metadata if before is not None else None
            new = after.metadata if after is not None else None
            if old is not None and new is not None and old.instance_id != new.instance_id:
                names = names.union(old.subscribed_topic_names)
                names = names.union(
                    change.ledger.resolved.get(old.subscribed_topic_regex or "", ())
                )
        return names
