"""What follows from a callback, or a refusal, follows at once, and calls of the application wait
for their end.

Sources: client §0.1, §2.1, §4.1, §6.2, §7, §10.1; classic §3.2, §4.5.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry, ClassicClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.properties.client.pacing import longest_backoff_ms
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    Call,
    CallbackCompleted,
    CallbackKind,
    CallReturned,
    ClientState,
    Close,
    CloseConnection,
    CommitAnswered,
    Disconnected,
    HeartbeatAnswered,
    LeaveGroupAnswered,
    OffsetFetchAnswered,
    RaiseError,
    RequestExpired,
    RequestMetadata,
    RunCallback,
    SendCommit,
    SendHeartbeat,
    SendJoinGroup,
    SendLeaveGroup,
    SendOffsetFetch,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.values import FetchState
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA_KINDS, LIBRDKAFKA
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

ORDER = 236

_COMMIT_MS = 60_000
"""A commit that was sent so long ago is over."""
_ENDS = (HeartbeatAnswered, Disconnected, RequestExpired, CommitAnswered)
"""What may be the end of a heartbeat, or of a commit that was waited for longer."""


class AckPrompt(Property):
    """client §2.1, row "Urgent"; client §10.1. A heartbeat that is in flight is waited for."""

    id = "client.ack.prompt"
    sentence = (
        "A member that has taken its assignment over, knows its coordinator and waits for no "
        "answer has its acknowledgement due within a backoff, not with the next interval; "
        "librdkafka, when it has looked up the committed offsets, and waits for no commit."
    )
    clauses = ("client §2.1", "client C16", "client §10.1")
    violated_by = ("test:acknowledges-on-the-interval",)
    outlives_clock_steps = False

    def on_handled(self, step: Step, entry: ClientEntry) -> Finding | None:
        """After the end of a callback, an answer out of the ordinary, a search."""
        member = entry.member
        if (
            member.state is not ClientState.ACKNOWLEDGING
            or member.coordinator_id is None
            or entry.in_flight
            or (member.kind == LIBRDKAFKA and self._is_at_work(step, entry))
        ):
            return None
        due_ms = member.next_heartbeat_due_ms
        if due_ms is None or due_ms - step.at_ms <= longest_backoff_ms(member):
            return None
        return Finding(
            f"{entry.name} has taken epoch {member.member_epoch} over, and acknowledges it in "
            f"{due_ms - step.at_ms} ms only",
            {"client": entry.name},
        )

    @staticmethod
    def _is_at_work(step: Step, entry: ClientEntry) -> bool:
        """Whether something may be open that an acknowledgement of librdkafka waits for."""
        return (
            type(step.event) is not OffsetFetchAnswered
            or bool(step.event.response.error_code)
            or any(step.event.response.errors.values())
            or 0 <= entry.committed_ms >= entry.state_since_ms - _COMMIT_MS
            or entry.commits_itself
            or any(
                state.fetch_state is FetchState.INITIALIZING
                for state in entry.member.assigned.values()
            )
        )


class LookupPrompt(Property):
    """client §0.1, §7: the ``poll`` around a callback goes on, and looks up what has no position.
    A lookup of the same partitions that is under way, or backs off, serves."""

    id = "client.lookup.prompt"
    sentence = (
        "When onPartitionsAssigned returns well in a poll and another poll follows, a Java client "
        "of either protocol that is in the group and knows its coordinator asks for the committed "
        "offsets of its new partitions at once."
    )
    clauses = ("client §7", "client §4.2")
    violated_by = ("test:ends-poll-after-callback",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(CallbackCompleted, OffsetFetchAnswered), effects=(RunCallback, SendOffsetFetch)
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._new: dict[str, frozenset[TopicPartition]] = self.of_process({})
        """Client -> partitions of its last onPartitionsAssigned, until they are looked up."""
        self._pending: dict[str, dict[frozenset[TopicPartition], int]] = self.of_process({})
        """Client -> what it has looked up without success, with the last correlation id."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A callback has returned, or a lookup has succeeded."""
        event, member = step.event, entry.member
        if type(event) is OffsetFetchAnswered:
            response = event.response
            if response.error_code is ErrorCode.NONE and not response.errors:
                self._pending[entry.name] = {
                    partitions: number
                    for partitions, number in self._pending.get(entry.name, {}).items()
                    if number != event.correlation_id
                }
            return None
        new = self._new.pop(entry.name, None)
        if (
            not new
            or event.failed
            or not event.poll_follows
            or member.running_callback is not None
            or member.blocked_in is not None
            or member.coordinator_id is None
            or not member.state.takes_assignments
            or (entry.kind == CLASSIC and member.state is not ClientState.STABLE)
            or any(type(effect) in (SendOffsetFetch, RaiseError) for effect in step.effects)
        ):
            return None
        without = frozenset(
            p
            for p, state in member.assigned.items()
            if state.fetch_state is FetchState.INITIALIZING
        )
        forgotten = sorted(new & without)
        if not forgotten or without in self._pending.get(entry.name, {}):
            return None
        return Finding(
            f"onPartitionsAssigned of {entry.name} has returned, and the poll that follows does "
            f"not look {self.model.names_of(forgotten)} up",
            {"client": entry.name},
        )

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A callback runs, or a lookup leaves."""
        for effect in step.effects:
            if type(effect) is RunCallback:
                is_assigned = effect.kind is CallbackKind.ASSIGNED
                self._new[entry.name] = effect.partitions if is_assigned else frozenset()
            elif type(effect) is SendOffsetFetch:
                self._new.pop(entry.name, None)
                pending = self._pending.setdefault(entry.name, {})
                if effect.request.partitions is not None:
                    pending[effect.request.partitions] = effect.correlation_id
        return None


class AsksForTopics(Property):
    """client §7: positions belong to names, and the client learns by metadata what has its name
    now. It asks at most once in ``retry_backoff_ms``."""

    id = "client.metadata.prompt"
    sentence = (
        "A Java client of either protocol whose commit or lookup is refused, as the coordinator "
        "does not know its topics any more, asks for metadata, unless it has done so just now."
    )
    clauses = ("client §7",)
    violated_by = ("test:keeps-its-metadata",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(), refusals=(CommitAnswered, OffsetFetchAnswered), effects=(RequestMetadata,)
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._asked_ms: dict[str, int] = self.of_process({})

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Was it refused for its topics alone?"""
        response = step.event.response
        codes = {getattr(response, "error_code", ErrorCode.NONE), *response.errors.values()}
        if codes - {ErrorCode.NONE} != {ErrorCode.UNKNOWN_TOPIC_ID}:
            return None
        if any(type(effect) is RequestMetadata for effect in step.effects):
            return None
        asked_ms = self._asked_ms.get(entry.name)
        if asked_ms is not None and step.at_ms < asked_ms + entry.member.config.retry_backoff_ms:
            return None
        return Finding(
            f"{entry.name} is told that topics are gone, and does not ask which there are",
            {"client": entry.name},
        )

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Does it ask for metadata?"""
        if any(type(effect) is RequestMetadata for effect in step.effects):
            self._asked_ms[entry.name] = step.at_ms
        return None


class JoinsAfterRevocation(Property):
    """classic §3.2, §4.2: *prepare* and the JoinGroup are one ``poll``."""

    id = "classic.client.joins_after_revocation"
    sentence = (
        "When onPartitionsRevoked or onPartitionsLost of a Java client of the classic protocol "
        "returns well inside poll, and its coordinator is known, the JoinGroup leaves at once."
    )
    clauses = ("classic §3.2", "classic §4.2")
    violated_by = ("test:joins-with-the-next-poll",)
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(events=(CallbackCompleted,), effects=(RunCallback,))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._gives_up: set[str] = self.of_process(set())
        """Clients whose running callback takes partitions away, inside of ``poll``."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A callback has returned."""
        if entry.name not in self._gives_up:
            return None
        self._gives_up.discard(entry.name)
        member = entry.member
        if (
            step.event.failed
            or member.running_callback is not None
            or member.blocked_in is not None
            or member.coordinator_id is None
            or not member.state.is_in_group
            or any(type(effect) is SendJoinGroup for effect in step.effects)
        ):
            return None
        return Finding(
            f"{entry.name} has given up what it had, and does not ask to join",
            {"client": entry.name},
        )

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A callback begins."""
        for effect in step.effects:
            if type(effect) is RunCallback:
                if effect.kind is not CallbackKind.ASSIGNED and entry.member.blocked_in is None:
                    self._gives_up.add(entry.name)
                else:
                    self._gives_up.discard(entry.name)
        return None


class _OpenCall:
    """A call of the application that blocks it."""

    __slots__ = ("call", "commits", "former_leaves", "leaves", "overtaken", "until_ms")

    def __init__(self, call: Call, until_ms: int) -> None:
        self.call = call
        self.until_ms = until_ms
        self.commits: set[int] = set()
        self.leaves: set[int] = set()
        self.overtaken: set[int] = set()
        """Heartbeats of KIP-848 that were in flight when the leave went out."""
        self.former_leaves: set[int] = set()
        """Leaves of former calls that were in flight when this one began."""


class CallWaits(Property):
    """client §6.2, classic §4.5. The end of any heartbeat means to the member that its leave is
    over, and so does the answer to a former leave before the leave has gone out (client §2.1);
    ``unsubscribe`` of the classic protocol does not wait for it. The leave of a
    poll expiry, while the call runs a callback, is nobody's to wait for (client §1.3, rows 31, 34).
    """

    id = "client.call.waits"
    sentence = (
        "Before their timeout is over, close of a Java client of either protocol neither calls "
        "back nor leaves while the commit that it began with is in flight, and close, and "
        "unsubscribe of KIP-848, do not return while their leave is."
    )
    clauses = ("client §6.2", "client C28", "classic §4.5")
    violated_by = ("test:calls-wait-for-nothing",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(
            *(Close, Unsubscribe, CommitAnswered, LeaveGroupAnswered),
            *(Disconnected, RequestExpired),
        ),
        effects=(
            *(RunCallback, SendCommit, SendHeartbeat, SendLeaveGroup, CallReturned),
            CloseConnection,
        ),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._open: dict[str, _OpenCall] = self.of_process({})
        self._former_leaves: dict[str, set[int]] = self.of_process({})
        """Client -> leaves of KIP-848 that its calls have sent."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """A call begins, or something that it may wait for is over."""
        event, kind = step.event, type(step.event)
        if kind is Close:
            self._begin(entry, Call.CLOSE, step.at_ms + event.timeout_ms)
            return None
        if kind is Unsubscribe:
            timeout_ms = entry.member.config.default_api_timeout_ms
            self._begin(entry, Call.UNSUBSCRIBE, step.at_ms + timeout_ms)
            return None
        call = self._open.get(entry.name)
        if call is None:
            return None
        if kind is CommitAnswered:
            call.commits.discard(event.correlation_id)
        elif kind is LeaveGroupAnswered:
            call.leaves.discard(event.correlation_id)
        else:
            call.commits.difference_update(event.correlation_ids)
            call.leaves.difference_update(event.correlation_ids)
        return None

    def _begin(self, entry: AnyClientEntry, kind: Call, until_ms: int) -> None:
        call = self._open[entry.name] = _OpenCall(kind, until_ms)
        leaves = self._former_leaves.get(entry.name)
        if leaves and isinstance(entry, ClientEntry):
            leaves &= entry.sent
            call.former_leaves = set(leaves)

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Does the call go on too early?"""
        call = self._open.get(entry.name)
        if call is None:
            return None
        is_late = step.at_ms >= call.until_ms
        for effect in step.effects:
            kind = type(effect)
            goes_on = ""
            if kind is SendCommit:
                # What it waits for is made when it begins: nothing else is, by then.
                if call.call is Call.CLOSE and type(step.event) is Close:
                    call.commits.add(effect.correlation_id)
            elif kind is CloseConnection:
                call.commits.clear()
                call.leaves.clear()
            elif kind is RunCallback:
                goes_on = "calls back" if call.commits and not effect.is_obsolete else ""
            elif kind is SendLeaveGroup or (
                kind is SendHeartbeat and effect.request.member_epoch < 0
            ):
                if entry.member.state is ClientState.STALE:
                    continue
                goes_on = "leaves" if call.commits else ""
                if kind is SendHeartbeat or call.call is Call.CLOSE:
                    call.leaves.add(effect.correlation_id)
                if isinstance(entry, ClientEntry):
                    call.overtaken = entry.sent - {effect.correlation_id}
                    self._former_leaves.setdefault(entry.name, set()).add(effect.correlation_id)
            elif kind is CallReturned:
                del self._open[entry.name]
                if isinstance(entry, ClientEntry):
                    # A callback may have held it up since.
                    waited_for = call.overtaken | call.former_leaves
                    has_ended = type(step.event) in _ENDS or not waited_for <= entry.sent
                    call.leaves = set() if has_ended else call.leaves & entry.sent
                goes_on = "returns" if call.commits or call.leaves else ""
            if goes_on and not is_late:
                waited = "commit" if call.commits else "leave"
                return Finding(
                    f"{call.call.value} of {entry.name} {goes_on} {call.until_ms - step.at_ms} ms "
                    f"before its timeout, and its {waited} is not answered",
                    {"client": entry.name},
                )
            if kind is CallReturned:
                return None
        return None
