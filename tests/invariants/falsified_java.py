"""More mutants that are put into drawn scenarios: Java clients and their coordinators."""

from __future__ import annotations

from typing import Any

from falsified_at_work import CLEAN, FALSIFIED, at_work, run_mutant

from rebalance_sim.protocol.clients.java import coordinator_search
from rebalance_sim.protocol.clients.java.classic import classic_heartbeats, classic_search
from rebalance_sim.protocol.clients.java.consumer import client_reconciliation

__all__ = ["CLEAN", "FALSIFIED", "at_work", "run_mutant"]

_THREAD = classic_heartbeats.HeartbeatThread
_SEARCH = classic_search.ClassicCoordinatorSearch


def _does_nothing(self: Any, *args: Any) -> None:
    """What it stands for is left out."""


# -- heartbeats of the classic protocol ------------------------------------------------------------


def _counts_failures_only(self: Any) -> None:
    self._attempts += 1


def _counts_successes_only(self: Any) -> None:
    self._attempts = 0


_run_thread = _THREAD.run


def _has_no_session(self: Any) -> None:
    self._session_due_ms = self._core.now_ms + 1
    _run_thread(self)


run_mutant(
    "failed-heartbeat-waits-for-the-interval",
    "classic",
    3,
    (_THREAD, "_fail", _counts_failures_only),
)
run_mutant("forgets-its-coordinator", "classic", 0, (_THREAD, "_succeed", _counts_successes_only))
run_mutant("never-misses-its-coordinator", "classic", 20, (_THREAD, "run", _has_no_session))

# -- the way to the coordinator --------------------------------------------------------------------

run_mutant("stays-with-former-coordinator", "classic", 9, (_SEARCH, "mark_unknown", _does_nothing))
run_mutant(
    "searches-in-close", "faulty", 8, (coordinator_search.CoordinatorSearch, "stop", _does_nothing)
)

# -- reconciliations -------------------------------------------------------------------------------


def _forgets_names_only(self: Any) -> None:
    self._has_overtaken_current = False
    self.topic_names.forget()


run_mutant(
    "finishes-former-reconciliations",
    "faulty",
    38,
    (client_reconciliation.Reconciler, "on_rejoin", _forgets_names_only),
)
