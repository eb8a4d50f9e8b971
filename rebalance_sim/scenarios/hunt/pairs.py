"""Pairs that a run has visited: what met what.

``pair.request.ConsumerGroupHeartbeat.consumer Stable.STABLE``  a request, and the states of group
and member that it found
``pair.fault.client_crash.commit``  a fault, and an operation that was under way when it came
``pair.setting.world.clients.instance_id.error.FENCED_INSTANCE_ID``  a setting that is not at its
default, and something that happened under it

The first two are counted while the run goes; the third follows from the scenario and from what
else the run visited.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.engine.discovery import every_property
from rebalance_sim.invariants.model.classic_model import CLASSIC_REQUESTS
from rebalance_sim.invariants.step import ShardView, Step, StepKind, WorldView, shard_of
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common import effects, events
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup, GroupState
from rebalance_sim.protocol.wire.classic_messages import LeaveGroupRequest
from rebalance_sim.protocol.wire.consumer_messages import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
)
from rebalance_sim.protocol.wire.records import MemberState
from rebalance_sim.scenarios.codec import encode
from rebalance_sim.scenarios.scenario import Scenario

REQUEST, FAULT, SETTING = "pair.request.", "pair.fault.", "pair.setting."
NO_GROUP, NO_MEMBER, NO_SENDER = "none", "unknown", "-"
IDLE = "nothing"
"""A fault that came while no operation was under way."""

INTERVALS_KEPT = 8
"""Of each operation, so many intervals of a run: enough for a fault to be moved into."""

OF_EFFECTS: Mapping[type, str] = {
    effects.SendHeartbeat: "heartbeat",
    effects.SendClassicHeartbeat: "heartbeat",
    effects.SendCommit: "commit",
    effects.SendOffsetFetch: "offset fetch",
    effects.SendPrepareAssignment: "computation",
    effects.SendInstallAssignment: "computation",
    effects.SendJoinGroup: "JoinGroup",
    effects.SendSyncGroup: "SyncGroup",
    effects.SendLeaveGroup: "LeaveGroup",
    effects.FindCoordinator: "coordinator search",
}
"""What a client waits for, by the effect that began it."""

OF_CLIENT_STATES: Mapping[ClientState, str] = {
    ClientState.JOINING: "joining",
    ClientState.RECONCILING: "reconciliation",
    ClientState.ACKNOWLEDGING: "acknowledgement",
    ClientState.PREPARE_LEAVING: "leaving",
    ClientState.LEAVING: "leaving",
    ClientState.FENCED: "fenced",
    ClientState.STALE: "stale",
}
CALLBACK, LOOKUP = "callback", "position lookup"
LOAD, WRITE, ASSIGNMENT = "load", "write", "target"
REVOCATION, RELEASE, JOIN_PHASE, SYNC_PHASE = "revocation", "release", "join phase", "sync phase"

OPERATIONS = (
    *dict.fromkeys(OF_EFFECTS.values()),
    *dict.fromkeys(OF_CLIENT_STATES.values()),
    CALLBACK,
    LOOKUP,
    LOAD,
    WRITE,
    ASSIGNMENT,
    REVOCATION,
    RELEASE,
    JOIN_PHASE,
    SYNC_PHASE,
    IDLE,
)
"""Everything that a fault may come upon."""

GROUP_STATES = (
    NO_GROUP,
    *(f"consumer {state.value}" for state in GroupState),
    *(f"classic {state.value}" for state in ClassicGroupState),
)
AWAITS_JOIN, AWAITS_SYNC, SETTLED = "awaits join", "awaits sync", "settled"
MEMBER_STATES = (
    NO_SENDER,
    NO_MEMBER,
    *(state.name for state in MemberState if state is not MemberState.UNKNOWN),
    AWAITS_JOIN,
    AWAITS_SYNC,
    SETTLED,
)
"""As the coordinator has them; ``-`` for requests that name no member."""

EVENTS = ("rebalance.", "timer.", "error.", "situation.")
"""What of a run's coverage counts as an event of the protocol."""


class Interval(NamedTuple):
    """An operation that was under way from ``start_ms`` to ``end_ms``."""

    operation: str
    start_ms: int
    end_ms: int


