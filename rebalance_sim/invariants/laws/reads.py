"""What describe and list show: committed state, all of it, and nothing else.

Sources: coordinator §6.1-§6.3, §9.4 (read operations); classic §1.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from rebalance_sim.invariants.laws.asked import EMPTY
from rebalance_sim.invariants.laws.replay import compared
from rebalance_sim.invariants.model.ledger import GroupLedger
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property, notes
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.wire.classic_messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    JoinGroupRequest,
)
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedMember,
    ListGroupsRequest,
    ListGroupsResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata, OffsetCommit, Record

_FIRST_VERSION_WITH_NOT_FOUND = 6
"""Of DescribeGroups."""

_Rows = Iterator[tuple[str, object, object]]
"""What it is, what was shown, and what it is indeed."""


class _Follower:
    """The ledger of one shard up to its high watermark; opened by the first read that it
    answers."""

    def __init__(self, model: ModelView, shard: ShardView) -> None:
        self._ledger = model.new_ledger()
        self._exists = False
        # What is not committed has one record for each offset, and comes last.
        records = tuple(shard.log_records())
        base = shard.log_end_offset - len(records)
        committed = max(0, shard.high_watermark - base)
        self._apply(records[:committed])
        self.pending: deque[tuple[int, tuple[Record, ...]]] = deque()
        """End offset and records of batches, as they were when they were written."""
        for end_offset, record in enumerate(records[committed:], base + committed + 1):
            self.pending.append((end_offset, (record,)))

    def at(self, high_watermark: int) -> GroupLedger | None:
        """The committed ledger; None if there is no consumer group in it."""
        while self.pending and self.pending[0][0] <= high_watermark:
            self._apply(self.pending.popleft()[1])
        return self._ledger if self._exists else None

    def _apply(self, records: tuple[Record, ...]) -> None:
        self._ledger.apply(records)
        for record in records:
            if record.group_id != self._ledger.group_id or record.type_id <= 2:
                continue
            if record.value is not None or type(record) is ConsumerGroupMetadata:
                self._exists = record.value is not None


class CommittedReads(Property):
    """coordinator §6.2, §6.3, §9.4. A group with classic members is not judged."""

    id = "reads.committed"
    sentence = (
        "Describe and list show a consumer group as it is committed: all members, epochs, "
        "assignments and the state, and nothing that may still be lost."
    )
    clauses = ("coordinator §6.2", "coordinator §6.3", "coordinator §9.4", "defects S5")
    violated_by = ("mut-reads-uncommitted",)
    interest = Interest(requests=(JoinGroupRequest,), is_beyond_commits=True)
    _followers: dict[str, _Follower] = notes(dict)
    _forgetful: set[str] = notes(set)
    """Shards that have forgotten a group which their log still has."""

    def on_request(self, step: Step) -> None:
        """A JoinGroup may make the coordinator forget an empty group. One of that name starts from
        the first epoch, and what it writes follows on the old one's in the log: a committed ledger
        knows nothing of that before the next load."""
        if self.model.has_dropped_group(step.shard):
            self._forgetful.add(step.shard.name)

    def on_append(self, step: Step) -> None:
        """Follow, where somebody reads. Offsets are no part of a ledger."""
        follower = self._followers.get(step.shard.name) if self._followers else None
        records = tuple(r for r in step.records if type(r) is not OffsetCommit) if follower else ()
        if follower is not None and records:
            follower.pending.append((step.shard.log_end_offset, records))

    def on_unloaded(self, step: Step) -> None:
        """What it held is gone."""
        self._followers.pop(step.shard.name, None)
        self._forgetful.discard(step.shard.name)

    def on_truncated(self, step: Step) -> None:
        """What was not committed is gone."""
        self._followers.pop(step.shard.name, None)

    def on_read(self, step: Step) -> Finding | None:
        """Compare an answer with the committed ledger."""
        shard = step.shard
        if shard.name in self._forgetful:
            return None
        if shard.name not in self._followers:
            self._followers[shard.name] = _Follower(self.model, shard)
        ledger = self._followers[shard.name].at(shard.high_watermark)
        if ledger is not None and (ledger.classic_count or self._was_dropped(shard, ledger)):
            return None
        if type(step.request) is ListGroupsRequest:
            state = None if ledger is None else ledger.state().value
            row = _listed(self.model.group_id, "consumer", step.request, step.response, state)
            return compared(self.model, shard, (row,))
        if type(step.request) is ConsumerGroupDescribeRequest:
            group_id = self.model.group_id
            shown = [row for row in step.response if row.group_id == group_id]
            rows = (one for row in shown for one in self._of_describe(shard, row, ledger))
            return compared(self.model, shard, rows)
        return None

    def _was_dropped(self, shard: ShardView, ledger: GroupLedger) -> bool:
        """A JoinGroup has put a classic group in its place, and nothing is written yet: the next
        record in the log, of whatever group, hides it from reads."""
        groups = shard.coordinator.groups_of(ConsumerGroup)
        return not ledger.members and self.model.group_id not in groups

    def _of_describe(
        self, shard: ShardView, row: ConsumerGroupDescribeResponse, ledger: GroupLedger | None
    ) -> _Rows:
        code = ErrorCode.NONE if ledger is not None else ErrorCode.GROUP_ID_NOT_FOUND
        code = code if row.group_id else ErrorCode.INVALID_GROUP_ID
        yield "code of a group", row.error_code, code
        if ledger is None or not row.group_id:
            return
        yield "state of the group", row.state, ledger.state().value
        yield "group epoch", row.group_epoch, ledger.group_epoch
        yield "target epoch", row.assignment_epoch, ledger.target_epoch
        yield "list of members", [m.member_id for m in row.members], sorted(ledger.members)
        for member in row.members:
            yield from self._of_member(shard, member, ledger)

    def _of_member(self, shard: ShardView, shown: DescribedMember, ledger: GroupLedger) -> _Rows:
        entry, by_id = ledger.members[shown.member_id], shard.coordinator.image.by_id
        target = ledger.targets.get(shown.member_id, frozenset())
        assigned = entry.current.assigned.keys() if entry.current else set()
        if self.model.rules.describes_pending_revocation:
            assigned = entry.held()
        for name, found, expected in (
            ("epoch", shown.member_epoch, entry.epoch),
            ("instance id", shown.instance_id, entry.instance_id),
            ("topics", sorted(shown.subscribed_topic_names), sorted(entry.topic_names)),
            ("assignment", shown.assignment, {p for p in assigned if p.topic_id in by_id}),
            ("target", shown.target_assignment, {p for p in target if p.topic_id in by_id}),
        ):
            yield f"{name} of {self.model.who(shown.member_id)}", found, expected


class _ClassicReads(Property):
    """What is not committed may hide a conversion: then it is not judged."""

    judges_mixed = True

    def on_request(self, step: Step) -> Finding | None:
        """Compare what is shown with the group."""
        shard = step.shard
        if step.response is None or shard.high_watermark != shard.log_end_offset:
            return None
        return compared(self.model, shard, self._rows(step))

    def _rows(self, step: Step) -> _Rows:
        raise NotImplementedError


class ClassicListed(_ClassicReads):
    """coordinator §6.2. Before its first generation a group has no protocol type in the log."""

    id = "reads.classic_list"
    sentence = (
        "A list shows a classic group that has been joined once, with state and protocol type, and "
        "none in place of a consumer group; if the filters let it."
    )
    clauses = ("coordinator §6.2", "coordinator §9.4")
    violated_by = ("KAFKA-6421",)
    interest = Interest(requests=(ListGroupsRequest,))

    def _rows(self, step: Step) -> _Rows:
        shard, group_id = step.shard, self.model.group_id
        ledger, classic_model = self.model.ledger_of(shard), self.model.classic.get(shard.name)
        written, now = ledger.classic, None if classic_model is None else classic_model.snapshot
        # The first member of an empty group decides on the type again, before anything is written;
        # also if it goes at once, and the rebalance that this begins is not over.
        is_in_use = now is not None and (now.member_count or now.state is not EMPTY)
        has_new_type = written is not None and not written.members and is_in_use
        if written is not None and written.protocol_type and not has_new_type:
            for row in step.response.groups:
                if row.group_id == group_id and row.group_type == "classic":
                    yield "protocol type", row.protocol_type, written.protocol_type
        if now is not None or ledger.has_group:  # Else there may be one that only holds offsets.
            state = None if now is None else now.state.value
            yield _listed(group_id, "classic", step.request, step.response, state)


class ClassicDescribed(_ClassicReads):
    """coordinator §6.3, classic §1.3."""

    id = "reads.classic_describe"
    sentence = (
        "DescribeGroups shows state, members and instance ids of a classic group, and while it is "
        "Stable, assignor, subscriptions and assignments; no consumer group."
    )
    clauses = ("coordinator §6.3", "classic §1.3")
    violated_by = ("test:describes-no-instance-ids",)
    interest = Interest(requests=(DescribeGroupsRequest,))

    def _rows(self, step: Step) -> _Rows:
        for row in step.response:
            if row.group_id == self.model.group_id:
                yield from self._of_group(step, row)

    def _of_group(self, step: Step, row: DescribedGroup) -> _Rows:
        classic_model = self.model.classic.get(step.shard.name)
        now = None if classic_model is None else classic_model.snapshot
        if classic_model is None or now is None:
            if self.model.ledger_of(step.shard).has_group:  # Else it may only hold offsets.
                has_code = step.request.api_version >= _FIRST_VERSION_WITH_NOT_FOUND
                code = ErrorCode.GROUP_ID_NOT_FOUND if has_code else ErrorCode.NONE
                yield "code of a consumer group", row.error_code, code
                yield "state of a consumer group", row.group_state, ClassicGroupState.DEAD.value
                yield "number of its members", len(row.members), 0
            return
        notes, generation_id = classic_model.members, now.generation_id
        is_stable = now.state is ClassicGroupState.STABLE
        assignor = (classic_model.protocols.get(generation_id) or "") if is_stable else ""
        written = classic_model.written.get(generation_id)
        yield "state of the classic group", row.group_state, now.state.value
        yield "assignor of the classic group", row.protocol_data, assignor
        yield "list of members", [m.member_id for m in row.members], sorted(notes)
        for member in row.members:
            note, name = notes[member.member_id], member.member_id
            yield f"instance id of {name}", member.group_instance_id, note.group_instance_id
            if is_stable:
                sent = dict(note.protocols).get(assignor)
                yield f"metadata of {name}", member.member_metadata, sent
            if is_stable and written is not None:
                given = written.assignments.get(name)
                yield f"assignment of {name}", member.member_assignment, given


def _listed(
    group_id: str,
    group_type: str,
    request: ListGroupsRequest,
    response: ListGroupsResponse,
    state: str | None,
) -> tuple[str, object, object]:
    """The states in which a list has the group, and would have it by the filters of the request."""
    shown = [
        row.group_state
        for row in response.groups
        if row.group_id == group_id and row.group_type == group_type
    ]
    is_there = state is not None and _passes(group_type, request.types_filter)
    expected = [state] if is_there and _passes(state or "", request.states_filter) else []
    return f"{group_type} group in a list", shown, expected


def _passes(value: str, allowed: Iterable[str]) -> bool:
    """Filters ignore case and blanks around; an empty one lets everything pass
    (coordinator §6.2)."""
    names = {name.strip().lower() for name in allowed}
    return not names or value.lower() in names
