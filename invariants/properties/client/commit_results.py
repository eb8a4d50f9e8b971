"""An application learns what became of its commits.

Sources: client §6.2, §7, §10.1; classic §4.5.
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
    CallReturned,
    ClientState,
    Close,
    CloseConnection,
    CommitAnswered,
    CommitOffsets,
    CommitReturned,
    Disconnected,
    PollingResumed,
    PollingStopped,
    RequestExpired,
    SendCommit,
)
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS, EVERY_KIND, JAVA, JAVA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 247

_NEVER_MS = 1 << 60
_FOR_GOOD = frozenset({ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_NOBODY: dict[int, OpenResult] = {}


class OpenResult:
    """A commit that the application has not been told about yet. ``correlation_id``: of the only
    request that was sent for it so far, as far as that is clear; ``is_last``: no other commit has
    left since; ``went_well``: whether everything, or nothing, in the answer to that was good; None:
    it is open, partly good, or may be of no matter because of a later one."""

    __slots__ = ("correlation_id", "is_last", "is_sync", "went_well")

    def __init__(self, is_sync: bool) -> None:
        self.is_sync = is_sync
        self.correlation_id: int | None = None
        self.is_last = True
        self.went_well: bool | None = None


class CommitTold(Property):
    """client §7, rows "commitSync" and "commitAsync". Only a commit that is sent while it is asked
    for is judged by its answer, and by the first one: what is sent later may be another one."""

    id = "client.commit.told"
    sentence = (
        "A client of either protocol tells its application once what has become of each commit "
        "that it was asked for: success if it was acknowledged, of a commitSync at once, but none "
        "when all of it was refused or no answer came, and nothing was sent since."
    )
    clauses = ("client §7",)
    violated_by = ("test:tells-results-again", "test:tells-success", "test:tells-failure")
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(CommitOffsets, CommitAnswered, Disconnected, RequestExpired),
        effects=(CommitReturned, SendCommit, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._open: dict[str, dict[int, OpenResult]] = self.of_process({})
        """Client -> number of a commit of its application -> what it can be told."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application commits, or what was sent has come to an end."""
        event = step.event
        if type(event) is CommitOffsets:
            results = self._open.setdefault(entry.name, {})
            results[event.commit_id] = OpenResult(event.is_sync)
            return None
        waiting = self._open.get(entry.name)
        if not waiting:
            return None
        is_answer = type(event) is CommitAnswered
        for result in waiting.values():
            sent = result.correlation_id
            if is_answer and event.correlation_id == sent:
                codes = event.response.errors.values()
                is_bad = all(codes) and result.is_last
                result.went_well = not any(codes) or (False if is_bad else None)
            elif is_answer or sent not in event.correlation_ids:
                continue
            else:
                result.went_well = False if result.is_last else None
            result.correlation_id = None
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is it told about one that is open, and what is so?"""
        results = self._open.get(entry.name, _NOBODY)
        for effect in step.effects:
            kind = type(effect)
            if kind is CommitReturned:
                result = results.pop(effect.commit_id, None)
                if result is None:
                    return Finding(
                        f"{entry.name} tells its application again what has become of commit "
                        f"{effect.commit_id}",
                        {"client": entry.name},
                    )
                if result.went_well is not None and result.went_well is bool(effect.error_code):
                    told = effect.error_code.name if effect.error_code else "success"
                    was = "was acknowledged" if result.went_well else "has failed"
                    return Finding(
                        f"{entry.name} tells its application {told} about commit "
                        f"{effect.commit_id}, which {was}",
                        {"client": entry.name},
                    )
            elif results:
                self._note_sent(step, effect, entry.name)
        return None

    def _note_sent(self, step: Step, effect: object, client: str) -> None:
        results = self._open[client]
        if type(effect) is CloseConnection:
            for result in results.values():
                result.correlation_id = None
        elif type(effect) is SendCommit:
            for result in results.values():
                result.went_well = result.went_well or None
                result.is_last = False
            event = step.event
            if type(event) is CommitOffsets and event.commit_id in results:
                own = results[event.commit_id]
                is_only = sum(type(other) is SendCommit for other in step.effects) == 1
                own.correlation_id = effect.correlation_id if is_only else None
                own.is_last = is_only

    def on_handled(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Does somebody still wait for what is acknowledged?"""
        if type(step.event) is CommitAnswered:
            for number, result in self._open.get(entry.name, _NOBODY).items():
                if result.is_sync and result.went_well:
                    return Finding(
                        f"commitSync of {entry.name} has been acknowledged, and does not return: "
                        f"commit {number}",
                        {"client": entry.name},
                    )
        return None


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
"""Errors after which another attempt may succeed (client §7; classic §4.3)."""


