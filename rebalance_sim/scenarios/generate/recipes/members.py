"""Coincidences about members: who has whose place, what gets lost, which timer is near."""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS
from rebalance_sim.scenarios.generate.recipes._steps import instance_id_of, make_static
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.administrators import MembersRemove
from rebalance_sim.sim.faults.clients import (
    CallbackSlowdown,
    ClientClose,
    ClientCrash,
    ClientPause,
    PollStall,
)
from rebalance_sim.sim.faults.connections import ClientPartition, ConnectionLoss, RequestKind
from rebalance_sim.sim.faults.deployments import ClientRedeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.targets import Targets
from rebalance_sim.sim.network.link import Moment
from rebalance_sim.sim.network.network import Direction

_SHORT_MS = (100, 3_000)
_DOWN_MS = (200, 3_000)
_NEAR_MS = (-30, 30)


def _session_ms(targets: Targets, client: ClientSpec) -> int:
    """The session timeout of a client, as long as no one alters it."""
    if client.kind in CLASSIC_KINDS:
        return client.session_timeout_ms
    return targets.config.group_consumer_session_timeout_ms


def successor(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A static member's process stands still (SIGSTOP), another takes its instance id meanwhile,
    and the first continues. Later the instance id is given back."""
    pair = targets.pair(draw)
    if pair is None:
        return
    first, second = pair
    if first.instance_id is None:
        yield make_static(first, at_ms - draw.between((1_500, 5_000)))
    session = _session_ms(targets, first)
    pause_ms = draw.pick((session // 3, session - 500, session + 1_000, 2 * session))
    yield ClientPause(at_ms=at_ms, duration_ms=pause_ms, client=first.name)
    yield ClientRedeploy(
        at_ms=at_ms + draw.between((1, pause_ms)),
        client=second.name,
        down_ms=draw.between((100, 1_000)),
        graceful=draw.chance(0.6),
        instance_id=instance_id_of(first),
    )
    yield ClientRedeploy(
        at_ms=targets.within(at_ms + pause_ms + draw.between((0, 6_000))),
        client=second.name,
        down_ms=draw.between(_DOWN_MS),
        instance_id=second.instance_id or "",
    )


def silent_in_rebalance(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A member does not take part while the others rebalance, for longer than its rebalance
    timeout; a static one may still be there when it is back."""
    pair = targets.pair(draw)
    if pair is None:
        return
    silent, other = pair
    if silent.instance_id is None and draw.chance(0.6):
        yield make_static(silent, at_ms - draw.between((2_000, 5_000)))
    length_ms = silent.max_poll_interval_ms + draw.between((0, 4_000))
    if draw.chance(0.5):
        yield ClientPause(at_ms=at_ms, duration_ms=length_ms, client=silent.name)
    else:
        yield PollStall(at_ms=at_ms, duration_ms=length_ms, client=silent.name)
    leave_ms = at_ms + draw.between((0, 2_000))
    yield ClientCrash(at_ms=leave_ms, client=other.name, down_ms=draw.between(_DOWN_MS))
    if draw.chance(0.4):
        yield CallbackSlowdown(
            at_ms=at_ms,
            duration_ms=length_ms + 3_000,
            client=silent.name,
            callback_ms=draw.between((500, silent.max_poll_interval_ms)),
        )


def timer_race(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A client is back just when its session, or its time to rebalance or to poll, is over."""
    client = targets.client(draw)
    session = _session_ms(targets, client)
    interval_ms = targets.config.group_consumer_heartbeat_interval_ms
    if client.kind in CLASSIC_KINDS:
        interval_ms = client.heartbeat_interval_ms
    which = draw.pick(("session", "cut off", "poll"))
    if which == "session":
        # The last heartbeat was up to an interval ago.
        length_ms = session - draw.between((0, interval_ms)) + draw.between(_NEAR_MS)
        yield ClientPause(at_ms=at_ms, duration_ms=max(1, length_ms), client=client.name)
    elif which == "cut off":
        length_ms = session - draw.between((0, interval_ms)) + draw.between(_NEAR_MS)
        yield ClientPartition(
            at_ms=at_ms,
            duration_ms=max(1, length_ms),
            client=client.name,
            direction=draw.pick(tuple(Direction)),
        )
    else:
        length_ms = client.max_poll_interval_ms + draw.between(_NEAR_MS)
        yield PollStall(at_ms=at_ms, duration_ms=length_ms, client=client.name)


def brief_visit(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A client comes back and closes at once, before it is a member, or in the middle of that."""
    client = targets.client(draw)
    down_ms = draw.between((200, 2_000))
    for _ in range(draw.between((1, 3))):
        yield ClientCrash(at_ms=at_ms, client=client.name, down_ms=down_ms)
        close_ms = at_ms + down_ms + draw.between((1, draw.pick((10, 50, 400))))
        yield ClientClose(at_ms=close_ms, client=client.name, down_ms=draw.between(_DOWN_MS))
        at_ms = close_ms + draw.between((1_000, 5_000))


def lost_answers(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A client joins, and one request after the other, or its answer, gets lost on the way."""
    client = targets.client(draw)
    down_ms = draw.between(_DOWN_MS)
    yield ClientCrash(at_ms=at_ms, client=client.name, down_ms=down_ms)
    at_ms += down_ms
    first = (RequestKind.JOIN, RequestKind.JOIN, RequestKind.SYNC, RequestKind.OFFSET_FETCH)
    for kinds in (first, tuple(RequestKind), tuple(RequestKind)):
        yield ConnectionLoss(
            at_ms=at_ms,
            client=client.name,
            moment=draw.pick(
                (Moment.BEFORE_RESPONSE, Moment.BEFORE_RESPONSE, Moment.BEFORE_REQUEST)
            ),
            request=draw.pick(kinds),
        )
        at_ms += draw.between((50, 3_000))


def lost_leave(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """What a client sends last gets lost, and it is soon back."""
    client = targets.client(draw)
    yield ConnectionLoss(
        at_ms=at_ms,
        client=client.name,
        moment=draw.pick((Moment.BEFORE_RESPONSE, Moment.BEFORE_REQUEST)),
        request=draw.pick((RequestKind.LEAVE, RequestKind.COMMIT)),
    )
    close_ms = at_ms + draw.between((0, 500))
    yield ClientClose(at_ms=close_ms, client=client.name, down_ms=draw.between(_DOWN_MS))


def removed_while_joining(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """An administrator removes members while the group rebalances because one comes back."""
    client = targets.client(draw)
    down_ms = draw.between(_DOWN_MS)
    yield ClientCrash(at_ms=at_ms, client=client.name, down_ms=down_ms)
    team = [one.name for one in targets.team(client.group_id)]
    for _ in range(draw.between((1, 3))):
        remove_ms = at_ms + down_ms + draw.between((0, draw.pick((50, 500, 3_000))))
        names = tuple(draw.some(team, 0.4))
        yield MembersRemove(at_ms=remove_ms, group=client.group_id, clients=names)


def wrong_setting(draw: Draw, targets: Targets, at_ms: int) -> Iterable[Fault]:
    """A deployment has a setting that brokers refuse; a later one corrects it."""
    client = targets.client(draw)
    down_ms, back_ms = draw.between(_DOWN_MS), at_ms + draw.between((4_000, 15_000))
    wrong: dict[str, object] = {"server_assignor": "homemade"}
    right: dict[str, object] = {"server_assignor": client.server_assignor or ""}
    if client.kind in CLASSIC_KINDS:
        wrong = {"session_timeout_ms": 1_000}
        right = {
            "session_timeout_ms": client.session_timeout_ms,
            "heartbeat_interval_ms": client.heartbeat_interval_ms,
        }
    elif client.client_assignors is not None:
        return
    name = client.name
    yield ClientRedeploy(at_ms=at_ms, client=name, down_ms=down_ms, **wrong)  # type: ignore[arg-type]
    yield ClientRedeploy(
        at_ms=targets.within(back_ms),
        client=name,
        down_ms=down_ms,
        **right,  # type: ignore[arg-type]
    )
