"""A host made of a list and a dict: what hosting needs, and nothing of a simulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from typing import Any

from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.hosting.ports import Wake
from rebalance_sim.protocol.migration.group_semantics import CORRECT_GROUPS, GroupSemantics
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import MetadataImage, Topic

CONFIG = CoordinatorConfig(
    group_consumer_assignment_interval_ms=0, group_initial_rebalance_delay_ms=0
)
IMAGE = MetadataImage([Topic(topic_id="foo", name="foo", partition_count=4)])


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


class ListHost(MinimalShard):
    """A shard that has loaded an empty log, and keeps in ``lines`` what it learns. ``write_error``:
    why nothing can be appended; ``published``: how much others see of the log; ``replies`` by name,
    as they come."""

    lingers = True

    def __init__(self, *, semantics: GroupSemantics = CORRECT_GROUPS, **config: Any) -> None:
        self.alarms = Alarms()
        self.write_error: WriteError | None = None
        self.published = 0
        self.replies: dict[str, Any] = {}
        self.lines: list[str] = []
        self.problems: list[Exception] = []
        super().__init__(config=replace(CONFIG, **config), semantics=semantics, image=IMAGE)
        self.commits = False

    def ask(self, name: str, request: Any) -> None:
        """Send a request; its answer comes under this name."""

        def reply(response: Any) -> None:
            assert name not in self.replies, "no one is answered twice"
            self.replies[name] = response

        self.shard.on_request(
            request, reply, client_id=name, client_host="/10.0.0.1", now_ms=self.now_ms
        )

    def append(self, records: Sequence[Record]) -> WriteError | None:
        return self.write_error or super().append(records)

    def publish(self) -> None:
        self.published = self.end_offset

    def wake_at(self, at_ms: int, wake: Wake) -> None:
        self.alarms.wake_at(at_ms, wake)

    def advance_to(self, at_ms: int) -> None:
        """Let everything happen that is due by then."""
        while (due := self.alarms.next_until(at_ms)) is not None:
            self.now_ms = max(self.now_ms, due[0])
            self.shard.on_wake(due[1], self.now_ms)
        self.now_ms = at_ms

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
