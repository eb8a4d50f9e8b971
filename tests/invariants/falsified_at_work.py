"""Mutants that exist in these tests only: a decision of a client, or of a coordinator, is replaced
while a drawn scenario runs. ``CLEAN`` names the scenarios: in them nothing is violated without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from falsified_requests import FALSIFIED as IN_WORLDS

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.protocol.classic import classic_describe, classic_type
from rebalance_sim.protocol.clients.common.application import Application, CallbackTask
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.java.classic.classic_closing import ClassicCalls
from rebalance_sim.protocol.clients.java.consumer import client_reconciliation
from rebalance_sim.protocol.clients.java.consumer.consumer_subscription import ConsumerSubscription
from rebalance_sim.protocol.clients.java.consumer.heartbeats import Heartbeats
from rebalance_sim.protocol.transactions.transaction_coordinator import TransactionCoordinator
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario

__all__ = ["CLEAN", "FALSIFIED", "at_work", "watched"]

# Those of small worlds stay apart: who reads only them gets no more, whatever was imported before.
FALSIFIED: dict[str, Callable[[], Any]] = dict(IN_WORLDS)
CLEAN: set[tuple[str, int]] = set()


class _EndOfRun:
    """What is late at the end of the run, whatever time is asked about."""

    def __init__(self, checkers: list[Checker], ended_ms: int) -> None:
        self._checkers = checkers
        self._ended_ms = ended_ms

    def verdict(self, at_ms: int) -> Iterator[Any]:
        for checker in self._checkers:
            yield from checker.liveness.verdict(self._ended_ms)


def at_work(profile: str, seed: int, *replaced: Any) -> Any:
    """A run of a drawn scenario; ``replaced``: a module or a class, an attribute, its value."""
    with patch.object(*replaced) if replaced else nullcontext():
        return watched(replace(generate(f"{profile}@kafka-4.4-clean", seed=seed), max_steps=20_000))


def watched(scenario: Scenario) -> Any:
    """A run to its end, whatever is found in it."""
    checkers: list[Checker] = []

    def watch(view: Any) -> Checker:
        checkers.append(Checker(view, stop_at_first=False, known_issues={}))
        return checkers[-1]

    result = run(scenario, make_watcher=watch)
    assert result.outcome != "error" or any(c.violations for c in checkers), result.reason
    return SimpleNamespace(
        checker=SimpleNamespace(
            violations=[v for checker in checkers for v in checker.violations],
            liveness=_EndOfRun(checkers, result.simulated_ms),
        )
    )


def run_mutant(name: str, profile: str, seed: int, *replaced: Any) -> None:
    CLEAN.add((profile, seed))
    FALSIFIED[f"test:{name}"] = partial(at_work, profile, seed, *replaced)


# -- commits and records ---------------------------------------------------------------------------


def _keeps_results(self: Any, result: Any) -> None:
    """The callback of a commitAsync never runs."""


def _reports_again(self: Any) -> None:
    self._core.effects.extend(self._async_results)


def _remembers_nothing(self: Any) -> frozenset[Any]:
    self._deliverable_version = self.version
    nothing: frozenset[Any] = self._deliverable
    return nothing


run_mutant("never-commits", "calm", 0, ConsumerSubscription, "consumed", lambda self: {})
run_mutant("commits-into-nothing", "classic", 14, Application, "queue_async_result", _keeps_results)
run_mutant("tells-results-again", "classic", 14, Application, "_report_commits", _reports_again)
run_mutant(
    "hands-nothing-out",
    "faulty",
    2,
    ConsumerSubscription,
    "deliverable",
    property(_remembers_nothing),
)

run_mutant(
    "sends-no-markers",
    "transactions",
    0,
    TransactionCoordinator,
    "_markers",
    lambda self, known: (),
)

# -- callbacks, errors and leaves ------------------------------------------------------------------

_call_back, _run = ClassicCalls._call_back, Heartbeats.run


class _SaysLess(CallbackTask):
    __slots__ = ()

    def __init__(self, kind: Any, partitions: Any, *args: Any, **options: Any) -> None:
        if kind is CallbackKind.ASSIGNED:
            partitions = frozenset(sorted(partitions)[1:])
        super().__init__(kind, partitions, *args, **options)


def _revokes_nothing(self: Any) -> bool:
    if self._core.subscription.assigned or not self._core.subscription.has_listener:
        return _call_back(self)
    nothing = CallbackTask(CallbackKind.REVOKED, frozenset(), lambda failed: None)
    self._application.run_callback_now(nothing)
    return True


def _raises_nothing(self: Any, error_code: Any, message: str) -> None:
    """The next call of the application returns as if all was well."""


def _leaves_in_silence(self: Any, *args: Any, **options: Any) -> Any:
    if self._core.state is ClientState.LEAVING and not self._core.poll_expired:
        self._membership.give_up_leave()
    return _run(self, *args, **options)


run_mutant("assigns-without-a-word", "calm", 1, client_reconciliation, "CallbackTask", _SaysLess)
run_mutant("revokes-nothing", "classic", 1, ClassicCalls, "_call_back", _revokes_nothing)
run_mutant("fails-in-silence", "faulty", 19, Application, "queue_error", _raises_nothing)
run_mutant("goes-without-a-word", "calm", 4, Heartbeats, "run", _leaves_in_silence)

# -- requests, groups that hold offsets, and groups that are shown ---------------------------------

_describe = classic_describe.describe_classic


def _forgets_instance_ids(group: Any) -> Any:
    row = _describe(group)
    members = tuple(replace(member, group_instance_id=None) for member in row.members)
    return replace(row, members=members)


run_mutant(
    "offsets-of-no-group",
    "operations",
    12,
    classic_type.ClassicGroupType,
    "adopt_offsets",
    lambda self, group_id: False,
)
run_mutant(
    "describes-no-instance-ids",
    "classic",
    1000,
    classic_type,
    "describe_classic",
    _forgets_instance_ids,
)
