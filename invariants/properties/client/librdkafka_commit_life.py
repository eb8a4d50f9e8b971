"""What becomes of librdkafka's commits that have failed: sent again, put off, or over.

Source: client §10.1, row "failed commit". A commit that has waited is known by its offsets; of
those, what a younger commit is about may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import most_backoff_ms
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClientState,
    CloseConnection,
    CommitAnswered,
    CoordinatorConnected,
    CoordinatorFound,
    Disconnected,
    RequestExpired,
    SendCommit,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 254

_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_REPEATED = _ELSEWHERE | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.REQUEST_TIMED_OUT,
}
_MAX_REPETITIONS = 2
_SESSION_TIMEOUT_MS = 45_000
"""For so long a commit may be put off; of a classic member, its own session.timeout.ms."""

_KEPT = 64
"""More than wait at once: an outage holds up one for each interval. Of one that is forgotten and
sent again nobody knows how often it has failed."""

_COMES_UP = (CoordinatorConnected, CoordinatorFound)
_EVENTS = (CommitAnswered, Disconnected, RequestExpired, *_COMES_UP)


class _Commit:
    """A commit that was sent; ``number`` grows with each that is made."""

    __slots__ = ("failed_ms", "failures", "newer", "number", "offsets", "until_ms")

    def __init__(self, number: int, offsets: Mapping[TopicPartition, int]) -> None:
        self.number = number
        self.offsets = offsets
        self.newer: set[TopicPartition] = set()
        """Partitions of which a younger commit has been sent."""
        self.failures = 0
        """How often it has failed since it was signed."""
        self.failed_ms = 0
        self.until_ms: int | None = None
        """Until when it may be put off, if it has been before."""

    @property
    def is_due(self) -> bool:
        """Whether it has to be sent: not if it would say nothing new."""
        return not self.newer.issuperset(self.offsets)

    def limit(self, until_ms: int) -> None:
        """It is put off: until then at most, if it has not been before."""
        if self.until_ms is None:
            self.until_ms = until_ms


class _Commits:
    """Commits of one process that are not over. ``sent_ms``: when one was sent last, and nothing
    waited any more for a coordinator; -1: never. ``has_forgotten``: more have waited than are
    kept."""

    __slots__ = ("has_forgotten", "in_flight", "last_number", "put_off", "repeated", "sent_ms")

    def __init__(self) -> None:
        self.last_number = 0
        self.sent_ms = -1
        self.has_forgotten = False
        self.in_flight: dict[int, _Commit] = {}
        self.repeated: list[_Commit] = []
        self.put_off: list[_Commit] = []

    def take(self, offsets: Mapping[TopicPartition, int]) -> _Commit:
        """The commit that is sent now: one that has waited, or another."""
        found = None
        for commit in (*self.repeated, *self.put_off):
            is_rest = commit.newer and offsets == {
                p: offset for p, offset in commit.offsets.items() if p not in commit.newer
            }
            if offsets is commit.offsets or is_rest:
                found = commit
                break
        if found is not None:
            if found in self.put_off:
                self.put_off.remove(found)
                found.failures = 0
            else:
                self.repeated.remove(found)
            found.offsets = offsets
            return found
        self.last_number += 1
        return _Commit(self.last_number, offsets)

    def overtake(self, younger: _Commit) -> None:
        """A younger commit is sent: what it is about may be left out of older ones."""
        for commit in (*self.in_flight.values(), *self.repeated, *self.put_off):
            if commit.number < younger.number:
                commit.newer |= younger.offsets.keys()
        if len(self.repeated) > _KEPT or len(self.put_off) > _KEPT:
            self.has_forgotten = True
            del self.repeated[:-_KEPT]
            del self.put_off[:-_KEPT]

    def may_wait_until_ms(self, at_ms: int, longest_ms: int) -> int:
        """Until when a commit that nobody has seen yet may be put off, which is sent as a
        coordinator comes up: it was made after the last one that was sent."""
        if self.sent_ms < 0 or self.has_forgotten:
            return at_ms
        return self.sent_ms + longest_ms


class CommitsAgain(Property):
    """client §10.1, row "failed commit". One whose epoch was stale waits for nothing: it is signed
    anew, and sent. What the application commits itself, and is refused, it hears of instead."""

    id = "client.commit.repeated_librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, that knows its coordinator has sent a commit "
        "again when its backoff is over, if all of it has failed, by errors that pass or without "
        "an answer, for the first time or the second; after that, if there was no coordinator, or "
        "if a commit of its own had a stale epoch, it has sent it anew, unless session.timeout.ms "
        "have passed meanwhile."
    )
    clauses = ("client §10.1",)
    violated_by = ("test:librdkafka-commits-once", "test:librdkafka-gives-stale-commits-up")
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(events=_EVENTS, effects=(SendCommit, CloseConnection))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._of: dict[str, _Commits] = self.of_process({})

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Commits are over, or there is a coordinator again."""
        if entry.name not in self._of:
            self._of[entry.name] = _Commits()
        event = step.event
        if type(event) is CommitAnswered:
            self._note_answer(step, entry)
        elif type(event) is Disconnected or type(event) is RequestExpired:
            for correlation_id in event.correlation_ids:
                self._note_loss(step, entry, correlation_id)
        return self._go_on(step, entry)

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A commit leaves, or the connection is closed."""
        if type(step.event) in _EVENTS:
            return None
        if entry.name not in self._of:
            self._of[entry.name] = _Commits()
        return self._go_on(step, entry)

    def _note_answer(self, step: Step, entry: AnyClientEntry) -> None:
        commits = self._of[entry.name]
        commit = commits.in_flight.pop(step.event.correlation_id, None)
        if commit is None:
            return
        errors = step.event.response.errors
        codes = [code for _, code in sorted(errors.items()) if code]
        if not codes:
            return
        commit.failures += 1
        commit.failed_ms = step.at_ms
        is_whole = len(codes) == len(errors)
        if is_whole and commit.failures <= _MAX_REPETITIONS and _REPEATED.issuperset(codes):
            commits.repeated.append(commit)
        elif codes[-1] in _ELSEWHERE:
            if commit.until_ms is None:
                commit.limit(step.at_ms + _longest_ms(entry))
                commits.put_off.append(commit)
        elif codes[-1] is ErrorCode.STALE_MEMBER_EPOCH and not entry.commits_itself:
            commit.limit(step.at_ms + _longest_ms(entry))
            commits.put_off.append(commit)

    def _note_loss(self, step: Step, entry: AnyClientEntry, correlation_id: int) -> None:
        commits = self._of[entry.name]
        commit = commits.in_flight.pop(correlation_id, None)
        if commit is None:
            return
        commit.failures += 1
        commit.failed_ms = step.at_ms
        if commit.failures <= _MAX_REPETITIONS:
            commits.repeated.append(commit)
        elif commit.until_ms is None:
            commit.limit(step.at_ms + _longest_ms(entry))
            commits.put_off.append(commit)

    def _go_on(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """What leaves, and what should have by now."""
        commits = self._of[entry.name]
        member = entry.member
        has_sent = False
        for effect in step.effects:
            if type(effect) is SendCommit:
                commit = commits.take(effect.request.offsets)
                if type(step.event) in _COMES_UP and commit.until_ms is None:
                    # It may have waited for this.
                    commit.until_ms = commits.may_wait_until_ms(step.at_ms, _longest_ms(entry))
                has_sent = True
                commits.in_flight[effect.correlation_id] = commit
                commits.overtake(commit)
            elif type(effect) is CloseConnection:
                for correlation_id in list(commits.in_flight):
                    commit = commits.in_flight.pop(correlation_id)
                    commit.failures += 1
                    commit.failed_ms = step.at_ms
                    if commit.failures <= _MAX_REPETITIONS:
                        commits.repeated.append(commit)
        if has_sent:
            commits.sent_ms = step.at_ms
        if not commits.repeated and not commits.put_off:
            return None
        if member.state is ClientState.FATAL or member.is_closed:
            commits.repeated.clear()
            commits.put_off.clear()
            return None
        if member.coordinator_id is None:
            return None
        for commit in commits.repeated:
            late_ms = step.at_ms - commit.failed_ms - most_backoff_ms(member, commit.failures)
            if late_ms > 0 and commit.is_due:
                return self._finding(entry, commit, f"is due again for {late_ms} ms")
        for commit in commits.put_off:
            if commit.is_due and commit.until_ms is not None and step.at_ms < commit.until_ms:
                waited_ms = step.at_ms - commit.failed_ms
                return self._finding(entry, commit, f"was put off {waited_ms} ms ago")
        return None

    def _finding(self, entry: AnyClientEntry, commit: _Commit, what: str) -> Finding:
        return Finding(
            f"{entry.name} knows its coordinator, and does not send a commit of "
            f"{self.model.names_of(sorted(commit.offsets))} that {what}",
            {"client": entry.name},
        )


def _longest_ms(entry: AnyClientEntry) -> int:
    """For how long a client may put a commit off."""
    config = entry.member.config
    if isinstance(config, ClassicConsumerConfig):
        return config.session_timeout_ms
    return _SESSION_TIMEOUT_MS
