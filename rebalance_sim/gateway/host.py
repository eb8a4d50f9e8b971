"""A coordinator shard of groups and transactions behind sockets: a log that is compacted, and a
clock that is real.

Timers fire at the time for which they are due, before whatever is handled after it: what they
decide does not depend on how busy the machine is.
"""

from __future__ import annotations

import asyncio
import base64
import heapq
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any

from rebalance_sim.gateway.topics import Topics
from rebalance_sim.gateway.wire.records import marker_of
from rebalance_sim.protocol.hosting.broker_rules import BrokerRules
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.hosting.ports import Reply, ShardListener, Wake
from rebalance_sim.protocol.hosting.routing import GroupRequests
from rebalance_sim.protocol.hosting.shard import Shard
from rebalance_sim.protocol.hosting.verification import handle_verified, write_marker
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import (
    ConfigsInForce,
    CoordinatorConfig,
    GroupConfig,
)
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.transaction_messages import (
    DataPartition,
    TxnMarker,
    TxnMarkerAnswered,
)
from rebalance_sim.re2_engine import compile_re2
from rebalance_sim.sim.broker.log import ReplicaLog

COMPACTED_FROM = 1_000
"""The log is compacted when it has this many new records, and as many as were left of it the last
time: it has at most twice what the state of the groups takes, and these."""
WALL_OFFSET_MS = 1
"""Time begins with the gateway; a time of 0 in a record means that there is none."""


def _new_member_id() -> str:
    """As brokers draw them (coordinator §2.4, H3): assignors and leaders go by the order of ids."""
    while True:
        drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not drawn.startswith("-"):
            return drawn


