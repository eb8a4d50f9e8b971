"""How a shard reads its log when it becomes the coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.sim.broker.environment import BrokerEnvironment
from rebalance_sim.sim.broker.log import ReplicaLog
from rebalance_sim.sim.streams import delay_sampler


class _Broker(Protocol):
    """The broker of a replica."""

    @property
    def slow_loads_ms(self) -> Sequence[int]: ...
    def defers(self, function: Callable[..., None], *arguments: Any) -> bool: ...


class _Replica(Protocol):
    """The replica whose log is read."""

    actor: str
    log: ReplicaLog
    tie_break: Callable[[], float]

    @property
    def broker(self) -> _Broker: ...


class LogReading:
    """How a shard reads its log when it becomes the coordinator; one load at a time.

    Source: coordinator §9.5. A load reads the log piece by piece, and the log may be compacted
    meanwhile; here it has two pieces: what it has read as it begins, and the rest as it ends.
    ``handles``: lets the thread of the shard do something; ``on_read`` gets all records.
    """

    def __init__(
        self,
        replica: _Replica,
        environment: BrokerEnvironment,
        *,
        handles: Callable[..., None],
        on_read: Callable[[Sequence[Record]], None],
    ) -> None:
        self.began_ms = 0
        self._clock = environment.clock
        self._tie_break = replica.tie_break
        self._log = replica.log
        self._replica = replica
        streams = environment.streams
        self._load_ms = delay_sampler(environment.spec.load, streams.get(f"load/{replica.actor}"))
        self._records_per_second = environment.spec.load_records_per_second
        self._split_draw = streams.get(f"load-split/{replica.actor}").random
        self._handles = handles
        self._on_read = on_read
        self._count = 0
        self._is_under_way = False
        self._first: Sequence[Record] = ()
        self._read_to = 0
        self._end_ms = 0

    @property
    def needs_tombstones_from(self) -> int | None:
        """Where a load that is under way continues reading. Tombstones from there on are kept: it
        may have read what they take back, and no load takes ``delete.retention.ms``."""
        return self._read_to if self._is_under_way else None

    def begin(self) -> None:
        """Read the first piece now, and the rest when a load takes no longer."""
        self._count += 1
        self._is_under_way = True
        self.began_ms = self._clock.now_ms
        self._read_to = split = int(self._split_draw() * self._log.end_offset)
        self._first = self._log.remaining(0, split)
        load_ms = self._load_ms() + self._size_ms()
        self._end_in(max((load_ms, *self._replica.broker.slow_loads_ms)))

    def hurry(self) -> None:
        """The rest takes no longer than a whole load usually does, and not longer than it would."""
        if self._is_under_way:
            load_ms = self._load_ms() + self._size_ms()
            if self._clock.now_ms + load_ms < self._end_ms:
                self._count += 1
                self._end_in(load_ms)

    def _size_ms(self) -> int:
        """How much longer it takes for what there is to read."""
        rate = self._records_per_second
        return 0 if rate is None else len(self._log.remaining()) * 1_000 // rate

    def _end_in(self, delay_ms: int) -> None:
        self._end_ms = self._clock.now_ms + delay_ms
        self._clock.call_at(self._end_ms, self._tie_break(), self._on_end, self._count)

    def cancel(self) -> None:
        """The shard is given up."""
        self._count += 1
        self._is_under_way = False

    def _on_end(self, count: int) -> None:
        if not self._replica.broker.defers(self._on_end, count):
            self._handles(self._finish, count)

    def _finish(self, count: int) -> None:
        if count == self._count:
            self._is_under_way = False
            self._on_read((*self._first, *self._log.remaining(self._read_to)))
