"""When a world is at rest: nothing comes in it by itself but the same again.

It is seen from what the world is, without waiting for what it does. A world is *at rest* when

- there was no step for a while but those of a routine: polls and records, heartbeats and commits
  that were accepted, reads;
- every client that runs is in a group or has left it, polls, and knows the group's epoch; its
  requests that are on their way are of the routine, as they were sent since then, and it has asked
  for nothing else;
- every group is stable, and its members are those clients, or are gone: those will be removed when
  their sessions end, which bounds a leap, and until then a group may wait for what they own;
- every call that waits in the clock is planned, or belongs to that routine;
- no timer of a coordinator is armed but sessions, and their members have renewed them;
- every client has seen the topics there are, and so has every coordinator, which has matched them
  against the patterns of its members.

Then no one's own time leads to anything but the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from rebalance_sim.invariants.step import Step, StepKind
from rebalance_sim.protocol.classic.operation import ClassicTimer
from rebalance_sim.protocol.clients.common.effects import (
    CommitReturned,
    RequestMetadata,
    SendClassicHeartbeat,
    SendCommit,
    SendHeartbeat,
    StateChanged,
)
from rebalance_sim.protocol.clients.common.events import (
    ClassicHeartbeatAnswered,
    CommitAnswered,
    CommitOffsets,
    HeartbeatAnswered,
    MetadataKnown,
    PatternMatched,
    Poll,
    PollingResumed,
    PollingStopped,
    RecordsReturned,
    Tick,
)
from rebalance_sim.protocol.clients.common.group_member import GroupMember
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.consumer.consumer_group import GroupState
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.group_type import Projection
from rebalance_sim.protocol.runtime.outcome import ShardTimer, TimerKey
from rebalance_sim.protocol.wire.offset_messages import OffsetCommitRequest
from rebalance_sim.sim.admin.admin_tasks import AdminTasks
from rebalance_sim.sim.broker.controller import Controller
from rebalance_sim.sim.broker.event_processor import EventProcessor
from rebalance_sim.sim.broker.shard_host import ShardHost
from rebalance_sim.sim.client.application import Application
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.client.metadata_refresh import TopicWatch
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.group import Group
from rebalance_sim.sim.network.network import Network
from rebalance_sim.sim.network.pipe import Pipe
from rebalance_sim.sim.spec import WorldSpec


class RestingWorld(Protocol):
    """What is looked at of a world."""

    clock: Clock
    spec: WorldSpec
    controller: Controller
    groups: dict[str, Group]
    network: Network
    admin: AdminTasks
    end_ms: int

    def clients(self) -> Mapping[str, ClientProcess]:
        """Client name -> its present process."""


MOMENT_MS = 5_000
"""A request that has waited for longer is no routine."""

_RESTING = frozenset((ClientState.STABLE, ClientState.UNSUBSCRIBED))
_REPEATING = _RESTING | {ClientState.ACKNOWLEDGING}

_EVENTS = frozenset(
    (
        *(Tick, Poll, PollingStopped, PollingResumed, RecordsReturned, CommitOffsets),
        *(MetadataKnown, PatternMatched),
        *(CommitAnswered, HeartbeatAnswered, ClassicHeartbeatAnswered),
    )
)
_EFFECTS = frozenset((SendCommit, CommitReturned, SendHeartbeat, SendClassicHeartbeat))
_EFFECTS_OF_A_STORM = _EFFECTS | {RequestMetadata}
_ROUTINE_TIMERS = frozenset((ConsumerTimer.SESSION, ClassicTimer.SESSION, ShardTimer.EXPIRY))
_CLIENT_EVENT = StepKind.CLIENT_EVENT
"""To look it up takes as long as a call."""
_ALWAYS = frozenset(
    (StepKind.RESPONSE_RELEASED, StepKind.LOG_COMMITTED, StepKind.ADMIN_RETURNED, StepKind.LEAPT)
)


def is_routine(step: Step) -> bool:
    """Whether a step is one of those that a group at rest repeats."""
    kind = step.kind
    if kind is _CLIENT_EVENT:
        event = step.event
        if type(event) not in _EVENTS:
            return False
        for effect in step.effects:
            if type(effect) not in _EFFECTS:
                return _acknowledges_again(step.effects)
        response = getattr(event, "response", None)
        return response is None or not _has_error(response)
    if kind in _ALWAYS:
        return True
    if kind is StepKind.COORDINATOR_REQUEST:
        if step.records and type(step.request) is not OffsetCommitRequest:
            return False
        return step.response is not None and not _has_error(step.response)
    return kind is StepKind.COORDINATOR_TIMER and not step.records


def _acknowledges_again(effects: Iterable[Any]) -> bool:
    """Whether a member begins to reconcile and acknowledges at once, as it does without a pause
    where a partition of its target has no name (client §0.2)."""
    others = [one for one in effects if type(one) not in _EFFECTS_OF_A_STORM]
    if any(type(one) is not StateChanged for one in others):
        return False
    return [one.to_state for one in others] == [ClientState.RECONCILING, ClientState.ACKNOWLEDGING]


def _has_error(response: Any) -> bool:
    if getattr(response, "error_code", None):
        return True
    errors: Mapping[object, object] | None = getattr(response, "errors", None)
    return errors is not None and any(errors.values())


class Session(NamedTuple):
    """What is armed for a member that is gone: its session, and at which shard."""

    shard: ShardHost
    key: TimerKey

    @property
    def is_armed(self) -> bool:
        """Whether it has still to end."""
        return self.key in self.shard.armed_timers

    @property
    def at_ms(self) -> int:
        """When it ends."""
        return self.shard.armed_timers[self.key].at_ms


def sessions_of_gone(world: RestingWorld) -> list[Session]:
    """The sessions of members whose processes are gone: nothing will be heard of them any more."""
    found = []
    for group in world.groups.values():
        shard = group.acting_shard()
        if shard is None:
            continue
        for member_id in sorted(_gone_members(group)):
            for kind in (ConsumerTimer.SESSION, ClassicTimer.SESSION):
                key = TimerKey(kind, group.group_id, member_id)
                if key in shard.armed_timers:
                    found.append(Session(shard, key))
    return found


def _gone_members(group: Group) -> set[str]:
    found = project(group)
    return set() if found is None else set(found.members) - _present(group)


def _present(group: Group) -> set[str]:
    members = [c.member for c in group.clients().values() if c.is_alive]
    return {member.member_id for member in members if member.state.is_in_group}


def is_at_rest(world: RestingWorld, moved_ms: int, *, gone: Collection[Session] = ()) -> bool:
    """Whether a world is at rest, that has done nothing but a routine since ``moved_ms``, but for
    the sessions of members that are ``gone``."""
    clock, clients = world.clock, world.clients().values()
    waited_ms = clock.now_ms - moved_ms
    return (
        clock.now_ms > world.controller.image_since_ms + longest_heartbeat_ms(clients)
        and all(_has_all(one) and is_in_routine(one, most_ms=waited_ms) for one in clients)
        and all(
            (has_its_members(one) or _waits_for_gone(one, gone))
            and _reaches_coordinator(one, world)
            for one in world.groups.values()
        )
        and all_is_routine(world)
    )


def is_changing(world: RestingWorld) -> bool:
    """Whether a client, or a group, is in the middle of something that ends with a step that is no
    routine: there is nothing to see before that."""
    return any(map(_is_changing, world.clients().values())) or any(
        not group.is_stable() and not _gone_members(group) for group in world.groups.values()
    )


def _is_changing(client: ClientProcess) -> bool:
    return client.is_alive and (client.member.state not in _REPEATING or not _has_positions(client))


def all_is_routine(world: RestingWorld) -> bool:
    """Whether every call that waits in the clock is planned, or belongs to a routine; what
    administrators ask of a coordinator does not, wherever it is on its way."""
    if world.admin.is_busy:
        return False
    judged: set[tuple[Any, str]] = set()
    """A shard waits for many sessions, and is looked at once."""
    for function in world.clock.waiting():
        owner, name = getattr(function, "__self__", None), function.__qualname__
        if (owner, name) not in judged:
            judge = _CALLS.get(name)
            if judge is None or not judge(owner, world):
                return False
            judged.add((owner, name))
    return True


def longest_heartbeat_ms(clients: Iterable[ClientProcess]) -> int:
    """The longest interval between two heartbeats of clients that run."""
    return max(
        (one.member.heartbeat_interval_ms or 0 for one in clients if one.is_alive), default=0
    )


def _has_all(client: ClientProcess) -> bool:
    """Whether a client, if it runs, has what it has asked for, and a position in every partition
    that it owns."""
    return not client.is_alive or (not client.asks and _has_positions(client))


def _has_positions(client: ClientProcess) -> bool:
    return len(client.member.fetchable) == len(client.member.assigned)


def _reaches_coordinator(group: Group, world: RestingWorld) -> bool:
    """Whether every client in the group knows and reaches its coordinator, which has matched its
    pattern, and has heard of the epoch, or generation, that it has, and of the partitions that it
    is assigned."""
    shard, found = group.acting_shard(), project(group)
    if shard is not None and not shard.coordinator.has_matched(group.group_id):
        return False
    return all(
        shard is not None
        and found is not None
        and one.member.coordinator_id == shard.node_id
        and one.member.member_epoch == found.epoch
        and _has_what_it_is_assigned(one.member, shard.coordinator)
        and not (one.is_misled or world.network.is_blocked(one.name, shard.node_id))
        for one in group.clients().values()
        if one.is_alive and one.member.state.is_in_group
    )


def _has_what_it_is_assigned(member: GroupMember, coordinator: GroupCoordinator) -> bool:
    """A coordinator may assign partitions to a member when another has given them up; the member
    hears of it with its next heartbeat."""
    assigned = coordinator.assigned_to(member.config.group_id, member.member_id)
    return assigned is None or assigned == member.assigned.keys()


def is_in_routine(
    client: ClientProcess, *, may_storm: bool = False, most_ms: int = MOMENT_MS
) -> bool:
    """Whether a client, if it runs, is at rest, polls, and has waited for no request longer."""
    if not client.is_alive:
        return True
    state = client.member.state
    if state not in (_REPEATING if may_storm else _RESTING):
        return False
    if state.is_in_group and not client.may_poll:
        return False
    return client.waits_shortly(most_ms)


def project(group: Group) -> Projection | None:
    """A group as the shard that serves it has it; None: there is none."""
    shard = group.acting_shard()
    return None if shard is None else shard.coordinator.project(group.group_id)


def has_its_members(group: Group, *, may_storm: bool = False) -> bool:
    """Whether a shard serves the group, which is stable, and every member is a client that sends
    heartbeats: any other will be removed. ``may_storm``: it may be in a storm instead."""
    members = [c.member for c in group.clients().values() if c.is_alive]
    storms = may_storm and any(one.state is ClientState.ACKNOWLEDGING for one in members)
    if not (storms or group.is_stable()):
        return False
    found = project(group)
    return _present(group) == (set() if found is None else set(found.members))


def _waits_for_gone(group: Group, sessions: Collection[Session]) -> bool:
    """Whether a group has members that are gone, each with a session that will end, and waits for
    nothing else, if for anything."""
    found, gone = project(group), _gone_members(group)
    watched = {one.key.member_id for one in sessions if one.key.group_id == group.group_id}
    return (
        found is not None
        and bool(gone)
        and gone == watched
        and _present(group) < set(found.members)
        and (found.is_settled or found.state == GroupState.RECONCILING.value)
    )


def _renews_sessions(shard: ShardHost, world: RestingWorld) -> bool:
    """Nothing is armed but sessions, which their members have just renewed, and the look for
    offsets that expire, which finds none: a later one is as good."""
    if any(key.kind not in _ROUTINE_TIMERS for key in shard.armed_timers):
        return False
    return not (shard.is_active and shard.coordinator.expired(now_ms=world.end_ms))


def _always(owner: Any, world: RestingWorld) -> bool:
    return True


def _comes_from_a_client_that_runs(pipe: Pipe, world: RestingWorld) -> bool:
    """What a process has sent before it ended may come minutes later, and is no routine."""
    return not pipe.outlives_sender


def _only_commits(application: Application, world: RestingWorld) -> bool:
    return application.only_commits


def _has_seen_topics(watch: TopicWatch, world: RestingWorld) -> bool:
    """Late enough, and as they are: a broker, or a client, may have lagged behind."""
    controller, seen = world.controller, watch.seen
    topics = controller.image.by_id
    return (
        watch.seen_ms > controller.image_since_ms + MOMENT_MS
        and seen is not None
        and seen.topic_names.keys() == topics.keys()
        and all(seen.partition_counts[one.name] == one.partition_count for one in topics.values())
    )


def _works_off(processor: EventProcessor, world: RestingWorld) -> bool:
    """What a thread is busy with is part of the routine, unless it falls behind."""
    return not processor.has_queue


_CALLS: Mapping[str, Callable[[Any, RestingWorld], bool]] = {
    "AdminClient._on_look": _always,
    "Application._on_commit_over": _always,
    "Application._on_poll": _always,
    "Application._on_wake": _only_commits,
    "ApplicationCommits._on_due": _always,
    "ClientConnections._on_watchdog": _always,
    "ClientProcess._on_tick": _always,
    "Connection._on_connect_timeout": _always,
    "EventProcessor._on_end": _works_off,
    "Pipe._arrive": _comes_from_a_client_that_runs,
    "Replication._watch_lag.<locals>.on_limit": _always,
    "ShardHost._on_call": _renews_sessions,
    "TopicWatch._on_missing": _has_seen_topics,
    "TopicWatch._on_old": _has_seen_topics,
}
"""Calls that may wait in the clock of a world at rest, and under which condition; others may not.
A watchdog finds requests that are late, of which there is none."""