class GroupHost(Shard):
    """The coordinator of all groups, as its host and as invariants see it (``ShardView``).

    All that is in ``log`` is committed, but while ``holds_commits_ms`` makes it wait. To be made
    inside a running event loop.
    """

    name = "gateway"
    is_leading = True

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        semantics: Semantics,
        topics: Topics,
        listener: ShardListener,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._config = config
        self._semantics = semantics
        self._topics = topics
        self._group_configs: Mapping[str, GroupConfig] = MappingProxyType({})
        self._due: list[tuple[int, int, Callable[[int], None]]] = []
        self._numbers = count()
        self._wake_up: asyncio.TimerHandle | None = None
        self.leader_epoch = 0
        self.now_ms = self._soonest_ms = 0
        self.log = ReplicaLog()
        self.holds_commits_ms = 0
        super().__init__(
            journal=self,
            alarms=self,
            new_coordinator=self._make_coordinator,
            config=config,
            rules=semantics.rules(BrokerRules)(),
            listener=listener,
            send_marker=self._send_marker,
        )
        self.requests = GroupRequests([self], lambda group_id: 0)

    # -- what is asked of it ---------------------------------------------------------------------

    def load(self) -> None:
        """Become the coordinator with what the log has."""
        self.advance()
        self._load(self.now_ms)

    def handle(
        self, request: Any, reply: Callable[[Any], None], *, client_id: str, client_host: str
    ) -> None:
        """Handle a request now, after all that was due before it."""
        self.advance()
        handle = partial(self._handle, client_id=client_id, client_host=client_host)
        handle_verified(request, reply, shard=self, handle=handle)

    def _handle(
        self, request: Any, reply: Reply, *, client_id: str = "", client_host: str = ""
    ) -> None:
        self.requests.on_request(
            request, reply, client_id=client_id, client_host=client_host, now_ms=self.now_ms
        )

    def _send_marker(self, marker: TxnMarker) -> None:
        asked = marker.request
        partition = DataPartition.of(asked.group_id)
        if partition is None:
            write_marker(marker, self._handle)
            return
        self._topics.end_transaction(
            partition,
            marker_of(
                asked.producer_id,
                asked.producer_epoch,
                self.now_ms,
                committed=asked.committed,
                coordinator_epoch=asked.coordinator_epoch,
            ),
            committed=asked.committed,
        )
        self._handle(TxnMarkerAnswered(marker=marker), lambda _: None)

    def move(self, *, lost_records: int, after_ms: int) -> None:
        """Give up the groups, and load them from the log again after a time, without its last
        records; until then everything is answered NOT_COORDINATOR."""
        self.advance()
        self._group_configs = self.coordinator.group_configs
        self.resign(self.now_ms)
        self.log.truncate_to(max(0, self.log.end_offset - lost_records))
        self.call_at(self.now_ms + after_ms, self._load)

    def _load(self, at_ms: int) -> None:
        self.log.high_watermark = self.log.end_offset
        self.leader_epoch += 1
        self.begin_load()
        self.finish_load(self.log.remaining(), now_ms=at_ms)

    def show_topics(self) -> None:
        """The coordinator sees the topics as they are now."""
        self.advance()
        self.update_image(self._topics.image, now_ms=self.now_ms)

    # -- time ------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Do everything that is due by now, in order, each at its time."""
        until_ms = max(self.now_ms, int((self._loop.time() - self._began) * 1000))
        while self._due and self._due[0][0] <= until_ms:
            at_ms, _, act = heapq.heappop(self._due)
            self.now_ms = max(self.now_ms, at_ms)
            # A timeout of 0 may arm the same timer again and again: time passes meanwhile.
            self._soonest_ms = self.now_ms + 1
            act(self.now_ms)
        self.now_ms = self._soonest_ms = until_ms
        self._sleep()

    def call_at(self, at_ms: int, act: Callable[[int], None]) -> None:
        """Call ``act`` with the time, at this time."""
        heapq.heappush(self._due, (max(at_ms, self._soonest_ms), next(self._numbers), act))
        self._sleep()

    def stop(self) -> None:
        """Let nothing fire any more."""
        self._due.clear()
        self._sleep()

    def _sleep(self) -> None:
        if self._wake_up is not None:
            self._wake_up.cancel()
            self._wake_up = None
        if self._due:
            # What is due at a millisecond is due when that has begun.
            at_s = self._began + self._due[0][0] / 1000
            self._wake_up = self._loop.call_at(at_s, self.advance)

    # -- what invariants see ---------------------------------------------------------------------

    @property
    def configs(self) -> ConfigsInForce:
        """As of ``ShardView``."""
        return ConfigsInForce(broker=self.coordinator.config, groups=self.coordinator.group_configs)

    def log_records(self) -> Sequence[Record]:
        """As of ``ShardView``."""
        return [*self.log.remaining(), *self.open_records()]

    # -- ports -----------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """As of ``Journal``."""
        return self.log.high_watermark

    @property
    def end_offset(self) -> int:
        """As of ``Journal``."""
        return self.log.end_offset

    def append(self, records: Sequence[Record]) -> WriteError | None:
        """As of ``Journal``."""
        self.log.append(records, self.leader_epoch)
        return None

    def publish(self) -> None:
        """As of ``Journal``: what was written is committed, now or after ``holds_commits_ms``."""
        end, epoch = self.end_offset, self.leader_epoch

        def commit(at_ms: int) -> None:
            if epoch == self.leader_epoch and self.is_active and end > self.log.high_watermark:
                self.log.high_watermark = end
                self.on_high_watermark(at_ms)
                if end - self.log.cleaned_to > max(COMPACTED_FROM, self.log.cleaned_count):
                    self.log.compact(end, drops_tombstones=True, drops_ended_transactions=True)

        if self.holds_commits_ms:
            self.call_at(self.now_ms + self.holds_commits_ms, commit)
        else:
            commit(self.now_ms)

    def wake_at(self, at_ms: int, wake: Wake) -> None:
        """As of ``Alarms``."""
        self.call_at(at_ms, lambda now_ms: self.on_wake(wake, now_ms))

    def _make_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(
            config=self._config,
            group_configs=self._group_configs,
            semantics=self._semantics.of_both,
            image=self._topics.image,
            new_member_id=_new_member_id,
            compile_regex=compile_re2,
            keeps_history=True,
            term=self.leader_epoch,
            wall_offset_ms=WALL_OFFSET_MS,
        )
