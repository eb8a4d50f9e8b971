"""The log is the truth: memory follows it, and answers wait for it.

Sources: coordinator §9.3-§9.5, §14.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import attrgetter

from rebalance_sim.invariants.formatting import first_difference
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.offset_model import OffsetModel
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_member import Member
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.wire.assignment_messages import (
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
)
from rebalance_sim.protocol.wire.errors import ErrorCode, ProtocolBug
from rebalance_sim.protocol.wire.offset_messages import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from rebalance_sim.protocol.wire.records import Record

ORDER = 80


FIRST_REPLAY_RECORDS = 64
"""A live log is replayed into an empty coordinator when it has this many records, and then each
time it has doubled: the cost per record stays bounded."""


class ReplayEquivalence(Property):
    """coordinator C18, twice: against the shadow model after each batch, against the coordinator's
    own replay when the log has doubled and after each load."""

    id = "log.replay_equivalence"
    sentence = "Replaying the log into an empty coordinator gives the state that is served."
    clauses = ("coordinator C18", "defects S5")
    violated_by = (
        "KAFKA-16147",
        "KAFKA-19274",
    )
    judges_mixed = True

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._next_at: dict[str, int] = {}

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Compare everything, in both ways."""
        shard = step.shard
        self._next_at[shard.name] = max(FIRST_REPLAY_RECORDS, 2 * shard.log_end_offset)
        return self._compare_models(shard, ledger) or self._compare_replay(shard)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare what was touched, and everything when the log has doubled."""
        shard = step.shard
        group, ledger = change.group, change.ledger
        if group is None:
            return None if not ledger.members else Finding("the coordinator has lost the group")
        if group.group_epoch != ledger.group_epoch or (
            _has_other_target_epoch(group.target_assignment_epoch, ledger.target_epoch)
            or group.metadata_hash != ledger.metadata_hash
        ):
            return self._compare_models(shard, ledger)
        for member_id in change.members:
            if not _is_same(group.members.get(member_id), ledger.members.get(member_id)):
                return self._compare_models(shard, ledger)
        for member_id in change.targets:
            mine, theirs = ledger.targets.get(member_id), group.target_assignment.get(member_id)
            if mine is not theirs and mine != theirs:
                return self._compare_models(shard, ledger)
        if shard.log_end_offset >= self._next_at.get(shard.name, FIRST_REPLAY_RECORDS):
            self._next_at[shard.name] = 2 * shard.log_end_offset
            return self._compare_replay(shard)
        return None

    def on_full_check(self, step: Step) -> Finding | None:
        """Compare everything with the shadow model, which is a replay by other code."""
        shard = self.model.acting_shard()
        return None if shard is None else self._compare_models(shard, self.model.ledger_of(shard))

    def _compare_models(self, shard: ShardView, ledger: GroupLedger) -> Finding | None:
        group = self.model.group_in(shard)
        if group is None:
            return Finding("the coordinator has no such group") if ledger.members else None
        pairs = (
            ("group epoch", group.group_epoch, ledger.group_epoch),
            ("target epoch", max(group.target_assignment_epoch, 0), max(ledger.target_epoch, 0)),
            ("metadata hash", group.metadata_hash, ledger.metadata_hash),
            ("target of {}", group.target_assignment, ledger.targets),
            ("metadata of the target of {}", group.target_metadata, ledger.target_metadata),
        )
        for name, served, logged in pairs:
            if served != logged:
                return differs(self.model, shard, name, served, logged)
        return _compare_members(self.model, shard, group, ledger)

    def _compare_replay(self, shard: ShardView) -> Finding | None:
        served = self.model.group_in(shard)
        try:
            replayed = _replay(self.model, shard.coordinator, shard.log_records())
        except ProtocolBug as bug:
            return Finding(f"the log of {shard.name} cannot be loaded: {bug}")
        if served is None or replayed is None:
            if served is replayed:
                return None
            at_hand, in_log = ("missing", "there") if served is None else ("there", "missing")
            return differs(self.model, shard, "group", at_hand, in_log)
        for name, words in _REPLAYED_FIELDS.items():
            mine, theirs = getattr(served, name), getattr(replayed, name)
            if name == "target_assignment_epoch" and not _has_other_target_epoch(mine, theirs):
                continue
            if mine != theirs:
                return differs(self.model, shard, words, mine, theirs)
        return None


class RollbackExact(Property):
    """coordinator C19, offsets included. A host that rolls an active shard back shows it as a
    truncation of its log."""

    id = "log.rollback_exact"
    sentence = "After a rollback the state is the one that the remaining log describes."
    clauses = ("coordinator C19", "defects S5")
    violated_by = (
        "KAFKA-19274",
        "mut-keeps-failed-batch",
    )
    judges_mixed = True

    def on_truncated(self, step: Step) -> Finding | None:
        """Compare an active shard with its log."""
        shard = step.shard
        if not shard.is_active:
            return None
        finding = self._compare_offsets(shard)
        if finding is not None:
            return finding
        group, ledger = self.model.group_in(shard), self.model.ledger_of(shard)
        if group is None:
            return Finding(f"{shard.name} has lost the group") if ledger.members else None
        finding = _compare_members(self.model, shard, group, ledger)
        if finding is not None:
            return finding
        for name, served, logged in (
            ("group epoch", group.group_epoch, ledger.group_epoch),
            ("target epoch", max(group.target_assignment_epoch, 0), max(ledger.target_epoch, 0)),
            ("target of {}", group.target_assignment, ledger.targets),
            ("metadata of the target of {}", group.target_metadata, ledger.target_metadata),
        ):
            if served != logged:
                return differs(self.model, shard, name, served, logged)
        return None

    def _compare_offsets(self, shard: ShardView) -> Finding | None:
        offset_model = OffsetModel(self.model.group_id)
        offset_model.apply(shard.log_records(), first_offset=0)
        stored = shard.coordinator.offsets.of_group(self.model.group_id)
        served, logged = (
            {f"{topic}-{number}": value for (topic, number), value in offsets.items()}
            for offsets in (stored, offset_model.newest)
        )
        if served == logged:
            return None
        return differs(self.model, shard, "commit for {}", served, logged)


_WAITING = (
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupInstallAssignmentRequest,
    OffsetDeleteRequest,
    DeleteGroupsRequest,
    OffsetFetchRequest,
)
"""Requests whose answer waits for what was written before; of fetches, those of stable offsets
(coordinator §8.2)."""


_NEVER = 1 << 62
"""An offset that no log comes to."""


class CommitBeforeResponse(Property):
    """coordinator C20, §9.6. Reads (describe, list) show committed state and wait for nothing."""

    id = "log.commit_before_response"
    sentence = (
        "No answer is released before its records, and all records written before it, are "
        "committed; if that takes too long, it is COORDINATOR_NOT_AVAILABLE instead, that to an "
        "OffsetFetch NOT_COORDINATOR."
    )
    clauses = ("coordinator C20", "coordinator E2", "coordinator §9.6", "defects S5")
    violated_by = (
        "mut-reply-before-commit",
        "KAFKA-16973",
        "KafScale-121",
    )
    judges_mixed = True
    interest = Interest(requests=_WAITING)

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._waits_for: dict[tuple[str, int], int] = {}
        """Shard and operation -> the end offset of what its answer waits for."""

    def on_request(self, step: Step) -> Finding | None:
        """Remember what an answer must wait for."""
        shard, request = step.shard, step.request
        end = shard.log_end_offset
        if end > shard.high_watermark and (
            type(request) is not OffsetFetchRequest or request.require_stable
        ):
            self._waits_for[shard.name, step.operation] = end
        return None

    def on_released(self, step: Step) -> Finding | None:
        """Has the log been committed that far?"""
        if not self._waits_for:
            return None
        shard = step.shard
        offset = self._waits_for.pop((shard.name, step.operation), None)
        if offset is None or offset <= shard.high_watermark:
            return None
        if _is_brokers_own(step.response):
            return _judge_refusal(step, shard, offset)
        awaited = "records that are lost" if offset == _NEVER else f"offset {offset}"
        return Finding(
            f"{shard.name} released the answer to operation {step.operation}, which waits for "
            f"{awaited}; committed is {shard.high_watermark}"
        )

    def on_truncated(self, step: Step) -> Finding | None:
        """What could not be written is never committed, whatever comes to its offsets later."""
        shard = step.shard
        for key, end in self._waits_for.items():
            if key[0] == shard.name and end > shard.log_end_offset:
                self._waits_for[key] = _NEVER
        return None

    def on_unloaded(self, step: Step) -> Finding | None:
        """Answers of a shard that gave up are errors by now."""
        name = step.shard.name
        self._waits_for = {key: end for key, end in self._waits_for.items() if key[0] != name}
        return None


_BROKERS_OWN = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
_REPLAYED_FIELDS: Mapping[str, str] = {
    "resolved_regexes": "list of topics that {} matches",
    "subscribed_regexes": "number of members with the pattern {}",
    "group_epoch": "group epoch",
    "metadata_hash": "metadata hash",
    "members": "member {}",
    "target_assignment_epoch": "target epoch",
    "target_assignment_timestamp": "time of the target",
    "target_assignment": "target of {}",
    "subscribed_topic_names": "number of subscribers of {}",
    "server_assignors": "number of votes for {}",
    "target_metadata": "metadata of the target of {}",
    "client_assignors": "number of members with the assignor {}",
    "static_members": "member with the instance id {}",
    "current_partition_epoch": "epoch at which {} is held",
    "inverted_target": "owner of {} in the target",
    "state": "state of the group",
}
"""Attribute of a group -> what it is, with {} for the key where it is a map."""


def _has_other_target_epoch(served: int, logged: int) -> bool:
    """A group has no target at epoch 0, as it is born, and at -1, which a tombstone leaves behind.
    One that was born anew may be at either: a load reads of its former life what a cleaning in the
    middle of it has left."""
    return max(served, 0) != max(logged, 0)


def _is_brokers_own(response: object) -> bool:
    """Whether a broker answered in the coordinator's place, and so shows nothing of its state."""
    return any(code in _BROKERS_OWN for code in _codes_of(response))


