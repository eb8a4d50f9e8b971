"""A Java client forgets its coordinator when it has cause to, and then only.

Sources: client §2.3, §2.5, §6.2; classic §4.3, §4.4.
"""

from __future__ import annotations

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry, ClassicClientEntry
from rebalance_sim.invariants.model.client_entry import ClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    CallReturned,
    ClassicHeartbeatAnswered,
    ClientState,
    Close,
    CommitAnswered,
    CoordinatorFound,
    CoordinatorSearchFailed,
    Disconnected,
    FindCoordinator,
    HeartbeatAnswered,
    JoinGroupAnswered,
    OffsetFetchAnswered,
    OwnStateChanged,
    RequestExpired,
    RunCallback,
    SendClassicHeartbeat,
    SyncGroupAnswered,
)
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.java.classic.classic_member_states import ClassicState
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, JAVA_KINDS
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 234

_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_LATE = _ELSEWHERE | {ErrorCode.REQUEST_TIMED_OUT}
_ANSWERS = (
    HeartbeatAnswered,
    ClassicHeartbeatAnswered,
    ClientState,
    JoinGroupAnswered,
    SyncGroupAnswered,
    CommitAnswered,
    OffsetFetchAnswered,
)
_READ_IN_POLL = (JoinGroupAnswered, SyncGroupAnswered)
_LOSSES = (Disconnected, RequestExpired)
_JOINED = ClassicState.COMPLETING_REBALANCE.value


def _codes(event: object) -> frozenset[ErrorCode]:
    """The errors in an answer; those of partitions only where there is none for all."""
    response = getattr(event, "response", None)
    code = getattr(response, "error_code", None)
    return frozenset((code,) if code else getattr(response, "errors", {}).values())


