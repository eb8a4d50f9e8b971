"""The smallest host of a coordinator: a list for a log, a dict for timers, no delay.

Used by tests, ``explore``, case studies and the conformance replay. Every record is committed at
once, unless ``commits`` is False.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.held_answers import Asked
from rebalance_sim.protocol.hosting.ports import RegexEngine, Reply, ShardListener, Wake
from rebalance_sim.protocol.hosting.shard import Shard
from rebalance_sim.protocol.hosting.verification import handle_verified, write_marker
from rebalance_sim.protocol.migration.group_semantics import CORRECT_GROUPS, GroupSemantics
from rebalance_sim.protocol.runtime.context import no_regex_engine
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import (
    ConfigsInForce,
    CoordinatorConfig,
    GroupConfig,
)
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey, Token
from rebalance_sim.protocol.wire.consumer_messages import Request, Response
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import EMPTY_IMAGE, MetadataImage
from rebalance_sim.protocol.wire.transaction_messages import (
    TxnMarker,
)


@dataclass(frozen=True, slots=True)
class _Reply:
    """Puts an answer under the token of its request."""

    answers: dict[Token, Response]
    token: Token

    def __call__(self, answer: Any) -> None:
        self.answers[self.token] = answer


class _Shard(Shard):
    """Parks requests under the tokens of their host, so that states can be kept as values."""

    def __init__(self, answers: dict[Token, Response], **ports: Any) -> None:
        self._answers = answers
        self.asked: dict[Token, Asked] = {}
        super().__init__(**ports)

    def token_of(self, asked: Asked) -> Token:
        """As of ``Shard``."""
        if not isinstance(asked.reply, _Reply):
            return asked
        self.asked[asked.reply.token] = asked
        return asked.reply.token

    def asked_by(self, token: Token) -> Asked:
        """As of ``Shard``; also one that was parked in a state that was come back to."""
        if isinstance(token, Asked):
            return token
        if token in self.asked:
            return self.asked.pop(token)
        return Asked(0, None, _Reply(self._answers, token))

    def forget(self) -> None:
        """The host has put another state in place: nothing belongs to it that came before."""
        self.asked.clear()
        self._writer.drop()


class MinimalShard(ShardListener):
    """A coordinator with its log, its timers and a clock that the caller moves (``ShardView``).

    ``log`` holds every record (of other groups ``foreign_count`` came before, which no one reads),
    ``batches`` (time in ms, records) for each operation that wrote any;
    ``timers`` those that are armed, in the order of arming; ``answers`` the answers to requests
    that were parked, by their tokens. While ``commits`` is False, what is written is committed by a
    later ``commit``. ``listener`` learns of everything in place of this object. An exception of the
    coordinator is the caller's.
    """

    coordinator_class = GroupCoordinator
    keeps_history = True
    """See ``GroupCoordinator``; without, a write that fails cannot be undone."""
    lingers = False
    """Whether batches wait as the settings say, for a host that carries out wake-ups."""
    is_leading = True
    """As of ``Journal``."""
    name = "coordinator"
    leader_epoch = foreign_count = 0

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        semantics: GroupSemantics = CORRECT_GROUPS,
        image: MetadataImage = EMPTY_IMAGE,
        new_member_id: Callable[[], str] | None = None,
        compile_regex: RegexEngine = no_regex_engine,
        listener: ShardListener | None = None,
    ) -> None:
        self._next_id = self._next_token = 0
        self._config = config
        self._semantics = semantics.of_both
        self._image = image
        self._group_configs: Mapping[str, GroupConfig] = MappingProxyType({})
        self._new_member_id = new_member_id or self._count_up_id
        self._compile_regex = compile_regex
        self.now_ms = 0
        self.high_watermark = 0
        self.commits = True
        self.log: list[Record] = []
        self.batches: list[tuple[int, tuple[Record, ...]]] = []
        self.answers: dict[Token, Response] = {}
        if not self.lingers:
            config = replace(config, group_coordinator_append_linger_ms=0)
        self.shard = _Shard(
            self.answers,
            journal=self,
            alarms=self,
            new_coordinator=self._new_coordinator,
            config=config,
            rules=semantics.rules(BrokerRules)(),
            listener=listener or self,
            send_marker=self._send_marker,
        )
        self.timers = self.armed_timers = self.shard.armed_timers
        self.load()

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
        reply = _Reply(self.answers, token)
        handle = partial(self._handle, client_id=client_id, client_host=client_host)
        handle_verified(request, reply, shard=self.shard, handle=handle)
        return self.answers.pop(token, None)

    def _handle(
        self, request: Request, reply: Reply, *, client_id: str = "", client_host: str = ""
    ) -> None:
        self.shard.on_request(
            request, reply, client_id=client_id, client_host=client_host, now_ms=self.now_ms
        )

    def _send_marker(self, marker: TxnMarker) -> None:
        """To itself, and the answer likewise."""

        write_marker(marker, self._handle)

    def decided(self, request: Request) -> Response | None:
        """The answer to a request that waits for its commit; None if there is none."""
        waiting = (one for one in self.shard.answers if one.asked and one.asked.request is request)
        return next((one.response for one in waiting), None)

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
        self.load()

    def load(self) -> None:
        """Read the log into a new coordinator."""
        self.shard.begin_load()
        self.shard.finish_load(self.log, now_ms=self.now_ms)

    def commit(self) -> None:
        """Everything that was written is committed."""
        self.high_watermark = self.end_offset
        self.shard.on_high_watermark(self.now_ms)

    def take(self, outcome: Outcome) -> None:
        """Do what an outcome says that no request and no timer has led to."""
        self.shard.take(outcome, now_ms=self.now_ms)

    # --- what invariants see ----------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        """As of ``ShardView``."""
        return self.shard.is_active

    @property
    def end_offset(self) -> int:
        """Offset of the next record."""
        return self.foreign_count + len(self.log)

    @property
    def log_end_offset(self) -> int:
        """As of ``ShardView``."""
        return self.shard.log_end_offset

    @property
    def configs(self) -> ConfigsInForce:
        """As of ``ShardView``."""
        return ConfigsInForce(broker=self.coordinator.config, groups=self.coordinator.group_configs)

    def log_records(self) -> Sequence[Record]:
        """As of ``ShardView``."""
        return [*self.log, *self.shard.open_records()]

    # --- what a host brings -----------------------------------------------------------------------

    def append(self, records: Sequence[Record]) -> WriteError | None:
        """As of ``Journal``."""
        self.batches.append((self.now_ms, tuple(records)))
        self.log += records
        return None

    def publish(self) -> None:
        """As of ``Journal``: everything is committed at once, if ``commits``."""
        if self.commits:
            self.commit()

    def wake_at(self, at_ms: int, wake: Wake) -> None:
        """As of ``Alarms``: ``advance_to`` looks at the timers themselves."""

    def escaped(self, request: Request | None, event: object, problem: Exception) -> None:
        """As of ``ShardListener``. Raises the exception."""
        raise problem

    def _new_coordinator(self) -> GroupCoordinator:
        return self.coordinator_class(
            config=self._config,
            group_configs=self._group_configs,
            semantics=self._semantics,
            image=self._image,
            new_member_id=self._new_member_id,
            compile_regex=self._compile_regex,
            keeps_history=self.keeps_history,
            term=self.leader_epoch,
        )

    def _count_up_id(self) -> str:
        self._next_id += 1
        return f"generated-{self._next_id:06d}"
