"""Why a violation is known: which issue, of whom, since which step.

A *subject* is who or what something is about. ``Seen`` is something that happened to a subject and
that a known issue is made of; an ``Explanation`` says that it is the reason for a violation, and
holds for the same subject and within its interval only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rebalance_sim.protocol.wire.topics import TopicPartition


class Subject(NamedTuple):
    """A client process by its name, a member by its id, a partition, an instance id, a generation,
    or what several of these are together; what is not named is left out. Nothing named: the group.
    """

    client: str = ""
    member: str = ""
    partition: TopicPartition | None = None
    instance_id: str = ""
    generation: int | None = None

    def __str__(self) -> str:
        parts = (
            f"client {self.client}" if self.client else "",
            f"member {self.member}" if self.member else "",
            f"instance {self.instance_id}" if self.instance_id else "",
            f"partition {self.partition.topic_id}-{self.partition.partition}"
            if self.partition
            else "",
            "" if self.generation is None else f"generation {self.generation}",
        )
        return ", ".join(filter(None, parts)) or "the group"

    def is_of(self, other: Subject) -> bool:
        """Whether the other one is the same in all that this one names."""
        return all(
            mine in (none, theirs) for mine, theirs, none in zip(self, other, _NOTHING, strict=True)
        )


THE_GROUP = Subject()
_NOTHING = tuple(THE_GROUP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Something that happened to a subject: in which step, when, and what, in words.

    ``until_step``: the last step for which it can be a reason; None: it goes on.
    """

    subject: Subject
    step: int
    at_ms: int
    what: str
    until_step: int | None = None

    def holds(self, subject: Subject, step: int) -> bool:
        """Whether it is about this subject, and in force at this step."""
        return (
            self.subject.is_of(subject)
            and self.step <= step
            and (self.until_step is None or step <= self.until_step)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A known issue as the reason for a violation: ``causes`` are what was seen of it, ``about``
    says in words who or what the violation is about."""

    issue: str
    causes: tuple[Seen, ...]
    about: str = ""

    def explains(self, subjects: Iterable[Subject], step: int, *, rightful: int = 0) -> bool:
        """Whether each of the subjects, but ``rightful`` of them, has a cause of its own that holds
        at this step; one at least has."""
        held = [any(seen.holds(subject, step) for seen in self.causes) for subject in subjects]
        return any(held) and held.count(False) <= rightful

    @property
    def first(self) -> Seen:
        """What was seen first of it."""
        return min(self.causes, key=lambda seen: seen.step)


def subjects_of(evidence: Mapping[str, object]) -> tuple[Subject, ...]:
    """Who or what a finding is about: its evidence says so under ``subjects``, or with one of
    them under ``client``, ``member``, ``partition``, ``instance_id`` and ``generation``.

    With nothing of the kind it is the group.
    """
    several = evidence.get("subjects")
    if isinstance(several, tuple) and several:
        return several
    return (
        Subject(
            client=_text(evidence.get("client")),
            member=_text(evidence.get("member")),
            partition=_partition(evidence.get("partition")),
            instance_id=_text(evidence.get("instance_id")),
            generation=_number(evidence.get("generation")),
        ),
    )


def named(subjects: Iterable[Subject]) -> str:
    """Subjects in words."""
    return "; ".join(map(str, subjects))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _partition(value: object) -> TopicPartition | None:
    return value if isinstance(value, TopicPartition) else None
