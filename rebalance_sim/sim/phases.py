"""Named parts of a run that metrics are given for, each by itself: "what does the deployment cost?"

A phase begins and ends between events, so it changes nothing of the run. What is counted in it is
what the run has counted more at its end than at its beginning (``observe/sums.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.sim.checks import at_least, unique
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.group import Group
from rebalance_sim.sim.observe.metrics import Metrics
from rebalance_sim.sim.observe.sums import Sums
from rebalance_sim.sim.rest import MOMENT_MS, has_its_members, is_in_routine

OF_THE_RUN = frozenset(
    (
        *("clients_started", "fatal_clients", "idle_clients", "never_stable_clients"),
        *("records_lost", "records_skipped"),
    )
)
"""Metrics that no phase has: they are known when the run is over, of clients and records that may
still come to something."""

_NEVER = 2**63 - 1


class PhaseEnd(Enum):
    """What a phase can last until, other than a time."""

    REST = "rest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A part of the run that has a name. It ends at ``until_ms``, or where the next one begins, or
    with the run.

    With ``until`` it ends before that, as soon as the groups are at rest: no fault is open or still
    to come in the phase, no rebalance continues, every group is stable with the clients that run as
    its members, and has an owner for each partition; and all of this stays so for a heartbeat and
    some seconds more.
    """

    name: str
    """What its metrics are called by: `deploy.unowned_partition_ms`."""
    from_ms: int = 0
    """When it begins."""
    until_ms: int | None = None
    """When it ends; none: where the next one begins, or with the run."""
    until: PhaseEnd | None = None
    """`"rest"`: it ends as soon as all groups are at rest after the last fault of the phase, if
    that comes first."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ValueError(f"name {self.name!r} is none: write small letters, digits and _")
        at_least(self, 0, "from_ms")
        if self.until_ms is not None and self.until_ms <= self.from_ms:
            raise ValueError(
                f"until_ms must be above from_ms ({self.from_ms}), got {self.until_ms}"
            )


def check_phases(phases: Sequence[Phase], duration_ms: int) -> None:
    """Raises ValueError for phases with one name, that overlap or are not in order, or that lie
    where no faults are."""
    unique("phases", (phase.name for phase in phases))
    before: Phase | None = None
    for index, phase in enumerate(phases):
        place = f"phases[{index}] ({phase.name})"
        if phase.from_ms >= duration_ms:
            raise ValueError(
                f"{place}: from_ms ({phase.from_ms}) must be before world.duration_ms "
                f"({duration_ms})"
            )
        if phase.until_ms is not None and phase.until_ms > duration_ms:
            raise ValueError(
                f"{place}: until_ms ({phase.until_ms}) must be at most world.duration_ms "
                f"({duration_ms}); leave it out for the end of the run"
            )
        if before is not None and phase.from_ms < (before.until_ms or before.from_ms + 1):
            raise ValueError(
                f"{place}: from_ms ({phase.from_ms}) must not lie in or before the phase "
                f"{before.name!r}: phases follow one another"
            )
        before = phase


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseSpan:
    """When a phase was. ``at_rest``: whether it ended because the groups were at rest; None: it was
    to end at a time."""

    name: str
    from_ms: int
    until_ms: int
    at_rest: bool | None


class PhasedWorld(Protocol):
    """What is looked at of a world."""

    clock: Clock
    metrics: Metrics
    groups: dict[str, Group]

    def is_stable(self) -> bool:
        """Whether every group is served, and stable or gone."""

    def sums(self) -> Sums:
        """What has added up so far."""

    def lag_records(self) -> Mapping[str, float]:
        """``lag_records_at_end``, as of now, where there are records."""

    def begin_part(self) -> None:
        """From now on, the longest and the highest are those of a part of the run."""


class Phases:
    """Measures the phases of a world. It is asked at ``next_ms``, when everything before that has
    happened (``reach``)."""

    def __init__(self, phases: Sequence[Phase], world: PhasedWorld) -> None:
        self._world = world
        self._coming = list(phases)
        self._present: Phase | None = None
        self._before = Sums()
        self._rest: tuple[PhaseSpan, Mapping[str, float]] | None = None
        self._done: list[tuple[PhaseSpan, Mapping[str, float]]] = []

    @property
    def next_ms(self) -> int:
        """When there is something to look at next, in ``simulated_ms``."""
        if self._present is None:
            return self._coming[0].from_ms if self._coming else _NEVER
        end_ms = self._end_ms(self._present)
        if self._present.until is None:
            return end_ms
        clock = self._world.clock
        at_ms = self._next_change_ms
        if at_ms is None:
            peeked: float = clock.peek()
            at_ms = int(peeked) + clock.leapt_ms if peeked < _NEVER else _NEVER - 1
        return min(end_ms, max(at_ms, clock.simulated_ms) + 1)  # What was due before comes now.

    @property
    def looks_for_rest(self) -> bool:
        """Whether it wants to look whenever something has happened."""
        present = self._present
        return present is not None and present.until is not None and self._next_change_ms is None

    def reach(self, at_ms: int) -> None:
        """Everything before ``at_ms`` has happened."""
        present = self._present
        if present is not None:
            if present.until is not None and self._finds_rest(at_ms):
                self._present = None
            elif at_ms >= self._end_ms(present):
                self._done.append(self._measured(present, at_rest=False))
                self._present = None
        if self._present is None and self._coming and self._coming[0].from_ms <= at_ms:
            self._present = self._coming.pop(0)
            self._before = self._world.sums()
            self._world.begin_part()

    def spans(self) -> Iterator[tuple[PhaseSpan, Mapping[str, float]]]:
        """Each phase that has begun, with its metrics; one that has not ended, up to now."""
        yield from self._done
        if self._present is not None:
            yield self._measured(self._present, at_rest=False)

    def _end_ms(self, phase: Phase) -> int:
        if phase.until_ms is not None:
            return phase.until_ms
        return self._coming[0].from_ms if self._coming else _NEVER

    @property
    def _next_change_ms(self) -> int | None:
        """When the scenario has something to come next in the phase; None: nothing any more."""
        present, at_ms = self._present, self._world.clock.next_change_ms
        if present is None or at_ms is None or at_ms >= self._end_ms(present):
            return None
        return at_ms

    def _finds_rest(self, at_ms: int) -> bool:
        """Whether the groups have been at rest for long enough; the phase is over since then."""
        present, rest = self._present, self._rest
        if present is None or not self._is_at_rest():
            self._rest = None
        elif rest is None:
            self._rest = self._measured(present, at_rest=True)
        elif at_ms >= rest[0].until_ms + self._hold_ms:
            self._done.append(rest)
            self._rest = None
            return True
        return False

    def _measured(self, phase: Phase, *, at_rest: bool) -> tuple[PhaseSpan, Mapping[str, float]]:
        world, now_ms = self._world, self._world.clock.simulated_ms
        metrics = world.metrics
        found: dict[str, float] = {
            "duration_ms": now_ms - phase.from_ms,
            **world.sums().since(self._before).as_dict(),
            **world.lag_records(),
            "rebalance_episodes_open": metrics.rebalances.open_count,
        }
        if metrics.last_fault_ms >= phase.from_ms and world.is_stable():
            found["settling_ms"] = metrics.settling_ms(is_stable=True)
        if phase.until is not None:
            found["at_rest"] = int(at_rest)
        span = PhaseSpan(
            name=phase.name,
            from_ms=phase.from_ms,
            until_ms=now_ms,
            at_rest=at_rest if phase.until is not None else None,
        )
        return span, found

    # --- rest -------------------------------------------------------------------------------------

    def _is_at_rest(self) -> bool:
        metrics, groups = self._world.metrics, self._world.groups
        return (
            not metrics.rebalances.open_count
            and self._next_change_ms is None
            and all(has_its_members(group) for group in groups.values())
            and all(_is_done(client) for client in self._clients())
            and not any(metrics.ownership[name].unowned_count for name in groups if self._in(name))
        )

    def _in(self, group_id: str) -> bool:
        """Whether somebody is in a group, who is to own its partitions."""
        clients = self._world.groups[group_id].clients().values()
        return any(one.is_alive and one.member.state.is_in_group for one in clients)

    @property
    def _hold_ms(self) -> int:
        """For how long everything has to stay as it is: a client that has something to do does it
        at its next poll or heartbeat by then, and a request that waits is noticed."""
        clients = [one for one in self._clients() if one.is_alive]
        return MOMENT_MS + max(
            [
                (one.member.heartbeat_interval_ms or 0) + 2 * one.spec.longest_processing_ms
                for one in clients
            ],
            default=0,
        )

    def _clients(self) -> Iterator[ClientProcess]:
        for group in self._world.groups.values():
            yield from group.clients().values()


def _is_done(client: ClientProcess) -> bool:
    return client.member.state is ClientState.FATAL or is_in_routine(client)