class CommitsReturn(Property):
    """client §7, rows "commitSync" and "commitAsync"."""

    id = "client.commit.returns"
    sentence = (
        "Once faults stop, commitSync of a client of either protocol returns, and the callback of "
        "commitAsync runs if the application polls."
    )
    clauses = ("client §7",)
    violated_by = ("test:commits-into-nothing",)
    client_kinds = EVERY_KIND
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Commits that nobody has heard of for longer than a call may last."""
        for name, entry in self.model.every_client():
            member = entry.member
            if not entry.open_commits or member.running_callback is not None or member.is_closed:
                continue
            limit_ms = member.config.default_api_timeout_ms + quiet.slack_ms
            for commit in entry.open_commits.values():
                if at_ms - commit.since_ms > limit_ms and (commit.is_sync or member.is_polling):
                    what = "waits in commitSync" if commit.is_sync else "waits for its commitAsync"
                    yield Late(name, what, name, commit.since_ms)
                    break


class ClosesAfterCommits(Property):
    """client §6.2, §10.1; classic §4.5. After a fatal error librdkafka's returns at once."""

    id = "client.close.after_commits"
    sentence = (
        "close of a client of either protocol returns when the application has been told of all "
        "its commits; a Java client's at its timeout at the latest."
    )
    clauses = ("client §6.2", "client §10.1", "classic §4.5")
    violated_by = ("test:closes-without-results",)
    client_kinds = EVERY_KIND
    interest = Interest(events=(Close,), effects=(CallReturned,))
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._until_ms: dict[str, int] = self.of_process({})
        """Client -> until when its ``close`` may last."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application closes its consumer."""
        has_end = entry.kind in JAVA_KINDS
        self._until_ms[entry.name] = step.at_ms + step.event.timeout_ms if has_end else _NEVER_MS
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is a commit still open?"""
        if not entry.open_commits or step.at_ms >= self._until_ms.get(entry.name, 0):
            return None
        if not any(type(e) is CallReturned and e.call is Call.CLOSE for e in step.effects):
            return None
        if entry.kind not in JAVA_KINDS and entry.member.state is ClientState.FATAL:
            return None
        return Finding(
            f"close of {entry.name} returns, and {len(entry.open_commits)} of its application's "
            "commits have not",
            {"client": entry.name},
        )


class AsyncOnce(Property):
    """client §7, row "commitAsync". Commits are counted while no commitSync is open; one that has
    run out of time may still be sent later, and who has had one is judged no more."""

    id = "client.commit.async_once"
    sentence = (
        "A Java client of either protocol that does not commit by itself sends each commitAsync of "
        "its application once at most, whatever becomes of it."
    )
    clauses = ("client §7",)
    violated_by = ("KAFKA-15456",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(events=(CommitOffsets,), effects=(SendCommit, CommitReturned))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._to_send: Counter[str] = self.of_process(Counter())
        """Client -> how many it was asked for, and has not sent."""
        self._sync: dict[str, set[int]] = self.of_process({})
        """Client -> its commitSync calls that have not returned."""
        self._unclear: set[str] = self.of_process(set())

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application commits."""
        event = step.event
        if event.is_sync:
            self._sync.setdefault(entry.name, set()).add(event.commit_id)
        else:
            self._to_send[entry.name] += 1
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is there one that was not sent yet?"""
        name = entry.name
        for effect in step.effects:
            if type(effect) is CommitReturned:
                sync = self._sync.get(name)
                if sync and effect.commit_id in sync:
                    sync.discard(effect.commit_id)
                    if effect.error_code is ErrorCode.REQUEST_TIMED_OUT:
                        self._unclear.add(name)
            elif type(effect) is SendCommit:
                if (
                    entry.member.config.enable_auto_commit
                    or self._sync.get(name)
                    or name in self._unclear
                ):
                    continue
                self._to_send[name] -= 1
                if self._to_send[name] < 0:
                    return Finding(
                        f"{name} commits {self.model.names_of(effect.request.offsets)}, and has "
                        "sent every commitAsync of its application before",
                        {"client": name},
                    )
        return None


class SyncTriesOn(Property):
    """client §7, row "commitSync"; classic §4.3."""

    id = "client.commit.sync_tries_on"
    sentence = (
        "commitSync of a Java client of either protocol fails by an error after which "
        "another attempt may succeed only when its time is over, or when a member of the consumer "
        "protocol closes and knows no coordinator."
    )
    clauses = ("client §6.2", "client §7", "classic §4.3")
    violated_by = ("KAFKA-15456",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(events=(CommitOffsets,), effects=(CommitReturned,))
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._until_ms: dict[str, dict[int, int]] = self.of_process({})
        """Client -> commitSync that has not returned -> until when it may last."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application commits."""
        event = step.event
        if event.is_sync:
            timeout_ms = event.timeout_ms
            if timeout_ms is None:
                timeout_ms = entry.member.config.default_api_timeout_ms
            self._until_ms.setdefault(entry.name, {})[event.commit_id] = step.at_ms + timeout_ms
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Has one failed that could have gone on?"""
        until_ms = self._until_ms.get(entry.name)
        if not until_ms:
            return None
        for effect in step.effects:
            if type(effect) is not CommitReturned:
                continue
            left_ms = until_ms.pop(effect.commit_id, 0) - step.at_ms
            member = entry.member
            gives_up = (
                effect.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
                and member.kind not in CLASSIC_KINDS
                and member.blocked_in is Call.CLOSE
            )
            if left_ms > 0 and effect.error_code in _PASSING and not gives_up:
                return Finding(
                    f"commitSync of {entry.name} fails with {effect.error_code.name}, "
                    f"{left_ms} ms before its time is over",
                    {"client": entry.name},
                )
        return None


class SyncGivesUp(Property):
    """client §7, row "commitSync". Judged is the first attempt, where nothing else is sent beside
    it: which of several commits is the call's own cannot be told."""

    id = "client.commit.sync_gives_up"
    sentence = (
        "commitSync of a Java client of KIP-848 that does not commit by itself fails at once when "
        "it is refused because the epoch is stale, or the client no member."
    )
    clauses = ("client §7",)
    violated_by = ("test:repeats-what-is-stale",)
    client_kinds = (JAVA,)
    judges_mixed = True
    interest = Interest(events=(CommitOffsets,), refusals=(CommitAnswered,), effects=())

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._sent: dict[str, tuple[int, int]] = self.of_process({})
        """Client -> the commit that its last commitSync sent: correlation id, commit id."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """The application commits, or is refused it."""
        event, name = step.event, entry.name
        if type(event) is CommitOffsets:
            self._sent.pop(name, None)
            sent = [effect for effect in step.effects if type(effect) is SendCommit]
            if event.is_sync and len(sent) == 1 and not entry.member.config.enable_auto_commit:
                self._sent[name] = sent[0].correlation_id, event.commit_id
            return None
        correlation_id, commit_id = self._sent.get(name, (None, None))
        if event.correlation_id != correlation_id:
            return None
        del self._sent[name]
        codes = set(event.response.errors.values())
        if not codes or not codes <= _FOR_GOOD:
            return None
        if any(type(e) is CommitReturned and e.commit_id == commit_id for e in step.effects):
            return None
        return Finding(
            f"commitSync of {name} was refused with {min(codes).name}, and goes on",
            {"client": name},
        )


class ToldInPoll(Property):
    """client §7, row "commitAsync". Commits are counted while no commitSync is open; one that has
    run out of time may still be sent later, and who has had one is judged no more."""

    id = "client.commit.told_in_poll"
    sentence = (
        "The application of a Java client of either protocol that does not commit by itself has "
        "been told of a commitAsync that is over when it has polled."
    )
    clauses = ("client §7",)
    violated_by = ("test:tells-late",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(
            *(CommitOffsets, CommitAnswered, Disconnected, RequestExpired),
            *(PollingStopped, PollingResumed, CallbackCompleted),
        ),
        effects=(SendCommit, CommitReturned),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._sent: dict[str, set[int]] = self.of_process({})
        """Client -> correlation ids of commits in flight."""
        self._ended_ms: dict[str, list[int]] = self.of_process({})
        """Client -> when commits were over of which the application was not told."""
        self._restarted_ms: dict[str, int] = self.of_process({})
        """Client -> when its poll timer was last restarted without a poll."""
        self._sync: dict[str, set[int]] = self.of_process({})
        """Client -> its commitSync calls that have not returned."""
        self._unclear: set[str] = self.of_process(set())

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A commit is over, or another one is made."""
        event, name = step.event, entry.name
        if type(event) in (PollingStopped, PollingResumed, CallbackCompleted):
            self._restarted_ms[name] = step.at_ms
            return None
        if type(event) is CommitOffsets:
            if event.is_sync:
                self._sync.setdefault(name, set()).add(event.commit_id)
            return self._judge(step, entry)
        sent = self._sent.get(name)
        if not sent:
            return None
        if type(event) is CommitAnswered:
            if event.correlation_id not in sent:
                return None
            sent.remove(event.correlation_id)
            ended_count = 1
        else:
            ended = sent.intersection(event.correlation_ids)
            if not ended:
                return None
            sent -= ended
            ended_count = len(ended)
        finding = self._judge(step, entry)
        self._ended_ms.setdefault(name, []).extend([step.at_ms] * ended_count)
        return finding

    def _judge(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        name, member = entry.name, entry.member
        ended_ms = self._ended_ms.get(name)
        if (
            not ended_ms
            or name in self._unclear
            or member.config.enable_auto_commit
            or member.blocked_in is not None
            or not self._restarted_ms.get(name, -1) < member.last_poll_at_ms
            or not ended_ms[0] < member.last_poll_at_ms
        ):
            return None
        return Finding(
            f"{name} has polled at {member.last_poll_at_ms} ms, and its application was not told "
            f"of a commitAsync that was over at {ended_ms[0]} ms",
            {"client": name},
        )

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Commits are sent, or the application is told of them."""
        name = entry.name
        for effect in step.effects:
            if type(effect) is SendCommit:
                if not self._sync.get(name):
                    self._sent.setdefault(name, set()).add(effect.correlation_id)
            elif type(effect) is CommitReturned:
                sync = self._sync.get(name)
                if sync and effect.commit_id in sync:
                    sync.discard(effect.commit_id)
                    if effect.error_code is ErrorCode.REQUEST_TIMED_OUT:
                        self._unclear.add(name)
                elif self._ended_ms.get(name):
                    del self._ended_ms[name][0]
        return None
