"""What a recording does not contain: questions that a replay has to answer, and their names.

A replay answers each question with 0, which is the likeliest. Where the recorded answers differ,
another answer to one question may be the cause: that is looked for by replaying with this one
thing changed, and every such cause has a name, a meaning and a bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import NamedTuple, cast

from rebalance_sim.protocol.runtime.outcome import TimerKey

LATE_MS = 1_000
"""How late a busy machine may be."""

CONFIG_LATE_MS = 5_000
"""How late settings may come into force: the recorder waits for 500 ms, without looking, and a
broker takes them up in turn with the topics that other recordings make."""


class Tolerance(StrEnum):
    """A cause by which a recording may differ from a replay without being in the wrong; and its
    bound."""

    LATE_TIMER = "late-timer"
    """A timer of the broker fired later than it was due: at most ``LATE_MS``."""
    LATE_RESOLUTION = "late-resolution"
    """Patterns were resolved later than the heartbeat that gave cause to it: at most
    ``LATE_MS``."""
    SLOW_REQUEST = "slow-request"
    """A request was handled later than it was sent: at most until its answer was in."""
    METADATA_TIME = "metadata-time"
    """The coordinator saw a change of topics before or after metadata showed it: not before it was
    asked for, at most ``LATE_MS`` before or after metadata showed it."""
    PASSING_TOPIC = "passing-topic"
    """A topic that was being made still had an id with which the recorder did not keep it: at one
    timer, from the request for the topic until metadata showed it."""
    COMMIT_TIME = "commit-time"
    """A JoinGroup made a group, and was answered before what it wrote was committed: for the reads
    up to the next other request, at most ``LATE_MS``."""
    CONFIG_TIME = "config-time"
    """Settings of the group came into force later than they were altered: at most
    ``CONFIG_LATE_MS``."""
    OTHER_TOPICS = "other-topics"
    """Another user of the broker made a topic, after which patterns are resolved again: before one
    heartbeat; the topic matches no pattern."""
    OTHER_RECORDS = "other-records"
    """A record of another group was committed in the partition, and moved what reads see: before
    one read."""
    SLOT_ORDER = "slot-order"
    """Members whose ids share a slot of a Java hash map stand in another order: only ids that share
    a slot, from one decision on."""
    LEADER = "leader"
    """Another member leads the classic group that a consumer group becomes: a member of the
    group."""
    SHARED_NAME = "shared-name"
    """Two members have one name in the recording, which shows the other one of them: only members
    of this name, in one answer."""
    PLACE_OF_ID = "place-of-id"
    """A member id that the recording does not show stands elsewhere among the others: any rank
    among the ids of the script, any slot of a small hash map."""
    LOAD_TIME = "load-time"
    """A restarted broker loaded the log earlier than at the end of the step: at most 10 s before
    the next step."""


class Subject(NamedTuple):
    """What a question is about: ``what`` tells it from others of its tolerance."""

    tolerance: Tolerance
    what: Hashable


def spelled(subject: Subject, answer: int) -> str:
    """What was changed, in a few words."""
    what = subject.what
    if subject.tolerance in (Tolerance.LATE_TIMER, Tolerance.LATE_RESOLUTION):
        (kind, _, member_id), due_ms = cast("tuple[TimerKey, int]", what)
        of_member = f" of {member_id}" if member_id else ""
        return f"{kind}{of_member}, due at {due_ms} ms, {answer} ms late"
    if subject.tolerance == Tolerance.COMMIT_TIME:
        return f"step {cast(int, what) + 1}"
    if subject.tolerance in (
        Tolerance.SLOW_REQUEST,
        Tolerance.METADATA_TIME,
        Tolerance.CONFIG_TIME,
    ):
        return f"step {cast(int, what) + 1}, {answer:+} ms"
    if subject.tolerance in (Tolerance.OTHER_TOPICS, Tolerance.OTHER_RECORDS):
        return f"before step {cast(int, what) + 1}"
    if subject.tolerance == Tolerance.PASSING_TOPIC:
        topic, (kind, _, member_id), due_ms = cast("tuple[str, TimerKey, int]", what)
        of_member = f" of {member_id}" if member_id else ""
        with_id = "another id" if answer == 1 else "the same id again"
        return f"{topic}, at {kind}{of_member}, due at {due_ms} ms, with {with_id}"
    if subject.tolerance == Tolerance.SLOT_ORDER:
        at_ms, ids = cast("tuple[int, tuple[str, ...]]", what)
        return f"{', '.join(ids)}, from {at_ms} ms on, order {answer}"
    if subject.tolerance == Tolerance.LEADER:
        return f"at {what} ms, member {answer + 1} in order of ids"
    if subject.tolerance == Tolerance.PLACE_OF_ID:
        return f"id {cast(int, what) + 1}, place {answer}"
    return f"{what}, {answer}"


class Question(NamedTuple):
    """A question that came up at ``at_ms``; its answers are ``least`` to ``most``."""

    subject: Subject
    at_ms: int
    least: int
    most: int


class Unknowns:
    """Answers all questions of one replay, and notes them. ``answers`` has those that are not 0."""

    def __init__(self, answers: Mapping[Subject, int]) -> None:
        self._answers = answers
        self.asked: list[Question] = []

    def ask(
        self, tolerance: Tolerance, what: Hashable, *, at_ms: int, most: int, least: int = 0
    ) -> int:
        """The answer to a question that comes up now, within its bounds."""
        subject = Subject(tolerance, what)
        self.asked.append(Question(subject, at_ms, least, most))
        return min(max(self._answers.get(subject, 0), least), most)

    def foreseen(self, tolerance: Tolerance, what: Hashable) -> int:
        """The answer to a question that has not come up yet."""
        return self._answers.get(Subject(tolerance, what), 0) if self._answers else 0