def _codes_of(response: object) -> Iterable[ErrorCode | None]:
    return getattr(response, "errors", {}).values() or [getattr(response, "error_code", None)]


def _judge_refusal(step: Step, shard: ShardView, offset: int) -> Finding | None:
    """If the records that an answer waits for are still there, and so is their coordinator, they
    have not been committed in time."""
    if not shard.is_active or shard.log_end_offset < offset:
        return None
    is_fetch = type(step.request) is OffsetFetchRequest
    expected = ErrorCode.NOT_COORDINATOR if is_fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE
    if set(_codes_of(step.response)) == {expected}:
        return None
    return Finding(
        f"{shard.name} answers operation {step.operation}, whose records have not been committed "
        f"in time, and not with {expected.name}"
    )


def differs(
    model: ModelView, shard: ShardView, what: str, served: object, logged: object
) -> Finding:
    what, found, expected = first_difference(what, served, logged, model.name_of)
    return Finding(f"{shard.name}: the {what} is {found}, and should be {expected}")


def _compare_members(
    model: ModelView, shard: ShardView, group: ConsumerGroup, ledger: GroupLedger
) -> Finding | None:
    """Compare what is stored of each member with its records."""
    for member_id in sorted({*group.members, *ledger.members}):
        member, entry = group.members.get(member_id), ledger.members.get(member_id)
        if _is_same(member, entry):
            continue
        what = f"member {member_id}"
        if member is None or entry is None:
            return differs(model, shard, what, member, entry)
        for name, logged in _logged_fields(entry).items():
            if getattr(member, name) != logged:
                words = f"{name.replace('_', ' ')} of {what}"
                return differs(model, shard, words, getattr(member, name), logged)
    return None


