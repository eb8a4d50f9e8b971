"""What members of a wide recording share: the seed's choices, the topics, and the session."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

TOPICS = ("bar", "baz", "foo", "qux")
_PATTERN_MS = 40
"""Patterns are resolved beside the coordinator, which hears of the result a little later."""

Answer = dict[str, Any]
_T = TypeVar("_T")


class Asked(Protocol):
    """What wide requests need of a session."""

    steps: list[dict[str, Any]]

    def do(self, step: Mapping[str, Any]) -> Answer | None: ...

    def has_answer(self, ticket: str, wait_s: float = 0.0) -> bool: ...

    def now_ms(self) -> int: ...

    def wait_until(self, at_ms: int) -> None: ...


class WideContext:
    """The choices of one seed. ``topics``: those there are, with their partitions."""

    def __init__(self, rng: random.Random, topics: Mapping[str, int], session: Asked) -> None:
        self.rng = rng
        self.session = session
        self.topics = dict(topics)
        self.absent = [name for name in TOPICS if name not in topics]
        self.has_patterns = False
        self._tickets = 0

    # -- asking ----------------------------------------------------------------------------

    def ask(self, op: str, **fields: Any) -> Answer:
        """One step; an operation without an answer has an empty one."""
        return self.session.do({"op": op, **fields}) or {}

    def sleep(self, ms: int) -> None:
        """A step in which nothing is asked."""
        self.ask("sleep", ms=ms)

    def wait_for_patterns(self) -> None:
        """If there may be patterns: give their resolution the time it takes."""
        if self.has_patterns:
            self.session.wait_until(self.session.now_ms() + _PATTERN_MS)

    def ticket(self, op: str) -> str:
        """A new name for a request that is sent without waiting."""
        self._tickets += 1
        return f"{op[0]}{self._tickets}"

    # -- choosing --------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def weighted(self, weights: Mapping[_T, float]) -> _T:
        """One of the keys."""
        return self.rng.choices(list(weights), weights=list(weights.values()))[0]

    def act(self, weights: Mapping[Callable[[], object], float]) -> None:
        """Do one of these things."""
        self.weighted(weights)()

    def a_topic(self) -> str:
        return self.rng.choice(sorted(self.topics))

    def some_topics(self) -> list[str]:
        """A subscription; sometimes to topics that do not exist."""
        pool = sorted(self.topics) + (self.absent if self.chance(0.15) else [])
        return sorted(self.rng.sample(pool, min(len(pool), self.rng.choice([1, 1, 2, 2, 3]))))

    # -- offsets: members of both protocols commit them -------------------------------------

    def ask_about_offsets(self, member: str, epoch: int, instance: str | None) -> None:
        """Commit, fetch or delete some. ``epoch``: of the member, or its generation."""
        few = self.rng.sample(
            sorted(self.topics), min(len(self.topics), self.rng.choice([1, 1, 2]))
        )
        action = self.weighted({"commit": 55, "fetch": 35, "delete": 10})
        if action == "commit":
            self.ask("offset_commit", request=self._commit(member, epoch, instance, few))
        elif action == "fetch":
            self.ask("offset_fetch", request=self._fetch(member, epoch, few))
        else:
            topics = {name: [self._partition(name)] for name in few}
            self.ask("offset_delete", request={"topics": topics})

    def _commit(
        self, member: str, epoch: int, instance: str | None, topics: Sequence[str]
    ) -> dict[str, Any]:
        request: dict[str, Any] = {
            "member_id": member,
            "member_epoch": epoch + self.rng.choice([0, 0, 0, 0, -1, 1]),
            "offsets": {
                name: {
                    str(number): self.rng.randrange(100)
                    for number in self._partitions(name, self.rng.choice([1, 1, 2]))
                }
                for name in topics
            },
        }
        if instance and self.chance(0.9):
            request["instance_id"] = instance
        elif self.chance(0.05):
            request["instance_id"] = "i-other"
        if self.chance(0.08):
            strangers = [("", -1), ("zz", 1), ("", 3), ("zz", -1)]
            request["member_id"], request["member_epoch"] = self.rng.choice(strangers)
            request.pop("instance_id", None)
        return request

    def _fetch(self, member: str, epoch: int, topics: Sequence[str]) -> dict[str, Any]:
        request: dict[str, Any] = {"topics": {name: self._partitions(name, 3) for name in topics}}
        if member and self.chance(0.6):
            request["member_id"] = member
            request["member_epoch"] = epoch + self.rng.choice([0, 0, 0, -1, 1])
        elif self.chance(0.2):
            request["member_id"], request["member_epoch"] = "zz", 1
        return request

    def _partition(self, topic: str) -> int:
        return self.rng.randrange(self.topics[topic])

    def _partitions(self, topic: str, count: int) -> list[int]:
        """Up to so many of a topic, ascending."""
        return sorted({self._partition(topic) for _ in range(count)})
