"""More mutants that are put into drawn scenarios: Java clients and their coordinators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from falsified_at_work import AT_WORK, CLEAN, FALSIFIED, at_work, run_mutant

from rebalance_sim.protocol.assignors.server import uniform_heterogeneous
from rebalance_sim.protocol.classic import classic_describe, classic_member, classic_type
from rebalance_sim.protocol.clients import ClientState, Subscribe
from rebalance_sim.protocol.clients.common import requests
from rebalance_sim.protocol.clients.common.effects import SendLeaveGroup
from rebalance_sim.protocol.clients.common.subscription_state import SubscriptionState
from rebalance_sim.protocol.clients.java import coordinator_search, wire_topics
from rebalance_sim.protocol.clients.java.classic import (
    classic_core,
    classic_heartbeats,
    classic_search,
    java_classic,
)
from rebalance_sim.protocol.clients.java.consumer import (
    consumer_closing,
    consumer_commits,
    consumer_subscription,
    heartbeats,
)
from rebalance_sim.protocol.consumer import consumer_heartbeat, member_update, regexes
from rebalance_sim.protocol.consumer.timer_keys import session_key, sync_key
from rebalance_sim.protocol.hosting.write_path import WritePath
from rebalance_sim.protocol.migration import downgrade, mixed
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.runtime.offsets import OffsetStore
from rebalance_sim.protocol.runtime.outcome import CancelTimer, ScheduleTimer
from rebalance_sim.protocol.wire import embedded

__all__ = ["AT_WORK", "CLEAN", "FALSIFIED", "at_work", "run_mutant"]

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
_state_shown = classic_core.ClassicCore.state_shown


def _asks_for_nothing(self: Any, event: Subscribe) -> None:
    self.subscription.subscribe(event)
    self.matches_pattern = event.matches_locally


def _shows_no_joining(self: Any, *, is_done: bool) -> ClientState:
    state = _state_shown(self, is_done=is_done)
    return ClientState.RECONCILING if state is ClientState.JOINING else state


def _has_no_session(self: Any) -> None:
    self._session_due_ms = self._core.now_ms + 1
    _run_thread(self)


run_mutant(
    "failed-heartbeat-waits-for-the-interval",
    "classic",
    3,
    (_THREAD, "_fail", _counts_failures_only),
)
run_mutant("java-is-away-without-a-word", "whole", 39, (_THREAD, "_leaves_by_default", False))
run_mutant(
    "java-stable-at-no-generation",
    "classic",
    0,
    (classic_core.ClassicCore, "state_shown", _shows_no_joining),
)
run_mutant(
    "searches-for-nobody", "classic", 1, (java_classic.ClassicConsumer, "_wants_coordinator", True)
)
run_mutant(
    "java-pattern-without-metadata",
    "classic",
    0,
    (
        java_classic.ClassicConsumer,
        "_handlers",
        {**java_classic.ClassicConsumer._handlers, Subscribe: _asks_for_nothing},
    ),
)
run_mutant("forgets-its-coordinator", "classic", 0, (_THREAD, "_succeed", _counts_successes_only))
run_mutant("never-misses-its-coordinator", "classic", 20, (_THREAD, "run", _has_no_session))

# -- the way to the coordinator --------------------------------------------------------------------

run_mutant("stays-with-former-coordinator", "classic", 9, (_SEARCH, "mark_unknown", _does_nothing))
run_mutant(
    "searches-in-close", "faulty", 8, (coordinator_search.CoordinatorSearch, "stop", _does_nothing)
)

# -- heartbeats of the consumer protocol ----------------------------------------------------------


def _is_always_urgent(self: Any, state: ClientState) -> bool:
    return state.is_urgent


run_mutant(
    "admitted-in-a-hurry",
    "client_assignors",
    0,
    (heartbeats.Heartbeats, "_is_urgent", _is_always_urgent),
)

# -- coordinators ----------------------------------------------------------------------------------

_rebalance_timer = consumer_heartbeat._rebalance_timer
_resolution_timer = regexes.resolution_timer
_assignment_of = embedded.assignment_of


def _only_starts(group_id: str, member: Any, now_ms: int) -> Any:
    command = _rebalance_timer(group_id, member, now_ms)
    return CancelTimer(session_key("", "")) if isinstance(command, CancelTimer) else command


def _takes_topics_for_new(context: Any, *args: Any) -> Any:
    newest, context.newest_topic_version = context.newest_topic_version, 1 << 60
    try:
        return _resolution_timer(context, *args)
    finally:
        context.newest_topic_version = newest


class _KeepsTheEpoch(member_update.Advance):
    """A classic member joins a consumer group, and nobody looks at what that changes."""

    def refresh_metadata(self) -> None:
        """Not done."""


def _forgives_silence(op: Any, group: Any, member_id: str) -> None:
    if member_id in group.members:
        op.renew_session(group, group.members[member_id])


def _loses_one(partitions: Any, *args: Any) -> Any:
    return _assignment_of(sorted(partitions)[1:], *args)


run_mutant(
    "revocation-timer-runs-on",
    "faulty",
    0,
    (consumer_heartbeat, "_rebalance_timer", _only_starts),
)
run_mutant(
    "resolves-without-cause",
    "faulty",
    0,
    (consumer_heartbeat, "resolution_timer", _takes_topics_for_new),
)
run_mutant("no-epoch-for-a-classic-join", "migration", 1, (mixed, "Advance", _KeepsTheEpoch))
run_mutant("downgrade-loses-partitions", "migration", 11, (downgrade, "assignment_of", _loses_one))
run_mutant(
    "classic-waiting-is-silence",
    "classic",
    1,
    (classic_member.ClassicMember, "has_satisfied_heartbeat", False),
)
run_mutant(
    "classic-silence-is-forgiven",
    "classic",
    1,
    (classic_type, "session_expired", _forgives_silence),
)
run_mutant(
    "uniform-moves-nothing",
    "faulty",
    5,
    (uniform_heterogeneous._Ledger, "balance", lambda self, rounds: (1, True)),
)

# -- groups that are shown, that hold offsets, and that have gone ----------------------------------

_TYPE = classic_type.ClassicGroupType
_list_row = _TYPE.list_row
_committed = mixed.MixedJoin.committed


def _claims_to_be_empty(self: Any, group: Any) -> Any:
    return replace(_list_row(self, group), group_state="Empty")


def _waits_for_anybody(self: Any, context: Any, *, now_ms: int) -> Any:
    outcome = _committed(self, context, now_ms=now_ms)
    key = sync_key(self.group_id, self.member_id)
    wait = ScheduleTimer(key, now_ms + self.rebalance_timeout_ms)
    return outcome if outcome.timers else replace(outcome, timers=(wait,))


run_mutant("lists-no-classic-groups", "classic", 2, (_TYPE, "list_row", _claims_to_be_empty))
run_mutant(
    "offsets-of-no-group", "operations", 12, (_TYPE, "adopt_offsets", lambda self, group_id: False)
)
run_mutant(
    "waits-for-who-has-gone", "migration", 18, (mixed.MixedJoin, "committed", _waits_for_anybody)
)

# -- close -----------------------------------------------------------------------------------------

_CALLS = consumer_closing.ConsumerCalls


def _leaves_callbacks_out(self: Any, failed: bool) -> None:
    self._close_step = consumer_closing._CloseStep.LEAVE
    self._membership.leave_after_callback()


run_mutant(
    "closes-without-a-word", "whole", 77, (_CALLS, "_after_close_callback", _leaves_callbacks_out)
)
run_mutant("stays-subscribed", "classic", 0, (SubscriptionState, "drop", SubscriptionState.clear))

# -- what expires ----------------------------------------------------------------------------------

_expired = OffsetStore.expired


def _keeps_those_of_empty_groups(self: Any, group_id: str, group: Any, *, now_ms: int) -> Any:
    if group is not None and group.is_empty:
        return []
    return _expired(self, group_id, group, now_ms=now_ms)


run_mutant(
    "keeps-expired-offsets", "whole", 12, (OffsetStore, "expired", _keeps_those_of_empty_groups)
)

_describe = classic_describe.describe_classic


def _forgets_instance_ids(group: Any) -> Any:
    row = _describe(group)
    members = tuple(replace(member, group_instance_id=None) for member in row.members)
    return replace(row, members=members)


run_mutant(
    "describes-no-instance-ids",
    "classic",
    1000,
    (classic_type, "describe_classic", _forgets_instance_ids),
)

run_mutant(
    "ignores-own-interval",
    "operations",
    0,
    (
        ConfigsInForce,
        "assignment_interval_ms",
        lambda self, group_id: self.broker.group_consumer_assignment_interval_ms,
    ),
)

run_mutant(
    "keeps-its-metadata", "faulty", 1, (wire_topics.WireTopics, "refresh", lambda self: None)
)

# -- what is told once, and given up ---------------------------------------------------------------


class _ForgetsAssignor(heartbeats._SentFields):
    assignor = property(lambda self: None, lambda self, value: None)


run_mutant("repeats-its-assignor", "faulty", 6, (heartbeats, "_SentFields", _ForgetsAssignor))
run_mutant("keeps-what-it-had", "migration", 11, (SubscriptionState, "clear", lambda self: None))


def _remembers_nothing(self: Any) -> frozenset[Any]:
    self._deliverable_version = self.version
    nothing: frozenset[Any] = self._deliverable
    return nothing


run_mutant(
    "hands-nothing-out",
    "faulty",
    2,
    (consumer_subscription.ConsumerSubscription, "deliverable", property(_remembers_nothing)),
)

# -- the end of a membership of the classic protocol -----------------------------------------------

_reset = classic_core.ClassicCore.reset
_count = requests.Requests.count


def _prepares_nothing(self: Any, *args: Any, **options: Any) -> None:
    needs_prepare = self.needs_prepare
    _reset(self, *args, **options)
    self.needs_prepare = needs_prepare


def _counts_a_leave(self: Any, *kinds: type) -> int:
    return _count(self, *kinds) or int(kinds == (SendLeaveGroup,))


run_mutant(
    "joins-with-what-it-lost",
    "cooperative",
    8,
    (classic_core.ClassicCore, "reset", _prepares_nothing),
)
run_mutant("waits-for-its-leave", "classic", 0, (requests.Requests, "count", _counts_a_leave))

# -- batches of records ----------------------------------------------------------------------------

_add = WritePath.add


def _does_not_linger(self: Any, *args: Any, **options: Any) -> Any:
    self._linger_ms = 0
    return _add(self, *args, **options)


run_mutant("writes-at-once", "faulty", 1, (WritePath, "add", _does_not_linger))

# -- from when intervals count ---------------------------------------------------------------------

_heartbeat_answered = heartbeats.Heartbeats._on_answered


def _counts_from_the_answer(self: Any, number: int, join_count: int, response: Any) -> None:
    self._interval_deadline_ms = self._core.now_ms + self.interval_ms
    _heartbeat_answered(self, number, join_count, response)


def _commits_from_the_answer(self: Any, error_code: Any) -> None:
    self._interval_commit_is_open = False
    self.restart_interval()


run_mutant(
    "counts-from-the-answer",
    "faulty",
    0,
    (heartbeats.Heartbeats, "_on_answered", _counts_from_the_answer),
)
run_mutant(
    "interval-from-the-answer",
    "faulty",
    0,
    (consumer_commits.Commits, "_after_interval_commit", _commits_from_the_answer),
)

# -- classic members of a consumer group -----------------------------------------------------------

_merge = mixed._merge


def _forgets_rack(*args: Any) -> Any:
    return replace(_merge(*args), rack_id=None)


run_mutant("classic-member-without-rack", "migration", 4, (mixed, "_merge", _forgets_rack))
