"""Shows each step to the checkers of the groups that it concerns, and to no other.

A step costs in proportion to the groups that it touches: a request and its answer touch one, a load
all those of its partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, cast

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.hosting.routing import group_ids_of
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.observe.checkers import Checker


class _Pending(NamedTuple):
    """Records of one group, between two offsets, that are still to be committed."""

    first: int
    end: int
    group_id: str


class Router:
    """Stands for one checker of each group; ``partitions``: where in ``__consumer_offsets``
    each group lives.

    A high watermark that advances is shown to the groups whose records it commits; all others know
    everything of theirs to be committed already.
    """

    def __init__(self, partitions: Mapping[str, int], checkers: Mapping[str, Checker]) -> None:
        self._of_group = checkers
        self._of_partition: dict[int, dict[str, Checker]] = {}
        for group_id, checker in checkers.items():
            of_partition = self._of_partition.setdefault(partitions[group_id], {})
            of_partition[group_id] = checker
        self._pending: dict[str, deque[_Pending]] = {}
        """Shard -> what it has written, or found at its load, and has not committed; by offset."""
        self.routes: Mapping[StepKind, Callable[[Step], Collection[Checker]]] = {
            StepKind.COORDINATOR_REQUEST: self._of_request,
            StepKind.COORDINATOR_TIMER: self._of_timer,
            StepKind.COORDINATOR_LOADED: self._of_load,
            StepKind.COORDINATOR_UNLOADED: self._of_unload,
            StepKind.LOG_COMMITTED: self._of_commit,
            StepKind.LOG_TRUNCATED: self._of_truncation,
            StepKind.RESPONSE_RELEASED: self._of_answer,
            StepKind.CLIENT_EVENT: self._of_client,
            StepKind.CLIENT_STARTED: self._of_client,
            StepKind.CLIENT_CRASHED: self._of_client,
            StepKind.METADATA_CHANGED: self._of_shard,
            StepKind.FAULT: self._of_fault,
            StepKind.CONFIG_CHANGED: self._of_shard,
            StepKind.ADMIN_RETURNED: self._of_admin,
            StepKind.COORDINATOR_WRITTEN: self._of_timer,
            StepKind.COORDINATOR_ESCAPED: self._of_escape,
            StepKind.LEAPT: self._of_everybody,
            StepKind.RECORDS_WRITTEN: self._of_everybody,
        }

    def after_step(self, step: Step) -> None:
        """Show a step around; what happens in ``__transaction_state`` is no group's."""
        shard: Any = step.shard
        if shard is not None and shard.partition not in self._of_partition:
            return
        for checker in self.routes[step.kind](step):
            checker.after_step(step)

    def at_end(self) -> None:
        """The run is over."""
        for checker in self._of_group.values():
            checker.at_end()

    # --- steps of brokers -------------------------------------------------------------------------

    def _of_request(self, step: Step) -> Collection[Checker]:
        if step.records:
            shard = _shard(step)
            self._note(shard, shard.log_end_offset - len(step.records), (step.request.group_id,))
        return self._of_answer(step)

    def _of_answer(self, step: Step) -> Collection[Checker]:
        return self._about(step.request, step)

    def _about(self, what: object, step: Step) -> Collection[Checker]:
        group_ids = group_ids_of(what)
        if group_ids is None:
            return self._of_shard(step)
        if len(group_ids) == 1:
            return self._only(group_ids[0])
        return [self._of_group[name] for name in group_ids if name in self._of_group]

    def _of_timer(self, step: Step) -> Collection[Checker]:
        if step.records:
            shard = _shard(step)
            group_ids = dict.fromkeys(record.group_id for record in step.records)
            self._note(shard, shard.log_end_offset - len(step.records), group_ids)
        return self._about(step.event, step)

    def _of_escape(self, step: Step) -> Collection[Checker]:
        return self._about(step.event if step.request is None else step.request, step)

    def _of_load(self, step: Step) -> Collection[Checker]:
        shard = _shard(step)
        self._pending.pop(shard.name, None)
        if shard.high_watermark < shard.log_end_offset:
            self._note(shard, shard.high_watermark, self._of_partition.get(shard.partition, ()))
        return self._of_shard(step)

    def _of_unload(self, step: Step) -> Collection[Checker]:
        self._pending.pop(_shard(step).name, None)
        return self._of_shard(step)

    def _of_commit(self, step: Step) -> Collection[Checker]:
        shard = _shard(step)
        pending = self._pending.get(shard.name)
        if not pending:
            return ()
        high_watermark = shard.high_watermark
        touched: dict[str, None] = {}
        while pending and pending[0].end <= high_watermark:
            touched[pending.popleft().group_id] = None
        for part in pending:
            if part.first >= high_watermark:
                break
            touched[part.group_id] = None
        return [self._of_group[group_id] for group_id in touched]

    def _of_truncation(self, step: Step) -> Collection[Checker]:
        shard = _shard(step)
        pending = self._pending.get(shard.name)
        while pending and pending[-1].first >= shard.log_end_offset:
            pending.pop()
        if shard.is_active:
            # An operation that is not atomic may have written some of its records, which no step
            # has shown: take everybody for concerned.
            return self._of_load(step)
        return self._of_shard(step)

    def _of_shard(self, step: Step) -> Collection[Checker]:
        of_partition = self._of_partition.get(_shard(step).partition)
        return () if of_partition is None else of_partition.values()

    def _note(self, shard: ShardHost, first: int, group_ids: Iterable[str]) -> None:
        """These groups have records from an offset on that are not committed yet."""
        end = shard.log_end_offset
        pending = self._pending.setdefault(shard.name, deque())
        pending.extend(_Pending(first, end, name) for name in group_ids if name in self._of_group)

    # --- steps of clients and of the world --------------------------------------------------------

    def _of_client(self, step: Step) -> Collection[Checker]:
        client: Any = step.client
        return self._only(client.member.config.group_id)

    def _of_admin(self, step: Step) -> Collection[Checker]:
        return self._only(step.request.group_id)

    def _of_fault(self, step: Step) -> Collection[Checker]:
        """Only what may take back committed records, and what alters settings, concerns the
        properties."""
        fault = step.fault
        if fault.may_lose_committed or fault.alters_settings:
            return self._of_group.values()
        return ()

    def _of_everybody(self, step: Step) -> Collection[Checker]:
        return self._of_group.values()

    def _only(self, group_id: str) -> Collection[Checker]:
        checker = self._of_group.get(group_id)
        return () if checker is None else (checker,)


def _shard(step: Step) -> ShardHost:
    return cast(ShardHost, step.shard)