def _logged_fields(entry: MemberEntry) -> dict[str, object]:
    """What the records say of a member, by the name of the field that holds it in memory."""
    out: dict[str, object] = {}
    if entry.current is None:
        out |= {"assigned": {}, "pending_revocation": {}}
    else:
        names = ("member_epoch", "previous_member_epoch", "state", "assigned", "pending_revocation")
        out |= {name: getattr(entry.current, name) for name in names}
        out["assignment_metadata"] = entry.current.metadata
    if entry.metadata is not None:
        out |= {name: getattr(entry.metadata, name) for name in _METADATA_FIELDS}
        out["client_assignors"] = entry.metadata.client_assignors or ()
    return out


_METADATA_FIELDS = (
    "subscribed_topic_names",
    "instance_id",
    "server_assignor",
    "rebalance_timeout_ms",
    "client_id",
    "client_host",
    "rack_id",
    "subscribed_topic_regex",
)
_read_metadata = attrgetter(*_METADATA_FIELDS)


def _is_same(member: Member | None, entry: MemberEntry | None) -> bool:
    """Whether a stored member says what its records say."""
    if member is None or entry is None:
        return member is None and entry is None
    current, metadata = entry.current, entry.metadata
    if current is None:
        if member.assigned or member.pending_revocation:
            return False
    elif (
        member.member_epoch != current.member_epoch
        or member.previous_member_epoch != current.previous_member_epoch
        or member.state is not current.state
        or member.assignment_metadata != current.metadata
        or (member.assigned is not current.assigned and member.assigned != current.assigned)
        or (
            member.pending_revocation is not current.pending_revocation
            and member.pending_revocation != current.pending_revocation
        )
    ):
        return False
    if metadata is None:
        return True
    return (member.client_assignors or None) == metadata.client_assignors and _read_metadata(
        member
    ) == _read_metadata(metadata)


def _replay(
    model: ModelView, live: GroupCoordinator, records: Iterable[Record]
) -> ConsumerGroup | None:
    """The group as a coordinator has it that loads these records; ProtocolBug if it cannot."""
    empty = GroupCoordinator(
        config=live.config, semantics=live.semantics, image=live.image, new_member_id=_no_new_id
    )
    for record in records:
        if record.group_id == model.group_id:
            empty.replay(record, strict=False)
    empty.on_loaded(now_ms=0)
    return empty.groups_of(ConsumerGroup).get(model.group_id)


def _no_new_id() -> str:
    raise ProtocolBug("a replay makes no member ids")
