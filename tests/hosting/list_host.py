"""A host made of a list and a dict: what hosting needs, and nothing of a simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from typing import Any

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.ports import ShardListener, Wake
from rebalance_sim.protocol.hosting.shard import Shard
from rebalance_sim.protocol.migration.group_semantics import CORRECT_GROUPS, GroupSemantics
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

CONFIG = CoordinatorConfig(
    group_consumer_assignment_interval_ms=0, group_initial_rebalance_delay_ms=0
)
IMAGE = MetadataImage([Topic(topic_id="foo", name="foo", partition_count=4)])


class ListJournal:
    """A list. ``error``: why nothing can be appended; ``published``: what others see of it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.error: WriteError | None = None
        self.is_leading = True
        self.high_watermark = 0
        self.published = 0

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def append(self, records: Sequence[Record]) -> WriteError | None:
        if self.error is None:
            self.records += records
        return self.error

    def publish(self) -> None:
        self.published = len(self.records)


class Alarms:
    """Wake-ups by time, then in the order of asking."""

    def __init__(self) -> None:
        self._count = count()
        self.asked: list[tuple[int, int, Wake]] = []

    def wake_at(self, at_ms: int, wake: Wake) -> None:
        heappush(self.asked, (at_ms, next(self._count), wake))

    def next_until(self, at_ms: int) -> tuple[int, Wake] | None:
        """The next wake-up, if it is due by then."""
        if not self.asked or self.asked[0][0] > at_ms:
            return None
        due_ms, _, wake = heappop(self.asked)
        return due_ms, wake


class Diary(ShardListener):
    """Keeps in words what it learns."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.problems: list[Exception] = []

    def handled(self, operation: int, request: Any, outcome: Outcome, now_ms: int) -> None:
        self.lines.append(f"{operation} {type(request).__name__}")

    def fired(self, key: TimerKey, outcome: Outcome, now_ms: int) -> None:
        self.lines.append(f"timer {key.kind}")

    def escaped(self, request: Any, event: object, problem: Exception) -> None:
        what = event if request is None else request
        self.lines.append(f"escaped {type(what).__name__}")
        self.problems.append(problem)

    def released(self, operation: int, request: Any, response: Any) -> None:
        self.lines.append(f"answer {operation}")

    def truncated(self) -> None:
        self.lines.append("truncated")

    def unloaded(self, detail: str, now_ms: int) -> None:
        self.lines.append(detail)


class ListHost:
    """A shard that has loaded an empty log. ``answers`` by name, as they come."""

    def __init__(
        self,
        *,
        rules: BrokerRules | None = None,
        semantics: GroupSemantics = CORRECT_GROUPS,
        **config: Any,
    ) -> None:
        self._semantics = semantics
        self.now_ms = 0
        self.answers: dict[str, Any] = {}
        self.journal = ListJournal()
        self.alarms = Alarms()
        self.diary = Diary()
        self._ids = count(1)
        self._config = replace(CONFIG, **config)
        self.shard = Shard(
            journal=self.journal,
            alarms=self.alarms,
            new_coordinator=self._coordinator,
            config=self._config,
            rules=rules or BrokerRules(),
            listener=self.diary,
        )
        self.load()

    def ask(self, name: str, request: Any) -> None:
        """Send a request; its answer comes under this name."""

        def reply(response: Any) -> None:
            assert name not in self.answers, "nobody is answered twice"
            self.answers[name] = response

        self.shard.on_request(
            request, reply, client_id=name, client_host="/10.0.0.1", now_ms=self.now_ms
        )

    def commit(self) -> None:
        """The replicas have everything that was published."""
        self.journal.high_watermark = self.journal.published
        self.shard.on_high_watermark(self.now_ms)

    def advance_to(self, at_ms: int) -> None:
        """Let everything happen that is due by then."""
        while (due := self.alarms.next_until(at_ms)) is not None:
            self.now_ms = max(self.now_ms, due[0])
            self.shard.on_wake(due[1], self.now_ms)
        self.now_ms = at_ms

    def load(self) -> None:
        """The broker leads: read the log."""
        assert self.shard.begin_load()
        self.shard.finish_load(self.journal.records, now_ms=self.now_ms)

    def _coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            config=self._config,
            image=IMAGE,
            semantics=self._semantics,
            new_member_id=lambda: f"m{next(self._ids)}",
            keeps_history=True,
        )
