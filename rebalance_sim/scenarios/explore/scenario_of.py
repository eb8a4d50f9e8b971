"""From a path to a scenario for a run of the simulator.

A path says in which order things happen; in a simulated world they happen at times, most of them by
themselves. A timetable gives each action of the path its time, and faults see to it that nothing
happens before: slow networks hold messages back, stalls keep applications from ``poll``, slow
callbacks last. Not every order can be had that way, so the scenario is run: it is ``is_confirmed``
if it violates the property of the path.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from rebalance_sim.invariants.engine.discovery import PROPERTIES
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.explore.actions import Action, Doing, Stimulus
from rebalance_sim.scenarios.explore.explored import Path
from rebalance_sim.scenarios.explore.explorer import Explorer
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, dump_scenario
from rebalance_sim.sim.client.client_checks import DEFAULT_ASSIGNORS
from rebalance_sim.sim.faults.clients import (
    CallbackFailure,
    CallbackSlowdown,
    ClientClose,
    ClientCrash,
    ClientPause,
    PollStall,
    SubscriptionChange,
)
from rebalance_sim.sim.faults.connections import ConnectionLoss, NetworkSlowdown
from rebalance_sim.sim.faults.coordinators import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.topics import TopicGrow
from rebalance_sim.sim.spec import ClientSpec, DelaySpec, NetworkSpec, TopicSpec, WorldSpec

_SESSION_MS = 6_000
_HEARTBEAT_MS = 1_000
_INTERVAL_MS = 1_000
_PATIENCE_MS = 30_000
"""``max.poll.interval.ms``, where no path waits for its end."""
_IMPATIENCE_MS = 4_000
"""And where one does: shorter than a session."""
_QUIET_MS = 60_000
_BACKOFF_MS = 100
_JITTER_MS = 25
"""By how much a request that no one but the clock asks for may come earlier or later."""
_COMMIT_MS = 15
"""How long an answer may wait for its commit."""
_SEARCH_MS = 5
"""How long a client that starts looks for its coordinator, and connects to it."""
_BEFORE_MS = 3
"""How long before something is to be held back a fault begins."""

_PATIENT = frozenset({"rebalance", "classic-sync", "mixed-join", "mixed-sync"})
"""Timers that last as long as an application may stay away from ``poll``."""

_SEEDS = range(1, 9)
_GAPS_MS = (40, 150)

_CALLS = frozenset(
    {
        Doing.POLL,
        Doing.UNSUBSCRIBE,
        Doing.SUBSCRIBE_LESS,
        Doing.CLOSE,
    }
)
"""For which the application has to be there."""


class Concrete(NamedTuple):
    """A scenario made from a path. ``is_confirmed``: running it violates the property of the path;
    ``outcome``: what running it came to."""

    scenario: Scenario
    is_confirmed: bool
    outcome: str
    path: Path

    def text(self) -> str:
        """The scenario as a file, with the path that it was made from."""
        lines = [f"{self.path.finding.property}: {self.path.finding.detail}."]
        if self.is_confirmed:
            lines.append("The shortest way there, of which this scenario is the timetable:")
        else:
            lines.append(
                "The shortest way there. Times cannot express this order as it is: the scenario is "
                f"near to it, and running it ends {self.outcome}."
            )
        lines += [f"{number}. {one}" for number, one in enumerate(self.path.actions, start=1)]
        comment = "".join(f"# {line}\n" for line in lines)
        return comment + dump_scenario(self.scenario, defaults=False)


def scenario_of(explorer: Explorer, path: Path) -> Concrete:
    """The scenario that comes nearest to a path: the first of several timetables whose run violates
    the same property, else one that violates any, else the first."""
    nearest: Concrete | None = None
    asked = [one for one in PROPERTIES if one.id == path.finding.property] or PROPERTIES
    for gap_ms, seed in product(_GAPS_MS, _SEEDS):
        scenario = _Timetable(explorer, path, gap_ms).scenario(seed)
        result = run(scenario, properties=asked, prove=Prove.NONE)
        rows = (*result.violations, *(one.row for one in result.suspected))
        violated = [row.property for row in rows]
        if path.finding.property in violated:
            return Concrete(scenario, True, result.outcome, path)
        if nearest is None or (violated and nearest.outcome != "violation"):
            nearest = Concrete(scenario, False, result.outcome, path)
    assert nearest is not None
    return nearest


class _Sending(NamedTuple):
    """When something was sent, or so much earlier or later."""

    at_ms: int
    early_ms: int = _BEFORE_MS
    late_ms: int = _BEFORE_MS


@dataclass(slots=True)
class _Client:
    """What the timetable knows of a client."""

    start_ms: int | None = None
    last_sent_ms: int = 0
    has_interval: bool = False
    """Whether it has received the interval of heartbeats, which begins with that answer."""
    has_to_subscribe: bool = False
    last_handled_ms: int = 0
    former_handled_ms: int = 0
    """By the process before."""
    last_ms: int = 0
    """Of anything that it did."""
    lost_ms: int | None = None
    """When the connection was lost that has not brought an answer since."""
    free_ms: list[int] = field(default_factory=list)
    """When its application has to be there."""
    waiting: deque[_Sending] = field(default_factory=deque)
    """When the requests were sent that the coordinator has not handled yet."""
    answers: deque[_Sending] = field(default_factory=deque)
    """When the answers were sent that have not arrived yet."""
    late: deque[_Sending] = field(default_factory=deque)
    """When the requests were sent that an ended process has left behind."""
    callback_since_ms: int | None = None
    ending: int | None = None
    """The place, among the faults, of what has ended its process."""
    has_returned: bool = False

    def forget_process(self) -> None:
        """The next process knows nothing of the one before."""
        self.last_sent_ms, self.has_interval, self.has_to_subscribe = 0, False, False
        self.lost_ms = self.callback_since_ms = None
        self.late += self.waiting
        self.waiting.clear()
        self.answers.clear()


class _Timetable:
    """Times for the actions of one path."""

    def __init__(self, explorer: Explorer, path: Path, gap_ms: int) -> None:
        self._explorer = explorer
        self._scope = explorer.scope
        self._gap_ms = gap_ms
        self._now_ms = 1_000
        self._clients = {name: _Client() for name in self._scope.names}
        self._faults: list[Fault] = []
        self._phase_due_ms: dict[str, int] = {}
        """When a phase of a classic group ends, by the kind of its timer."""
        doings = {action.doing for action in path.actions}
        kinds = {action.kind for action in path.actions}
        is_waited_for = Doing.POLL_TIMEOUT in doings or not _PATIENT.isdisjoint(kinds)
        self._max_poll_ms = _IMPATIENCE_MS if is_waited_for else _PATIENCE_MS
        after: tuple[int | None, ...] = (*path.states[1:], None)
        for action, before, following in zip(path.actions, path.states, after, strict=False):
            self._place(action)
            self._note_sending(action, before, following)
            self._note_phase(action, before, following)
            self._note_callback(action, following)
        self._end_ms = self._now_ms
        self._finish()

    def scenario(self, seed: int) -> Scenario:
        """The scenario of this timetable; the seed decides on member ids."""
        scope = self._scope
        config = CoordinatorConfig(
            group_consumer_session_timeout_ms=_SESSION_MS,
            group_consumer_min_session_timeout_ms=_SESSION_MS,
            group_consumer_max_session_timeout_ms=_SESSION_MS,
            group_consumer_heartbeat_interval_ms=_HEARTBEAT_MS,
            group_consumer_min_heartbeat_interval_ms=_HEARTBEAT_MS,
            group_consumer_assignment_interval_ms=_INTERVAL_MS if scope.assignment_interval else 0,
            group_consumer_max_size=scope.max_group_size,
            group_max_size=scope.max_group_size,
            group_initial_rebalance_delay_ms=_INTERVAL_MS,
        )
        world = WorldSpec(
            seed=seed,
            topics=tuple(
                TopicSpec(name=name, partition_count=scope.partitions) for name in scope.topic_names
            ),
            clients=tuple(
                self._client_spec(name, client)
                for name, client in self._clients.items()
                if client.start_ms is not None
            ),
            duration_ms=self._end_ms + _SESSION_MS,
            quiet_period_ms=_QUIET_MS,
            semantics=scope.semantics,
            defects=scope.defects,
            repairs=scope.repairs,
            config=config,
            network=NetworkSpec(latency=DelaySpec(min_ms=1)),
            faults=tuple(sorted(self._faults, key=_by_time)),
        )
        return Scenario(name=f"explored-{self._end_ms}", world=world)

    def _client_spec(self, name: str, client: _Client) -> ClientSpec:
        return ClientSpec(
            name=name,
            kind=self._scope.kind_of(name).client,
            assignors=self._scope.kind_of(name).assignors or DEFAULT_ASSIGNORS,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            instance_id=self._scope.instance_of(name),
            topics=self._scope.topic_names,
            start_ms=client.start_ms or 0,
            processing_ms=1,
            server_assignor=self._scope.assignor,
            max_poll_interval_ms=self._max_poll_ms,
            enable_auto_commit=self._scope.auto_commit,
            request_timeout_ms=_PATIENCE_MS,
        )

    # --- when -------------------------------------------------------------------------------------

    def _place(self, action: Action) -> None:
        """Give an action its time, and do what makes it happen then."""
        client = self._clients.get(action.who)
        self._now_ms = now_ms = max(self._now_ms + self._gap_ms, self._due_ms(action, client))
        match action.doing:
            case Doing.MOVE:
                self._faults.append(CoordinatorMove(at_ms=now_ms))
            case Doing.GROWTH:
                count = self._scope.partitions + 1
                topic = self._scope.topic_names[-1]
                self._faults.append(TopicGrow(at_ms=now_ms, topic=topic, partition_count=count))
        if client is None:
            return
        if action.doing is Doing.TIMER:
            if client.ending is None and not action.is_former:
                self._silence(action.who, client)
            return
        if action.doing in _CALLS:
            client.free_ms.append(now_ms)
        self._disturb(action, client)
        if action.doing in (Doing.HANDLED, Doing.HANDLED_LATE):
            client.last_handled_ms = now_ms
        else:
            client.last_ms = now_ms

    def _due_ms(self, action: Action, client: _Client | None) -> int:
        """When what happens by itself is due."""
        if action.doing is Doing.WAIT:
            return self._now_ms + _INTERVAL_MS
        if action.doing is Doing.TIMER and action.kind.endswith(("-join", "-sync")):
            return self._phase_due_ms.get(action.kind, 0)
        if client is None:
            return 0
        match action.doing:
            case Doing.TICK if client.lost_ms is not None:
                return client.lost_ms + _BACKOFF_MS
            case Doing.TICK:
                return client.last_sent_ms + _HEARTBEAT_MS
            case Doing.TIMER if action.is_former:
                return client.former_handled_ms + _SESSION_MS
            case Doing.TIMER if action.kind.endswith("session"):
                return client.last_handled_ms + _SESSION_MS
            case Doing.TIMER if action.kind == "rebalance":
                return client.last_handled_ms + self._max_poll_ms
            case Doing.POLL_TIMEOUT:
                since_ms = client.callback_since_ms
                if since_ms is None:  # The stall begins then.
                    since_ms = max(client.free_ms, default=0) + _BEFORE_MS
                return since_ms + self._max_poll_ms
        return 0

    def _disturb(self, action: Action, client: _Client) -> None:
        who, now_ms = action.who, self._now_ms
        names = self._scope.topic_names
        match action.doing:
            case Doing.POLL if client.start_ms is None:
                # One that has started and not polled is no one yet.
                client.start_ms = now_ms - _SEARCH_MS - 2
            case Doing.START if client.ending is not None:
                client.has_returned = True
                client.forget_process()
            case Doing.POLL if client.has_returned and client.ending is not None:
                ended = self._faults[client.ending]
                assert isinstance(ended, ClientCrash | ClientClose)
                down_ms = max(now_ms - _SEARCH_MS - 2 - ended.at_ms, 1)
                self._faults[client.ending] = replace(ended, down_ms=down_ms)
                client.ending, client.has_returned = None, False
            case Doing.LOST | Doing.LOST_LATE | Doing.EXPIRED:
                self._faults.append(ConnectionLoss(at_ms=now_ms, client=who))
                client.lost_ms = now_ms
                for sent in (*client.waiting, *client.answers):
                    self._hold_back(who, sent)
                client.waiting.clear()
                client.answers.clear()
            case Doing.CRASH:
                self._end_process(client, ClientCrash(at_ms=now_ms, client=who))
            case Doing.CLOSE:
                self._end_process(client, ClientClose(at_ms=now_ms, client=who))
            case Doing.UNSUBSCRIBE:
                self._faults.append(SubscriptionChange(at_ms=now_ms, client=who))
            case Doing.SUBSCRIBE:  # An application that is there for this polls as well.
                client.has_to_subscribe = True
            case Doing.POLL if client.has_to_subscribe:
                client.has_to_subscribe = False
                self._faults.append(SubscriptionChange(at_ms=now_ms, client=who, topics=names))
            case Doing.SUBSCRIBE_LESS:
                self._faults.append(SubscriptionChange(at_ms=now_ms, client=who, topics=names[:1]))
            case Doing.CALLBACK_FAILED:
                self._faults.append(
                    CallbackFailure(
                        at_ms=now_ms - _BEFORE_MS, duration_ms=2 * _BEFORE_MS, client=who
                    )
                )

    def _end_process(self, client: _Client, fault: Fault) -> None:
        client.ending = len(self._faults)
        client.former_handled_ms = client.last_handled_ms
        self._faults.append(fault)

    def _silence(self, who: str, client: _Client) -> None:
        """Nothing is heard of a client until its timer has fired."""
        since_ms = client.last_ms + _BEFORE_MS
        self._faults.append(
            ClientPause(at_ms=since_ms, duration_ms=self._now_ms + 5 - since_ms, client=who)
        )

    # --- what is held back ------------------------------------------------------------------------

    def _note_sending(self, action: Action, before: int, after: int | None) -> None:
        """Requests and answers that went out with an action, and those that arrived."""
        client = self._clients.get(action.who)
        if client is None:
            return
        if action.doing is Doing.HANDLED_LATE and client.late:
            self._hold_back(action.who, client.late.popleft())
        elif action.doing is Doing.HANDLED and client.waiting:
            self._hold_back(action.who, client.waiting.popleft())
            if self._answers_of(action.who, before, after) > 0:
                client.answers.append(_Sending(self._now_ms, late_ms=_COMMIT_MS))
        elif action.doing is Doing.ANSWERED and client.answers:
            self._hold_back(action.who, client.answers.popleft())
            client.lost_ms = None
            if not client.has_interval:
                client.last_sent_ms, client.has_interval = self._now_ms, True
        if after is None:
            return
        place = self._scope.names.index(action.who)
        open_before, open_after = (
            self._explorer.open_requests(state, place) for state in (before, after)
        )
        gone = action.doing in (Doing.LOST, Doing.LOST_LATE, Doing.ANSWERED)
        came = open_after - (
            open_before - (action.doing is Doing.ANSWERED) if gone else open_before
        )
        if action.doing in (Doing.LOST, Doing.LOST_LATE):
            came = open_after
        for _ in range(max(came, 0)):
            jitter_ms = _JITTER_MS if action.doing is Doing.TICK else _BEFORE_MS
            is_first = client.last_sent_ms == 0
            client.waiting.append(_Sending(self._now_ms, 2 if is_first else jitter_ms, jitter_ms))
            client.last_sent_ms = self._now_ms

    def _answers_of(self, who: str, before: int, after: int | None) -> int:
        """How many answers to a member have come on their way, on balance; at the end of a path,
        one."""
        if after is None:
            return 1
        count_before, count = (self._explorer.answers_to(state, who) for state in (before, after))
        return count - count_before

    def _note_phase(self, action: Action, before: int, after: int | None) -> None:
        """Answers that went to others, who had waited, and timers of the group that were armed."""
        if after is None:
            return
        for name, client in self._clients.items():
            if name != action.who or action.doing is Doing.TIMER:
                for _ in range(self._answers_of(name, before, after)):
                    client.answers.append(_Sending(self._now_ms, late_ms=_COMMIT_MS))
        armed_before, armed = (
            {key.kind.value for key in self._explorer.armed(state)} for state in (before, after)
        )
        for kind in armed:
            if kind not in armed_before or kind == action.kind:
                is_initial = self._explorer.is_initial(after)
                wait_ms = _INTERVAL_MS if is_initial else self._max_poll_ms
                self._phase_due_ms[kind] = self._now_ms + wait_ms

    def _hold_back(self, who: str, sent: _Sending) -> None:
        """What was sent then arrives now."""
        factor = self._now_ms - sent.at_ms
        if factor >= 2:
            self._faults.append(
                NetworkSlowdown(
                    at_ms=sent.at_ms - sent.early_ms,
                    duration_ms=sent.early_ms + sent.late_ms,
                    factor=factor,
                    client=who,
                )
            )

    def _note_callback(self, action: Action, after: int | None) -> None:
        """A callback that began with an action, or ended."""
        client = self._clients.get(action.who)
        if client is None or after is None:
            return
        if action.doing in (Doing.CALLBACK_DONE, Doing.CALLBACK_FAILED):
            self._end_callback(action.who, client)
        runs = self._explorer.may(after, action.who, Stimulus.CALLBACK_DONE)
        if runs and client.callback_since_ms is None:
            client.callback_since_ms = self._now_ms

    def _end_callback(self, who: str, client: _Client) -> None:
        since_ms = client.callback_since_ms
        if since_ms is not None:
            self._faults.append(
                CallbackSlowdown(
                    at_ms=since_ms - _BEFORE_MS,
                    duration_ms=2 * _BEFORE_MS,
                    client=who,
                    callback_ms=self._now_ms - since_ms,
                )
            )
        client.callback_since_ms = None

    def _finish(self) -> None:
        """What has not ended with the path lasts a while, and applications are kept from ``poll``
        where the path says that they do not poll yet."""
        self._now_ms += self._max_poll_ms // 4
        for name, client in self._clients.items():
            self._end_callback(name, client)
            if client.free_ms:
                self._faults += self._stalls(name, client)

    def _stalls(self, who: str, client: _Client) -> Iterator[Fault]:
        since_ms = client.free_ms[0] + _BEFORE_MS
        for free_ms in (*client.free_ms[1:], self._end_ms):
            if free_ms - since_ms > 2 * _BEFORE_MS:
                yield PollStall(at_ms=since_ms, duration_ms=free_ms - since_ms, client=who)
            since_ms = free_ms + _BEFORE_MS


def _by_time(fault: Fault) -> int:
    return fault.at_ms
