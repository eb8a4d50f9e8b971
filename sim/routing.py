"""Shows each step to the checkers of the groups that it concerns, and to no other.

A step costs in proportion to the groups that it touches: a request and its answer touch one, a load
all those of its partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from invariants.step import Step, StepKind
from sim.group import Group
from sim.shard_host import ShardHost
from sim.steps import Checker

__all__ = ["Router"]


class Router:
    """Stands for one checker of each group.

    A high watermark that advances is shown to the groups with records that were still to be
    committed; all others know it already.
    """

    def __init__(self, groups: Mapping[str, Group], checkers: Mapping[str, Checker]) -> None:
        self._groups = groups
        self._of_group = checkers
        self._of_partition: dict[int, list[Checker]] = {}
        for group_id, checker in checkers.items():
            self._of_partition.setdefault(groups[group_id].partition, []).append(checker)
        self._pending: dict[str, dict[str, None]] = {}
        """Shard -> groups with records of it that are not committed yet, as far as seen."""
        self.routes: Mapping[StepKind, Callable[[Step], Collection[Checker]]] = {
            StepKind.COORDINATOR_REQUEST: self._of_request,
            StepKind.COORDINATOR_TIMER: self._of_timer,
            StepKind.COORDINATOR_LOADED: self._of_load,
            StepKind.COORDINATOR_UNLOADED: self._of_shard,
            StepKind.LOG_COMMITTED: self._of_commit,
            StepKind.LOG_TRUNCATED: self._of_shard,
            StepKind.RESPONSE_RELEASED: self._of_answer,
            StepKind.CLIENT_EVENT: self._of_client,
            StepKind.CLIENT_STARTED: self._of_client,
            StepKind.CLIENT_CRASHED: self._of_client,
            StepKind.METADATA_CHANGED: self._of_shard,
            StepKind.FAULT: self._of_nobody,
            StepKind.CONFIG_CHANGED: self._of_shard,
            StepKind.ADMIN_RETURNED: self._of_admin,
        }

    def after_step(self, step: Step) -> None:
        """Show a step around."""
        for checker in self.routes[step.kind](step):
            checker.after_step(step)

    def at_end(self) -> None:
        """The run is over."""
        for checker in self._of_group.values():
            checker.at_end()

    # --- steps of brokers -------------------------------------------------------------------------

    def _of_request(self, step: Step) -> Collection[Checker]:
        group_id = getattr(step.request, "group_id", None)
        if group_id is None:  # Describe and list are about several groups.
            return self._of_shard(step)
        if step.records:
            self._note_pending(step, group_id)
        return self._only(group_id)

    def _of_answer(self, step: Step) -> Collection[Checker]:
        group_id = getattr(step.request, "group_id", None)
        return self._of_shard(step) if group_id is None else self._only(group_id)

    def _of_timer(self, step: Step) -> Collection[Checker]:
        for record in step.records:
            self._note_pending(step, record.group_id)
        # A timer of the whole shard has no group (consumer-group-coordinator.md, section 8.5).
        return self._only(step.event.group_id) if step.event.group_id else self._of_shard(step)

    def _of_load(self, step: Step) -> Collection[Checker]:
        shard = _shard(step)
        for group_id, group in self._groups.items():
            if group.partition == shard.partition:
                self._note_pending(step, group_id)
        return self._of_shard(step)

    def _of_commit(self, step: Step) -> Collection[Checker]:
        shard = _shard(step)
        pending = self._pending.get(shard.name)
        if not pending:
            return ()
        touched = [self._of_group[group_id] for group_id in pending]
        if shard.high_watermark >= shard.log_end_offset:
            pending.clear()
        return touched

    def _of_shard(self, step: Step) -> Collection[Checker]:
        return self._of_partition.get(_shard(step).partition, ())

    def _note_pending(self, step: Step, group_id: str) -> None:
        if group_id in self._of_group:
            self._pending.setdefault(_shard(step).name, {})[group_id] = None

    # --- steps of clients and of the world --------------------------------------------------------

    def _of_client(self, step: Step) -> Collection[Checker]:
        client: Any = step.client
        return self._only(client.member.config.group_id)

    def _of_admin(self, step: Step) -> Collection[Checker]:
        return self._only(step.request.group_id)

    def _of_nobody(self, step: Step) -> Collection[Checker]:
        return ()

    def _only(self, group_id: str) -> Collection[Checker]:
        checker = self._of_group.get(group_id)
        return () if checker is None else (checker,)


def _shard(step: Step) -> ShardHost:
    return cast(ShardHost, step.shard)
