"""How a shard reads its log when it becomes the coordinator.

Source: coordinator §9.5. A load reads the log piece by piece, and the log may be compacted
meanwhile; here it has two pieces: what it has read as it begins, and the rest as it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.wire.errors import ProtocolBug
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.sim.clock import Call
from rebalance_sim.sim.streams import delay_sampler

if TYPE_CHECKING:
    from rebalance_sim.sim.broker.replica import Replica

__all__ = ["ShardLoad"]


class ShardLoad:
    """The loads of one shard, one at a time.

    ``on_done`` gets the coordinator that has read the log, or None and why it cannot be read.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        new_coordinator: Callable[[], GroupCoordinator],
        on_done: Callable[[GroupCoordinator | None, str], None],
    ) -> None:
        world = replica.world
        self.began_ms = 0
        self._clock = world.clock
        self._rules = world.broker_rules
        self._tie_break = replica.tie_break
        self._log = replica.log
        stream = world.streams.get(f"load/{replica.actor}")
        self._load_ms = delay_sampler(world.spec.brokers.load, stream)
        self._split_draw = world.streams.get(f"load-split/{replica.actor}").random
        self._new_coordinator = new_coordinator
        self._on_done = on_done
        self._count = 0
        self._is_under_way = False
        self._read_to = 0

    @property
    def needs_tombstones_from(self) -> int | None:
        """Where a load that is under way goes on reading. Tombstones from there on are kept: it may
        have read what they take back, and no load takes ``delete.retention.ms``."""
        return self._read_to if self._is_under_way else None

    def begin(self) -> None:
        """Read the first piece now, and the rest when a load takes no longer."""
        self._count += 1
        self._is_under_way = True
        self.began_ms = self._clock.now_ms
        self._read_to = split = int(self._split_draw() * self._log.end_offset)
        first = self._log.remaining(0, split)
        at_ms = self._clock.now_ms + self._load_ms()
        self._clock.call_at(at_ms, self._tie_break(), self._on_read, (self._count, first))

    def cancel(self) -> None:
        """The shard is given up."""
        self._count += 1
        self._is_under_way = False

    def _on_read(self, call: Call) -> None:
        count, first = call.argument
        if count != self._count:
            return
        self._is_under_way = False
        coordinator = self._new_coordinator()
        try:
            self._replay(coordinator, first)
        except ProtocolBug as bug:
            self._on_done(None, str(bug))
            return
        self._on_done(coordinator, "")

    def _replay(self, coordinator: GroupCoordinator, first: Sequence[Record]) -> None:
        rules = self._rules
        # What is not committed has one record for each offset, and comes last.
        records = (*first, *self._log.remaining(self._read_to))
        base = self._log.end_offset - len(records)
        high_watermark = self._log.high_watermark
        for offset, record in enumerate(records, start=base):
            rules.check_loaded(record, coordinator)
            coordinator.replay(
                record,
                strict=rules.loads_strictly,
                offset=None if offset < high_watermark else offset,
            )