class Pairs:
    """Listens to the steps of one group, judges nothing, counts."""

    def __init__(self, view: WorldView) -> None:
        self._view = view
        self._counts: Counter[tuple[str, str, str]] = Counter()
        self._faults: Counter[tuple[str, str]] = Counter()
        self._before: dict[str, tuple[str, dict[str, str]]] = {}
        """Shard -> the states of the group and its members after its last step."""
        self._open: dict[tuple[str, object], tuple[str, int]] = {}
        """(who, what) -> the operation, and when it began."""
        self._ended: list[str] = []
        self._ended_ms = -1
        self._kept: Counter[str] = Counter()
        self.intervals: list[Interval] = []

    def after_step(self, step: Step) -> None:
        """A step that concerns the group has just happened."""
        kind = step.kind
        if kind is StepKind.CLIENT_EVENT:
            self._on_client_event(step)
        elif kind is StepKind.FAULT:
            self._on_fault(step)
        elif kind is StepKind.CLIENT_CRASHED or kind is StepKind.CLIENT_STARTED:
            if step.client is not None:
                self._end_all_of(step.client.name, step.at_ms)
        elif kind is StepKind.COORDINATOR_UNLOADED:
            self._before.pop(shard_of(step).name, None)
            self._end_all_of("", step.at_ms)
            self._begin("", LOAD, LOAD, step.at_ms)
        elif step.shard is not None and kind is not StepKind.RESPONSE_RELEASED:
            if kind is StepKind.COORDINATOR_REQUEST:
                self._on_request(step)
            self._look_at(step.shard, step)

    def counts(self) -> dict[str, int]:
        """Everything visited, by name."""
        found = {f"{REQUEST}{'.'.join(key)}": count for key, count in self._counts.items()}
        return found | {f"{FAULT}{'.'.join(key)}": n for key, n in self._faults.items()}

    # -- requests ----------------------------------------------------------------------------------

    def _on_request(self, step: Step) -> None:
        state, members = self._before.get(shard_of(step).name, (NO_GROUP, {}))
        member_id = member_of(step.request)
        member = NO_SENDER if member_id is None else members.get(member_id, NO_MEMBER)
        self._counts[request_kind(step.request), state, member] += 1

    def _look_at(self, shard: ShardView, step: Step) -> None:
        """The states after a step of a shard, and which operations of the group they mean."""
        group_id = self._view.group_id
        is_load = step.kind is StepKind.COORDINATOR_LOADED
        is_quiet = step.kind is StepKind.COORDINATOR_REQUEST and not step.records
        # A classic group is soft state, and changes without records.
        if not is_quiet or type(step.request) in CLASSIC_REQUESTS:
            self._before[shard.name] = _states(shard, group_id)
        if not shard.is_active:
            return
        if is_load:
            self._end("", LOAD, step.at_ms)
        state, members = self._before.get(shard.name, (NO_GROUP, {}))
        waits = set(members.values())
        for operation, is_under_way in (
            (WRITE, shard.log_end_offset > shard.high_watermark),
            (ASSIGNMENT, state == f"consumer {GroupState.ASSIGNING.value}"),
            (REVOCATION, MemberState.UNREVOKED_PARTITIONS.name in waits),
            (RELEASE, MemberState.UNRELEASED_PARTITIONS.name in waits),
            (JOIN_PHASE, state == f"classic {ClassicGroupState.PREPARING_REBALANCE.value}"),
            (SYNC_PHASE, state == f"classic {ClassicGroupState.COMPLETING_REBALANCE.value}"),
        ):
            if is_under_way:
                self._begin("", operation, operation, step.at_ms)
            else:
                self._end("", operation, step.at_ms)

    # -- clients -----------------------------------------------------------------------------------

    def _on_client_event(self, step: Step) -> None:
        if step.client is None:
            return
        name, event, at_ms = step.client.name, step.event, step.at_ms
        if isinstance(event, (events.Disconnected, events.RequestExpired)):
            for correlation_id in event.correlation_ids:
                self._end(name, correlation_id, at_ms)
        elif type(event) is events.CallbackCompleted:
            self._end(name, CALLBACK, at_ms)
        elif type(event) is events.PositionsKnown:
            self._end(name, LOOKUP, at_ms)
        elif (answered := getattr(event, "correlation_id", None)) is not None:
            self._end(name, answered, at_ms)
        for effect in step.effects:
            kind = type(effect)
            if kind in OF_EFFECTS:
                self._begin(name, effect.correlation_id, OF_EFFECTS[kind], at_ms)
            elif kind is effects.RunCallback:
                self._begin(name, CALLBACK, CALLBACK, at_ms)
            elif kind is effects.ValidatePositions or kind is effects.ResetPositions:
                self._begin(name, LOOKUP, LOOKUP, at_ms)
            elif kind is effects.StateChanged:
                self._end(name, ClientState, at_ms)
                if effect.to_state in OF_CLIENT_STATES:
                    self._begin(name, ClientState, OF_CLIENT_STATES[effect.to_state], at_ms)

    # -- faults ------------------------------------------------------------------------------------

    def _on_fault(self, step: Step) -> None:
        kind = step.fault.kind
        if step.detail.startswith(f"{kind} ends"):
            return
        met = {operation for operation, _ in self._open.values()}
        if self._ended_ms == step.at_ms:  # the fault itself may have ended it
            met.update(self._ended)
        for operation in met or (IDLE,):
            self._faults[kind, operation] += 1

    # -- operations --------------------------------------------------------------------------------

    def _begin(self, who: str, what: object, operation: str, at_ms: int) -> None:
        self._open.setdefault((who, what), (operation, at_ms))

    def _end(self, who: str, what: object, at_ms: int) -> None:
        begun = self._open.pop((who, what), None)
        if begun is None:
            return
        operation, start_ms = begun
        if self._ended_ms != at_ms:
            self._ended_ms = at_ms
            self._ended.clear()
        self._ended.append(operation)
        if at_ms > start_ms and self._kept[operation] < INTERVALS_KEPT:
            self._kept[operation] += 1
            self.intervals.append(Interval(operation, start_ms, at_ms))

    def _end_all_of(self, who: str, at_ms: int) -> None:
        for key in [key for key in self._open if key[0] == who]:
            self._end(*key, at_ms)


