"""Mutants of librdkafka's clients that are put into drawn scenarios."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from falsified_brokers import AT_WORK, CLEAN, FALSIFIED, at_work, run_mutant

from rebalance_sim.protocol.clients.common.application import Application
from rebalance_sim.protocol.clients.librdkafka import (
    assignment,
    coordinator_connection,
    late_answers,
    librdkafka_commits,
    librdkafka_core,
    librdkafka_machine,
    librdkafka_rebalance,
    poll_timer,
)
from rebalance_sim.protocol.clients.librdkafka.classic import (
    librdkafka_classic_core,
    librdkafka_classic_heartbeats,
    librdkafka_classic_rebalance,
    librdkafka_joining,
)
from rebalance_sim.protocol.clients.librdkafka.consumer import (
    librdkafka_consumer_core,
    librdkafka_consumer_rebalance,
    librdkafka_heartbeats,
)
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState, JoinState
from rebalance_sim.protocol.consumer import consumer_heartbeat
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError

__all__ = ["AT_WORK", "CLEAN", "FALSIFIED", "at_work"]

_LINK = coordinator_connection.CoordinatorLink
_HEARTBEATS = librdkafka_heartbeats.Heartbeats
_ASSIGNMENT = assignment.Assignment
_COMMITS = librdkafka_commits.Commits

# -- the way to the coordinator --------------------------------------------------------------------

_closed = _LINK.on_closed
_connect = _LINK._connect
_INTERVALS_MS = {
    CoordinatorState.QUERY_COORD.value: 500,
    CoordinatorState.WAIT_BROKER_TRANSPORT.value: 1_000,
    CoordinatorState.UP.value: 10_000,
}


def _stays_where_it_is(self: Any, request: Any) -> None:
    self._core.sends_full_request = True


def _forgets(self: Any, *, is_isolated: bool) -> None:
    _closed(self, is_isolated=True)


def _reconnects_at_once(self: Any) -> None:
    _connect(self)
    self._reconnect_due_ms = self._core.now_ms


run_mutant("librdkafka-looks-seldom", "whole", 18, (late_answers, "_LOOK_MS", 5_000))
run_mutant(
    "librdkafka-stays-where-it-is", "whole", 7, (_HEARTBEATS, "_look_again", _stays_where_it_is)
)
run_mutant(
    "librdkafka-asks-again-and-again",
    "whole",
    0,
    (coordinator_connection, "_QUERY_INTERVAL_MS", _INTERVALS_MS),
)
run_mutant("librdkafka-forgets-the-unreachable", "whole", 0, (_LINK, "on_closed", _forgets))
run_mutant("librdkafka-reconnects-at-once", "whole", 0, (_LINK, "_connect", _reconnects_at_once))

# -- look-ups and commits --------------------------------------------------------------------------

_query = _ASSIGNMENT._query
_serve = _ASSIGNMENT.serve
_interval = _COMMITS._run_interval


def _looks_all_up(self: Any) -> None:
    self._pending |= frozenset(self._core.subscription.assigned)
    _query(self)


def _commits_in_between(self: Any) -> None:
    subscription = self._core.subscription
    exists, subscription.exists = subscription.exists, False
    _interval(self)
    subscription.exists = exists


def _commits_what_is_lost(self: Any) -> None:
    core = self._core
    is_lost, core.is_lost = core.is_lost, False
    _serve(self)
    core.is_lost = is_lost


run_mutant("librdkafka-looks-up-what-is-reset", "whole", 2, (_ASSIGNMENT, "_query", _looks_all_up))
run_mutant(
    "librdkafka-commits-in-between", "whole", 0, (_COMMITS, "_run_interval", _commits_in_between)
)
run_mutant(
    "librdkafka-commits-what-is-lost", "faulty", 3, (_ASSIGNMENT, "serve", _commits_what_is_lost)
)

# -- refusals --------------------------------------------------------------------------------------

_refuse = _HEARTBEATS._on_error


def _survives(self: Any, error_code: Any, message: Any) -> None:
    _refuse(self, error_code, message)
    self._core.is_fatal = False


_check_epoch = consumer_heartbeat._check_epoch


def _refuses_some(context: Any, member: Any, request: Any) -> Any:
    """Nobody who has something assigned is ever refused for good in drawn scenarios."""
    if request.member_epoch > 4:
        raise GroupError(ErrorCode.INVALID_REQUEST, "this is the mutant's")
    return _check_epoch(context, member, request)


class _KeepsAll:
    """A rebalance that gives nothing up."""

    is_running = True


def _keeps_all(self: Any, error_code: Any, message: Any) -> None:
    rebalance, self._rebalance = self._rebalance, _KeepsAll()
    _refuse(self, error_code, message)
    self._rebalance = rebalance


run_mutant("librdkafka-survives-its-end", "whole", 4, (_HEARTBEATS, "_on_error", _survives))
run_mutant(
    "librdkafka-keeps-all-to-the-end",
    "whole",
    4,
    (consumer_heartbeat, "_check_epoch", _refuses_some),
    (_HEARTBEATS, "_on_error", _keeps_all),
)
run_mutant(
    "librdkafka-hears-no-end",
    "cooperative",
    25,
    (librdkafka_classic_heartbeats, "_LOST", frozenset()),
)

# -- commits that have failed ----------------------------------------------------------------------

_defer = _COMMITS._defer


def _defers_no_stale(self: Any, commit: Any, *, once: bool) -> bool:
    return once is False and commit.give_up_ms is None and _defer(self, commit, once=True)


run_mutant("librdkafka-commits-once", "whole", 7, (_COMMITS, "_retry", lambda self, commit: False))
run_mutant("librdkafka-gives-stale-commits-up", "whole", 2, (_COMMITS, "_defer", _defers_no_stale))

# -- heartbeats ------------------------------------------------------------------------------------

_CORE = librdkafka_consumer_core.LibrdkafkaConsumerCore
_run_watch = poll_timer.PollWatch.run
_send = _HEARTBEATS._send
_repeat = _HEARTBEATS._repeat
_on_lost = _HEARTBEATS._on_lost


def _acknowledges(self: Any, *, is_full: bool, is_ack: bool) -> None:
    _send(self, is_full=is_full, is_ack=is_ack or self._core.join_state is JoinState.STEADY)


def _says_nothing_again(self: Any, loss: Any, *, is_leave: bool) -> None:
    _on_lost(self, loss, is_leave=is_leave)
    self._core.sends_full_request = False


def _leaves_in_silence(self: Any) -> None:
    self._core.later.append(self._rebalance.on_left)


def _counts_no_repeats(self: Any, request: Any) -> None:
    _repeat(self, request)
    self._retries = 0


run_mutant("librdkafka-repeats-for-ever", "whole", 15, (_HEARTBEATS, "_repeat", _counts_no_repeats))
run_mutant(
    "librdkafka-repeats-nothing", "whole", 15, (_HEARTBEATS, "_repeat", lambda self, request: None)
)


def _says_nothing_of_polls(self: Any) -> None:
    with patch.object(self._application, "queue_error", lambda error_code, message: None):
        _run_watch(self)


run_mutant(
    "librdkafka-is-silent-about-polls",
    "faulty",
    3,
    (poll_timer.PollWatch, "run", _says_nothing_of_polls),
)
run_mutant("librdkafka-always-acknowledges", "whole", 0, (_HEARTBEATS, "_send", _acknowledges))
run_mutant(
    "librdkafka-says-nothing-again", "whole", 2, (_HEARTBEATS, "_on_lost", _says_nothing_again)
)
run_mutant(
    "librdkafka-keeps-calm",
    "whole",
    2,
    (_CORE, "note_refused_commit", lambda self, error_code: None),
)
run_mutant(
    "librdkafka-goes-without-a-word", "calm", 48, (_HEARTBEATS, "send_leave", _leaves_in_silence)
)
run_mutant(
    "librdkafka-classic-goes-without-a-word",
    "cooperative",
    7,
    (librdkafka_joining.Joining, "send_leave", _leaves_in_silence),
)

# -- what it shows ---------------------------------------------------------------------------------

_MACHINE = librdkafka_machine.LibrdkafkaMachine
_state_of_classic = librdkafka_classic_core.LibrdkafkaClassicCore._state_shown


def _shows_no_end(self: Any) -> Any:
    is_terminating, self.is_terminating = self.is_terminating, False
    state = _state_of_classic(self)
    self.is_terminating = is_terminating
    return state


run_mutant(
    "librdkafka-ignores-its-pattern",
    "classic",
    38,
    (
        librdkafka_classic_rebalance.ClassicRebalance,
        "on_pattern_matched",
        lambda self, topic_names: None,
    ),
)
run_mutant(
    "librdkafka-denies-its-subscription",
    "whole",
    0,
    (
        _MACHINE,
        "has_subscription",
        property(lambda self: self._rebalance._next_subscription is not None),
    ),
)
run_mutant(
    "librdkafka-shows-no-end",
    "cooperative",
    7,
    (librdkafka_classic_core.LibrdkafkaClassicCore, "_state_shown", _shows_no_end),
)
run_mutant(
    "librdkafka-overlooks-topics",
    "classic",
    1,
    (librdkafka_joining.Joining, "_apply_topics", lambda self: None),
)

# -- own states, and members that were away --------------------------------------------------------

_LIBRDKAFKA_CORE = librdkafka_core.LibrdkafkaCore
_set_coordinator_state = _LIBRDKAFKA_CORE.set_coordinator_state
_CONSUMER = librdkafka_consumer_rebalance.ConsumerRebalance


def _reports_no_change(self: Any, state: Any) -> None:
    if state is self.coordinator_state:
        self._report("coordinator_state", state.value, state.value)
    _set_coordinator_state(self, state)


def _comes_back_unseen(self: Any) -> None:
    self._core.must_rejoin = self._core.waits_for_poll = True
    self._core.expedite_heartbeat()


def _leaves_unknown(self: Any) -> bool:
    self._core.leave_when_unassigned()
    return True


run_mutant(
    "librdkafka-reports-no-change",
    "whole",
    0,
    (_LIBRDKAFKA_CORE, "set_coordinator_state", _reports_no_change),
)
run_mutant(
    "librdkafka-comes-back-unseen", "faulty", 3, (_CONSUMER, "on_polls_missed", _comes_back_unseen)
)
run_mutant(
    "librdkafka-leaves-unknown", "whole", 12, (_CONSUMER, "_begins_to_leave", _leaves_unknown)
)

# -- when it takes over, and gives up --------------------------------------------------------------

_REBALANCE = librdkafka_rebalance.Rebalance
_after_assign = _REBALANCE._after_assign


def _assigns_at_its_end(self: Any, partitions: Any, failed: bool) -> None:
    unassign_all, self._unassign_all = self._unassign_all, lambda: None
    _after_assign(self, partitions, failed)
    self._unassign_all = unassign_all


run_mutant(
    "librdkafka-overlooks-names",
    "faulty",
    5,
    (_CONSUMER, "on_names_known", lambda self, names: None),
)
run_mutant(
    "librdkafka-assigns-at-its-end", "whole", 14, (_REBALANCE, "_after_assign", _assigns_at_its_end)
)

run_mutant(
    "raises-what-is-tried-again",
    "librdkafka_classic",
    1,
    (librdkafka_joining, "_PASSING", frozenset({ErrorCode.REQUEST_TIMED_OUT})),
)

_CLASSIC_HEARTBEATS = librdkafka_classic_heartbeats.ClassicHeartbeats
_heartbeat_answered = _CLASSIC_HEARTBEATS._on_answered


def _counts_no_heartbeat(self: Any, response: Any) -> None:
    before_ms = self._core.session_due_ms
    _heartbeat_answered(self, response)
    if self._core.session_due_ms is not None:
        self._core.session_due_ms = before_ms


run_mutant(
    "librdkafka-counts-no-heartbeat",
    "librdkafka_classic",
    0,
    (_CLASSIC_HEARTBEATS, "_on_answered", _counts_no_heartbeat),
)

# -- lost, or revoked ------------------------------------------------------------------------------

_give_up = librdkafka_rebalance.Rebalance.give_up_and_rejoin


def _revokes_what_is_lost(self: Any, *, is_lost: bool) -> None:
    _give_up(self, is_lost=False)


run_mutant(
    "librdkafka-revokes-what-is-lost",
    "librdkafka_classic",
    6,
    (librdkafka_rebalance.Rebalance, "give_up_and_rejoin", _revokes_what_is_lost),
)

# -- the grid of interval commits ------------------------------------------------------------------


def _leaves_the_grid(self: Any) -> None:
    due_ms = self._interval_due_ms
    _interval(self)
    if self._interval_due_ms != due_ms:
        self._interval_due_ms = self._core.now_ms + self._core.config.auto_commit_interval_ms + 1


run_mutant("librdkafka-leaves-the-grid", "whole", 0, (_COMMITS, "_run_interval", _leaves_the_grid))

# -- errors that nobody hears of -------------------------------------------------------------------


def _raises_nothing(self: Any, error_code: Any, message: str) -> None:
    """The next call of the application returns as if all was well."""


run_mutant("fails-in-silence", "faulty", 19, (Application, "queue_error", _raises_nothing))
run_mutant("classic-fails-in-silence", "classic", 15, (Application, "queue_error", _raises_nothing))


def _fails_and_keeps_all(self: Any, error_code: ErrorCode, message: str) -> None:
    self._core.is_fatal = True
    self._application.queue_error(error_code, message)


run_mutant(
    "librdkafka-classic-keeps-all-to-the-end",
    "classic",
    4,
    (librdkafka_classic_rebalance.ClassicRebalance, "fail", _fails_and_keeps_all),
)