class ForgetsCoordinator(Property):
    """client §2.5, row "Who marks the coordinator unknown"; classic §4.3. Else it asks a broker
    that has said that it is the wrong one, until its session is over."""

    id = "client.coordinator.forgotten"
    sentence = (
        "A Java client of either protocol that is answered NOT_COORDINATOR or "
        "COORDINATOR_NOT_AVAILABLE, or REQUEST_TIMED_OUT to a commit, does not take that broker "
        "for its coordinator any more, once it looks: at JoinGroup and SyncGroup when its "
        "application polls, at a leave after a poll expiry never."
    )
    clauses = (
        "client §2.3",
        "client §2.5",
        "client §6.1",
        "classic §4.2",
        "classic §4.3",
        "defects L4",
    )
    violated_by = ("test:stays-with-former-coordinator",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(events=(), refusals=_ANSWERS)

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Look at refusals."""
        node_id, event = entry.member.coordinator_id, step.event
        if node_id is None:
            return None
        if type(event) in _READ_IN_POLL and not entry.member.is_polling:
            return None
        if type(event) is HeartbeatAnswered and not (
            isinstance(entry, ClientEntry) and entry.reads_answer
        ):
            return None
        codes = _codes(event)
        if not codes or not codes <= (_LATE if type(event) is CommitAnswered else _ELSEWHERE):
            return None
        told = " and ".join(code.name for code in sorted(codes))
        return Finding(
            f"{entry.name} was answered {told}, and still takes broker {node_id} for its "
            "coordinator",
            {"client": entry.name},
        )


class SearchCause(Property):
    """client §2.5, classic §4.3, §4.4. Which codes, and of which request, the tables there say."""

    id = "client.search.cause"
    sentence = (
        "A Java client of either protocol that has found its coordinator searches for it again "
        "only because a request was lost, or was refused with a code that says that it is not "
        "there or is late; one of the classic protocol also because it has had no good Heartbeat "
        "for its session timeout."
    )
    clauses = ("client §2.3", "client §2.5", "classic §4.3", "classic §4.4")
    violated_by = ("test:forgets-its-coordinator",)
    client_kinds = JAVA_KINDS
    judges_mixed = True
    interest = Interest(
        events=(*_LOSSES, CoordinatorFound, CoordinatorSearchFailed),
        refusals=_ANSWERS,
        effects=(FindCoordinator,),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._found: set[str] = self.of_process(set())
        """Clients that know their coordinator, and have no cause to search."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is this a cause?"""
        event, name = step.event, entry.name
        if type(event) is CoordinatorFound:
            self._found.add(name)
        elif name in self._found and (
            type(event) in (*_LOSSES, CoordinatorSearchFailed)
            or not _codes(event).isdisjoint(_LATE)
        ):
            self._found.discard(name)
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Was there one?"""
        name = entry.name
        if name not in self._found or all(type(e) is not FindCoordinator for e in step.effects):
            return None
        if isinstance(entry, ClassicClientEntry) and _is_silent(step, entry):
            return None
        return Finding(
            f"{name} searches for its coordinator, and nothing has happened since it has found it",
            {"client": name},
        )


_HAS_THREAD = frozenset({ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE})


class SearchesForSomebody(Property):
    """classic §4.4, 1. Who is not in a generation has no heartbeat thread that runs."""

    id = "classic.client.searches_when_read"
    sentence = (
        "A Java client of the classic protocol that has not joined, or waits for the answer to a "
        "JoinGroup, searches for its coordinator only while its application polls or is blocked in "
        "a call; one that has failed for good does so no more."
    )
    clauses = ("classic §4.4",)
    violated_by = ("test:searches-for-nobody",)
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(effects=(FindCoordinator,))

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Who would go on with the answer?"""
        member = entry.member
        assert member.classic is not None
        is_read = (
            member.is_polling
            or member.blocked_in is not None
            or any(type(effect) is CallReturned for effect in step.effects)
        )
        state = member.classic.state
        if member.state is not ClientState.FATAL and (is_read or state in _HAS_THREAD):
            return None
        return Finding(
            f"{entry.name} is {member.state.value} and searches for its coordinator, and its "
            "application neither polls nor waits",
            {"client": entry.name},
        )


def _is_silent(step: Step, entry: ClassicClientEntry) -> bool:
    """Whether the session of the client's own is over: no good Heartbeat for so long."""
    config = entry.member.config
    assert isinstance(config, ClassicConsumerConfig)
    return step.at_ms - entry.heard_ms >= config.session_timeout_ms


class ClassicSessionWatched(Property):
    """classic §4.4: the only way for it to notice a broker that keeps a connection and says
    nothing. What begins the session anew: a good answer, a JoinGroup granted, a coordinator found.
    The answer to a JoinGroup counts from when the application polls, and it is read.
    """

    id = "classic.client.session_watched"
    sentence = (
        "A Java client of the classic protocol sends no Heartbeat to a coordinator that has "
        "answered no Heartbeat, and was not found, for session.timeout.ms, nor has the client read "
        "for so long that its JoinGroup was granted."
    )
    clauses = ("classic §4.4",)
    violated_by = ("test:never-misses-its-coordinator",)
    client_kinds = (CLASSIC,)
    judges_mixed = True
    interest = Interest(
        events=(ClassicHeartbeatAnswered, CoordinatorFound),
        effects=(SendClassicHeartbeat, OwnStateChanged),
    )
    outlives_clock_steps = False

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._begun_ms: dict[str, int] = self.of_process({})
        """Client -> when its session began anew by anything but a good Heartbeat."""

    def on_event(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """A session begins anew; or not, but what an old generation is told counts as good."""
        self._begun_ms[entry.name] = step.at_ms
        return None

    def on_effects(self, step: Step, entry: ClassicClientEntry) -> Finding | None:
        """Is it over?"""
        is_sent = False
        for effect in step.effects:
            if type(effect) is SendClassicHeartbeat:
                is_sent = True
            elif type(effect) is OwnStateChanged and effect.to_state == _JOINED:
                self._begun_ms[entry.name] = step.at_ms
        if not is_sent:
            return None
        begun_ms = max(self._begun_ms.get(entry.name, step.at_ms), entry.heard_ms)
        config = entry.member.config
        assert isinstance(config, ClassicConsumerConfig)
        if step.at_ms - begun_ms < config.session_timeout_ms:
            return None
        return Finding(
            f"{entry.name} sends a Heartbeat to a coordinator that it has not heard of for "
            f"{step.at_ms - begun_ms} ms; session.timeout.ms is {config.session_timeout_ms}",
            {"client": entry.name},
        )


class ClosesWithoutSearch(Property):
    """client §6.2, "close in order", 2: a leave that has nowhere to go is left out."""

    id = "client.close.searches_no_more"
    sentence = (
        "A Java client of KIP-848 whose close has begun to give its partitions up searches for its "
        "coordinator no more."
    )
    clauses = ("client §6.2",)
    violated_by = ("test:searches-in-close",)
    client_kinds = (JAVA,)
    interest = Interest(events=(Close,), effects=(RunCallback, FindCoordinator))

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._closing: dict[str, bool] = self.of_process({})
        """Client that closes -> whether it has called back."""

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """close begins."""
        self._closing[entry.name] = False
        return None

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Is there a search after the callback?"""
        has_called_back = self._closing.get(entry.name)
        if has_called_back is None:
            return None
        for effect in step.effects:
            if type(effect) is RunCallback:
                self._closing[entry.name] = has_called_back = True
            elif type(effect) is FindCoordinator and has_called_back:
                return Finding(
                    f"{entry.name} closes, has called back, and searches for its coordinator",
                    {"client": entry.name},
                )
        return None
