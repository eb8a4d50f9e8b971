"""What describe and list show: committed state, all of it, and nothing else.

Sources: coordinator §6.1-§6.3, §9.4 (read operations).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from rebalance_sim.invariants.model.classic_model import ClassicModel, GroupSnapshot
from rebalance_sim.invariants.model.ledger import GroupLedger, MemberEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import ShardView, Step
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.wire.classic_messages import DescribedGroup, DescribeGroupsRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedMember,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import ConsumerGroupMetadata, OffsetCommit, Record
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 90

_FIRST_VERSION_WITH_NOT_FOUND = 6
"""Of DescribeGroups."""


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
        self._pending: deque[tuple[int, tuple[Record, ...]]] = deque()
        for place in range(committed, len(records)):
            self.append(base + place + 1, (records[place],))

    def append(self, end_offset: int, records: tuple[Record, ...]) -> None:
        """The shard wrote records, the last of them just below ``end_offset``. Offsets are no part
        of a ledger."""
        of_groups = tuple([record for record in records if type(record) is not OffsetCommit])
        if of_groups:
            self._pending.append((end_offset, of_groups))

    def at(self, high_watermark: int) -> GroupLedger | None:
        """The committed ledger; None if there is no consumer group in it."""
        while self._pending and self._pending[0][0] <= high_watermark:
            self._apply(self._pending.popleft()[1])
        return self._ledger if self._exists else None

    def _apply(self, records: tuple[Record, ...]) -> None:
        self._ledger.apply(records)
        for record in records:
            if record.group_id != self._ledger.group_id or record.type_id <= 2:
                continue
            if record.value is not None:
                self._exists = True
            elif type(record) is ConsumerGroupMetadata:
                self._exists = False


class CommittedReads(Property):
    """coordinator §6.2, §6.3, §9.4. A group with classic members is not judged."""

    id = "reads.committed"
    sentence = (
        "Describe and list show a consumer group as it is committed: all members, epochs, "
        "assignments and the state, and nothing that may still be lost."
    )
    clauses = ("coordinator §6.2", "coordinator §6.3", "coordinator §9.4", "defects S5")
    violated_by = ("mut-reads-uncommitted",)

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._followers: dict[str, _Follower] = {}

    def on_append(self, step: Step) -> Finding | None:
        """Follow, where somebody reads."""
        if self._followers:
            shard = step.shard
            follower = self._followers.get(shard.name)
            if follower is not None:
                follower.append(shard.log_end_offset, step.records)
        return None

    def on_unloaded(self, step: Step) -> Finding | None:
        """What it held is gone."""
        self._followers.pop(step.shard.name, None)
        return None

    def on_truncated(self, step: Step) -> Finding | None:
        """What was not committed is gone."""
        self._followers.pop(step.shard.name, None)
        return None

    def on_read(self, step: Step) -> Finding | None:
        """Compare an answer with the committed ledger."""
        shard = step.shard
        follower = self._followers.get(shard.name)
        if follower is None:
            follower = self._followers[shard.name] = _Follower(self.model, shard)
        ledger = follower.at(shard.high_watermark)
        if ledger is not None and ledger.classic_count:
            return None
        request = step.request
        if type(request) is ListGroupsRequest:
            differences = self._of_list(request, step.response, ledger)
        elif type(request) is ConsumerGroupDescribeRequest:
            differences = self._of_describe(shard, step.response, ledger)
        else:
            return None
        for difference in differences:
            return Finding(f"{shard.name} showed {difference}")
        return None

    def _of_list(
        self, request: ListGroupsRequest, response: ListGroupsResponse, ledger: GroupLedger | None
    ) -> Iterator[str]:
        group_id = self.model.group_id
        shown = [
            row.group_state
            for row in response.groups
            if row.group_id == group_id and row.group_type == "consumer"
        ]
        expected = [] if ledger is None else [ledger.state().value]
        if not _passes("consumer", request.types_filter):
            expected = []
        expected = [state for state in expected if _passes(state, request.states_filter)]
        if shown != expected:
            yield (
                f"{group_id} in a list {_rows(shown)}; as it is committed, and by the filters of "
                f"the request, it would be there {_rows(expected)}"
            )

    def _of_describe(
        self,
        shard: ShardView,
        response: tuple[ConsumerGroupDescribeResponse, ...],
        ledger: GroupLedger | None,
    ) -> Iterator[str]:
        for row in response:
            if row.group_id != self.model.group_id:
                continue
            if not row.group_id:
                if row.error_code is not ErrorCode.INVALID_GROUP_ID:
                    yield f"{row.error_code.name} for a group without an id"
                continue
            if ledger is None:
                if row.error_code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    yield f"a group {row.group_id}, of which nothing is committed"
                continue
            if row.error_code is not ErrorCode.NONE:
                yield f"{row.error_code.name} for the group {row.group_id}, which is committed"
                continue
            for name, shown, committed in (
                ("state", row.state, ledger.state().value),
                ("group epoch", row.group_epoch, ledger.group_epoch),
                ("assignment epoch", row.assignment_epoch, ledger.target_epoch),
                ("members", [m.member_id for m in row.members], sorted(ledger.members)),
            ):
                if shown != committed:
                    yield f"{name} {self._text(shown)}; committed is {self._text(committed)}"
            for member in row.members:
                entry = ledger.members.get(member.member_id)
                if entry is not None:
                    yield from self._of_member(shard, member, entry, ledger)

    def _of_member(
        self, shard: ShardView, member: DescribedMember, entry: MemberEntry, ledger: GroupLedger
    ) -> Iterator[str]:
        current = entry.current
        assigned: Iterable[TopicPartition] = () if current is None else current.assigned
        if self.model.rules.describes_pending_revocation:
            assigned = entry.held()
        by_id = shard.coordinator.image.by_id
        target = ledger.targets.get(member.member_id, ())
        for name, shown, committed in (
            ("epoch", member.member_epoch, entry.epoch),
            ("instance id", member.instance_id, entry.instance_id),
            ("topics", sorted(member.subscribed_topic_names), sorted(entry.topic_names)),
            ("assignment", member.assignment, {p for p in assigned if p.topic_id in by_id}),
            ("target", member.target_assignment, {p for p in target if p.topic_id in by_id}),
        ):
            if shown != committed:
                who = self.model.who(member.member_id)
                yield f"{name} of {who} {self._text(shown)}; committed is {self._text(committed)}"

    def _text(self, value: object) -> str:
        if isinstance(value, set | frozenset):
            return self.model.names_of(value)
        if isinstance(value, list):
            return ", ".join(map(str, value)) or "none"
        return "none" if value is None else str(value)


class ClassicListed(Property):
    """coordinator §6.2. What is not committed may hide a conversion: then it is not judged."""

    id = "reads.classic_list"
    sentence = (
        "A list of groups shows a classic group that has been joined once, in the state that it is "
        "in and with the protocol type that was written last, and no classic group in place of a "
        "consumer group; as far as the filters let it."
    )
    clauses = ("coordinator §6.2", "coordinator §9.4")
    violated_by = ("KAFKA-6421",)
    judges_mixed = True
    interest = Interest(requests=(ListGroupsRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Compare the rows with the group."""
        shard, request = step.shard, step.request
        if step.response is None or shard.high_watermark != shard.log_end_offset:
            return None
        group_id = self.model.group_id
        rows = [
            row
            for row in step.response.groups
            if row.group_id == group_id and row.group_type == "classic"
        ]
        finding = self._judge_protocol_type(shard, rows)
        if finding is not None:
            return finding
        classic_model = self.model.classic.get(shard.name)
        snapshot = None if classic_model is None else classic_model.snapshot
        expected = [] if snapshot is None else [snapshot.state.value]
        if snapshot is None and not self.model.ledger_of(shard).has_group:
            return None  # There may be one that only holds offsets.
        if not _passes("classic", request.types_filter):
            expected = []
        expected = [state for state in expected if _passes(state, request.states_filter)]
        shown = [row.group_state for row in rows]
        if shown == expected:
            return None
        return Finding(
            f"{shard.name} showed the classic group {group_id} in a list {_rows(shown)}; by the "
            f"filters of the request it would be there {_rows(expected)}"
        )

    def _judge_protocol_type(self, shard: ShardView, rows: Sequence[ListedGroup]) -> Finding | None:
        value = self.model.ledger_of(shard).classic
        # Before its first generation a group has no protocol type in the log.
        written = "" if value is None else value.protocol_type
        for row in rows:
            if written and row.protocol_type != written:
                return Finding(
                    f"{shard.name} showed the classic group {row.group_id} with protocol type "
                    f"{row.protocol_type!r}; it is {written!r}"
                )
        return None


