"""The smallest host of a coordinator: a list for a log, a dict for timers, no delay.

Used by unit tests, notebooks and the conformance replay. Every record is committed at once, unless
``commits`` is False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.ports import RegexEngine, ShardListener, Wake
from rebalance_sim.protocol.hosting.shard import Shard
from rebalance_sim.protocol.migration.group_semantics import CORRECT_GROUPS, GroupSemantics
from rebalance_sim.protocol.runtime.context import no_regex_engine
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig, GroupConfig
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey, Token
from rebalance_sim.protocol.wire.consumer_messages import Request, Response
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import EMPTY_IMAGE, MetadataImage


class MinimalShard(ShardListener):
    """A coordinator with its log, its timers and a clock that the caller moves.

    ``batches`` holds (time in ms, records) for each operation that wrote anything; ``timers`` those
    that are armed, in the order of arming; ``answers`` the answers to requests that were parked, by
    their tokens. While ``commits`` is False, what is written is committed by a later ``publish``.
    An exception of the coordinator is the caller's.
    """

    is_leading = True
    """As of ``Journal``."""

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        semantics: GroupSemantics = CORRECT_GROUPS,
        image: MetadataImage = EMPTY_IMAGE,
        new_member_id: Callable[[], str] | None = None,
        compile_regex: RegexEngine = no_regex_engine,
    ) -> None:
        self._next_id = self._next_token = 0
        self._config = config
        self._semantics = semantics
        self._image = image
        self._group_configs: Mapping[str, GroupConfig] = MappingProxyType({})
        self._new_member_id = new_member_id or self._count_up_id
        self._compile_regex = compile_regex
        self.now_ms = 0
        self.end_offset = 0
        self.high_watermark = 0
        self.commits = True
        self.batches: list[tuple[int, tuple[Record, ...]]] = []
        self.answers: dict[Token, Response] = {}
        self.shard = Shard(
            journal=self,
            alarms=self,
            new_coordinator=self._new_coordinator,
            config=replace(config, group_coordinator_append_linger_ms=0),
            rules=semantics.rules(BrokerRules)(),
            listener=self,
        )
        self.timers = self.shard.armed_timers
        self._load()

    @property
    def coordinator(self) -> GroupCoordinator:
        """The present one; ``restart`` makes another."""
        return self.shard.coordinator

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
        self.shard.on_request(
            request,
            partial(self.answers.__setitem__, token),
            client_id=client_id,
            client_host=client_host,
            now_ms=self.now_ms,
        )
        return self.answers.pop(token, None)

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

    def fire(self, key: TimerKey) -> None:
        """Fire an armed timer now, before its time if need be. Raises KeyError if not armed."""
        self.shard.fire(self.timers.pop(key), self.now_ms)

    def update_image(self, image: MetadataImage) -> None:
        """Show the coordinator new topics."""
        self.shard.update_image(image, now_ms=self.now_ms)

    def restart(self) -> None:
        """Lose memory and timers; load the whole log into a new coordinator (coordinator §9.5).

        Topics and dynamic settings are kept, as they live outside the group log.
        """
        self._image, self._group_configs = self.coordinator.image, self.coordinator.group_configs
        self.shard.resign(self.now_ms)
        self._load()

    def records(self) -> Sequence[Record]:
        """The log, record by record."""
        return [record for _, batch in self.batches for record in batch]

    def take(self, outcome: Outcome) -> None:
        """Do what an outcome says that no request and no timer has led to."""
        self.shard.take(outcome, now_ms=self.now_ms)

    # --- what a host brings -----------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> WriteError | None:
        """As of ``Journal``."""
        self.batches.append((self.now_ms, tuple(records)))
        self.end_offset += len(records)
        return None

    def publish(self) -> None:
        """As of ``Journal``: everything is committed at once, if ``commits``."""
        if self.commits:
            self.high_watermark = self.end_offset
            self.shard.on_high_watermark(self.now_ms)

    def wake_at(self, at_ms: int, wake: Wake) -> None:
        """As of ``Alarms``: ``advance_to`` looks at the timers themselves."""

    def escaped(self, request: Request | None, event: object, problem: Exception) -> None:
        """As of ``ShardListener``. Raises the exception."""
        raise problem

    def _load(self) -> None:
        self.shard.begin_load()
        self.shard.finish_load(self.records(), now_ms=self.now_ms)

    def _new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            config=self._config,
            group_configs=self._group_configs,
            semantics=self._semantics,
            image=self._image,
            new_member_id=self._new_member_id,
            compile_regex=self._compile_regex,
            keeps_history=True,
        )

    def _count_up_id(self) -> str:
        self._next_id += 1
        return f"generated-{self._next_id:06d}"
