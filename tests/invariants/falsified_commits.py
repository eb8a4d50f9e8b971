"""More mutants that are put into drawn scenarios: leaders of classic groups, and commits."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from falsified_java import AT_WORK, CLEAN, FALSIFIED, at_work, run_mutant

from rebalance_sim.protocol.assignors.classic import classic_simple, sticky, sticky_identical
from rebalance_sim.protocol.assignors.classic.claims import Claim
from rebalance_sim.protocol.assignors.classic.sticky_identical import IdenticalBalancing
from rebalance_sim.protocol.clients import ClientState
from rebalance_sim.protocol.clients.common import application, commit_queue
from rebalance_sim.protocol.clients.java.classic import classic_commits
from rebalance_sim.protocol.clients.librdkafka import coordinator_connection, librdkafka_commits
from rebalance_sim.protocol.clients.librdkafka.classic import librdkafka_classic_core
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState
from rebalance_sim.protocol.wire.errors import ErrorCode

__all__ = ["AT_WORK", "CLEAN", "FALSIFIED", "at_work", "run_mutant"]

# -- assignors of leaders --------------------------------------------------------------------------

_IDENTICAL = IdenticalBalancing.assign


def _last_first(members: Any) -> Any:
    return sorted(members, key=lambda member: member.member_id, reverse=True)


def _one_has_most(self: Any) -> Any:
    result = _IDENTICAL(self)
    first, *others = sorted(result.shares)
    for other in others:
        result.shares[first].extend(result.shares[other][1:])
        del result.shares[other][1:]
    return result


def _hears_no_claims(self: Any, members: Any) -> Any:
    return {member.member_id: Claim(()) for member in members}


run_mutant("deals-out-of-order", "classic", 1, (classic_simple, "in_member_order", _last_first))
run_mutant("sticky-uneven", "cooperative", 0, (IdenticalBalancing, "assign", _one_has_most))
run_mutant("sticky-forgets", "cooperative", 0, (sticky.StickyRules, "claims", _hears_no_claims))
run_mutant("sticky-by-topic", "cooperative", 8, (sticky_identical, "_BY_NUMBER", itemgetter(0, 1)))

# -- what becomes of commits -----------------------------------------------------------------------


def _keeps_results(self: Any, result: Any) -> None:
    """The callback of a commitAsync never runs."""


run_mutant(
    "commits-into-nothing",
    "classic",
    14,
    (application.Application, "queue_async_result", _keeps_results),
)
run_mutant(
    "closes-without-results",
    "classic",
    14,
    (application.Application, "_report_commits", lambda self: None),
)

_QUEUE = commit_queue.CommitQueue
_return = _QUEUE._return_to_application


def _reports_again(self: Any) -> None:
    self._core.effects.extend(self._async_results)


def _tells_success(self: Any, event: Any, error_code: ErrorCode | None) -> None:
    _return(self, event, None)


def _tells_failure(self: Any, event: Any, error_code: ErrorCode | None) -> None:
    _return(self, event, ErrorCode.REQUEST_TIMED_OUT)


run_mutant(
    "tells-results-again",
    "classic",
    14,
    (application.Application, "_report_commits", _reports_again),
)
run_mutant("tells-success", "classic", 29, (_QUEUE, "_return_to_application", _tells_success))
run_mutant("tells-failure", "classic", 14, (_QUEUE, "_return_to_application", _tells_failure))

# -- commits of librdkafka -------------------------------------------------------------------------

_COMMITS = librdkafka_commits.Commits
_retry_later = _COMMITS._retry


def _retries_at_once(self: Any, commit: Any) -> bool:
    is_repeated = _retry_later(self, commit)
    commit.retry_due_ms = 0
    return is_repeated


def _keeps_stored(self: Any, partitions: Any) -> Any:
    return {p: self._stored[p] for p in sorted(partitions) if p in self._stored}


run_mutant("librdkafka-repeats-at-once", "whole", 0, (_COMMITS, "_retry", _retries_at_once))
run_mutant("librdkafka-never-commits", "whole", 0, (_COMMITS, "_moved", lambda self: {}))
run_mutant(
    "librdkafka-commits-nothing-revoked",
    "whole",
    0,
    (_COMMITS, "commit_removed", lambda self, offsets: None),
)

run_mutant(
    "librdkafka-keeps-stored-offsets",
    "librdkafka_classic",
    6,
    (_COMMITS, "take_stored", _keeps_stored),
)

# -- standing of classic clients -------------------------------------------------------------------

_CORE = librdkafka_classic_core.LibrdkafkaClassicCore
_state_shown = _CORE._state_shown
_fail_commit = classic_commits.ClassicCommits._fail


def _shows_no_joining(self: Any) -> ClientState:
    state = _state_shown(self)
    return ClientState.STABLE if state is ClientState.JOINING else state


def _goes_on(self: Any, commit: Any, error_code: ErrorCode, signed: Any) -> None:
    if error_code is ErrorCode.FENCED_INSTANCE_ID:
        commit.finish(error_code)
    else:
        _fail_commit(self, commit, error_code, signed)


run_mutant("stable-at-no-generation", "classic", 1, (_CORE, "_state_shown", _shows_no_joining))
run_mutant(
    "goes-on-when-fenced", "classic", 15, (classic_commits.ClassicCommits, "_fail", _goes_on)
)

# -- the way to the coordinator --------------------------------------------------------------------

_LINK = coordinator_connection.CoordinatorLink
_found = _LINK._on_found


def _follows_later(self: Any, node_id: int) -> None:
    _found(self, node_id)
    self._reconnect_due_ms = self._core.now_ms + 1


def _stays_connected(self: Any) -> None:
    self._set_state(CoordinatorState.QUERY_COORD)
    self.search()


run_mutant("librdkafka-follows-later", "whole", 0, (_LINK, "_on_found", _follows_later))
run_mutant("librdkafka-stays-connected", "whole", 0, (_LINK, "mark_dead", _stays_connected))
