"""What an application learns: of its partitions, its errors and its commits, once and as it is.

Sources: client §1.3, §2.3, §4.2, §5, §6.2, §7, §10.1; classic §3.2, §3.3, §4.2, §4.3, §4.5.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.property import Finding, Interest, Property, notes_of_process
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients.common.effects import (
    CallReturned,
    CloseConnection,
    CommitReturned,
    RaiseError,
    RunCallback,
    SendCommit,
    StateChanged,
)
from rebalance_sim.protocol.clients.common.events import (
    CallbackCompleted,
    ClassicHeartbeatAnswered,
    Close,
    CommitAnswered,
    CommitOffsets,
    CoordinatorSearchFailed,
    Disconnected,
    HeartbeatAnswered,
    JoinGroupAnswered,
    OffsetFetchAnswered,
    PollingStopped,
    RequestExpired,
    Subscribe,
    SyncGroupAnswered,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.kinds import CLASSIC, EVERY_KIND, JAVA_KINDS, LIBRDKAFKA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.topics import TopicPartition

_REVOKED, _ASSIGNED, _LOST = CallbackKind.REVOKED, CallbackKind.ASSIGNED, CallbackKind.LOST
_LastCallback = tuple[CallbackKind, bool]
_STRANGERS = (ClientState.FENCED, ClientState.STALE, ClientState.FATAL)


class CallbackBalance(Property):
    """client C8, C13, §4.2, classic §3.3. A callback that failed, or was overtaken, is repeated,
    and so is a revocation that unsubscribe or close cuts short; one that failed may have said
    anything. To a classic client a topic is its name, whatever its id (classic §4.2)."""

    id = "client.callback.balance"
    is_seen_from_outside = True
    sentence = (
        "Callbacks come one by one and in balance: assigned, then once revoked or lost; once a "
        "client is stable, or has closed, they add up to what it has."
    )
    clauses = (
        *("client C8", "client C13", "client §4.2", "client §6.2", "client §10.1"),
        *("classic §3.3", "classic §4.5"),
    )
    violated_by = (
        *("mut-client-revokes-twice", "mut-client-rejoins-before-lost"),
        *("sim-untold-revocation", "test:assigns-without-a-word"),
    )
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(CallbackCompleted, Subscribe, Close, Unsubscribe),
        effects=(RunCallback, StateChanged, CallReturned),
    )
    _called_back: dict[str, dict[TopicPartition, _LastCallback]] = notes_of_process(dict)
    """Client -> partition -> its last callback, and whether that one may be repeated."""
    _running: dict[str, RunCallback] = notes_of_process(dict)
    _silent: set[str] = notes_of_process(set)
    """Clients whose application has no listener, or one that has failed."""
    _until_ms: dict[str, int] = notes_of_process(dict)
    """Client -> when the call that blocks its application is over at the latest."""

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """A callback has returned; or a call begins, which may run out of time."""
        event, name = step.event, entry.name
        if type(event) is CallbackCompleted:
            running = self._running.pop(name, None)
            if running is not None and event.failed:
                self._silent.add(name)
                called_back = self._called_back.setdefault(name, {})
                called_back.update(dict.fromkeys(running.partitions, (running.kind, True)))
        elif type(event) is Subscribe:
            if not event.has_listener:
                self._silent.add(name)
        else:
            own_ms = getattr(event, "timeout_ms", entry.member.config.default_api_timeout_ms)
            self._until_ms[name] = step.at_ms + own_ms

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Follow callbacks; compare when the client comes to rest, or a call returns."""
        finding, member = None, entry.member
        for effect in step.effects:
            if type(effect) is RunCallback:
                finding = finding or self._tell(effect, entry)
            elif (
                type(effect) is CallReturned
                and entry.kind in JAVA_KINDS
                and step.at_ms < self._until_ms.get(entry.name, step.at_ms)
            ):
                finding = finding or self._compare(entry, set())
        if member.state is ClientState.STABLE and entry.state is not ClientState.STABLE:
            finding = finding or self._compare(entry, {*member.assigned})
        return finding

    def _tell(self, effect: RunCallback, entry: ClientEntry) -> Finding | None:
        called_back = self._called_back.setdefault(entry.name, {})
        running, self._running[entry.name] = self._running.get(entry.name), effect
        if running is not None:
            return Finding(f"{entry.name} starts {effect.kind.value} while another callback runs")
        found = None
        for partition in sorted(effect.partitions):
            kind, is_open = called_back.get(partition, (None, True))
            ends = effect.kind is not _ASSIGNED
            if effect.is_obsolete:
                # Overtaken by a fence or a leave, before or after the callback of that.
                if kind is _ASSIGNED:
                    called_back[partition] = effect.kind, True
                continue
            is_fine = is_open or (kind is _ASSIGNED) is ends
            # What was revoked may be lost: the member was fenced in between; or it is revoked by a
            # call again, as the assigned callback that would have followed never came (client R8).
            is_fine = is_fine or (
                kind is _REVOKED and (effect.kind is _LOST or entry.member.blocked_in is not None)
            )
            if not is_fine and found is None:
                found = Finding(
                    f"{entry.name} runs {effect.kind.value} for {self.model.name_of(partition)} "
                    f"after {kind.value if kind else 'nothing'}",
                    partition=partition,
                )
            called_back[partition] = effect.kind, False
        return found

    def _compare(self, entry: ClientEntry, assigned: set[TopicPartition]) -> Finding | None:
        called_back = self._called_back.setdefault(entry.name, {})
        known = {p for p, (kind, _) in called_back.items() if kind is _ASSIGNED}
        running = entry.member.running_callback
        ending = running.partitions if running and running.kind is not _ASSIGNED else set()
        silent, kept = assigned - known - ending, known - assigned
        if entry.name in self._silent or not (silent or kept):
            return None
        if not all(self._has_one_id(p) for p in silent | kept):
            self._called_back[entry.name] = dict.fromkeys(sorted(assigned), (_ASSIGNED, True))
            return None
        what = "heard nothing of" if silent else "did not hear of the loss of"
        return Finding(
            f"{entry.name} is {entry.member.state.value}, and its application {what} "
            f"{self.model.names_of(silent or kept)}"
        )

    def _has_one_id(self, partition: TopicPartition) -> bool:
        """Whether the coordinator knows its topic, and no other of that name."""
        shard = self.model.acting_shard()
        by_id = shard.coordinator.image.by_id if shard else {}
        return partition.topic_id in by_id and not self.model.is_recreated(partition)


