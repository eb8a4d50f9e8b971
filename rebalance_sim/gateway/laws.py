"""The properties, checked while real clients use the coordinator.

Of a client that reports, those are judged that can be seen from outside; its machine is not here.
What must happen eventually is asked for when a test wants to know, since a session has no set end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from rebalance_sim.gateway.host import GroupHost
from rebalance_sim.gateway.recording import MAX_GROUPS
from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.invariants.laws.log import CommittedKept, RecordKey
from rebalance_sim.invariants.property import Kind, Property, Stuck, Violation
from rebalance_sim.invariants.step import ClientView, ShardView, Step, StepKind
from rebalance_sim.protocol.hosting.routing import group_ids_of
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import Semantics
from rebalance_sim.protocol.wire.records import Record, TransactionMarker, TxnOffsetCommit


class _CommittedKept(CommittedKept):
    """A log without replicas is not committed twice, but after records of it were lost. Records of
    transactions that have ended go."""

    kept = 256

    def _enter(self, latest: dict[RecordKey, Record], record: Record) -> None:
        if type(record) not in (TxnOffsetCommit, TransactionMarker):
            super()._enter(latest, record)


_OF_COORDINATOR = tuple(_CommittedKept if one is CommittedKept else one for one in PROPERTIES)
SWEPT_FROM = 100
"""So many groups are watched before those are forgotten of which there is nothing."""

FROM_OUTSIDE: tuple[type[Property], ...] = tuple(
    one for one in PROPERTIES if one.is_seen_from_outside and one.kind is not Kind.SOMETIMES
)
"""What is judged of clients that report."""

_OF_ONE = frozenset(
    {
        StepKind.COORDINATOR_REQUEST,
        StepKind.COORDINATOR_TIMER,
        StepKind.COORDINATOR_WRITTEN,
        StepKind.COORDINATOR_ESCAPED,
        StepKind.RESPONSE_RELEASED,
    }
)


@dataclass(slots=True, eq=False)
class _Group:
    """One group, as its checker sees the world (``WorldView``)."""

    group_id: str
    shard: GroupHost
    config: CoordinatorConfig
    semantics: Semantics
    has_data_plane: bool = False
    of_clients: Callable[[str], Mapping[str, ClientView]] | None = None

    @property
    def now_ms(self) -> int:
        return self.shard.now_ms

    def acting_shard(self) -> ShardView | None:
        return self.shard if self.shard.is_active else None

    def clients(self) -> Mapping[str, ClientView]:
        return {} if self.of_clients is None else self.of_clients(self.group_id)


@dataclass(frozen=True, slots=True)
class GroupViolation:
    """A property that does not hold, in which group."""

    group_id: str
    violation: Violation

    def __str__(self) -> str:
        return f"group {self.group_id}: {self.violation}"


class Laws:
    """A checker for each group; ``on_violation`` is called once for each property and group."""

    def __init__(
        self,
        *,
        config: CoordinatorConfig,
        semantics: Semantics,
        on_violation: Callable[[GroupViolation], object],
    ) -> None:
        self._config = config
        self._semantics = semantics
        self._on_violation = on_violation
        self._checkers: dict[str, Checker] = {}
        self._of_clients: dict[str, Checker] = {}
        self._reported: dict[Checker, int] = {}
        self._sweeps_at = SWEPT_FROM

    @property
    def group_ids(self) -> tuple[str, ...]:
        """The groups that are watched, in the order in which requests named them."""
        return tuple(self._checkers)

    def watch(self, group_id: str, shard: GroupHost) -> None:
        """Watch a group from now on; nothing if that is so already."""
        if group_id in self._checkers:
            return
        if len(self._checkers) >= self._sweeps_at:
            self._sweep(shard)
        if len(self._checkers) >= MAX_GROUPS:
            return
        view = _Group(group_id, shard, self._config, self._semantics)
        checker = self._checkers[group_id] = Checker(
            view, properties=_OF_COORDINATOR, stop_at_first=False
        )
        self._begin(checker, shard)

    def _sweep(self, shard: GroupHost) -> None:
        """Watch no group any more of which there is nothing: names may be many. It is watched
        again when it is named again."""
        coordinator = shard.coordinator
        offsets = coordinator.offsets
        for group_id in list(self._checkers):
            if not (
                group_id in self._of_clients
                or coordinator.project(group_id) is not None
                or offsets.committed_of_group(group_id)
                or offsets.pending.partitions_of(group_id)
            ):
                del self._reported[self._checkers.pop(group_id)]
        self._sweeps_at = max(SWEPT_FROM, 2 * len(self._checkers))

    def after_step(self, step: Step) -> None:
        """Show a step to the groups that it concerns."""
        for group_id in self._concerned(step):
            for checkers in (self._checkers, self._of_clients):
                if group_id in checkers:
                    self._look(group_id, checkers[group_id], step)

    def after_client_step(
        self,
        group_id: str,
        step: Step,
        clients: Callable[[str], Mapping[str, ClientView]],
        shard: GroupHost,
    ) -> None:
        """Show a step of a client that reports to the properties that can be judged from outside;
        ``clients`` are those of a group that do."""
        checker = self._of_clients.get(group_id)
        if checker is None:
            if len(self._of_clients) >= MAX_GROUPS:
                return
            view = _Group(group_id, shard, self._config, self._semantics, True, clients)
            checker = self._of_clients[group_id] = Checker(
                view, properties=FROM_OUTSIDE, stop_at_first=False, known_issues={}
            )
            self._begin(checker, shard)
        self._look(group_id, checker, step)

    def unsettled(self, group_id: str, at_ms: int) -> list[Stuck]:
        """What has to happen once nothing disturbs the group, and has not yet, as far as that
        can be seen from outside: nothing of a group without clients that report."""
        checker = self._of_clients.get(group_id)
        return [] if checker is None else checker.liveness.pending(at_ms)

    def not_judged(self, group_id: str) -> list[str]:
        """What is not judged of a group, each in a line: violations that known issues of the
        version may be the reason of, and properties that a rule of it makes untrue."""
        if group_id not in self._checkers:
            return ["all properties: the group is not watched"]
        lines: list[str] = []
        for checkers in (self._checkers, self._of_clients):
            if (checker := checkers.get(group_id)) is None:
                continue
            lines += (
                f"{violation.property.id}: may be {' or '.join(violation.suspects)}, which "
                f"{self._semantics.name} has"
                for violation, _ in checker.suspected
            )
            lines += (f"{one}: {why.rule} replaces it" for one, why in checker.replaced.items())
        return lines

    def _begin(self, checker: Checker, shard: GroupHost) -> None:
        self._reported[checker] = 0
        if shard.is_active:
            step = Step()
            step.kind, step.shard, step.at_ms = StepKind.COORDINATOR_LOADED, shard, shard.now_ms
            checker.after_step(step)

    def _look(self, group_id: str, checker: Checker, step: Step) -> None:
        checker.after_step(step)
        for violation in checker.violations[self._reported[checker] :]:
            self._reported[checker] += 1
            self._on_violation(GroupViolation(group_id, violation))

    def _concerned(self, step: Step) -> Iterable[str]:
        if step.kind in _OF_ONE:
            named = group_ids_of(step.event if step.request is None else step.request)
            if named is not None:
                return tuple(named)
        return tuple(dict.fromkeys((*self._checkers, *self._of_clients)))
