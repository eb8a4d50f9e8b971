"""Faults of client processes and of their applications."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from rebalance_sim.protocol.clients.common.values import CallbackKind, MembershipOperation
from rebalance_sim.sim.client.client_checks import check_regex
from rebalance_sim.sim.client.client_conditions import Condition
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import End, Fault, Window, away_ms, drawn_by, drawn_from, size
from rebalance_sim.sim.faults.ports import DrawRule, FaultWorld
from rebalance_sim.sim.faults.targets import Targets


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWindow(Window):
    """A fault of one client that lasts."""

    client: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionWindow(ClientWindow):
    """One that does nothing by itself: processes of the client ask for it when they act."""

    @abstractmethod
    def condition(self) -> Condition:
        """What they find while the window is open."""

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.conditions[self.client].open(self.condition())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCrash(Fault):
    """A client process is killed. No one is notified; its kernel resets its connections.

    After ``down_ms`` a supervisor starts a new process: a new member id, the same instance id if it
    has one. None: it never comes back.
    """

    client: str
    down_ms: int | None = field(default=None, metadata=size(1) | drawn_by(away_ms))

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.crash(self.client, self.down_ms)


_DRAWN = (*2 * (MembershipOperation.DEFAULT,), *MembershipOperation)
"""Mostly as usual."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientClose(Fault):
    """The application calls ``close`` (a deployment stops it); a new process follows after
    ``down_ms`` counted from the call, or when the old one has ended if that is later.

    ``down_ms`` None: it does not come back. ``operation`` is the option of ``close``.
    """

    client: str
    down_ms: int | None = field(default=None, metadata=size(1) | drawn_by(away_ms))
    operation: MembershipOperation = field(
        default=MembershipOperation.DEFAULT, metadata=drawn_by(lambda draw, *_: draw.pick(_DRAWN))
    )

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.close(self.client, self.down_ms, self.operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPause(ClientWindow):
    """A client process does not run at all: a long garbage collection, a suspended virtual machine.

    Bytes arrive in its socket buffers meanwhile; when it continues, its timers are late.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        clients = world.client_processes
        running = clients.live(self.client)
        if running is None:
            return False
        conditions = clients.conditions[self.client]
        if not conditions.is_paused:
            running.fall_asleep()
        close = conditions.open(Condition(pauses=True))

        def end() -> None:
            was_paused = conditions.is_paused
            close()
            process = clients.live(self.client)
            if was_paused and not conditions.is_paused and process is not None:
                process.wake_up()

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class PollStall(ClientWindow):
    """The application processes one batch of records for the whole window and does not poll.

    The network thread continues heartbeating until ``max_poll_interval_ms`` runs out.
    """

    def begin(self, world: FaultWorld) -> End | bool:
        clients = world.client_processes
        process = clients.live(self.client)
        if process is None:
            return False
        close = clients.conditions[self.client].open(Condition(stalls=True))
        process.look_at_conditions()

        def end() -> None:
            close()
            present = clients.live(self.client)
            if present is not None:
                present.look_at_conditions()

        return end


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackFailure(ConditionWindow):
    """Rebalance callbacks that end in the window throw. ``callback`` None means every kind."""

    callback: CallbackKind | None = field(
        default=None, metadata=drawn_by(lambda draw, *_: draw.pick((None, *CallbackKind)))
    )

    def condition(self) -> Condition:
        return Condition(callbacks_fail=True, callback=self.callback)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallbackSlowdown(ConditionWindow):
    """Rebalance callbacks that start in the window take ``callback_ms``: flushing state stores.

    ``callback`` None means every kind.
    """

    callback_ms: int = field(metadata=size(0) | drawn_from(100, 2_000))
    callback: CallbackKind | None = field(
        default=None, metadata=drawn_by(lambda draw, *_: draw.pick((None, *CallbackKind)))
    )

    def condition(self) -> Condition:
        return Condition(callback_ms=self.callback_ms, callback=self.callback)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLag(ConditionWindow):
    """A client's metadata stays as it is at the start of the window, however topics change.

    It refreshes from a broker that lags behind the controller.
    """

    def condition(self) -> Condition:
        return Condition(metadata_lags=True)


_NOWHERE = "nowhere.*"
"""A pattern that matches nothing."""

_NOTHING_SHARE = 0.25
_PATTERN_SHARE = 0.15
_AGAIN_SHARE = 0.3
_SOON_MS = (1, 1_500)


def _drawn_subscription(draw: Draw, names: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Topics, or a pattern, or neither."""
    share = draw.between((0, 99)) / 100
    if share < _NOTHING_SHARE:
        return (), None
    topics = draw.some(names, 0.5)
    if share < _NOTHING_SHARE + _PATTERN_SHARE:
        return (), draw.pick((".*", "|".join(topics), f"{topics[0][:2]}.*", _NOWHERE))
    return tuple(topics), None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionChange(Fault):
    """The application calls ``subscribe`` with these topics, or with ``topic_regex``; neither means
    ``unsubscribe``."""

    client: str
    topics: tuple[str, ...] = ()
    topic_regex: str | None = None

    def __post_init__(self) -> None:
        Fault.__post_init__(self)
        if self.topics and self.topic_regex is not None:
            raise ValueError("topic_regex and topics exclude each other")
        check_regex(self.topic_regex)

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.subscribe(self.client, self.topics, self.topic_regex)

    @classmethod
    def drawn(cls, draw: Draw, rule: DrawRule, targets: Targets, at_ms: int) -> Iterator[Fault]:
        client = targets.client(draw)
        names, back = targets.topic_names, targets.read_by(client)
        topics, regex = _drawn_subscription(draw, names)
        yield cls(at_ms=at_ms, client=client.name, topics=topics, topic_regex=regex)
        if draw.chance(_AGAIN_SHARE):
            # Before the first change has come to anything.
            soon_ms = targets.within(at_ms + draw.between(_SOON_MS))
            others, other_regex = _drawn_subscription(draw, names)
            yield cls(at_ms=soon_ms, client=client.name, topics=others, topic_regex=other_regex)
            topics, regex = others, other_regex
        back_ms = at_ms + draw.between(rule.duration_ms)
        stays = draw.chance(rule.forever_probability)
        # An application that subscribes to nothing for good would be a client that has gone.
        if not topics or not stays:
            yield cls(at_ms=targets.within(back_ms), client=client.name, topics=back)

    def simpler(self, topics: tuple[str, ...]) -> Iterator[Self]:
        """One topic less, or none that has to be created first."""
        if len(self.topics) > 1:
            for name in self.topics:
                yield replace(self, topics=tuple(t for t in self.topics if t != name))
        elif not set(self.topics) <= set(topics):
            yield replace(self, topics=topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceEnforce(Fault):
    """The application calls ``enforceRebalance``, which only Java's classic client has."""

    client: str

    def begin(self, world: FaultWorld) -> End | bool:
        return world.client_processes.enforce_rebalance(self.client)
