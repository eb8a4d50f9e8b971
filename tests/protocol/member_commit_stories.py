"""What a member commits and looks up, with the rules of kafka-clients 4.3.1 or with a defect.

``test_member_defects.py`` tells these stories beside its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from member_driver import INTERVAL_MS, Story, partitions, retarget, stable

from rebalance_sim.protocol.clients.common.effects import ResetPositions
from rebalance_sim.protocol.clients.common.events import Close, CommitOffsets, RecordsReturned
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchResponse
from rebalance_sim.protocol.wire.topics import TopicPartition

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
Telling = Callable[[type[MemberRules]], Any]


def repeated_offset_of_a_kept_partition(rules: type[MemberRules]) -> int:
    story = stable(rules, 0, 1)
    retarget(story, 0)
    story.poll()
    story.handle(RecordsReturned(positions={P0: 15}))
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(1_000)
    return story.commits[-1].request.offsets[P0]


def committed_after_a_fence_in_close(rules: type[MemberRules]) -> list[tuple[int, frozenset[int]]]:
    """Epoch and partitions of commits once a consumer without a listener has joined again."""
    story = Story(rules=rules)
    story.stabilise(0, 1, has_listener=False)
    story.handle(Close())
    story.wait(INTERVAL_MS)
    story.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    story.answer(partitions(), epoch=3)
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(1_000)
    return [
        (c.request.generation_id_or_member_epoch, frozenset(p.partition for p in c.request.offsets))
        for c in story.commits[1:]
    ]


def commits_without_a_poll(rules: type[MemberRules]) -> int:
    story = stable(rules, 0, 1)
    retarget(story, 0)
    return len(story.commits)


def epoch_of_a_retried_commit(rules: type[MemberRules]) -> int:
    story = stable(rules, 0)
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    story.wait(INTERVAL_MS)
    story.answer(epoch=2)
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.wait(100)
    return story.commits[-1].request.generation_id_or_member_epoch


def committed_offset(rules: type[MemberRules]) -> int:
    story = stable(rules, 0)
    story.handle(RecordsReturned(positions={P0: 20}))
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    return story.commits[-1].request.offsets[P0]


def committed_partitions_after_a_revocation(rules: type[MemberRules]) -> frozenset[TopicPartition]:
    story = stable(rules, 0, 1, enable_auto_commit=False)
    retarget(story, 0)
    story.poll()
    story.finish_callback()
    story.finish_callback()
    story.handle(CommitOffsets(commit_id=1, is_sync=True))
    return frozenset(story.commits[-1].request.offsets)


def resets_after_a_stale_offset_fetch(rules: type[MemberRules]) -> int:
    story = Story(rules=rules)
    story.stabilise(0, consumed=False)
    story.poll()
    response = OffsetFetchResponse(error_code=ErrorCode.STALE_MEMBER_EPOCH)
    return sum(isinstance(e, ResetPositions) for e in story.answer_fetch(response))


def commits_and_callbacks_for_a_topic_that_is_gone(rules: type[MemberRules]) -> tuple[int, int]:
    """P1 is to be given up; the commit before that is refused, as its topic was deleted."""
    story = stable(rules, 0, 1)
    retarget(story, 0)
    story.poll()
    story.answer_commit(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return commits_and_revocations(story)


def commits_and_callbacks_while_the_coordinator_loads(rules: type[MemberRules]) -> tuple[int, int]:
    """P1 is to be given up; the commit before that is refused for a while."""
    story = stable(rules, 0, 1)
    retarget(story, 0)
    story.poll()
    story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return commits_and_revocations(story)


def commits_and_revocations(story: Story) -> tuple[int, int]:
    """How many commits were sent and how many revocations began, a second and a poll later."""
    story.wait(1_000)
    story.poll()
    revoked = sum(kind is CallbackKind.REVOKED for kind, _ in story.callbacks())
    return len(story.commits), revoked


def tries_of_an_async_and_of_a_sync_commit(rules: type[MemberRules]) -> list[int]:
    tries: list[int] = []
    for is_sync in (False, True):
        story = stable(rules, 0, enable_auto_commit=False)
        story.handle(CommitOffsets(commit_id=1, is_sync=is_sync))
        story.answer_commit(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        story.wait(1_000)
        tries.append(len(story.commits))
    return tries


def interval_commits_without_an_answer(rules: type[MemberRules]) -> int:
    story = stable(rules, 0, auto_commit_interval_ms=1_000)
    for _ in range(3):
        story.wait(1_000)
        story.poll()
    return len(story.commits)


def lookups_and_errors_while_the_coordinator_loads(
    rules: type[MemberRules],
) -> tuple[int, list[ErrorCode | None]]:
    story = Story(rules=rules)
    story.stabilise(0, consumed=False)
    story.poll()
    response = OffsetFetchResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    story.answer_fetch(response)
    story.wait(1_000)
    story.poll()
    return len(story.fetches), story.errors()


# name -> (story, outcome by the rules, outcome with the defect)
COMMIT_STORIES: dict[str, tuple[Telling, Any, Any]] = {
    "KAFKA-15456": (tries_of_an_async_and_of_a_sync_commit, [1, 2], [2, 1]),
    "KAFKA-16004": (interval_commits_without_an_answer, 1, 3),
    "KAFKA-16133": (commits_and_callbacks_while_the_coordinator_loads, (2, 0), (1, 1)),
    "KAFKA-16224": (commits_and_callbacks_for_a_topic_that_is_gone, (1, 1), (2, 0)),
    "KAFKA-17294": (
        lookups_and_errors_while_the_coordinator_loads,
        (2, []),
        (1, [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]),
    ),
    "KAFKA-18641": (commits_without_a_poll, 0, 1),
    "mut-client-commits-released": (
        committed_partitions_after_a_revocation,
        partitions(0),
        partitions(0, 1),
    ),
    "mut-client-commits-undelivered": (committed_offset, 20, 21),
    "mut-client-signs-at-creation": (epoch_of_a_retried_commit, 2, 1),
    "platformatic-267": (resets_after_a_stale_offset_fetch, 0, 1),
    "sim-closing-commit": (
        committed_after_a_fence_in_close,
        [],
        [(3, frozenset({0, 1}))],
    ),
    "sim-retried-commit": (repeated_offset_of_a_kept_partition, 10, 15),
}
