"""The log is the truth: memory follows it, answers wait for it, and what is committed stays.

Sources: coordinator §9.3-§9.5, §14.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rebalance_sim.invariants.formatting import first_difference
from rebalance_sim.invariants.model.ledger import Change, GroupLedger, MemberEntry
from rebalance_sim.invariants.model.offset_model import OffsetModel
from rebalance_sim.invariants.model.shadow_model import ShadowModel
from rebalance_sim.invariants.property import Finding, Property
from rebalance_sim.invariants.step import ShardView, Step, WorldView, shard_of
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
from rebalance_sim.protocol.wire.records import ConsumerGroupRegularExpression, OffsetCommit, Record

ORDER = 80


RecordKey = tuple[int, str, str, int]
"""Type, group, member (or pattern, or topic) and partition of a record: what compaction goes by."""

FIRST_REPLAY_RECORDS = 64
"""A live log is replayed into an empty coordinator when it has this many records, and then each
time it has doubled: the cost per record stays bounded."""


class ReplayEquivalence(Property):
    """coordinator C18, twice: against the shadow model after each batch, against the coordinator's
    own replay when the log has doubled and after each load."""

    id = "log.replay_equivalence"
    sentence = "Replaying the log into an empty coordinator gives the state that is served."
    clauses = ("coordinator C18", "defects S5")
    violated_by = ("KAFKA-16147", "KAFKA-19274", "test:memory-only-change")
    judges_mixed = True

    def __init__(self, model: ShadowModel) -> None:
        super().__init__(model)
        self._next_at: dict[str, int] = {}

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """Compare everything, in both ways."""
        shard = shard_of(step)
        self._next_at[shard.name] = max(FIRST_REPLAY_RECORDS, 2 * shard.log_end_offset)
        return self._compare_models(shard, ledger) or self._compare_replay(shard)

    def on_change(self, step: Step, change: Change) -> Finding | None:
        """Compare what was touched, and everything when the log has doubled."""
        shard = shard_of(step)
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

    def full(self, view: WorldView) -> Finding | None:
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
                return _differs(self.model, shard, name, served, logged)
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
            return _differs(self.model, shard, "group", at_hand, in_log)
        for name, words in _REPLAYED_FIELDS.items():
            mine, theirs = getattr(served, name), getattr(replayed, name)
            if name == "target_assignment_epoch" and not _has_other_target_epoch(mine, theirs):
                continue
            if mine != theirs:
                return _differs(self.model, shard, words, mine, theirs)
        return None


class RollbackExact(Property):
    """coordinator C19, offsets included. A host that rolls an active shard back shows it as a
    truncation of its log."""

    id = "log.rollback_exact"
    sentence = "After a rollback the state is the one that the remaining log describes."
    clauses = ("coordinator C19", "defects S5")
    violated_by = ("KAFKA-19274", "mut-keeps-failed-batch", "test:rollback-of-log-only")
    judges_mixed = True

    def on_truncated(self, step: Step) -> Finding | None:
        """Compare an active shard with its log."""
        shard = shard_of(step)
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
                return _differs(self.model, shard, name, served, logged)
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
        return _differs(self.model, shard, "commit for {}", served, logged)


class CommitBeforeResponse(Property):
    """coordinator C20. Reads (describe, list) show committed state and wait for nothing."""

    id = "log.commit_before_response"
    sentence = (
        "No answer is released before its records, and all records written before it, are "
        "committed."
    )
    clauses = ("coordinator C20", "coordinator E2", "defects S5")
    violated_by = ("mut-reply-before-commit", "KAFKA-16973", "KafScale-121")
    judges_mixed = True

    def __init__(self, model: ShadowModel) -> None:
        super().__init__(model)
        self._waits_for: dict[tuple[str, int], int] = {}

    def on_request(self, step: Step) -> Finding | None:
        """Remember what an answer must wait for."""
        shard = step.shard
        if shard is not None and _is_write(step.request):
            end = shard.log_end_offset
            if end > shard.high_watermark:
                self._waits_for[shard.name, step.operation] = end
        return None

    def on_released(self, step: Step) -> Finding | None:
        """Has the log been committed that far?"""
        if not self._waits_for:
            return None
        shard = shard_of(step)
        offset = self._waits_for.pop((shard.name, step.operation), None)
        if offset is None or offset <= shard.high_watermark or _is_brokers_own(step.response):
            return None
        return Finding(
            f"{shard.name} released the answer to operation {step.operation}, which waits for "
            f"offset {offset}; committed is {shard.high_watermark}",
            {"shard": shard.name},
        )

    def on_unloaded(self, step: Step) -> Finding | None:
        """Answers of a shard that gave up are errors by now."""
        name = shard_of(step).name
        self._waits_for = {key: end for key, end in self._waits_for.items() if key[0] != name}
        return None


class CommittedKept(Property):
    """coordinator C21. Below a leader's high watermark, compaction may drop what a later record
    replaced.

    The log may hold records of other groups: they are seen as gaps, and not judged here.
    """

    id = "log.committed_kept"
    sentence = "A committed record never disappears, and no offset is committed twice."
    clauses = ("coordinator C21", "defects S5")
    violated_by = ("test:lost-commit",)
    judges_mixed = True

    def __init__(self, model: ShadowModel) -> None:
        super().__init__(model)
        self._committed: list[Record | None] = []
        """Every record that was ever committed, by offset; None where nobody looked in time, or
        where another group wrote."""
        self._latest: dict[RecordKey, Record] = {}
        """What compaction would keep of the first ``_entered`` of them; caught up with at loads."""
        self._entered = 0
        self._tails: dict[str, tuple[int, list[Record | None]]] = {}
        """Shard -> first offset that was not committed when last seen, and the records from it."""

    def on_append(self, step: Step) -> Finding | None:
        """Remember what was appended."""
        shard = shard_of(step)
        end = shard.log_end_offset
        tail = self._tails.get(shard.name)
        if tail is None:
            tail = self._tails[shard.name] = end - len(step.records), []
        first, records = tail
        gap = end - len(step.records) - first - len(records)
        if gap < 0:
            self._read_tail(shard)
            return None
        if gap:
            records += [None] * gap
        records += step.records
        return None

    def on_committed(self, step: Step) -> Finding | None:
        """Enter what a leader committed; offsets that were committed before must agree."""
        shard = shard_of(step)
        end = shard.high_watermark
        first, records = self._tails.get(shard.name, (end, []))
        count = end - first
        if count <= 0:
            return None
        self._tails[shard.name] = end, records[count:]
        del records[count:]
        committed = self._committed
        again = len(committed) - first
        if again > 0:
            known = committed[first : first + len(records)]
            if known != records[:again]:
                for offset, (record, other) in enumerate(zip(records, known, strict=False), first):
                    if record is None:
                        records[offset - first] = other
                    elif other is not None and other != record:
                        what = f"record at offset {offset}"
                        return _differs(self.model, shard, what, record, other)
                committed[first : first + len(known)] = records[:again]
            del records[:again]
        elif again < 0 and shard.is_active:
            committed += [None] * -again
            again = 0
        if again >= 0:
            committed += records
        return None

    def on_loaded(self, step: Step, ledger: GroupLedger) -> Finding | None:
        """A new leader must have everything that was ever committed."""
        shard = shard_of(step)
        records = self._read_tail(shard)
        committed = self._committed
        if shard.log_end_offset < len(committed):
            return Finding(
                f"{shard.name} became leader with a log that ends at {shard.log_end_offset}; "
                f"committed was {len(committed)}",
                {"shard": shard.name},
            )
        group_id = self.model.group_id
        for entered in committed[self._entered :]:
            if entered is not None and entered.group_id == group_id:
                _keep_latest(self._latest, entered)
        # A new leader may not know yet how far the old one had committed.
        end = self._entered = max(len(committed), shard.high_watermark)
        latest: dict[RecordKey, Record] = {}
        for record in records[: len(records) - (shard.log_end_offset - end)]:
            if record.group_id == group_id:
                _keep_latest(latest, record)
        if end > len(committed):  # Committed before anybody looked.
            self._latest = latest
            committed += [None] * (end - len(committed))
        elif latest != self._latest:
            keys = {*latest, *self._latest}
            key = min(k for k in keys if latest.get(k) != self._latest.get(k))
            what = f"committed record of type {key[0]} for {key[2] or key[1]}"
            return _differs(self.model, shard, what, latest.get(key), self._latest.get(key))
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """What a leader drops must not have been committed; a follower's log is judged later."""
        shard = shard_of(step)
        first, records = self._tails.pop(shard.name, (shard.log_end_offset, []))
        if shard.log_end_offset >= first:
            self._tails[shard.name] = first, records[: shard.log_end_offset - first]
        elif shard.is_active:
            return Finding(
                f"{shard.name} dropped its log from {shard.log_end_offset}; committed was {first}"
            )
        return None

    def _read_tail(self, shard: ShardView) -> Sequence[Record]:
        records = shard.log_records()
        behind = shard.log_end_offset - shard.high_watermark
        tail: list[Record | None] = list(records[len(records) - behind :])
        self._tails[shard.name] = shard.high_watermark, tail
        return records