class CallbackIdentity(Property):
    """client C14, §4.2; classic §3.2. One that a fence or a leave has overtaken is let off.
    librdkafka keeps its identity until it joins again, and begins no other rebalance before the one
    under way has ended (client §10.1); franz-go does, too, and ends each session with a callback
    (franz §4). An eager Java client of the classic protocol calls for nothing before it joins."""

    id = "client.callback.identity"
    sentence = (
        "onPartitionsRevoked is for members, onPartitionsLost for those that are none any more, "
        "and neither is called without partitions."
    )
    clauses = ("client C14", "client §4.2", "classic §3.2", "classic §4.5")
    violated_by = (
        "mut-client-adopts-late-answers",
        *("mut-client-revokes-on-fence", "mut-client-keeps-identity-on-fence"),
        *("mut-client-rejoins-before-lost", "test:revokes-nothing"),
    )
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(effects=(RunCallback,))

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Is there something to tell, and is the client a member as the callback starts?"""
        for effect in step.effects_of(RunCallback):
            if effect.kind is _ASSIGNED:
                continue
            is_fine = self._has_cause(effect, entry)
            if is_fine and (effect.is_obsolete or entry.is_classic):
                continue
            if not is_fine or not self._fits(effect.kind, entry):
                of = self.model.names_of(effect.partitions)
                return Finding(
                    f"{entry.name} runs {effect.kind.value} for {of} at epoch "
                    f"{entry.member.member_epoch} in {entry.member.state.value}"
                )
        return None

    @staticmethod
    def _has_cause(effect: RunCallback, entry: ClientEntry) -> bool:
        view = entry.member.classic
        is_eager = entry.kind == CLASSIC and view is not None and not view.is_cooperative
        is_before_join = effect.kind is _REVOKED and entry.member.blocked_in is None
        says_nothing = entry.member.tells_of_nothing or (is_eager and is_before_join)
        return bool(effect.partitions) or says_nothing

    @staticmethod
    def _fits(kind: CallbackKind, entry: ClientEntry) -> bool:
        member = entry.member
        if member.is_itself_when_lost:
            return kind is _REVOKED or member.state in _STRANGERS or entry.state in _STRANGERS
        return (member.commit_identity is not None) is (kind is _REVOKED)


_ANSWERS = (
    *(HeartbeatAnswered, JoinGroupAnswered, SyncGroupAnswered, ClassicHeartbeatAnswered),
    *(CommitAnswered, OffsetFetchAnswered, CoordinatorSearchFailed),
)
_E = ErrorCode
_PASSES = frozenset(
    (
        *(_E.COORDINATOR_LOAD_IN_PROGRESS, _E.COORDINATOR_NOT_AVAILABLE, _E.NOT_COORDINATOR),
        *(_E.REQUEST_TIMED_OUT, _E.UNKNOWN_TOPIC_ID, _E.UNKNOWN_TOPIC_OR_PARTITION),
        _E.UNSTABLE_OFFSET_COMMIT,
    )
)
"""What a Java client tries again without a word to its application (client §2.3, §2.5, §7)."""
_REJOINS = _PASSES | frozenset(
    (
        *(_E.ILLEGAL_GENERATION, _E.MEMBER_ID_REQUIRED, _E.REBALANCE_IN_PROGRESS),
        *(_E.UNKNOWN_MEMBER_ID, _E.FENCED_MEMBER_EPOCH, _E.STALE_MEMBER_EPOCH),
    )
)
"""And what a client joins for, or once more (classic §4.2)."""


def _codes(event: object) -> frozenset[ErrorCode]:
    """The errors in an answer."""
    of_all = getattr(event, "response", event)
    codes = {getattr(of_all, "error_code", None), *getattr(of_all, "errors", {}).values()}
    return frozenset(filter(None, codes))


class FatalCause(Property):
    """client §2.3, §5; classic §4.3. Whether a refusal was right is for others to say
    (``refusal.cause``, ``classic.refusal_cause``)."""

    id = "client.fatal.cause"
    sentence = "A client fails for good only when it is refused what no retry or rejoin changes."
    clauses = ("client §2.3", "client §5", "client §10.1", "classic §4.3")
    violated_by = ("test:fails-for-nothing",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(events=(JoinGroupAnswered,), effects=(StateChanged,))
    _unread: dict[str, frozenset[ErrorCode]] = notes_of_process(dict)
    """Client -> errors in the answer to its JoinGroup, while no one polls who would read it."""

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """A classic client looks at this answer only when its application polls (classic §4.2)."""
        if not entry.member.is_polling:
            self._unread[entry.name] = _codes(step.event)

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """What was it answered?"""
        for effect in step.effects_of(StateChanged):
            if effect.to_state is ClientState.FATAL:
                codes = _codes(step.event) or self._unread.pop(entry.name, frozenset())
                if codes <= _REJOINS:
                    answered = " and ".join(code.name for code in sorted(codes)) or "no error"
                    return Finding(f"{entry.name} fails for good, answered {answered}")
        return None


class ErrorCause(Property):
    """client §4.2, §5, §7. librdkafka tells that its poll timer has run out, and what passes;
    franz-go every error that has ended a session (franz §4)."""

    id = "client.error.cause"
    sentence = (
        "A call raises what the client was refused, once for each answer, and nothing that it "
        "tries again by itself; or that a callback has failed."
    )
    clauses = ("client §5", "client §4.2", "client §7", "classic §4.2")
    violated_by = ("mut-install-checks-present", "KAFKA-17294")
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(CallbackCompleted, PollingStopped), refusals=_ANSWERS, effects=(RaiseError,)
    )
    _causes: dict[str, Counter[ErrorCode | None]] = notes_of_process(lambda: defaultdict(Counter))
    """Client -> error -> how often it may still be raised; None: no error of the protocol."""

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """Remember what may be raised."""
        event, kind = step.event, type(step.event)
        codes: frozenset[ErrorCode | None] = _codes(event)
        if entry.member.raises_what_passes:
            pass
        elif kind is JoinGroupAnswered or kind is SyncGroupAnswered:
            codes -= _REJOINS
        elif entry.kind in JAVA_KINDS:
            codes -= _PASSES
        if event.failed if kind is CallbackCompleted else kind is PollingStopped:
            is_raised = kind is CallbackCompleted or entry.kind in LIBRDKAFKA_KINDS
            codes = frozenset((None,)) if is_raised else codes
        causes = self._causes[entry.name]
        for code in codes:
            causes[code] += 1

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Has something happened that may be raised?"""
        causes = self._causes[entry.name]
        for effect in step.effects_of(RaiseError):
            causes[effect.error_code] -= 1
            if causes[effect.error_code] < 0:
                what = effect.error_code.name if effect.error_code else "an error"
                return Finding(
                    f"the application of {entry.name} is raised {what} ({effect.message}), "
                    "which nothing since the last one accounts for"
                )
        return None


