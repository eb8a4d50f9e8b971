"""Commits that librdkafka makes by itself, and how it repeats those that failed.

Source: client §10.1, rows "interval commit", "something revoked" and "failed commit".
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import least_backoff_ms
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    CallbackKind,
    ClientState,
    CloseConnection,
    CommitAnswered,
    CommitOffsets,
    CoordinatorConnected,
    CoordinatorConnectionClosed,
    CoordinatorFound,
    Disconnected,
    MetadataKnown,
    OwnStateChanged,
    RecordsReturned,
    RequestExpired,
    RunCallback,
    SendCommit,
    StateChanged,
    Tick,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_KINDS
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import JOIN_STATE
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import JoinState
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 248

_STEADY_FLOW_MS = 2_000
"""Records that come at least so often show that the process runs."""

_MAY_REPEAT = (
    *(CommitAnswered, Disconnected, RequestExpired, CommitOffsets),
    *(CoordinatorConnected, CoordinatorFound),
)
"""When a commit may leave that was made before."""

_NOTHING: frozenset[TopicPartition] = frozenset()

_IN_GOOD_ORDER = frozenset({ClientState.RECONCILING, ClientState.PREPARE_LEAVING})


class RepeatedCommits(Property):
    """client §10.1, row "failed commit": what is repeated is the very same request."""

    id = "client.commit.backoff_librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, sends the very same commit again only after "
        "its backoff, longer after the second failure, and twice at most."
    )
    clauses = ("client §10.1", "client §2.2")
    violated_by = ("test:librdkafka-repeats-at-once",)
    client_kinds = LIBRDKAFKA_KINDS
    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired),
        effects=(SendCommit, CloseConnection),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._in_flight: dict[str, dict[int, tuple[object, int]]] = self.of_process({})
        """Client -> correlation id -> request, and how often it has failed."""
        self._failed: dict[str, list[tuple[object, int, int]]] = self.of_process({})
        """Client -> requests that have failed, how often, and when last."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Commits are over."""
        in_flight = self._in_flight.get(entry.name)
        if not in_flight:
            return None
        event = step.event
        if type(event) is CommitAnswered:
            has_failed = any(event.response.errors.values())
            self._note_end(step, entry, event.correlation_id, has_failed=has_failed)
        else:
            for correlation_id in event.correlation_ids:
                self._note_end(step, entry, correlation_id, has_failed=True)
        return None

    def _note_end(
        self, step: Step, entry: AnyClientEntry, correlation_id: int, *, has_failed: bool
    ) -> None:
        request, failures = self._in_flight[entry.name].pop(correlation_id, (None, 0))
        if request is not None and has_failed:
            failed = self._failed.setdefault(entry.name, [])
            failed.append((request, failures + 1, step.at_ms))
            del failed[:-8]  # Most are not repeated.

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is one of them a repetition?"""
        name = entry.name
        for effect in step.effects:
            if type(effect) is CloseConnection:
                for correlation_id in list(self._in_flight.get(name, ())):
                    self._note_end(step, entry, correlation_id, has_failed=True)
            elif type(effect) is SendCommit:
                request, failures, failed_ms = next(
                    (one for one in self._failed.get(name, ()) if one[0] is effect.request),
                    (effect.request, 0, 0),
                )
                self._in_flight.setdefault(name, {})[effect.correlation_id] = request, failures
                if not failures:
                    continue
                least_ms = least_backoff_ms(entry.member, failures)
                self._failed[name] = [one for one in self._failed[name] if one[0] is not request]
                if failures > 2 or step.at_ms - failed_ms < least_ms:
                    return Finding(
                        f"{name} repeats a commit {step.at_ms - failed_ms} ms after it has failed "
                        f"for the {failures}. time; its backoff is at least {least_ms} ms, and it "
                        "repeats none for the third time",
                        {"client": name},
                    )
        return None


class _Flow:
    """Records that a client has handed out since nothing but that has happened to it."""

    __slots__ = ("last_ms", "moved", "positions", "since_ms")

    def __init__(self) -> None:
        self.positions: dict[TopicPartition, int] = {}
        self.moved: dict[TopicPartition, int] = {}
        """Partitions of which more was handed out after the first records, and up to where."""
        self.since_ms: int | None = None
        """Since when something has been handed out that no commit was sent for."""
        self.last_ms = 0

    def add(self, positions: Mapping[TopicPartition, int], at_ms: int) -> None:
        """More records were handed out."""
        for partition, position in positions.items():
            former = self.positions.get(partition)
            if former is None or position > former:
                self.positions[partition] = position
                if former is not None:
                    self.moved[partition] = position
                    if self.since_ms is None:
                        self.since_ms = at_ms
        self.last_ms = at_ms


class LibrdkafkaIntervalCommits(Property):
    """client §10.1, row "interval commit": from its own thread. A tick that meets a rebalance is
    skipped, and what happens to the connection may put a commit off."""

    id = "client.commit.interval_librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, that commits by itself and is at rest commits "
        "what it has handed out within two auto.commit.interval.ms."
    )
    clauses = ("client §10.1",)
    violated_by = ("test:librdkafka-never-commits",)
    client_kinds = LIBRDKAFKA_KINDS
    interest = Interest(
        events=(
            *(RecordsReturned, Disconnected, RequestExpired, MetadataKnown),
            *(CoordinatorConnected, CoordinatorConnectionClosed, CoordinatorFound),
            CallbackCompleted,
        ),
        refusals=(CommitAnswered,),
        effects=(SendCommit, CloseConnection, RunCallback, StateChanged),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._flows: dict[str, _Flow] = self.of_process({})

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Records were handed out, or something has happened."""
        name, member, event = entry.name, entry.member, step.event
        if type(event) is not RecordsReturned:
            self._flows.pop(name, None)
            return None
        if (
            not member.config.enable_auto_commit
            or member.state is not ClientState.STABLE
            or member.coordinator_id is None
        ):
            return None
        flow = self._flows.get(name)
        steady_ms = max(_STEADY_FLOW_MS, member.config.auto_commit_interval_ms)
        if flow is None or step.at_ms - flow.last_ms > steady_ms:
            flow = self._flows[name] = _Flow()
        since_ms = flow.since_ms
        if since_ms is not None and step.at_ms - since_ms > 2 * steady_ms:
            flow.since_ms = None
            return Finding(
                f"{name} has handed {self.model.names_of(flow.moved)} out for "
                f"{step.at_ms - since_ms} ms, and has committed nothing; auto.commit.interval.ms "
                f"is {member.config.auto_commit_interval_ms}",
                {"client": name},
            )
        flow.add(event.positions, step.at_ms)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """It commits, or something else begins."""
        if step.effects:
            self._flows.pop(entry.name, None)
        return None


