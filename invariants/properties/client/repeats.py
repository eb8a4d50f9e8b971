"""Requests about offsets that have failed are repeated after a backoff, not at once.

Sources: client §2.2, §7; classic §3.2, §4.3. Only a repetition waits: whether a commit is one is
clear where it follows on the failure in the same step, or where the application has asked for none.
"""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.model.quiet_period import QuietPeriod
from rebalance_sim.invariants.properties.client.pacing import least_backoff_ms, longest_backoff_ms
from rebalance_sim.invariants.property import Deadline, Finding, Interest, Kind, Late, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallbackCompleted,
    CallbackKind,
    ClientState,
    CloseConnection,
    CommitAnswered,
    CommitOffsets,
    CommitReturned,
    CoordinatorFound,
    Disconnected,
    OffsetFetchAnswered,
    Poll,
    RaiseError,
    RequestExpired,
    RunCallback,
    SendCommit,
    SendOffsetFetch,
    StateChanged,
)
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, JAVA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 246

_NEVER_MS = -1 << 40
_NOBODY: set[int] = set()
_NOTHING: dict[int, int] = {}

_Partitions = frozenset[TopicPartition]


_TRIED_AGAIN = frozenset(
    (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
)
"""After these errors of a lookup the same one is pending, and a ``poll`` begins no other (client
§7); after others its application is told."""


_COMMITS_BY_ITSELF = (CallbackCompleted, Poll)
"""When a client that commits by itself makes a commit that repeats none: once the application is
back from a callback, and, as it polls, before a revocation or at its interval."""


class LookupBackoff(Property):
    """client §2.2, §7. One that has run for half of its time may be another one by now."""

    id = "client.lookup.backoff"
    sentence = (
        "A Java client of either protocol has one lookup of committed offsets of the same "
        "partitions in flight, and repeats one that failed after its backoff: longer after each "
        "failure in a row."
    )
    clauses = ("client §7", "client §2.2")
    violated_by = ("test:repeats-lookups-at-once",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(OffsetFetchAnswered, Disconnected, RequestExpired),
        effects=(SendOffsetFetch, CloseConnection, StateChanged, RunCallback),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._in_flight: dict[str, dict[int, _Partitions]] = self.of_process({})
        self._failed: dict[str, dict[_Partitions, tuple[int, int, int]]] = self.of_process({})
        """Client -> partitions -> when their lookup has failed last, how often in a row, and when
        it was sent first."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Lookups are over, well or badly."""
        in_flight = self._in_flight.get(entry.name)
        if not in_flight:
            return None
        event = step.event
        if type(event) is OffsetFetchAnswered:
            partitions = in_flight.pop(event.correlation_id, None)
            response = event.response
            if partitions is None:
                return None
            codes = {response.error_code, *response.errors.values()} - {ErrorCode.NONE}
            if codes and codes <= _TRIED_AGAIN:
                self._note_failure(step, entry, partitions)
            else:
                self._failed.get(entry.name, {}).pop(partitions, None)
        else:
            for correlation_id in event.correlation_ids:
                partitions = in_flight.pop(correlation_id, None)
                if partitions is not None:
                    self._note_failure(step, entry, partitions)
        return None

    def _note_failure(self, step: Step, entry: AnyClientEntry, partitions: _Partitions) -> None:
        failed = self._failed.setdefault(entry.name, {})
        _, failures, first_ms = failed.get(partitions, (0, 0, step.at_ms))
        failed[partitions] = step.at_ms, failures + 1, first_ms

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is it time to repeat one?"""
        name = entry.name
        for effect in step.effects:
            kind = type(effect)
            if kind is CloseConnection:
                self._in_flight.pop(name, None)
            elif kind is StateChanged:
                if not effect.to_state.is_in_group:
                    self._failed.pop(name, None)  # What it is assigned then is looked up anew.
            elif kind is RunCallback:
                failed = self._failed.get(name)
                if failed and effect.kind is CallbackKind.ASSIGNED:  # So is what it had before.
                    for partitions in [p for p in failed if not effect.partitions.isdisjoint(p)]:
                        del failed[partitions]
            elif kind is SendOffsetFetch:
                partitions = effect.request.partitions
                self._in_flight.setdefault(name, {})[effect.correlation_id] = partitions
                finding = self._judge(step, entry, partitions)
                if finding is not None:
                    return finding
        return None

    def _judge(self, step: Step, entry: AnyClientEntry, partitions: _Partitions) -> Finding | None:
        failed = self._failed.get(entry.name)
        if not failed or partitions not in failed:
            return None
        failed_ms, failures, first_ms = failed[partitions]
        config = entry.member.config
        longest_ms = max(config.max_poll_interval_ms, config.default_api_timeout_ms)
        if step.at_ms - first_ms >= longest_ms // 2:
            del failed[partitions]
            return None
        least_ms = least_backoff_ms(entry.member, failures)
        if step.at_ms - failed_ms >= least_ms:
            return None
        return Finding(
            f"{entry.name} looks committed offsets up {step.at_ms - failed_ms} ms after the same "
            f"lookup has failed; its backoff is at least {least_ms} ms",
            {"client": entry.name},
        )


class StaleLookup(Property):
    """client §7: an epoch that was overtaken on the way is no affair of the application."""

    id = "client.lookup.stale_epoch"
    sentence = (
        "A lookup of a Java client of KIP-848 that is refused because its epoch is stale is "
        "repeated as long as the client is a member: the application is raised the error only if "
        "it was none when the answer came."
    )
    clauses = ("client §7",)
    violated_by = ("test:raises-stale-epoch",)
    client_kinds = (JAVA,)
    interest = Interest(events=(OffsetFetchAnswered,), effects=(RaiseError,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._strangers: dict[str, int] = self.of_process({})
        """Client -> how many lookups were refused so while it was no member."""

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A lookup was answered."""
        response = step.event.response
        is_stale = (
            response.error_code is ErrorCode.STALE_MEMBER_EPOCH
            or ErrorCode.STALE_MEMBER_EPOCH in response.errors.values()
        )
        if is_stale and entry.member.commit_identity is None:
            self._strangers[entry.name] = self._strangers.get(entry.name, 0) + 1
        return None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """May that be raised?"""
        for effect in step.effects:
            if (
                type(effect) is not RaiseError
                or effect.error_code is not ErrorCode.STALE_MEMBER_EPOCH
            ):
                continue
            if not self._strangers.get(entry.name):
                return Finding(
                    f"the application of {entry.name} is raised STALE_MEMBER_EPOCH, though it was "
                    "a member each time that a lookup was refused so",
                    {"client": entry.name},
                )
            self._strangers[entry.name] -= 1
        return None


class CommitBackoff(Property):
    """client §2.2, §7; classic §4.3. A commit on its own of whoever does not commit by itself can
    only be a repetition, or one that had to wait for its coordinator."""

    id = "client.commit.backoff"
    sentence = "A Java client of either protocol repeats a commit that failed after its backoff."
    clauses = ("client §7", "client §2.2", "classic §4.3")
    violated_by = ("test:repeats-commits-at-once",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(CommitOffsets, CommitAnswered, Disconnected, RequestExpired),
        effects=(SendCommit, CloseConnection),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._in_flight: dict[str, dict[int, object]] = self.of_process({})
        """Client -> correlation id -> offsets."""
        self._failed: dict[str, list[tuple[object, int]]] = self.of_process({})
        """Client -> offsets of commits that have failed, and when, since one was asked for."""
        self._unsent: dict[str, int] = self.of_process({})
        """Client -> how many commits its application has asked for, and it has not sent."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Commits are asked for, or over."""
        event, name = step.event, entry.name
        if type(event) is CommitOffsets:
            self._unsent[name] = self._unsent.get(name, 0) + 1
            self._failed.pop(name, None)
            return None
        in_flight = self._in_flight.get(name)
        if not in_flight:
            return None
        if type(event) is CommitAnswered:
            offsets = in_flight.pop(event.correlation_id, None)
            if offsets is not None and any(event.response.errors.values()):
                self._failed.setdefault(name, []).append((offsets, step.at_ms))
            return None
        for correlation_id in event.correlation_ids:
            offsets = in_flight.pop(correlation_id, None)
            if offsets is not None:
                self._failed.setdefault(name, []).append((offsets, step.at_ms))
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is one of them a repetition?"""
        name = entry.name
        for effect in step.effects:
            if type(effect) is CloseConnection:
                self._in_flight.pop(name, None)
            elif type(effect) is SendCommit:
                offsets = effect.request.offsets
                self._in_flight.setdefault(name, {})[effect.correlation_id] = offsets
                finding = self._judge(step, entry, offsets)
                if finding is not None:
                    return finding
        return None

    def _judge(self, step: Step, entry: AnyClientEntry, offsets: object) -> Finding | None:
        name = entry.name
        if self._unsent.get(name):
            self._unsent[name] -= 1
            return None
        failed = self._failed.get(name)
        if not failed:
            return None
        commits_itself = entry.member.config.enable_auto_commit
        if commits_itself and entry.kind == CLASSIC and entry.state is ClientState.RECONCILING:
            return None  # What it commits before it joins is another commit, with its own backoff.
        if commits_itself and type(step.event) in _COMMITS_BY_ITSELF:
            return None
        if commits_itself:
            failed[:] = [one for one in failed if one[0] == offsets or one[1] == step.at_ms]
        least_ms = least_backoff_ms(entry.member, 1) if failed else 0
        for place, (former, failed_ms) in enumerate(failed):
            if former == offsets:
                del failed[place]
                waited_ms = step.at_ms - failed_ms
                if waited_ms >= least_ms or entry.member.blocked_in is not None:
                    return None
                if commits_itself and waited_ms:
                    return None  # It may have come to the same offsets again by now.
                return Finding(
                    f"{name} repeats a commit {waited_ms} ms after it has failed; its backoff is "
                    f"at least {least_ms} ms",
                    {"client": name},
                )
        return None


class CommitRepeated(Property):
    """client §7: what gives up for want of time has tried till then."""

    id = "client.commit.repeated"
    sentence = (
        "When a commitSync of a Java client of either protocol that knows its coordinator fails "
        "because its time is over, it waits for an answer, or has failed within the last backoff, "
        "unless the process was paused when the time ran out."
    )
    clauses = ("client §7", "client §2.2")
    violated_by = ("test:commits-once",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(CommitAnswered, Disconnected, RequestExpired, CoordinatorFound, CommitOffsets),
        effects=(SendCommit, CloseConnection, CommitReturned),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._in_flight: dict[str, set[int]] = self.of_process({})
        self._idle_since_ms: dict[str, int] = self.of_process({})
        """Client -> since when it has known its coordinator, and no commit has failed or left."""
        self._is_over_ms: dict[str, dict[int, int]] = self.of_process({})
        """Client -> commitSync -> when its time is over: who looks later was paused. What is not
        in it is a commitAsync, which is tried once."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Commits are asked for, or over, or a coordinator is found."""
        event = step.event
        if type(event) is CommitOffsets:
            if event.is_sync:
                timeout_ms = event.timeout_ms
                if timeout_ms is None:
                    timeout_ms = entry.member.config.default_api_timeout_ms
                is_over_ms = self._is_over_ms.setdefault(entry.name, {})
                is_over_ms[event.commit_id] = step.at_ms + timeout_ms
            return None
        self._idle_since_ms[entry.name] = step.at_ms
        if type(event) is CommitAnswered:
            self._in_flight.get(entry.name, _NOBODY).discard(event.correlation_id)
        elif type(event) is not CoordinatorFound:
            self._in_flight.get(entry.name, _NOBODY).difference_update(event.correlation_ids)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Has a commit given up that could have been tried again?"""
        name, member = entry.name, entry.member
        for effect in step.effects:
            if type(effect) is SendCommit:
                self._in_flight.setdefault(name, set()).add(effect.correlation_id)
                self._idle_since_ms[name] = step.at_ms
            elif type(effect) is CloseConnection:
                self._in_flight.pop(name, None)
                self._idle_since_ms[name] = step.at_ms
            elif (
                type(effect) is CommitReturned
                and effect.error_code is ErrorCode.REQUEST_TIMED_OUT
                and member.coordinator_id is not None
                and not self._in_flight.get(name)
                and step.at_ms == self._is_over_ms.get(name, _NOTHING).get(effect.commit_id)
            ):
                idle_ms = step.at_ms - self._idle_since_ms.get(name, step.at_ms)
                if idle_ms > longest_backoff_ms(member):
                    return Finding(
                        f"commitSync of {name} fails because its time is over; it has not been "
                        f"tried for {idle_ms} ms",
                        {"client": name},
                    )
        return None


class LookupCompletes(Property):
    """client §7, §8."""

    id = "client.lookup.completes"
    sentence = (
        "Once faults stop, a Java client of either protocol that is in the group and polls looks "
        "up the committed offsets of every partition that it is assigned and that exists."
    )
    clauses = ("client §7", "client §8")
    violated_by = ("test:repeats-no-lookup", "KAFKA-18160")
    client_kinds = JAVA_KINDS
    kind = Kind.EVENTUALLY
    deadline = Deadline.END

    def late(self, quiet: QuietPeriod, at_ms: int) -> Iterator[Late]:
        """Partitions without a position, of members at rest."""
        shard = self.model.acting_shard()
        if shard is None:
            return
        topics = shard.coordinator.image.by_id
        for name, entry in self.model.every_client():
            member = entry.member
            if (
                member.kind not in JAVA_KINDS
                or member.state is not ClientState.STABLE
                or not member.is_polling
                or member.running_callback is not None
                or member.coordinator_id is None
                or at_ms - entry.state_since_ms <= quiet.slack_ms
            ):
                continue
            for partition, state in sorted(member.assigned.items()):
                if state.fetch_state is FetchState.INITIALIZING and partition.topic_id in topics:
                    what = f"has no position in {self.model.name_of(partition)}"
                    failed = getattr(entry, "failed_callback", None)
                    evidence = {"client": name, "has_failed_callback": failed}
                    yield Late(name, what, name, entry.state_since_ms, evidence)
                    break
