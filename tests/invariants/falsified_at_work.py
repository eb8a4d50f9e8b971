"""Mutants that exist in these tests only: a decision of a client, or of a coordinator, is replaced
while a drawn scenario runs. ``CLEAN`` names the scenarios: in them nothing is violated without."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from falsified_offsets import FALSIFIED as IN_WORLDS

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.protocol.classic import sync as syncing
from rebalance_sim.protocol.clients import CallbackKind, ClientState
from rebalance_sim.protocol.clients.common import application, backoff, commit_queue, join_request
from rebalance_sim.protocol.clients.java import (
    blocking_calls,
    offset_lookup,
)
from rebalance_sim.protocol.clients.java.classic import (
    classic_commits,
    classic_heartbeats,
    client_rebalance,
    joining,
    prepare,
)
from rebalance_sim.protocol.clients.java.consumer import (
    client_reconciliation,
    consumer_commits,
    heartbeats,
)
from rebalance_sim.protocol.clients.java.consumer.consumer_subscription import (
    ConsumerSubscription,
)
from rebalance_sim.protocol.clients.librdkafka.consumer import (
    librdkafka_consumer_core,
    librdkafka_heartbeats,
)
from rebalance_sim.protocol.consumer import consumer_heartbeat, member_update, regexes, removal
from rebalance_sim.protocol.hosting import error_answers, shard
from rebalance_sim.protocol.wire.classic_messages import HeartbeatRequest, JoinGroupRequest
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode, GroupError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run

__all__ = ["AT_WORK", "CLEAN", "FALSIFIED", "at_work", "run_mutant"]

# Those of small worlds stay apart: who reads only them gets no more, whatever was imported before.
FALSIFIED: dict[str, Callable[[], Any]] = dict(IN_WORLDS)
CLEAN: set[tuple[str, int]] = set()

Patch = tuple[Any, str, Any]


class AtWork(NamedTuple):
    """A drawn scenario, and the attributes of modules and classes that are replaced in it."""

    profile: str
    seed: int
    patches: tuple[Patch, ...]


AT_WORK: dict[str, AtWork] = {}
"""Every mutant of a running scenario by name; no property need notice it, as what a machine does
step by step is no law."""


class _EndOfRun:
    """What is late at the end of the run, whatever time is asked about."""

    def __init__(self, checkers: list[Checker], ended_ms: int) -> None:
        self._checkers = checkers
        self._ended_ms = ended_ms

    def verdict(self, at_ms: int) -> Iterator[Any]:
        for checker in self._checkers:
            yield from checker.liveness.verdict(self._ended_ms)


def at_work(profile: str, seed: int, *patches: Patch) -> Any:
    """A run of a drawn scenario, with these attributes of modules and classes replaced."""
    checkers: list[Checker] = []

    def watch(view: Any) -> Checker:
        checkers.append(Checker(view, stop_at_first=False, known_issues={}))
        return checkers[-1]

    with ExitStack() as stack:
        for place, name, value in patches:
            stack.enter_context(patch.object(place, name, value))
        scenario = replace(generate(profile, seed=seed), max_steps=20_000)
        result = run(scenario, make_watcher=watch)
    assert result.outcome != "error" or any(c.violations for c in checkers), result.reason
    return SimpleNamespace(
        checker=SimpleNamespace(
            violations=[v for checker in checkers for v in checker.violations],
            liveness=_EndOfRun(checkers, result.simulated_ms),
        )
    )


def run_mutant(name: str, profile: str, seed: int, *patches: Patch) -> None:
    CLEAN.add((profile, seed))
    AT_WORK[f"test:{name}"] = AtWork(profile, seed, patches)
    FALSIFIED[f"test:{name}"] = partial(at_work, profile, seed, *patches)


def _before(function: Callable[..., Any], first: Callable[..., None]) -> Callable[..., Any]:
    def both(self: Any, *args: Any, **options: Any) -> Any:
        first(self)
        return function(self, *args, **options)

    return both


# -- commits ---------------------------------------------------------------------------------------

_restart = commit_queue.CommitQueue.restart_interval


def _due_anyway(self: Any) -> int | None:
    return self._interval_due_ms if self._core.subscription.assigned else None


def _due_at_once(self: Any) -> None:
    self._interval_due_ms = self._core.now_ms


run_mutant(
    "commits-unasked",
    "calm",
    4,
    (commit_queue.CommitQueue, "interval_due_ms", property(_due_anyway)),
)
run_mutant("never-commits", "calm", 0, (ConsumerSubscription, "consumed", lambda self: {}))
run_mutant(
    "commits-at-every-poll",
    "calm",
    1,
    (commit_queue.CommitQueue, "restart_interval", _due_at_once),
)

_begin_poll = application.Application._begin_poll


def _restarts_no_interval(self: Any, error_code: Any) -> None:
    self._interval_commit_is_open = False


def _tells_nothing(self: Any, queued_before: int) -> None:
    waiting, self._async_results = self._async_results, []
    _begin_poll(self, queued_before)
    self._async_results = waiting + self._async_results


run_mutant(
    "commits-again-after-loss",
    "chaos",
    2,
    (consumer_commits.Commits, "_after_interval_commit", _restarts_no_interval),
)
run_mutant("tells-late", "chaos", 14, (application.Application, "_begin_poll", _tells_nothing))

# -- failures --------------------------------------------------------------------------------------


def _raise_again(self: Any) -> None:
    if self._errors:
        self._core.effects.append(self._errors[0])


run_mutant(
    "fails-for-nothing",
    "faulty",
    7,
    (heartbeats, "classify_error", lambda code: heartbeats.ErrorClass.FATAL),
)
_validate = syncing._validate


def _refuses_right_assignor(op: Any, group: Any, request: Any) -> None:
    _validate(op, group, request)
    if request.protocol_name == group.protocol_name:
        raise GroupError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


run_mutant(
    "sync-refuses-right-assignor", "classic", 1, (syncing, "_validate", _refuses_right_assignor)
)
run_mutant(
    "raises-for-nothing",
    "classic",
    4,
    (application.Application, "_raise_first_error", _raise_again),
)

# -- callbacks -------------------------------------------------------------------------------------


class _SaysLess(application.CallbackTask):
    __slots__ = ()

    def __init__(self, kind: Any, partitions: Any, *args: Any, **options: Any) -> None:
        if kind is CallbackKind.ASSIGNED:
            partitions = frozenset(sorted(partitions)[1:])
        super().__init__(kind, partitions, *args, **options)


run_mutant("assigns-without-a-word", "calm", 1, (client_reconciliation, "CallbackTask", _SaysLess))

# -- requests --------------------------------------------------------------------------------------


def _with(function: Callable[..., Any], **changes: Callable[[Any], Any]) -> Callable[..., Any]:
    """A request with some fields changed."""

    def make(**fields: Any) -> Any:
        return function(**{**fields, **{k: change(fields.get(k)) for k, change in changes.items()}})

    return make


def _no_backoff(self: Any, now_ms: int) -> None:
    self.in_flight = False
    self.attempts += 1


run_mutant(
    "never-backs-off",
    "faulty",
    0,
    (backoff.RequestPacer, "on_failure", _no_backoff),
)


def _reset_but_for_failures(self: Any) -> None:
    self.in_flight = False
    self.backoff_until_ms = None


run_mutant(
    "counts-failures-for-ever",
    "whole",
    9,
    (backoff.RequestPacer, "reset", _reset_but_for_failures),
)
_request = ConsumerGroupHeartbeatRequest
run_mutant(
    "joins-with-other-timeout",
    "calm",
    1,
    (
        heartbeats,
        "ConsumerGroupHeartbeatRequest",
        lambda **fields: _request(
            **{
                **fields,
                **(
                    {"rebalance_timeout_ms": fields["rebalance_timeout_ms"] + 1}
                    if fields.get("rebalance_timeout_ms", -1) > 0
                    else {}
                ),
            }
        ),
    ),
)
_build = heartbeats.Heartbeats._build_changed


def _repeats_first_subscription(self: Any, owned: Any) -> Any:
    request = _build(self, owned)
    if self._core.state is ClientState.JOINING:
        return request
    return replace(request, subscribed_topic_names=None, subscribed_topic_regex=None)


run_mutant(
    "keeps-its-first-subscription",
    "calm",
    5,
    (heartbeats.Heartbeats, "_build_changed", _repeats_first_subscription),
)


def _leaves_in_silence(self: Any) -> None:
    if self._core.state is ClientState.LEAVING and not self._core.poll_expired:
        self._membership.give_up_leave()


run_mutant(
    "goes-without-a-word",
    "calm",
    4,
    (heartbeats.Heartbeats, "run", _before(heartbeats.Heartbeats.run, _leaves_in_silence)),
)

# -- requests of the classic protocol --------------------------------------------------------------

_JOIN, _BEAT = JoinGroupRequest, HeartbeatRequest
_THREAD = classic_heartbeats.HeartbeatThread


def _beats_again(self: Any) -> None:
    self._due_ms = self._core.now_ms + 1


def _joins_again(self: Any) -> None:
    self._core.request_rejoin("again")


run_mutant(
    "classic-signs-as-another",
    "classic",
    1,
    (classic_heartbeats, "HeartbeatRequest", _with(_BEAT, generation_id=lambda g: g - 1)),
)
run_mutant(
    "classic-joins-with-other-timeout",
    "classic",
    1,
    (join_request, "JoinGroupRequest", _with(_JOIN, rebalance_timeout_ms=lambda ms: ms + 1)),
)
run_mutant(
    "classic-syncs-without-assignment",
    "classic",
    1,
    (joining.Joining, "_assign", lambda self, response: {}),
)
run_mutant(
    "classic-hasty-heartbeat",
    "classic",
    1,
    (_THREAD, "_succeed", _before(_THREAD._succeed, _beats_again)),
)
run_mutant(
    "classic-joins-again",
    "classic",
    1,
    (_THREAD, "_succeed", _before(_THREAD._succeed, _joins_again)),
)

# -- what follows at once, and what waits ----------------------------------------------------------

_APPLICATION = application.Application


def _ends_poll(self: Any) -> None:
    if self._phase is application._PollPhase.RESULTING:
        self._phase = application._PollPhase.EVENT


def _has_no_time(self: Any, call: Any, timeout_ms: int) -> None:
    self._application.block(call)
    self.deadline_ms = self._core.now_ms


def _sent_long_ago(self: Any) -> None:
    self._core.last_heartbeat_ms -= self._core.heartbeat_interval_ms


def _tries_at_once(self: Any, request: Any, error_code: Any = None) -> None:
    request.pacer.reset()
    self.waiting.append(request)


def _never_tries_again(self: Any, request: Any, error_code: Any = None) -> None:
    self.waiting.append(request)


def _prepares_at_once(self: Any, error_code: Any) -> None:
    _after_commit(self, error_code)
    self._retry_due_ms = 0


run_mutant(
    "acknowledges-on-the-interval",
    "whole",
    0,
    (
        librdkafka_consumer_core.LibrdkafkaConsumerCore,
        "expedite_heartbeat",
        lambda self: None,
    ),
)
run_mutant(
    "ends-poll-after-callback",
    "faulty",
    1,
    (_APPLICATION, "callback_done", _before(_APPLICATION.callback_done, _ends_poll)),
)
run_mutant(
    "joins-with-the-next-poll",
    "classic",
    0,
    (client_rebalance.Rebalance, "_after_prepare", lambda self, failed: None),
)
run_mutant(
    "calls-wait-for-nothing", "whole", 0, (blocking_calls.BlockingCalls, "_block", _has_no_time)
)
_TRANSMIT = librdkafka_heartbeats.Heartbeats._transmit
run_mutant(
    "librdkafka-hasty-heartbeat",
    "whole",
    0,
    (librdkafka_heartbeats.Heartbeats, "_transmit", _before(_TRANSMIT, _sent_long_ago)),
)
run_mutant(
    "repeats-lookups-at-once",
    "faulty",
    5,
    (offset_lookup.OffsetLookup, "_retry", _tries_at_once),
)
run_mutant(
    "repeats-no-lookup",
    "faulty",
    16,
    (offset_lookup.OffsetLookup, "_retry", _never_tries_again),
)
_after_commit = prepare.Prepare._after_commit
run_mutant(
    "prepares-without-backoff",
    "classic",
    1,
    (prepare.Prepare, "_after_commit", _prepares_at_once),
)
run_mutant(
    "repeats-commits-at-once",
    "operations",
    1,
    (classic_commits.ClassicCommits, "_retry", _tries_at_once),
    (consumer_commits.Commits, "_retry", _tries_at_once),
)
run_mutant(
    "commits-once",
    "operations",
    5,
    (classic_commits.ClassicCommits, "_retry", _never_tries_again),
    (consumer_commits.Commits, "_retry", _never_tries_again),
)

# -- patterns --------------------------------------------------------------------------------------

_order = regexes.resolution_timer


def _orders_later(context: Any, group: Any, member: Any, updated: Any, now_ms: int) -> Any:
    return _order(context, group, member, updated, now_ms) if updated is member else None


run_mutant(
    "keeps-abandoned-pattern", "faulty", 28, (member_update, "abandoned_regex", lambda *_: None)
)
run_mutant("resolves-later", "faulty", 0, (consumer_heartbeat, "resolution_timer", _orders_later))
run_mutant("hash-of-nothing", "faulty", 0, (removal, "metadata_hash", lambda names, image: 0))

# -- more of clients -------------------------------------------------------------------------------

_BEGIN = prepare.Prepare._begin


def _stops_fetching(self: Any) -> None:
    subscription = self._core.subscription
    subscription.mark_pending_revocation(frozenset(subscription.assigned))


run_mutant(
    "cooperative-stops-fetching",
    "cooperative",
    0,
    (prepare.Prepare, "_begin", _before(_BEGIN, _stops_fetching)),
)
_fail_lookup = offset_lookup.OffsetLookup._fail


def _raises_stale_epoch(self: Any, lookup: Any, error_code: ErrorCode) -> None:
    if error_code is ErrorCode.STALE_MEMBER_EPOCH:
        self._application.queue_error(error_code, "the offset fetch failed")
    else:
        _fail_lookup(self, lookup, error_code)


run_mutant(
    "raises-stale-epoch", "faulty", 11, (offset_lookup.OffsetLookup, "_fail", _raises_stale_epoch)
)

# -- writes that fail ------------------------------------------------------------------------------


def _denies_coordinator(error: Any, request: Any) -> ErrorCode:
    code = _reported(error, request)
    return ErrorCode.NOT_COORDINATOR if code is ErrorCode.COORDINATOR_NOT_AVAILABLE else code


_reported = error_answers.reported
run_mutant("timeout-denies-coordinator", "faulty", 7, (shard, "reported", _denies_coordinator))