class RevokedIsCommitted(Property):
    """client §10.1, row "something revoked". What was handed out first may have been committed by
    whoever had the partition before; one that closes gives everything up in its first callback."""

    id = "client.commit.revoked_librdkafka"
    sentence = (
        "When onPartitionsRevoked of a client of librdkafka, of either protocol, that commits by "
        "itself returns, and it has its coordinator, it commits at once what it has handed out of "
        "these partitions since its last commit."
    )
    clauses = ("client §10.1",)
    violated_by = ("test:librdkafka-commits-nothing-revoked",)
    client_kinds = LIBRDKAFKA_KINDS
    interest = Interest(
        events=(RecordsReturned, MetadataKnown, CallbackCompleted),
        effects=(RunCallback, StateChanged, SendCommit),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._flows: dict[str, _Flow] = self.of_process({})
        self._revoked: dict[str, frozenset[TopicPartition]] = self.of_process({})
        """Client -> partitions of its running onPartitionsRevoked."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Records were handed out, or a callback has returned."""
        name, member, event = entry.name, entry.member, step.event
        if type(event) is RecordsReturned:
            if member.config.enable_auto_commit:
                self._flows.setdefault(name, _Flow()).add(event.positions, step.at_ms)
            return None
        if type(event) is MetadataKnown:
            self._flows.pop(name, None)  # Topics may have been created anew.
            return None
        revoked = self._revoked.pop(name, None)
        flow = self._flows.get(name)
        if not revoked or flow is None:
            return None
        if member.coordinator_id is None or member.state not in _IN_GOOD_ORDER:
            return None
        committed = {
            p
            for effect in step.effects
            if type(effect) is SendCommit
            for p in effect.request.offsets
        }
        forgotten = [p for p in sorted(revoked) if p in flow.moved and p not in committed]
        if not forgotten:
            return None
        return Finding(
            f"{name} has given {self.model.names_of(forgotten)} up, and does not commit what it "
            "has handed out of that",
            {"client": name},
        )

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A callback begins, a commit leaves, or the membership is over."""
        for effect in step.effects:
            if type(effect) is StateChanged:
                if not effect.to_state.is_in_group:
                    self._flows.pop(entry.name, None)
            elif type(effect) is RunCallback:
                if effect.kind is CallbackKind.REVOKED and not effect.is_obsolete:
                    self._revoked[entry.name] = effect.partitions
                else:
                    self._flows.pop(entry.name, None)
            elif type(effect) is SendCommit and entry.name in self._flows:
                moved = self._flows[entry.name].moved
                for partition in effect.request.offsets.keys() & moved.keys():
                    del moved[partition]
        return None


class _Open:
    """Commits of one process, and how far it is with its assignment."""

    __slots__ = ("failed", "in_flight", "join_state", "lost")

    def __init__(self) -> None:
        self.in_flight: dict[int, Mapping[TopicPartition, int]] = {}
        self.failed: list[Mapping[TopicPartition, int]] = []
        """Offsets of commits that have failed, and may be repeated."""
        self.join_state = JoinState.INIT.value
        self.lost: frozenset[TopicPartition] = frozenset()
        """Partitions of the running onPartitionsLost."""

    def note_failure(self, correlation_id: int) -> None:
        """A commit has failed, or is lost."""
        offsets = self.in_flight.pop(correlation_id, None)
        if offsets is not None:
            self.failed.append(offsets)
            del self.failed[:-_MOST_FAILED]

    def repeats(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Whether it may be one that has failed, without what was overtaken meanwhile."""
        return any(offsets.items() <= failed.items() for failed in self.failed)


_MOST_FAILED = 256
"""Commits go out whether or not the last one was answered, so all of an outage may fail at once."""


class CommitsItsOwn(Property):
    """client §10.1, rows "interval commit" and "something revoked". A commit that has waited for a
    coordinator leaves when there is one, whatever has become of its partitions; so it is judged by
    those that leave at another time."""

    id = "client.commit.own_librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, whose application leaves commits to it "
        "commits nothing of what it keeps while it takes partitions over or gives some up, nothing "
        "of what it has lost when onPartitionsLost returns, and otherwise the positions of what it "
        "has by then, none from before a revocation."
    )
    clauses = ("client §10.1",)
    violated_by = (
        *("test:librdkafka-commits-in-between", "test:librdkafka-commits-what-is-lost"),
        "test:librdkafka-keeps-stored-offsets",
    )
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired),
        effects=(SendCommit, CloseConnection, OwnStateChanged, RunCallback),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._of: dict[str, _Open] = self.of_process({})

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Commits are over."""
        commits = self._of.get(entry.name)
        if commits is None:
            return None
        event = step.event
        if type(event) is not CommitAnswered:
            for correlation_id in event.correlation_ids:
                commits.note_failure(correlation_id)
        elif any(event.response.errors.values()):
            commits.note_failure(event.correlation_id)
        else:
            commits.in_flight.pop(event.correlation_id, None)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A commit leaves: of what, and how far is the client by then?"""
        commits = self._of.get(entry.name)
        if commits is None:
            commits = self._of[entry.name] = _Open()
        lost = commits.lost if type(step.event) is CallbackCompleted else _NOTHING
        finding = None
        for effect in step.effects:
            kind = type(effect)
            if kind is OwnStateChanged:
                if effect.what == JOIN_STATE:
                    commits.join_state = effect.to_state
            elif kind is RunCallback:
                is_lost = effect.kind is CallbackKind.LOST
                commits.lost = effect.partitions if is_lost else _NOTHING
            elif kind is CloseConnection:
                for correlation_id in list(commits.in_flight):
                    commits.note_failure(correlation_id)
            elif kind is SendCommit:
                offsets = effect.request.offsets
                commits.in_flight[effect.correlation_id] = offsets
                if finding is None and type(step.event) not in _MAY_REPEAT:
                    is_tick = type(step.event) is Tick
                    finding = self._judge(entry, commits, offsets, lost, is_tick=is_tick)
        return finding

    def _judge(
        self,
        entry: AnyClientEntry,
        commits: _Open,
        offsets: Mapping[TopicPartition, int],
        lost: frozenset[TopicPartition],
        *,
        is_tick: bool,
    ) -> Finding | None:
        member = entry.member
        if entry.commits_itself:
            return None
        assigned = member.assigned
        is_subscribed = bool(member.subscribed_topic_names or member.subscribed_topic_regex)
        is_in_between = is_subscribed and commits.join_state != JoinState.STEADY.value
        wrongly = [p for p in sorted(offsets) if p in lost]
        what = "has lost"
        if not wrongly and is_in_between:
            wrongly = [p for p in sorted(offsets) if p in assigned]
            what = f"keeps, in {commits.join_state}"
        elif not wrongly and (is_subscribed or is_tick):
            # What is not assigned has maybe been given up in this very event, unless time alone
            # has passed.
            wrongly = [
                p
                for p, offset in sorted(offsets.items())
                if (assigned[p].position != offset if p in assigned else is_tick)
            ]
            what = "does not have, or has not come to that offset of"
        if not wrongly or commits.repeats(offsets):
            return None
        return Finding(
            f"{entry.name} commits {self.model.names_of(wrongly)}, which it {what}",
            {"client": entry.name},
        )
