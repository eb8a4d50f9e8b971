"""What a librdkafka client makes of being refused: it fails, is lost, or joins, and not later.

Source: client §10.1, rows "fenced" and "close"; client §2.3, §5; classic §4.3, §4.6.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import ClassicClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallbackKind,
    ClassicHeartbeatAnswered,
    ClientState,
    Close,
    CommitAnswered,
    HeartbeatAnswered,
    JoinGroupAnswered,
    RaiseError,
    RunCallback,
    SendClassicHeartbeat,
    StateChanged,
    SyncGroupAnswered,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA, LIBRDKAFKA_CLASSIC
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 253

_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_PASSING = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT})
_SURVIVED = _ELSEWHERE | _FENCED | _PASSING
_MAY_JOIN = frozenset({ClientState.JOINING, ClientState.FENCED, ClientState.RECONCILING})
_GRANTS = (JoinGroupAnswered, SyncGroupAnswered)
_STRANGER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})


_GIVES_UP_LATER = (ClientState.RECONCILING, ClientState.PREPARE_LEAVING)
"""A rebalance is under way, be it the last: what it has is given up when that is over."""


class FailsWhenRefused(Property):
    """client §10.1, §5. One that is rebalancing gives up what it has when that is over; an answer
    to a leave, or to one that closes, means nothing any more."""

    id = "client.fatal.librdkafka"
    sentence = (
        "A librdkafka member whose heartbeat is refused for good has failed: it shows that, has "
        "nothing assigned any more unless it was rebalancing, or about to leave, and raises the "
        "error to its application at its next poll."
    )
    clauses = ("client §10.1", "client §5")
    violated_by = ("test:librdkafka-survives-its-end", "test:librdkafka-keeps-all-to-the-end")
    client_kinds = (LIBRDKAFKA,)
    interest = Interest(events=(HeartbeatAnswered,))

    def on_event(self, step: Step, entry: ClientEntry) -> Finding | None:
        """A heartbeat was refused."""
        code, member = step.event.response.error_code, entry.member
        if (
            code in _SURVIVED
            or entry.has_left
            or not entry.state.is_in_group
            or member.blocked_in is not None
        ):
            return None
        wrong = ""
        if member.state is not ClientState.FATAL:
            wrong = f"is {member.state.value}"
        elif member.assigned and entry.state not in _GIVES_UP_LATER:
            wrong = f"still has {self.model.names_of(sorted(member.assigned))}"
        elif (
            member.running_callback is None
            and member.poll_due_ms is None
            and not any(type(effect) is RaiseError for effect in step.effects)
        ):
            wrong = "does not tell its application"
        if not wrong:
            return None
        return Finding(f"{entry.name} was told {code.name}, and {wrong}", {"client": entry.name})


class LosesWhenRemoved(Property):
    """client §10.1, row "fenced"; classic §4.6. In the middle of a rebalance that is finished
    first, and who is unsubscribed or closed meanwhile gives up what it has as if by itself."""

    id = "client.callback.lost_librdkafka"
    sentence = (
        "A member of librdkafka, of either protocol, that was at rest when a heartbeat told it "
        "that the group has removed it tells its application that its partitions are lost, not "
        "that they are revoked, unless that unsubscribes or closes before."
    )
    clauses = ("client §10.1", "client §4.2", "classic §4.6")
    violated_by = ("test:librdkafka-revokes-what-is-lost",)
    client_kinds = (LIBRDKAFKA, LIBRDKAFKA_CLASSIC)
    judges_mixed = True
    interest = Interest(
        events=(Unsubscribe, Close),
        refusals=(HeartbeatAnswered, ClassicHeartbeatAnswered),
        effects=(RunCallback, StateChanged),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._removed: dict[str, ErrorCode] = self.of_process({})
        """Client that has been told so, and has not called back since -> by which error."""

    def on_event(self, step: Step, entry: ClientEntry | ClassicClientEntry) -> Finding | None:
        """It is told so, or its application wants to leave."""
        member = entry.member
        if type(step.event) in (Unsubscribe, Close):
            self._removed.pop(entry.name, None)
            return None
        code = step.event.response.error_code
        is_told = code in _FENCED | _STRANGER and entry.state is ClientState.STABLE
        if isinstance(entry, ClientEntry):
            is_told = is_told and not entry.has_left
        else:
            is_told = is_told and member.commit_identity is None
        if is_told and member.blocked_in is None:
            self._removed[entry.name] = code
        return None

    def on_effects(self, step: Step, entry: ClientEntry | ClassicClientEntry) -> Finding | None:
        """What does it call?"""
        for effect in step.effects:
            if type(effect) is RunCallback:
                code = self._removed.pop(entry.name, None)
                if code is not None and effect.kind is CallbackKind.REVOKED:
                    return Finding(
                        f"{entry.name} was told {code.name}, and revokes "
                        f"{self.model.names_of(sorted(effect.partitions))}, which it has lost",
                        {"client": entry.name},
                    )
        if entry.member.state is ClientState.JOINING:
            self._removed.pop(entry.name, None)
        return None


class NoticesItsEnd(Property):
    """classic §4.3, §4.6. The answer to a heartbeat that it sent under another id or generation
    says nothing of the present one, nor does one that comes while it joins."""

    id = "classic.client.error_reaction_librdkafka"
    sentence = (
        "A classic member of librdkafka that holds its assignment and is told by a heartbeat of "
        "that generation that the group rebalances, gives up or joins at once; told by whatever "
        "answer that it is unknown, or its generation over, it forgets that generation, and its id "
        "if that is unknown, and no sooner, unless its session or its poll timer is over by then; "
        "told that another process has its instance id, it has failed, and has nothing assigned "
        "any more unless it was rebalancing, or about to leave; given an id, it takes that."
    )
    clauses = ("classic §4.3", "classic §4.6", "client §10.1")
    violated_by = (
        *("test:librdkafka-hears-no-end", "test:librdkafka-classic-keeps-all-to-the-end"),
    )
    client_kinds = (LIBRDKAFKA_CLASSIC,)
    judges_mixed = True
    interest = Interest(
        events=(ClassicHeartbeatAnswered, SyncGroupAnswered, JoinGroupAnswered),
        refusals=(CommitAnswered,),
        effects=(SendClassicHeartbeat,),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._sent_by: dict[str, tuple[str, int]] = self.of_process({})
        """Client -> the id and the generation of its last heartbeat."""
        self._granted_ms: dict[str, int] = self.of_process({})
        """Client -> when its last JoinGroup or SyncGroup was granted."""

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A heartbeat leaves."""
        for effect in step.effects:
            if type(effect) is SendClassicHeartbeat:
                request = effect.request
                self._sent_by[entry.name] = request.member_id, request.generation_id
        return None

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """It was refused."""
        code, member = self._code(step, entry), entry.member
        if not code:
            if type(step.event) in _GRANTS and not step.event.response.error_code:
                self._granted_ms[entry.name] = step.at_ms
            return None
        has_generation = member.commit_identity is not None
        has_expired = member.state is ClientState.STALE and not member.is_polling
        is_joining = type(step.event) is JoinGroupAnswered
        wrong = ""
        if code is ErrorCode.FENCED_INSTANCE_ID:
            if member.state is not ClientState.FATAL:
                wrong = f"is {member.state.value}"
            elif member.assigned and entry.state not in _GIVES_UP_LATER:
                wrong = f"still has {self.model.names_of(sorted(member.assigned))}"
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            if member.state is ClientState.STABLE:
                wrong = "stays as it is"
        elif code in _STRANGER:
            is_known = code is ErrorCode.ILLEGAL_GENERATION
            kept = entry.member_id if is_known else ""
            if has_generation or (member.member_id != kept and not has_expired):
                wrong = f"goes on as {member.member_id or 'nobody'}"
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            if member.member_id != step.event.response.member_id and not has_expired:
                wrong = f"goes on as {member.member_id or 'nobody'}"
        elif not (has_generation or is_joining or has_expired or self._is_silent(step, entry)):
            wrong = "has no generation any more"
        if not wrong:
            return None
        return Finding(f"{entry.name} was told {code.name}, and {wrong}", {"client": entry.name})

    def _is_silent(self, step: Step, entry: ClassicClientEntry) -> bool:
        """Whether its own session is over: one that stood still notices at whatever comes next
        (classic §4.6)."""
        config = entry.member.config
        assert isinstance(config, ClassicConsumerConfig)
        heard_ms = max(entry.heard_ms, self._granted_ms.get(entry.name, -1))
        return step.at_ms - heard_ms >= config.session_timeout_ms

    def _code(self, step: Step, entry: ClassicClientEntry) -> ErrorCode:
        """What it was told of its present self; NONE: nothing."""
        event, kind, state = step.event, type(step.event), entry.state
        if kind is CommitAnswered:
            codes = frozenset(event.response.errors.values())
            is_end = len(codes) == 1 and codes <= _STRANGER and state is ClientState.STABLE
            return next(iter(codes)) if is_end else ErrorCode.NONE
        code: ErrorCode = event.response.error_code
        if kind is ClassicHeartbeatAnswered:
            sent_by = self._sent_by.get(entry.name)
            is_present = (
                state is ClientState.STABLE
                and sent_by is not None
                and sent_by[0] == entry.member_id
                and max(sent_by[1], 0) == entry.member_epoch
            )
        elif kind is SyncGroupAnswered:
            is_present = state is ClientState.RECONCILING
            if code is ErrorCode.REBALANCE_IN_PROGRESS:
                return ErrorCode.NONE
        else:
            is_present = state in _MAY_JOIN and entry.member.blocked_in is None
        return code if is_present else ErrorCode.NONE
