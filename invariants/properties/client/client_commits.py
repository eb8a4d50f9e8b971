"""Commits that happen when they must, and no others: by themselves, on the interval, before a
revocation.

Sources: client §6.2, §7, §10.1; classic §3.2, §4.2, §4.6. What a commit says is in
``client_offsets.py``, ``client_records.py`` and ``committed_records.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    Call,
    CallbackCompleted,
    CallbackKind,
    ClientState,
    Close,
    CloseConnection,
    CommitAnswered,
    CommitOffsets,
    CommitReturned,
    Disconnected,
    Poll,
    PositionsKnown,
    RequestExpired,
    RunCallback,
    SendCommit,
    StateChanged,
)
from rebalance_sim.protocol.clients.kinds import EVERY_KIND, JAVA, JAVA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

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


class CommitAsked(Property):
    """client §9, ``enable.auto.commit``."""

    id = "client.commit.asked"
    sentence = (
        "A client of either protocol that does not commit by itself sends a commit only while its "
        "application waits for one; the Java client of KIP-848 sends one that it could not send in "
        "time once, as soon as it can."
    )
    clauses = ("client §7", "client §9")
    violated_by = ("test:commits-unasked",)
    client_kinds = EVERY_KIND
    interest = Interest(events=(CommitOffsets,), effects=(SendCommit, CommitReturned))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._asked: dict[str, set[int]] = self.of_process({})

        """Client -> its application's commits that have not returned."""
        self._unsent: dict[str, set[int]] = self.of_process({})

        """Client -> those of its application's commits since which it has sent none."""
        self._late: Counter[str] = self.of_process(Counter())
        """Client -> how many have returned for want of time before they could be sent."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application commits."""
        if type(step.event) is CommitOffsets:
            self._asked.setdefault(entry.name, set()).add(step.event.commit_id)
            self._unsent.setdefault(entry.name, set()).add(step.event.commit_id)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is anybody waiting for this commit?"""
        asked = self._asked.get(entry.name)
        for effect in step.effects:
            if type(effect) is CommitReturned and asked:
                asked.discard(effect.commit_id)
                if (
                    effect.error_code is ErrorCode.REQUEST_TIMED_OUT
                    and entry.kind == JAVA
                    and effect.commit_id in self._unsent.get(entry.name, ())
                ):
                    self._late[entry.name] += 1
                continue
            if type(effect) is not SendCommit or entry.member.config.enable_auto_commit:
                continue
            self._unsent.pop(entry.name, None)
            if not asked and self._late[entry.name] > 0:
                self._late[entry.name] -= 1  # A request expires only after an attempt (client §7).
            elif not asked:
                return Finding(
                    f"{entry.name} commits {self.model.names_of(effect.request.offsets)} by "
                    "itself; enable.auto.commit is false",
                    {"client": entry.name},
                )
        return None


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


class IntervalFromMaking(Property):
    """client §7, row "auto, interval"; classic §4.2. The timer is another one after a failure, and
    after partitions were taken over."""

    id = "client.commit.from_making"
    sentence = (
        "A Java client of either protocol that is at rest makes its next interval commit "
        "auto.commit.interval.ms after it made the last one, however long that took to be answered."
    )
    clauses = ("client §7", "classic §4.2")
    violated_by = ("test:interval-from-the-answer",)
    client_kinds = JAVA_KINDS
    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired),
        effects=(SendCommit, StateChanged),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._made: dict[str, tuple[int, int]] = self.of_process({})
        """Client -> correlation id of its last commit, if it is at rest since, and its time."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """When is the next one due?"""
        event, member = step.event, entry.member
        made = self._made.get(entry.name)
        if made is None:
            return None
        if type(event) is not CommitAnswered or any(event.response.errors.values()):
            del self._made[entry.name]
            return None
        number, made_ms = made
        due_ms = member.poll_due_ms
        interval_ms = member.config.auto_commit_interval_ms
        if (
            event.correlation_id != number
            or member.state is not ClientState.STABLE
            or due_ms is None
            or due_ms <= max(made_ms + interval_ms, step.at_ms)
        ):
            return None
        return Finding(
            f"{entry.name} makes its next interval commit {due_ms - made_ms} ms after the last "
            f"one, which took {step.at_ms - made_ms} ms to be answered; auto.commit.interval.ms is "
            f"{interval_ms}",
            {"client": entry.name},
        )

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Note when it was made."""
        is_at_rest = entry.state is ClientState.STABLE is entry.member.state
        self._made.pop(entry.name, None)
        if is_at_rest and type(step.event) is Poll and entry.member.config.enable_auto_commit:
            for effect in step.effects:
                if type(effect) is SendCommit:
                    self._made[entry.name] = effect.correlation_id, step.at_ms
        return None


