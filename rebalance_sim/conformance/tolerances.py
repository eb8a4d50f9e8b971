"""What a recording does not contain: questions that a replay has to answer, and their names.

A replay answers each question with 0, which is the likeliest. Where the recorded answers differ,
another answer to one question may be the cause: that is looked for by replaying with this one
thing changed, and every such cause has a name, a meaning and a bound.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, cast

from rebalance_sim.protocol.runtime.outcome import TimerKey

LATE_MS = 1_000
"""How late a busy machine may be."""

CONFIG_LATE_MS = 5_000
"""How late settings may come into force: the recorder waits for 500 ms, without looking, and a
broker takes them up in turn with the topics that other recordings make."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """A cause by which a recording may differ from a replay without being in the wrong."""

    name: str
    meaning: str
    bound: str


LATE_TIMER = Tolerance(
    name="late-timer",
    meaning="A timer of the broker fired later than it was due.",
    bound=f"at most {LATE_MS} ms",
)
LATE_RESOLUTION = Tolerance(
    name="late-resolution",
    meaning="Patterns were resolved later than the heartbeat that gave cause to it.",
    bound=f"at most {LATE_MS} ms",
)
SLOW_REQUEST = Tolerance(
    name="slow-request",
    meaning="A request was handled later than it was sent.",
    bound="at most until its answer was in",
)
METADATA_TIME = Tolerance(
    name="metadata-time",
    meaning="The coordinator saw a change of topics before or after metadata showed it.",
    bound=f"not before it was asked for, at most {LATE_MS} ms before or after metadata showed it",
)
PASSING_TOPIC = Tolerance(
    name="passing-topic",
    meaning="A topic that was being made still had an id with which the recorder did not keep it.",
    bound="at one timer, from the request for the topic until metadata showed it",
)
COMMIT_TIME = Tolerance(
    name="commit-time",
    meaning="A JoinGroup made a group, and was answered before what it wrote was committed.",
    bound=f"for the reads up to the next other request, at most {LATE_MS} ms",
)
CONFIG_TIME = Tolerance(
    name="config-time",
    meaning="Settings of the group came into force later than they were altered.",
    bound=f"at most {CONFIG_LATE_MS} ms",
)
OTHER_TOPICS = Tolerance(
    name="other-topics",
    meaning="Another user of the broker made a topic, after which patterns are resolved again.",
    bound="before one heartbeat; the topic matches no pattern",
)
OTHER_RECORDS = Tolerance(
    name="other-records",
    meaning="A record of another group was committed in the partition, and moved what reads see.",
    bound="before one read",
)
SLOT_ORDER = Tolerance(
    name="slot-order",
    meaning="Members whose ids share a slot of a Java hash map stand in another order.",
    bound="only ids that share a slot, from one decision on",
)
LEADER = Tolerance(
    name="leader",
    meaning="Another member leads the classic group that a consumer group becomes.",
    bound="a member of the group",
)
SHARED_NAME = Tolerance(
    name="shared-name",
    meaning="Two members have one name in the recording, which shows the other one of them.",
    bound="only members of this name, in one answer",
)
PLACE_OF_ID = Tolerance(
    name="place-of-id",
    meaning="A member id that the recording does not show stands elsewhere among the others.",
    bound="any rank among the ids of the script, any slot of a small hash map",
)
LOAD_TIME = Tolerance(
    name="load-time",
    meaning="A restarted broker loaded the log earlier than at the end of the step.",
    bound="at most 10 s before the next step",
)

TOLERANCES: Mapping[str, Tolerance] = {
    tolerance.name: tolerance
    for tolerance in (
        LATE_TIMER,
        LATE_RESOLUTION,
        SLOW_REQUEST,
        METADATA_TIME,
        PASSING_TOPIC,
        COMMIT_TIME,
        CONFIG_TIME,
        OTHER_TOPICS,
        OTHER_RECORDS,
        SLOT_ORDER,
        LEADER,
        SHARED_NAME,
        PLACE_OF_ID,
        LOAD_TIME,
    )
}
"""Every tolerance by name."""


class Subject(NamedTuple):
    """What a question is about: ``what`` tells it from others of its tolerance."""

    tolerance: str
    what: Hashable


def spelled(subject: Subject, answer: int) -> str:
    """What was changed, in a few words."""
    what = subject.what
    if subject.tolerance in (LATE_TIMER.name, LATE_RESOLUTION.name):
        (kind, _, member_id), due_ms = cast("tuple[TimerKey, int]", what)
        of_member = f" of {member_id}" if member_id else ""
        return f"{kind}{of_member}, due at {due_ms} ms, {answer} ms late"
    if subject.tolerance == COMMIT_TIME.name:
        return f"step {cast(int, what) + 1}"
    if subject.tolerance in (SLOW_REQUEST.name, METADATA_TIME.name, CONFIG_TIME.name):
        return f"step {cast(int, what) + 1}, {answer:+} ms"
    if subject.tolerance in (OTHER_TOPICS.name, OTHER_RECORDS.name):
        return f"before step {cast(int, what) + 1}"
    if subject.tolerance == PASSING_TOPIC.name:
        topic, (kind, _, member_id), due_ms = cast("tuple[str, TimerKey, int]", what)
        of_member = f" of {member_id}" if member_id else ""
        with_id = "another id" if answer == 1 else "the same id again"
        return f"{topic}, at {kind}{of_member}, due at {due_ms} ms, with {with_id}"
    if subject.tolerance == SLOT_ORDER.name:
        at_ms, ids = cast("tuple[int, tuple[str, ...]]", what)
        return f"{', '.join(ids)}, from {at_ms} ms on, order {answer}"
    if subject.tolerance == LEADER.name:
        return f"at {what} ms, member {answer + 1} in order of ids"
    if subject.tolerance == PLACE_OF_ID.name:
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
        subject = Subject(tolerance.name, what)
        self.asked.append(Question(subject, at_ms, least, most))
        return min(max(self._answers.get(subject, 0), least), most)

    def foreseen(self, tolerance: Tolerance, what: Hashable) -> int:
        """The answer to a question that has not come up yet."""
        return self._answers.get(Subject(tolerance.name, what), 0) if self._answers else 0
