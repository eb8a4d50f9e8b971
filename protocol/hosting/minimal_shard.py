"""The smallest host of a coordinator: a list for a log, a dict for timers, no delay.

Used by unit tests, notebooks and the conformance replay. Every record is committed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from rebalance_sim.protocol.migration.group_semantics import CORRECT_GROUPS, GroupSemantics
from rebalance_sim.protocol.runtime.context import CompileRegex, no_regex_engine
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig, GroupConfig
from rebalance_sim.protocol.runtime.outcome import (
    Outcome,
    ScheduleTimer,
    TimerCommand,
    TimerKey,
    Token,
)
from rebalance_sim.protocol.wire.consumer_messages import Request, Response
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import EMPTY_IMAGE, MetadataImage

__all__ = ["Shard"]


class Shard:
    """A coordinator with its log, its timers and a clock that the caller moves.

    ``batches`` holds (time in ms, records) for each operation that wrote anything; ``answers`` the
    answers to requests that were parked, by their tokens.
    """

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        semantics: GroupSemantics = CORRECT_GROUPS,
        image: MetadataImage = EMPTY_IMAGE,
        new_member_id: Callable[[], str] | None = None,
        compile_regex: CompileRegex = no_regex_engine,
    ) -> None:
        self._next_id = self._next_token = 0
        self._config = config
        self._semantics = semantics
        self._new_member_id = new_member_id or self._count_up_id
        self._compile_regex = compile_regex
        self.now_ms = 0
        self.batches: list[tuple[int, tuple[Record, ...]]] = []
        self.timers: dict[TimerKey, ScheduleTimer] = {}
        self.answers: dict[Token, Response] = {}
        self.coordinator = self._new_coordinator(image)
        self._apply(self.coordinator.on_loaded(now_ms=0))

    def request(
        self,
        request: Request,
        *,
        client_id: str = "",
        client_host: str = "",
        token: Token | None = None,
    ) -> Response | None:
        """Handle a request now; its records are in the log and in force when this returns.

        None means that it is parked: its answer will be in ``answers`` under ``token``.
        """
        self._next_token += 1
        if token is None:
            token = self._next_token
        outcome = self.coordinator.handle(
            request,
            now_ms=self.now_ms,
            client_id=client_id,
            client_host=client_host,
            token=token,
        )
        self.take(outcome)
        return self.answers.pop(token, None) if outcome.response is None else outcome.response

    def advance_to(self, at_ms: int) -> None:
        """Move the clock, firing every timer that is due on the way; of timers due at the same
        millisecond the one that was armed first."""
        while self.timers:
            due = min(self.timers.values(), key=lambda timer: timer.at_ms)
            if due.at_ms > at_ms:
                break
            self.now_ms = max(self.now_ms, due.at_ms)
            self.fire(due.key)
        self.now_ms = max(self.now_ms, at_ms)

    def fire(self, key: TimerKey) -> Outcome:
        """Fire an armed timer now, before its time if need be. Raises KeyError if not armed."""
        timer = self.timers.pop(key)
        outcome = self.coordinator.fire(timer.key, epoch=timer.epoch, now_ms=self.now_ms)
        self.take(outcome)
        return outcome

    def update_image(self, image: MetadataImage) -> None:
        """Show the coordinator a new picture of the topics."""
        self._apply(self.coordinator.update_image(image, now_ms=self.now_ms))

    def restart(self) -> None:
        """Lose memory and timers; load the whole log into a new coordinator (coordinator §9.5).

        Topics and dynamic settings are kept, as they live outside the group log.
        """
        before = self.coordinator
        for token, response in before.on_unloaded(now_ms=self.now_ms):
            self.answers[token] = response
        self.coordinator = self._new_coordinator(before.image, before.group_configs)
        self.timers.clear()
        for record in self.records():
            self.coordinator.replay(record, strict=False)
        self._apply(self.coordinator.on_loaded(now_ms=self.now_ms))

    def records(self) -> Iterable[Record]:
        """The log, record by record."""
        return [record for _, batch in self.batches for record in batch]

    def take(self, outcome: Outcome) -> None:
        """Append, replay and commit an outcome's records; obey its timer commands; keep answers."""
        if outcome.records:
            self.batches.append((self.now_ms, outcome.records))
            for record in outcome.records:
                self.coordinator.replay(record)
        self._apply(outcome.timers)
        for token, response in outcome.completions:
            self.answers[token] = response
        if outcome.on_commit is not None:
            self.take(self.coordinator.committed(outcome.on_commit, now_ms=self.now_ms))

    def _apply(self, commands: Iterable[TimerCommand]) -> None:
        for command in commands:
            # Taken out first, so that the dict stays in the order of arming.
            self.timers.pop(command.key, None)
            if isinstance(command, ScheduleTimer):
                self.timers[command.key] = command

    def _new_coordinator(
        self, image: MetadataImage, group_configs: Mapping[str, GroupConfig] = MappingProxyType({})
    ) -> GroupCoordinator:
        return GroupCoordinator(
            config=self._config,
            group_configs=group_configs,
            semantics=self._semantics,
            image=image,
            new_member_id=self._new_member_id,
            compile_regex=self._compile_regex,
        )

    def _count_up_id(self) -> str:
        self._next_id += 1
        return f"generated-{self._next_id:06d}"
