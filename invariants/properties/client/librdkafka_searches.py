"""When librdkafka asks for its coordinator, and how soon.

Source: client §10.1, rows "connection lost", "connection closed", "heartbeat unanswered" and
"NOT_COORDINATOR"; client §2.5. The state in which a search leaves says how far the one before it
has to be away.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rebalance_sim.invariants.model.classic_entry import AnyClientEntry, ClassicClientEntry
from rebalance_sim.invariants.model.model_view import ModelView
from rebalance_sim.invariants.property import Finding, Interest, Property
from rebalance_sim.invariants.step import Step
from rebalance_sim.protocol.clients import (
    ClassicHeartbeatAnswered,
    ClientState,
    CloseConnection,
    CommitAnswered,
    ConnectCoordinator,
    CoordinatorConnected,
    CoordinatorConnectionClosed,
    CoordinatorFound,
    CoordinatorSearchFailed,
    Disconnected,
    FindCoordinator,
    HeartbeatAnswered,
    JoinGroupAnswered,
    OffsetFetchAnswered,
    OwnStateChanged,
    RequestExpired,
    SendClassicHeartbeat,
    SendCommit,
    SendJoinGroup,
    SendSyncGroup,
    SyncGroupAnswered,
)
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_KINDS
from rebalance_sim.protocol.clients.librdkafka.librdkafka_core import COORDINATOR_STATE
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState
from rebalance_sim.protocol.wire.errors import ErrorCode

ORDER = 250

_QUERY = CoordinatorState.QUERY_COORD.value
_WAITS = CoordinatorState.WAIT_COORD.value

_INTERVAL_MS: Mapping[str, int] = MappingProxyType(
    {
        _QUERY: 500,
        CoordinatorState.WAIT_BROKER_TRANSPORT.value: 1_000,
        CoordinatorState.UP.value: 600_000,
    }
)
"""How long after the last search the next one leaves, by what is known of the coordinator."""

_JITTER_MS = 100
_NEXT_BROKER_MS = 50
"""After a lost search another broker is asked at once; if that is lost too, after so long, then
twice as long, up to the interval."""

_ELSEWHERE = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_JOINS = (SendJoinGroup, SendSyncGroup)
_SIGNED = (*_JOINS, SendClassicHeartbeat)
_REFUSED = (HeartbeatAnswered, SyncGroupAnswered, JoinGroupAnswered, ClassicHeartbeatAnswered)
_EVENTS = (
    *(*_REFUSED, CommitAnswered, OffsetFetchAnswered, Disconnected, RequestExpired),
    *(CoordinatorFound, CoordinatorSearchFailed),
    *(CoordinatorConnected, CoordinatorConnectionClosed),
)
_MAY_JOIN = frozenset({ClientState.JOINING, ClientState.FENCED, ClientState.RECONCILING})


class _Searches:
    """What one process has asked, and what it waits for."""

    __slots__ = (
        *("asked_ms", "commits", "free_ms", "is_lost", "losses", "lost_ms", "node_id"),
        *("open", "signed", "state"),
    )

    def __init__(self) -> None:
        self.state = CoordinatorState.INIT.value
        self.node_id: int | None = None
        """The coordinator, as far as it is known."""
        self.open: set[int] = set()
        """Searches in flight."""
        self.asked_ms = -1
        """When the last search left."""
        self.losses = 0
        """How many searches were lost since one was answered with a broker."""
        self.lost_ms = -1
        self.free_ms = -1
        """When another broker may be asked, and is, after searches that were lost; a late answer to
        an earlier one changes nothing of that."""
        self.is_lost = False
        """The last search was lost."""
        self.commits: set[int] = set()
        self.signed: dict[type, tuple[int, tuple[str, int]]] = {}
        """Kind of a request of the classic protocol -> the last one in flight, and who sent it."""

    def note_loss(self, at_ms: int) -> None:
        """Searches were lost, several maybe at once. One that was sent in between and is lost at
        once as well makes the next no sooner than its interval."""
        if self.lost_ms != at_ms or not self.losses:
            self.is_lost = True
            wait_ms = _NEXT_BROKER_MS << min(self.losses - 1, 10) if self.losses else 0
            self.lost_ms = at_ms
            self.free_ms = at_ms + min(wait_ms, _INTERVAL_MS[_QUERY])
            self.losses += 1


class LibrdkafkaSearches(Property):
    """client §10.1, §2.5. A leave, and the answer to it, tell nothing of the coordinator; nor does
    a look-up that is lost."""

    id = "client.search.librdkafka"
    sentence = (
        "A client of librdkafka, of either protocol, asks for its coordinator at once when a "
        "request of the group or a commit is lost, or refused by a broker that is not the "
        "coordinator, when a commit has timed out, and when it has learnt of another coordinator; "
        "else 500 ms after the last search while none is known, 1 s while it is not connected, and "
        "600 s while it is, each time by 100 ms more or less, and never while it waits for the "
        "answer to a search; after a lost search sooner, but not without end."
    )
    clauses = ("client §10.1", "client §2.5")
    violated_by = ("test:librdkafka-stays-where-it-is", "test:librdkafka-asks-again-and-again")
    client_kinds = LIBRDKAFKA_KINDS
    judges_mixed = True
    interest = Interest(
        events=_EVENTS,
        effects=(FindCoordinator, OwnStateChanged, CloseConnection, SendCommit, *_SIGNED),
    )

    def __init__(self, model: ModelView) -> None:
        super().__init__(model)
        self._of: dict[str, _Searches] = self.of_process({})

    def on_event(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """Something was answered, or lost, or connected."""
        searches = self._of.get(entry.name)
        if searches is None:
            searches = self._of[entry.name] = _Searches()
        cause = self._cause(step, entry)
        is_cause = bool(cause)
        finding = self._judge_effects(step, entry, may_search=is_cause)
        if finding is not None or entry.member.is_closed:
            return finding
        if is_cause and cause != "may" and searches.asked_ms != step.at_ms:
            return Finding(
                f"{entry.name} does not ask for its coordinator, though {cause}",
                {"client": entry.name},
            )
        return self._judge_delay(step, entry, searches)

    def on_effects(self, step: Step, entry: AnyClientEntry) -> Finding | None:
        """What it does by itself, at its time."""
        if type(step.event) in _EVENTS and not self._is_steady(step):
            return None
        searches = self._of.get(entry.name)
        if searches is None:
            searches = self._of[entry.name] = _Searches()
        finding = self._judge_effects(step, entry, may_search=False)
        if finding is not None or entry.member.is_closed:
            return finding
        return self._judge_delay(step, entry, searches)

    @staticmethod
    def _is_steady(step: Step) -> bool:
        """Whether it is an answer that ``on_event`` is not asked about."""
        kind = type(step.event)
        return (kind is HeartbeatAnswered or kind is ClassicHeartbeatAnswered) and not bool(
            step.event.response.error_code
        )

    # -- why it may have to ask ------------------------------------------------------------

    def _cause(self, step: Step, entry: AnyClientEntry) -> str:
        """Why it asks at once; "may": if it does, there is a reason."""
        searches = self._of[entry.name]
        event, kind = step.event, type(step.event)
        if kind is CoordinatorFound:
            searches.open.discard(event.correlation_id)
            searches.losses = 0
            is_news = event.node_id != searches.node_id
            searches.node_id = event.node_id
            return "it has learnt of another one" if is_news else ""
        if kind is CoordinatorSearchFailed:
            searches.open.discard(event.correlation_id)
            if event.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                searches.node_id = None
            return ""
        if kind is CoordinatorConnectionClosed:
            if event.is_isolated:
                searches.node_id = None
            return ""
        if kind is Disconnected or kind is RequestExpired:
            return self._loss(step, entry)
        if kind is CommitAnswered:
            return self._refused_commit(step, entry)
        if kind is CoordinatorConnected or event.response.error_code not in _ELSEWHERE:
            return ""
        if kind is OffsetFetchAnswered:
            return "it was told that the broker is not the coordinator"
        return self._refused(step, entry)

    def _loss(self, step: Step, entry: AnyClientEntry) -> str:
        searches = self._of[entry.name]
        lost = frozenset(step.event.correlation_ids)
        if searches.open & lost:
            searches.open -= lost
            searches.note_loss(step.at_ms)
        is_commit = bool(searches.commits & lost)
        searches.commits -= lost
        if isinstance(entry, ClassicClientEntry):
            signed = searches.signed
            is_request = any(number in lost for number, _ in signed.values())
            for kind in [kind for kind, (number, _) in signed.items() if number in lost]:
                del signed[kind]
        else:
            is_request = (
                type(step.event) is Disconnected
                and entry.lost_ms == step.at_ms
                and not entry.has_left
            )
        if is_commit or is_request:
            return f"{'a commit' if is_commit else 'a request of the group'} was lost"
        return "may"

    def _refused_commit(self, step: Step, entry: AnyClientEntry) -> str:
        searches = self._of[entry.name]
        event: CommitAnswered = step.event
        searches.commits.discard(event.correlation_id)
        codes = event.response.errors.values()
        if not codes or not all(codes) or ErrorCode.FENCED_INSTANCE_ID in codes:
            return ""
        if any(code in _ELSEWHERE for code in codes):
            return "a commit was sent elsewhere"
        return "a commit has timed out" if ErrorCode.REQUEST_TIMED_OUT in codes else ""

    def _refused(self, step: Step, entry: AnyClientEntry) -> str:
        """A broker has said that it is not the coordinator."""
        told = "it was told that the broker is not the coordinator"
        if not isinstance(entry, ClassicClientEntry):
            return "may" if entry.has_left else told
        kind = {
            JoinGroupAnswered: SendJoinGroup,
            SyncGroupAnswered: SendSyncGroup,
            ClassicHeartbeatAnswered: SendClassicHeartbeat,
        }[type(step.event)]
        number, identity = self._of[entry.name].signed.pop(kind, (0, ("", 0)))
        if number != step.event.correlation_id or entry.member.blocked_in is not None:
            return "may"
        if kind is SendClassicHeartbeat:
            is_present = identity == (entry.member_id, entry.member_epoch)
            return told if is_present and entry.state is ClientState.STABLE else "may"
        return told if entry.state in _MAY_JOIN else "may"

    # -- what it does ----------------------------------------------------------------------

    def _judge_effects(
        self, step: Step, entry: AnyClientEntry, *, may_search: bool
    ) -> Finding | None:
        """In their order; what the client has closed itself is no loss."""
        searches = self._of[entry.name]
        for effect in step.effects:
            kind = type(effect)
            if kind is FindCoordinator:
                finding = None if may_search else self._judge_search(step, entry, searches)
                searches.open.add(effect.correlation_id)
                searches.asked_ms = step.at_ms
                searches.is_lost = False
                if finding is not None:
                    return finding
            elif kind is OwnStateChanged:
                if effect.what == COORDINATOR_STATE:
                    searches.state = effect.to_state
            elif kind is CloseConnection:
                searches.commits.clear()
                searches.signed.clear()
                if ConnectCoordinator(node_id=effect.node_id) not in step.effects:
                    may_search = True  # What was in flight is lost, and asks.
                    if searches.node_id == effect.node_id:
                        searches.node_id = None
            elif kind is SendCommit:
                searches.commits.add(effect.correlation_id)
            elif kind in _SIGNED:
                request = effect.request
                generation_id = 0 if kind is SendJoinGroup else max(request.generation_id, 0)
                signature = request.member_id, generation_id
                searches.signed[kind] = effect.correlation_id, signature
        return None

    @staticmethod
    def _judge_search(step: Step, entry: AnyClientEntry, searches: _Searches) -> Finding | None:
        """One that nothing calls for but the time."""
        if searches.asked_ms < 0:
            return None
        if searches.is_lost:
            if step.at_ms >= searches.free_ms:
                return None
            wait = f"{searches.free_ms - step.at_ms} ms before it is time for another broker"
        elif searches.state not in _INTERVAL_MS:
            wait = "and waits for the answer to its last search"
        else:
            gap_ms = step.at_ms - searches.asked_ms
            least_ms = _INTERVAL_MS[searches.state] - _JITTER_MS
            if gap_ms >= least_ms:
                return None
            wait = f"{gap_ms} ms after its last search, and at least {least_ms} ms are due"
        return Finding(
            f"{entry.name} asks for its coordinator in {searches.state}, {wait}",
            {"client": entry.name},
        )

    @staticmethod
    def _judge_delay(step: Step, entry: AnyClientEntry, searches: _Searches) -> Finding | None:
        """Whatever it takes in, it does all that is due."""
        if searches.asked_ms < 0:
            return None
        interval_ms = _INTERVAL_MS.get(searches.state)
        if interval_ms is None:
            return None
        due_ms = searches.free_ms
        if not searches.is_lost:
            due_ms = max(due_ms, searches.asked_ms + interval_ms + _JITTER_MS)
        if step.at_ms <= due_ms:
            return None
        return Finding(
            f"{entry.name} is in {searches.state} and does not ask for its coordinator; that was "
            f"due {step.at_ms - due_ms} ms ago",
            {"client": entry.name},
        )