class ClassicDescribed(Property):
    """coordinator §6.3, classic §1.3. What is not committed may hide a conversion: then it is not
    judged."""

    id = "reads.classic_describe"
    sentence = (
        "DescribeGroups shows a classic group with its state, its members and their instance ids; "
        "while it is Stable also with its assignor, and with what each member has subscribed to "
        "and was given. A consumer group is Dead for it; from version 6 on it says that it does "
        "not find one."
    )
    clauses = ("coordinator §6.3", "classic §1.3")
    violated_by = ("test:describes-no-instance-ids",)
    judges_mixed = True
    interest = Interest(requests=(DescribeGroupsRequest,))

    def on_request(self, step: Step) -> Finding | None:
        """Compare the row with the group."""
        shard = step.shard
        if step.response is None or shard.high_watermark != shard.log_end_offset:
            return None
        classic_model = self.model.classic.get(shard.name)
        for row in step.response:
            if row.group_id != self.model.group_id:
                continue
            if classic_model is not None and classic_model.snapshot is not None:
                differences = self._of_group(row, classic_model, classic_model.snapshot)
            elif self.model.ledger_of(shard).has_group:
                differences = self._of_no_group(row, step.request.api_version)
            else:
                return None  # There may be one that only holds offsets.
            for difference in differences:
                return Finding(f"{shard.name} showed {difference}")
        return None

    @staticmethod
    def _of_no_group(row: DescribedGroup, api_version: int) -> Iterator[str]:
        has_code = api_version >= _FIRST_VERSION_WITH_NOT_FOUND
        code = ErrorCode.GROUP_ID_NOT_FOUND if has_code else ErrorCode.NONE
        dead = ClassicGroupState.DEAD.value
        if row.error_code is not code or row.group_state != dead or row.members:
            yield f"the consumer group {row.group_id} as a classic one, {row.group_state}"

    @staticmethod
    def _of_group(
        row: DescribedGroup, classic_model: ClassicModel, snapshot: GroupSnapshot
    ) -> Iterator[str]:
        number, notes = snapshot.generation_id, classic_model.members
        is_stable = snapshot.state is ClassicGroupState.STABLE
        assignor = (classic_model.protocols.get(number) or "") if is_stable else ""
        for name, shown, actual in (
            ("state", row.group_state, snapshot.state.value),
            ("assignor", row.protocol_data, assignor),
            ("members", [m.member_id for m in row.members], sorted(notes)),
        ):
            if shown != actual:
                yield f"{name} {shown} of the classic group {row.group_id}; it is {actual}"
                return
        written = classic_model.written.get(number)
        for member in row.members:
            note = notes[member.member_id]
            if member.group_instance_id != note.group_instance_id:
                seat = member.group_instance_id
                which = "without its" if seat is None else "with another"
                yield f"{member.member_id} {which} instance id"
            if is_stable and member.member_metadata != dict(note.protocols).get(assignor):
                yield f"{member.member_id} with metadata that it has not sent last"
            if (
                is_stable
                and written is not None
                and member.member_assignment != written.assignments.get(member.member_id)
            ):
                yield (
                    f"{member.member_id} with something else than it was given in generation "
                    f"{number}"
                )


def _rows(states: list[str]) -> str:
    return "as " + " and ".join(states) if states else "not at all"


def _passes(value: str, allowed: Iterable[str]) -> bool:
    """Filters ignore case and blanks around; an empty one lets everything pass
    (coordinator §6.2)."""
    names = {name.strip().lower() for name in allowed}
    return not names or value.lower() in names