class PairingChecker(Checker):
    """The checker of runs, which counts pairs besides."""

    def __init__(self, view: WorldView) -> None:
        super().__init__(view, properties=every_property())
        self.pairs = Pairs(view)

    def after_step(self, step: Step) -> None:
        """Judge it, then count."""
        super().after_step(step)
        self.pairs.after_step(step)

    def coverage(self) -> dict[str, int]:
        """What was visited, pairs included."""
        return super().coverage() | self.pairs.counts()


def setting_pairs(scenario: Scenario, coverage: Mapping[str, int]) -> Iterator[str]:
    """The pairs of settings that are not at their default with events of the run."""
    happened = [name for name in coverage if name.startswith(EVENTS)]
    for setting, event in product(settings_of(scenario), happened):
        yield f"{SETTING}{setting}.{event}"


def settings_of(scenario: Scenario) -> tuple[str, ...]:
    """The settings of brokers, network and clients that are not at their default, by path, without
    numbers of entries: ``world.clients.instance_id``."""
    world = encode(scenario.world, defaults=False)
    for left_out in (
        *("seed", "topics", "faults", "group_id"),
        *("duration_ms", "quiet_period_ms", "quiet_period_min_ms"),
    ):
        world.pop(left_out, None)
    found = dict.fromkeys(_paths("world", world))
    return tuple(sorted(found.keys() - {"world.clients.name", "world.clients.topics"}))


def request_kind(request: Any) -> str:
    """The name of a request; heartbeats of the consumer protocol that join or leave have their
    own."""
    name = type(request).__name__.removesuffix("Request")
    if type(request) is not ConsumerGroupHeartbeatRequest:
        return name
    if request.member_epoch == JOIN_EPOCH:
        return f"{name}(join)"
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        return f"{name}(static leave)"
    return f"{name}(leave)" if request.member_epoch < JOIN_EPOCH else name


def member_of(request: Any) -> str | None:
    """The member that a request is about, the first of several; None if it names none."""
    if type(request) is LeaveGroupRequest:
        return request.members[0].member_id if request.members else None
    member_id: str | None = getattr(request, "member_id", None)
    return member_id


def _states(shard: ShardView, group_id: str) -> tuple[str, dict[str, str]]:
    coordinator = shard.coordinator
    group = coordinator.groups_of(ConsumerGroup).get(group_id)
    if group is not None:
        members = {key: one.state.name for key, one in group.members.items()}
        return f"consumer {group.state.value}", members
    classic = coordinator.groups_of(ClassicGroup).get(group_id)
    if classic is None:
        return NO_GROUP, {}
    return f"classic {classic.state.value}", {
        key: AWAITS_JOIN if one.awaiting_join is not None
        else AWAITS_SYNC if one.awaiting_sync is not None
        else SETTLED
        for key, one in classic.members.items()
    }  # fmt: skip


def _paths(place: str, value: Any) -> Iterable[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _paths(f"{place}.{key}", one)
    elif isinstance(value, list) and value and isinstance(value[0], Mapping):
        for one in value:
            yield from _paths(place, one)
    else:
        yield place
