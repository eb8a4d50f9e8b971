"""Commits that happen when they must, and no others: by themselves, on the interval, before a
revocation.

Sources: client §6.2, §7, §10.1; classic §3.2, §4.2, §4.6. What a commit says is in
``client_offsets.py``, ``client_records.py`` and ``committed_records.py``.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    CommitAnswered,
    Disconnected,
    Poll,
    RequestExpired,
    SendCommit,
)
from rebalance_sim.protocol.clients.kinds import JAVA, JAVA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 245

_NEVER_MS = -1 << 40

_PASSING = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
)
"""Errors of a commit after which another attempt may succeed (client §7)."""


class IntervalCommits(Property):
    """client §7, row "auto, interval". What librdkafka has to commit depends on what it has handed
    out, so it is let off."""

    id = "client.commit.interval"
    sentence = (
        "Once faults stop, a Java client of either protocol that commits by itself does so every "
        "auto.commit.interval.ms, as long as it has positions."
    )
    clauses = ("client §7", "classic §4.2")
    violated_by = ("test:never-commits",)
    client_kinds = JAVA_KINDS
    kind = Kind.EVENTUALLY
    deadline = Deadline.END
    outlives_clock_steps = False

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Clients at rest that have not committed for longer."""
        for name, entry in self.model.every_client():
            member = entry.member
            since_ms = max(entry.committed_ms, entry.state_since_ms)
            limit_ms = member.config.auto_commit_interval_ms + quiet.slack_ms
            if (
                member.kind in JAVA_KINDS
                and member.config.enable_auto_commit
                and member.state is ClientState.STABLE
                and member.is_polling
                and member.running_callback is None
                and member.coordinator_id is not None
                and at_ms - since_ms > limit_ms
                and any(state.has_valid_position for state in member.assigned.values())
            ):
                yield Late(name, "has committed nothing", name, since_ms)


class OneIntervalCommit(Property):
    """client §7, row "auto, interval". A client at rest commits for no other reason."""

    id = "client.commit.one_interval"
    sentence = (
        "A Java client of KIP-848 that is at rest makes no interval commit while the last one "
        "waits for its answer, nor within auto.commit.interval.ms after it was lost, or refused by "
        "an error that passes."
    )
    clauses = ("client §7",)
    violated_by = ("KAFKA-16004", "test:commits-again-after-loss")
    client_kinds = (JAVA,)
    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired), effects=(SendCommit,)
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._in_flight: dict[str, int] = self.of_process({})
        """Client -> its last interval commit, until that is over."""
        self._not_before_ms: dict[str, int] = self.of_process({})
        """Client -> when the next one may be made, after one that has failed."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A commit is over."""
        number = self._in_flight.get(entry.name)
        event = step.event
        if number is None:
            return None
        if type(event) is CommitAnswered:
            is_over = event.correlation_id == number
            errors = event.response.errors
            failed = [partition for partition in errors if errors[partition]]
            passes = bool(failed) and errors[min(failed)] in _PASSING
        else:
            is_over = passes = number in event.correlation_ids
        if is_over:
            del self._in_flight[entry.name]
            if passes:
                interval_ms = entry.member.config.auto_commit_interval_ms
                self._not_before_ms[entry.name] = step.at_ms + interval_ms
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is the last one over?"""
        member, name = entry.member, entry.name
        if (
            type(step.event) is not Poll
            or not entry.state is ClientState.STABLE is member.state
            or entry.commits_itself
            or not member.config.enable_auto_commit
        ):
            return None
        for effect in step.effects:
            if type(effect) is SendCommit:
                if name in self._in_flight:
                    return Finding(
                        f"{name} makes an interval commit, and waits for the answer to the last",
                        {"client": name},
                    )
                wait_ms = self._not_before_ms.pop(name, 0) - step.at_ms
                if wait_ms > 0:
                    return Finding(
                        f"{name} makes an interval commit {wait_ms} ms before auto.commit.interval."
                        "ms have passed since the last one failed",
                        {"client": name},
                    )
                self._in_flight[name] = effect.correlation_id
        return None