class _Result:
    """A commit whose result the application does not know yet. ``correlation_id``: of the only
    request that was sent for it so far, as far as that is clear; ``is_last``: no other commit has
    left since; ``went_well``: whether everything, or nothing, in the answer to that was good; None:
    it is open, partly good, or may be of no matter because of a later one."""

    def __init__(self, correlation_id: int | None) -> None:
        self.correlation_id = correlation_id
        self.is_last = correlation_id is not None
        self.went_well: bool | None = None


class CommitReported(Property):
    """client §7, rows "commitSync" and "commitAsync". Only a commit that is sent while it is asked
    for is judged by its answer, and by the first one: what is sent later may be another one."""

    id = "client.commit.reported"
    is_seen_from_outside = True
    sentence = (
        "An application learns once what became of each commit that it asked for: success if it "
        "was acknowledged, and failure if it was refused or lost."
    )
    clauses = ("client §7",)
    violated_by = ("test:tells-results-again",)
    client_kinds = EVERY_KIND
    judges_mixed = True
    interest = Interest(
        events=(CommitOffsets, CommitAnswered, Disconnected, RequestExpired),
        effects=(CommitReturned, SendCommit, CloseConnection),
    )
    _open: dict[str, dict[int, _Result]] = notes_of_process(dict)
    """Client -> number of a commit of its application -> what its result can be."""

    def on_event(self, step: Step, entry: ClientEntry) -> None:
        """The application commits, or what was sent has come to an end."""
        event = step.event
        if type(event) is CommitOffsets:
            sent = step.effects_of(SendCommit)
            result = _Result(sent[0].correlation_id if len(sent) == 1 else None)
            self._open.setdefault(entry.name, {})[event.commit_id] = result
            return
        results = self._open.get(entry.name)
        if not results:
            return
        is_answer = type(event) is CommitAnswered
        ended = (event.correlation_id,) if is_answer else event.correlation_ids
        is_good = is_answer and not _codes(event)
        is_bad = not is_answer or all(event.response.errors.values())
        for result in results.values():
            if result.correlation_id in ended:
                result.went_well = is_good or (False if is_bad and result.is_last else None)
                result.correlation_id = None

    def on_effects(self, step: Step, entry: ClientEntry) -> Finding | None:
        """Is it the result of one that is open, and what is so?"""
        results = self._open.get(entry.name, {})
        for effect in step.effects:
            if type(effect) is CommitReturned:
                result, code = results.pop(effect.commit_id, None), effect.error_code
                if result is None or result.went_well is bool(code):
                    reported = code.name if code else "success"
                    what = "which is not so" if result else "whose result it has had before"
                    return Finding(
                        f"{entry.name} tells its application {reported} about commit "
                        f"{effect.commit_id}, {what}"
                    )
            for result in results.values():
                if type(effect) is CloseConnection:
                    result.correlation_id = None
                elif type(effect) is SendCommit and result.correlation_id != effect.correlation_id:
                    result.went_well = result.went_well or None
                    result.is_last = False
        return None