_WRITES = (
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    ConsumerGroupPrepareAssignmentRequest,
    ConsumerGroupInstallAssignmentRequest,
    OffsetDeleteRequest,
    DeleteGroupsRequest,
)
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


def _is_write(request: object) -> bool:
    """Whether an answer waits for what was written before; stable offsets do (coordinator §8.2)."""
    if type(request) is OffsetFetchRequest:
        return request.require_stable
    return type(request) in _WRITES


def _is_brokers_own(response: object) -> bool:
    """Whether a broker answered in the coordinator's place, and so shows nothing of its state."""
    codes = getattr(response, "errors", {}).values() or [getattr(response, "error_code", None)]
    return any(code in _BROKERS_OWN for code in codes)


def _differs(
    model: ShadowModel, shard: ShardView, what: str, served: object, logged: object
) -> Finding:
    what, found, expected = first_difference(what, served, logged, model.name_of)
    return Finding(
        f"{shard.name}: the {what} is {found}, and should be {expected}",
        {"shard": shard.name, "what": what},
    )


def _compare_members(
    model: ShadowModel, shard: ShardView, group: ConsumerGroup, ledger: GroupLedger
) -> Finding | None:
    """Compare what is stored of each member with its records."""
    for member_id in sorted({*group.members, *ledger.members}):
        member, entry = group.members.get(member_id), ledger.members.get(member_id)
        if _is_same(member, entry):
            continue
        what = f"member {member_id}"
        if member is None or entry is None:
            return _differs(model, shard, what, member, entry)
        for name, logged in _logged_fields(entry).items():
            if getattr(member, name) != logged:
                words = f"{name.replace('_', ' ')} of {what}"
                return _differs(model, shard, words, getattr(member, name), logged)
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
    return (member.client_assignors or None) == metadata.client_assignors and all(
        getattr(member, name) == getattr(metadata, name) for name in _METADATA_FIELDS
    )


def _replay(
    model: ShadowModel, live: GroupCoordinator, records: Iterable[Record]
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


def _keep_latest(latest: dict[RecordKey, Record], record: Record) -> None:
    """Enter one record as compaction would: the last of a key counts, tombstones go."""
    key = _key(record)
    if record.value is None:
        latest.pop(key, None)
    else:
        latest[key] = record


def _key(record: Record) -> RecordKey:
    if type(record) is OffsetCommit:
        return record.type_id, record.group_id, record.topic, record.partition
    if type(record) is ConsumerGroupRegularExpression:
        return record.type_id, record.group_id, record.regular_expression, -1
    return record.type_id, record.group_id, getattr(record, "member_id", ""), -1
