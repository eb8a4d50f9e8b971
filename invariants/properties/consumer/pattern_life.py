"""Patterns come and go with the members that have them.

Source: coordinator §1.1, §7.2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rebalance_sim.invariants.model.ledger import Change, GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.properties.consumer.patterns import (
    RESOLUTION_INTERVAL_MS,
    plain_pattern,
)
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import ShardView, Step, wall_ms
from rebalance_sim.protocol.clients import ClientState
from rebalance_sim.protocol.consumer.context import metadata_hash
from rebalance_sim.protocol.consumer.timer_keys import regex_key
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupRegularExpression,
    GroupMetadata,
    Record,
    RegularExpressionValue,
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


class PatternRefreshOrdered(Property):
    """coordinator §7.2, rule 7, "if", of heartbeats that say nothing of subscriptions; of those
    that do, ``pattern.ordered``."""

    id = "pattern.refresh_ordered"
    sentence = (
        "When more than 10 seconds have passed since patterns of a group were resolved, any "
        "heartbeat has it done again if a topic was created meanwhile, if other patterns are "
        "stored than members have, or if the refresh interval is over; and none waits for a "
        "resolution that nobody works on."
    )
    clauses = ("coordinator §7.2",)
    violated_by = ("test:new-topics-match-nothing", "test:resolution-never-ends")
    judges_mixed = True
    interest = Interest(requests=(ConsumerGroupHeartbeatRequest,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._stored: dict[str, Mapping[str, RegularExpressionValue]] = {}
        """Shard -> pattern -> its resolution, as the log has it."""
        self._names: dict[str, frozenset[str]] = {}
        """Shard -> the topics that it knows."""
        self._created: dict[str, int] = {}
        """Shard -> version of the topics with which one was created last; at first, of its load."""

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """All topics may be new to patterns that were resolved in another term."""
        name, image = step.shard.name, step.shard.coordinator.image
        self._stored.pop(name, None)
        self._names[name] = frozenset(image.by_name)
        self._created[name] = image.version
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """Some of what was resolved is not in the log."""
        self._stored.pop(step.shard.name, None)
        return None

    def on_metadata(self, step: Step) -> Finding | None:
        """Is there a topic that was not there before?"""
        name, image = step.shard.name, step.shard.coordinator.image
        names = frozenset(image.by_name)
        if not names <= self._names.get(name, names):
            self._created[name] = image.version
        self._names[name] = names
        return None

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Keep what is resolved."""
        name = step.shard.name
        if name in self._stored:
            self._stored[name] = self._after(self._stored[name], change.records)
        return None

    def on_request(self, step: Step) -> Finding | None:
        """Look at a heartbeat that changes nothing of the subscriptions."""
        shard, request = step.shard, step.request
        ledger = self.model.ledgers.get(shard.name)
        if (
            ledger is None
            or not ledger.pattern_count
            or ledger.classic_count
            or request.member_epoch <= JOIN_EPOCH
            or request.subscribed_topic_regex is not None
            or step.response.error_code
            or any(type(record) is ConsumerGroupMemberMetadata for record in step.records)
            or regex_key(self.model.group_id) in shard.armed_timers
        ):
            return None
        cause = self._cause(step, shard, ledger)
        if cause is None:
            return None
        return Finding(f"a heartbeat does not have the patterns of the group resolved: {cause}")

    def _cause(self, step: Step, shard: ShardView, ledger: GroupLedger) -> str | None:
        """Why patterns are to be resolved, if they are."""
        name, now_ms = shard.name, wall_ms(step)
        if name not in self._stored:
            self._stored[name] = self._after({}, shard.log_records())
        stored = self._stored[name]
        if not stored:
            return "none is stored"
        last_ms = max(value.timestamp for value in stored.values())
        if now_ms <= last_ms + RESOLUTION_INTERVAL_MS:
            return None
        if len(stored) != len(ledger.pattern_count):
            return f"{len(stored)} are stored, members have {len(ledger.pattern_count)}"
        if max(value.version for value in stored.values()) < self._created.get(name, 0):
            return f"a topic was created since {last_ms} ms"
        refresh_ms = shard.configs.broker.group_consumer_regex_refresh_interval_ms
        return "the refresh interval is over" if now_ms > last_ms + refresh_ms else None

    def _after(
        self, stored: Mapping[str, RegularExpressionValue], records: Iterable[Record]
    ) -> Mapping[str, RegularExpressionValue]:
        """What is resolved once these records are written."""
        for record in records:
            if record.group_id != self.model.group_id:
                continue
            if type(record) is ConsumerGroupRegularExpression:
                regex, value = record.regular_expression, record.value
                stored = {name: kept for name, kept in stored.items() if name != regex}
                if value is not None:
                    stored = {**stored, regex: value}
            elif type(record) is ConsumerGroupMetadata and record.value is None:
                stored = {}
        return stored


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
