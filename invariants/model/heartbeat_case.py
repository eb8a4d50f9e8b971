"""A heartbeat as the coordinator found it: what stood before, what was asked, what was written.

Everything that the rules of a heartbeat depend on is read from the shadow model, before the records
of the heartbeat are entered there. No rule of the coordinator is asked: what a heartbeat must come
to is worked out by the properties that read it.
Source: coordinator §2.4-§2.9, §4.6.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rebalance_sim.invariants.model.computed_once import computed_once
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    UNCHANGED_TIMEOUT_MS,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import (
    ConsumerGroupMemberMetadata,
    ConsumerGroupMetadata,
    ConsumerGroupTargetAssignmentMember,
    ConsumerGroupTargetAssignmentMetadata,
    CurrentAssignmentValue,
    GroupMetadataValue,
    MemberMetadataValue,
    MemberState,
    Record,
    TargetMetadataValue,
)
from rebalance_sim.protocol.wire.topics import MetadataImage, TopicPartition

TopicsSeen = frozenset[tuple[str, str, int]]
"""Name, id and partition count of topics: what a metadata hash stands for."""

UNPLACED = CurrentAssignmentValue(
    member_epoch=JOIN_EPOCH,
    previous_member_epoch=-1,
    state=MemberState.STABLE,
    assigned={},
    pending_revocation={},
)
"""The current assignment of a member that is new (coordinator §1.2)."""

_UNSAID = MemberMetadataValue(
    instance_id=None,
    rack_id=None,
    client_id="",
    client_host="",
    subscribed_topic_names=(),
    subscribed_topic_regex="",
    rebalance_timeout_ms=UNCHANGED_TIMEOUT_MS,
    server_assignor=None,
)


class HeartbeatCase:
    """One heartbeat. ``ledger`` is the group before it; it changes when the case is judged.

    ``had_classic_group``: the group was a classic one, so that a join has to convert it.
    ``has_ambiguous_instances``: an instance id may stand for more than one member (coordinator D2).
    """

    def __init__(
        self,
        step: Step,
        shard: ShardView,
        ledger: GroupLedger,
        *,
        had_classic_group: bool,
        has_ambiguous_instances: bool,
    ) -> None:
        self.step = step
        self.shard = shard
        self.ledger = ledger
        self.had_classic_group = had_classic_group
        self.has_ambiguous_instances = has_ambiguous_instances
        self.request: ConsumerGroupHeartbeatRequest = step.request
        self.response: ConsumerGroupHeartbeatResponse = step.response

    # -- who asks --------------------------------------------------------------------------

    @property
    def sender(self) -> str:
        """Its id, also where the coordinator has made it."""
        return self.request.member_id or self.response.member_id or ""

    @property
    def is_accepted(self) -> bool:
        """A regular heartbeat to a group of this type that was not refused."""
        return (
            self.response.error_code is ErrorCode.NONE
            and self.request.member_epoch >= JOIN_EPOCH
            and not self.had_classic_group
        )

    @computed_once
    def predecessor(self) -> str | None:
        """The member whose place a static member takes with this join (coordinator §4.6)."""
        request = self.request
        if request.instance_id is None or request.member_epoch != JOIN_EPOCH:
            return None
        holder = self.ledger.instances.get(request.instance_id)
        if holder is None:
            return None
        entry = self.ledger.members[holder]
        if entry.epoch == STATIC_LEAVE_EPOCH:
            return holder
        speaks_classic = entry.metadata and entry.metadata.classic_member_metadata is not None
        return holder if speaks_classic else None

    @computed_once
    def stored(self) -> MemberEntry | None:
        """What was known of the sender; of one that returns, a copy of its predecessor."""
        if self.predecessor is None:
            return self.ledger.members.get(self.sender)
        entry = self.ledger.members[self.predecessor]
        current = entry.current or UNPLACED
        copy = replace(current, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH)
        return entry._replace(current=copy)

    @property
    def stored_metadata(self) -> MemberMetadataValue:
        """What the sender had said of itself until then."""
        return (self.stored.metadata if self.stored else None) or _UNSAID

    # -- what it says ----------------------------------------------------------------------

    @computed_once
    def merged(self) -> MemberMetadataValue:
        """The stored metadata with every field that the request names (coordinator H6). Client id
        and host come with the connection: those that were written."""
        request, stored = self.request, self.stored_metadata
        said: dict[str, object] = {}
        if request.instance_id is not None:
            said["instance_id"] = request.instance_id
        if request.rack_id is not None:
            said["rack_id"] = request.rack_id
        if request.rebalance_timeout_ms != UNCHANGED_TIMEOUT_MS:
            said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
        if request.server_assignor is not None:
            said["server_assignor"] = request.server_assignor
        if request.subscribed_topic_names is not None:
            said["subscribed_topic_names"] = tuple(sorted({*request.subscribed_topic_names}))
        if request.subscribed_topic_regex is not None:
            said["subscribed_topic_regex"] = request.subscribed_topic_regex
        connection = self.written_metadata
        if not said and connection is None and stored.classic_member_metadata is None:
            return stored
        connection = connection or stored
        return replace(
            stored,
            client_id=connection.client_id,
            client_host=connection.client_host,
            classic_member_metadata=None,
            **said,  # type: ignore[arg-type]
        )

    @computed_once
    def preferred_assignors(self) -> tuple[str, str]:
        """The server-side assignor preferred before the request, and with it: that with the most
        votes, of several the first in the order uniform, range, others as configured; without votes
        the first that is configured (coordinator §5.3)."""
        configured = self.shard.configs.broker.group_consumer_assignors
        before = self.ledger.vote_count
        preferred = _most_voted(before, configured)
        former, vote = self.stored_metadata.server_assignor, self.merged.server_assignor
        if former == vote:
            return preferred, preferred
        after = dict(before)
        for name, by in ((former, -1), (vote, 1)):
            if name is not None:
                after[name] = after.get(name, 0) + by
        return preferred, _most_voted(after, configured)

    @property
    def changes_names(self) -> bool:
        """Whether the set of subscribed names is another one than before."""
        names, before = self.merged.subscribed_topic_names, self.stored_metadata
        if names is before.subscribed_topic_names:
            return False
        return {*names} != {*before.subscribed_topic_names}

    @property
    def changes_pattern(self) -> bool:
        """Whether the pattern is another one than before."""
        return self.merged.subscribed_topic_regex != self.stored_metadata.subscribed_topic_regex

    # -- what was written ------------------------------------------------------------------

    def _last(self, kind: type[Record], *, of_sender: bool) -> Record | None:
        group_id, sender = self.ledger.group_id, self.sender
        for record in reversed(self.step.records):
            if (
                type(record) is kind
                and record.group_id == group_id
                and (not of_sender or getattr(record, "member_id", None) == sender)
            ):
                return record
        return None

    @computed_once
    def written_metadata(self) -> MemberMetadataValue | None:
        """The last record 5 of the sender."""
        record = self._last(ConsumerGroupMemberMetadata, of_sender=True)
        return record.value if isinstance(record, ConsumerGroupMemberMetadata) else None

    @computed_once
    def written_epoch(self) -> GroupMetadataValue | None:
        """The last record 3."""
        record = self._last(ConsumerGroupMetadata, of_sender=False)
        return record.value if isinstance(record, ConsumerGroupMetadata) else None

    @computed_once
    def written_target(self) -> TargetMetadataValue | None:
        """The last record 6."""
        record = self._last(ConsumerGroupTargetAssignmentMetadata, of_sender=False)
        return record.value if isinstance(record, ConsumerGroupTargetAssignmentMetadata) else None

    # -- what is in force after it ---------------------------------------------------------

    @property
    def group_epoch(self) -> int:
        """With what this heartbeat has raised."""
        return self.ledger.group_epoch if self.written_epoch is None else self.written_epoch.epoch

    @property
    def target_epoch(self) -> int:
        """With the target that this heartbeat has computed."""
        written = self.written_target
        return self.ledger.target_epoch if written is None else written.assignment_epoch

    @computed_once
    def target(self) -> frozenset[TopicPartition]:
        """The sender's, with what this heartbeat has computed."""
        record = self._last(ConsumerGroupTargetAssignmentMember, of_sender=True)
        if isinstance(record, ConsumerGroupTargetAssignmentMember) and record.value is not None:
            return record.value
        return self.ledger.targets.get(self.predecessor or self.sender) or frozenset()

    def topics_after(self) -> TopicsSeen:
        """The existing topics that the group subscribes to with this request."""
        ledger, before, after = self.ledger, self.stored_metadata, self.merged
        had = {*before.subscribed_topic_names}
        names = {n for n, count in ledger.subscriber_count.items() if count > (n in had)}
        names.update(after.subscribed_topic_names)
        for pattern, topics in ledger.resolved.items():
            others = ledger.pattern_count.get(pattern, 0)
            others -= pattern == before.subscribed_topic_regex
            if others > 0 or pattern == after.subscribed_topic_regex:
                names.update(topics)
        return topics_seen(names, self.shard.coordinator.image)


def _most_voted(votes: Mapping[str, int], configured: Sequence[str]) -> str:
    best = max(votes.values(), default=0)
    if best <= 0:
        return configured[0]
    return next(
        n for n in ("uniform", "range", *configured, *sorted(votes)) if votes.get(n) == best
    )


def topics_seen(names: Collection[str], image: MetadataImage) -> TopicsSeen:
    """Of these names, the topics that exist."""
    by_name = image.by_name
    topics = (by_name[name] for name in names if name in by_name)
    return frozenset((t.name, t.topic_id, t.partition_count) for t in topics)
