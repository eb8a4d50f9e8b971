"""Mutants of classic clients that misread answers, of leaders, and of the end of a client."""

from __future__ import annotations

from typing import Any

from falsified_commits import AT_WORK, CLEAN, FALSIFIED, at_work, run_mutant

from rebalance_sim.protocol.assignors.classic import sticky_general
from rebalance_sim.protocol.clients import CallbackKind
from rebalance_sim.protocol.clients.common import commit_queue, leading, requests
from rebalance_sim.protocol.clients.common.application import CallbackTask
from rebalance_sim.protocol.clients.java.classic import (
    classic_closing,
    classic_commits,
    classic_core,
    joining,
    prepare,
)
from rebalance_sim.protocol.clients.java.classic.reactions import Reset
from rebalance_sim.protocol.clients.librdkafka import (
    coordinator_connection,
    librdkafka_rebalance,
)
from rebalance_sim.protocol.migration import downgrade
from rebalance_sim.protocol.wire.errors import ErrorCode

__all__ = ["AT_WORK", "CLEAN", "FALSIFIED", "at_work", "run_mutant"]

# -- what answers mean -----------------------------------------------------------------------------

_CORE = classic_core.ClassicCore
_COMMITS = classic_commits.ClassicCommits
_reset = _CORE.reset


def _goes_on(self: Any, commit: Any, error_code: ErrorCode, signed: Any) -> None:
    commit.finish(error_code)


def _keeps_id(self: Any, reset: Reset, **options: Any) -> None:
    _reset(self, Reset.GENERATION if reset is Reset.MEMBER_ID else reset, **options)


run_mutant("goes-on-unknown", "classic", 5, (_COMMITS, "_fail", _goes_on))
run_mutant("keeps-its-id", "classic", 21, (_CORE, "reset", _keeps_id))
run_mutant("joins-without-backoff", "classic", 1, (joining.Joining, "_back_off", lambda self: None))

# -- commits around a rebalance --------------------------------------------------------------------

_QUEUE = commit_queue.CommitQueue
_restart = _QUEUE.restart_interval


def _restarts_when_due(self: Any) -> None:
    if self._core.now_ms >= self._interval_due_ms:
        _restart(self)


run_mutant("commits-once-assigned", "classic", 2, (_QUEUE, "restart_interval", _restarts_when_due))
run_mutant("prepares-without-commit", "classic", 17, (prepare, "is_retriable", lambda code: False))

# -- leaders, and groups that a member has left ----------------------------------------------------

_topics_of_all = leading.topics_of_all


def _one_more(response: Any) -> frozenset[str]:
    return _topics_of_all(response) | {"a topic that there is not"}


run_mutant("leader-always-asks", "classic", 0, (joining, "topics_of_all", _one_more))
run_mutant(
    "leader-never-asks",
    "classic",
    28,
    (joining, "topics_of_all", lambda response: frozenset()),
)
run_mutant(
    "sticky-moves-nothing",
    "classic",
    28,
    (sticky_general.GeneralBalancing, "_improve", lambda self, partitions: False),
)
run_mutant(
    "downgrade-stays-stable",
    "migration",
    10,
    (downgrade, "prepare_rebalance", lambda op, group, cause: None),
)

# -- the end of a client ---------------------------------------------------------------------------

_REBALANCE = librdkafka_rebalance.Rebalance
_assignment_done = _REBALANCE.on_assignment_done


_NOTHING_IS_LATE = property(lambda self: None)


def _leaves_too_soon(self: Any) -> None:
    self._leave_if_wanted()
    _assignment_done(self)


run_mutant(
    "librdkafka-ends-no-link",
    "whole",
    0,
    (coordinator_connection.CoordinatorLink, "close", lambda self: None),
)
run_mutant(
    "librdkafka-leaves-too-soon",
    "whole",
    0,
    (_REBALANCE, "on_assignment_done", _leaves_too_soon),
)
run_mutant(
    "librdkafka-waits-for-ever", "migration", 7, (requests.Requests, "late_ms", _NOTHING_IS_LATE)
)

# -- callbacks for nothing -------------------------------------------------------------------------

_CALLS = classic_closing.ClassicCalls
_call_back = _CALLS._call_back


def _revokes_nothing(self: Any) -> bool:
    if self._core.subscription.assigned or not self._core.subscription.has_listener:
        return _call_back(self)
    nothing = CallbackTask(CallbackKind.REVOKED, frozenset(), lambda failed: None)
    self._application.run_callback_now(nothing)
    return True


run_mutant("revokes-nothing", "classic", 1, (_CALLS, "_call_back", _revokes_nothing))
