"""Commits as their clients have sent them, as they were answered, and as they were stored."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import CommitAnswered, SendCommit
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.protocol.wire.records import OffsetCommit
from rebalance_sim.protocol.wire.topics import TopicPartition


class SentCommits:
    """The last commit of each partition by one client process, and what came of it."""

    def __init__(self) -> None:
        self._sent: dict[int, OffsetCommitRequest] = {}
        self._last: dict[TopicPartition, int] = {}
        self._acknowledged: dict[TopicPartition, int] = {}

    def send(self, effect: SendCommit) -> None:
        """A commit is sent."""
        number, request = effect.correlation_id, effect.request
        self._sent[number] = request
        self._last.update(dict.fromkeys(request.offsets, number))
        for partition in request.offsets:
            self._acknowledged.pop(partition, None)

    def answer(self, event: CommitAnswered) -> dict[TopicPartition, int]:
        """What this answer acknowledges."""
        number = event.correlation_id
        request = self._sent.pop(number, None)
        if request is None:
            return {}
        errors, last = event.response.errors, self._last
        stored = {p: o for p, o in request.offsets.items() if errors.get(p) is ErrorCode.NONE}
        for partition, offset in stored.items():
            if last.get(partition) == number:
                self._acknowledged[partition] = offset
        return stored

    def request(self, correlation_id: int) -> OffsetCommitRequest | None:
        """A commit that has not been answered."""
        return self._sent.get(correlation_id)

    def awaits_answer(self, request: OffsetCommitRequest) -> bool:
        """Whether this very commit was sent, maybe once more, and no answer came."""
        return any(other is request for other in self._sent.values())

    def forget(self, partition: TopicPartition) -> None:
        """The client has it anew, and starts from what somebody else may have committed."""
        self._last.pop(partition, None)
        self._acknowledged.pop(partition, None)

    def acknowledged(self, partition: TopicPartition) -> int | None:
        """The offset of the last commit, if that one was acknowledged."""
        return self._acknowledged.get(partition)


class OrderOfCommits:
    """In which order commits were sent, and what is left of those that an older one came after."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[OffsetCommitRequest, int]] = {}
        """Identity of a commit that may still arrive -> itself, and its place in that order."""
        self._count = 0
        self._newest: dict[TopicPartition, tuple[str, int]] = {}
        """Partition -> the member that has stored something last, and the last sent of that."""
        self._left: dict[TopicPartition, int] = {}
        """Partition -> what an older commit, or who is no member, has stored, while nothing was
        stored since."""

    def send(self, request: OffsetCommitRequest) -> None:
        """A commit is sent, maybe once more."""
        self._count += 1
        self._numbers[id(request)] = request, self._count

    def forget(self, request: OffsetCommitRequest) -> None:
        """It was answered, and arrives no more."""
        self._numbers.pop(id(request), None)

    def left_of(self, partition: TopicPartition, acknowledged: int) -> int:
        """What is committed, if this was acknowledged just now."""
        return min(acknowledged, self._left.get(partition, acknowledged))

    def alter(self, partition: TopicPartition, offset: int | None) -> None:
        """Somebody who is no member has stored this, or removed what there was: None. A commit that
        was stored before may be acknowledged after."""
        self._left[partition] = 0 if offset is None else offset

    def set_back(
        self, request: OffsetCommitRequest, stored: Iterable[tuple[TopicPartition, int | None]]
    ) -> list[tuple[TopicPartition, int]]:
        """Enter what a commit has stored: the part that it has stored over a younger one."""
        _, number = self._numbers.get(id(request), (request, self._count))
        sender, newest_of, left = request.member_id, self._newest, self._left
        this = sender, number
        found = []
        for partition, offset in stored:
            newest = newest_of.get(partition)
            if (
                newest is not None
                and newest[0] == sender
                and number < newest[1]
                and offset is not None
            ):
                left[partition] = offset
                found.append((partition, offset))
            else:
                newest_of[partition] = this
                if left:
                    left.pop(partition, None)
        return found


def is_of_member(request: object) -> bool:
    """Whether a member commits, not an administrator, or who has no group."""
    return type(request) is OffsetCommitRequest and request.generation_id_or_member_epoch >= 0


def stored_by(step: Step) -> list[tuple[TopicPartition, int | None]]:
    """Committed offsets that this step has written; None: removed."""
    by_name = step.shard.coordinator.image.by_name
    stored: list[tuple[TopicPartition, int | None]] = []
    for record in step.records:
        if type(record) is OffsetCommit:
            _, name, number, value = record
            topic = by_name.get(name)
            if topic is not None:
                partition = TopicPartition(topic.topic_id, number)
                stored.append((partition, None if value is None else value.offset))
    return stored