class CommitPace(Property):
    """client §7: the timer restarts in full when a commit is made, and when partitions are taken
    over. A commit that had to wait, or was refused, or came with a rebalance says nothing about the
    next one."""

    id = "client.commit.pace"
    sentence = (
        "Between two interval commits of a Java client of either protocol that is at rest, and "
        "between the end of a rebalance and the first one, lies auto.commit.interval.ms."
    )
    clauses = ("client §7", "client §4.1", "classic §4.2", "classic §3.3")
    violated_by = ("test:commits-at-every-poll", "test:commits-once-assigned")
    client_kinds = JAVA_KINDS
    interest = Interest(
        events=(Disconnected, RequestExpired),
        refusals=(CommitAnswered,),
        effects=(SendCommit, StateChanged, CloseConnection, RunCallback),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._last_ms: dict[str, int] = self.of_process({})
        """Client -> when it made its last interval commit, if it has been at rest since."""
        self._began_ms: dict[str, int] = self.of_process({})
        """Client -> when it took partitions over, if no commit has failed since."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """After a failure the timer is another one."""
        self._last_ms.pop(entry.name, None)
        self._began_ms.pop(entry.name, None)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Compare the times of two commits."""
        last_ms = self._last_ms.pop(entry.name, None)
        for effect in step.effects:
            if type(effect) is not SendCommit and _takes_over(step, entry, effect):
                self._began_ms[entry.name] = step.at_ms
                return None
        is_at_rest = entry.state is ClientState.STABLE is entry.member.state
        if type(step.event) is not Poll or not is_at_rest or entry.commits_itself:
            return None
        count, is_lost = 0, False
        for effect in step.effects:
            count += type(effect) is SendCommit
            is_lost = is_lost or type(effect) is CloseConnection
        if not count:
            return None
        if last_ms is None:
            last_ms = self._began_ms.pop(entry.name, _NEVER_MS)
        gap_ms = 0 if count > 1 else step.at_ms - last_ms
        interval_ms = entry.member.config.auto_commit_interval_ms
        if not is_lost:
            self._last_ms[entry.name] = step.at_ms  # Else it is lost at once: a failure as well.
        if gap_ms >= interval_ms:
            return None
        return Finding(
            f"{entry.name} made an interval commit {gap_ms} ms after the last one, or after a "
            f"rebalance; auto.commit.interval.ms is {interval_ms}",
            {"client": entry.name},
        )


def _takes_over(step: Step, entry: AnyClientEntry, effect: object) -> bool:
    """Whether this begins the interval anew: the assigned callback of a classic client, in the
    other protocol the end of a reconciliation that had something to do, unless its callback has
    failed: the timer goes on then."""
    if entry.kind == JAVA:
        return (
            type(effect) is StateChanged
            and effect.from_state is ClientState.RECONCILING
            and effect.to_state is ClientState.ACKNOWLEDGING
            and type(step.event) is CallbackCompleted
            and not step.event.failed
        )
    return type(effect) is RunCallback and effect.kind is CallbackKind.ASSIGNED


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


class CommitBeforeRevocation(Property):
    """client §4.1, R4, §6.2; classic §3.2. The commit may wait for a coordinator, at most until
    ``max.poll.interval.ms`` or the timeout of ``close`` is over."""

    id = "client.commit.before_revocation"
    sentence = (
        "Before a Java client of either protocol that commits by itself gives partitions up in "
        "good order, or closes, it commits their positions; unsubscribe commits nothing, nor does "
        "a client that has failed for good."
    )
    clauses = ("client §4.1", "client §6.2", "classic §3.2", "classic §4.5")
    violated_by = ("test:never-commits",)
    client_kinds = JAVA_KINDS
    interest = Interest(events=(Close, PositionsKnown), effects=(RunCallback,))
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._closing: dict[str, tuple[int, int]] = self.of_process({})
        """Client -> when ``close`` began, and its timeout."""
        self._known_ms: dict[str, dict[TopicPartition, int]] = self.of_process({})
        """Client -> partition -> since when it has had a position."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Remember when ``close`` began, and which positions are known."""
        event = step.event
        if type(event) is Close:
            self._closing[entry.name] = step.at_ms, event.timeout_ms
        elif type(event) is PositionsKnown:
            known_ms = self._known_ms.setdefault(entry.name, {})
            known_ms.update(dict.fromkeys(event.positions, step.at_ms))
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Has there been a commit since the partitions were to be given up?"""
        member = entry.member
        if not member.config.enable_auto_commit or member.blocked_in is Call.UNSUBSCRIBE:
            return None
        if member.state is ClientState.FATAL:
            return None  # It sends nothing any more but a leave (classic §4.2).
        for effect in step.effects:
            if (
                type(effect) is RunCallback
                and effect.kind is CallbackKind.REVOKED
                and not effect.is_obsolete
            ):
                return self._judge(step, entry, effect.partitions)
        return None

    def _judge(
        self, step: Step, entry: AnyClientEntry, partitions: frozenset[TopicPartition]
    ) -> Finding | None:
        began_ms, limit_ms = self._closing.get(
            entry.name, (entry.state_since_ms, entry.member.config.max_poll_interval_ms)
        )
        is_given_up = entry.member.coordinator_id is None and step.at_ms - began_ms >= limit_ms
        if entry.committed_ms >= began_ms or is_given_up:
            return None
        known_ms = self._known_ms.get(entry.name, {})
        assigned = entry.member.assigned
        uncommitted = [
            p
            for p in sorted(partitions)
            if p in assigned
            and assigned[p].has_valid_position
            and known_ms.get(p, began_ms) < began_ms
        ]
        if not uncommitted:
            return None
        return Finding(
            f"{entry.name} gives {self.model.names_of(uncommitted)} up, and has committed nothing "
            f"since {began_ms} ms, when it had to",
            {"client": entry.name},
        )
