"""Drawing what administrators do: settings altered, offsets and groups deleted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rebalance_sim.scenarios.generate.draw import Draw
from rebalance_sim.scenarios.generate.fault_targets import FaultTargets, Maker
from rebalance_sim.scenarios.profile import FaultRule
from rebalance_sim.sim.admin.admin_events import (
    ADMIN,
    BrokerConfigChange,
    GroupConfigChange,
    GroupDelete,
    OffsetsAlter,
    OffsetsDelete,
    OffsetsList,
)
from rebalance_sim.sim.faults.faults import (
    ClientClose,
    ConnectionLoss,
    CoordinatorMove,
    Fault,
    LogCompaction,
    Moment,
)

__all__ = ["ADMIN_MAKERS"]

_OUTAGE_SHARE = 0.7
_CLOSING_MS = (500, 10_000)
_ADMIN_TROUBLE_SHARE = 0.3
_STRANGE_GROUP_SHARE = 0.2
_STRANGE_GROUP = "standalone"
"""A group without clients, whose offsets an administrator looks after now and then."""

_SETTING_SHARE = 0.5
_DELETED_SHARE = 0.3
_ASSIGNMENT_INTERVALS_MS = (0, 500, 1_000, 5_000)


# -- settings ----------------------------------------------------------------------------------


def _group_config_change(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    """Any session with any interval: each is drawn so that no order of changes is refused."""
    config = targets.config
    session_ms = (
        config.group_consumer_min_session_timeout_ms,
        config.group_consumer_max_session_timeout_ms,
    )
    least_ms = config.group_consumer_min_heartbeat_interval_ms
    interval_ms = (least_ms, max(least_ms, min(2 * least_ms, session_ms[0] - 1)))
    values: dict[str, Any] = {}
    deleted: list[str] = []
    for name, drawn in (
        ("consumer_session_timeout_ms", draw.between(session_ms)),
        ("consumer_heartbeat_interval_ms", draw.between(interval_ms)),
        ("consumer_assignment_interval_ms", draw.pick(_ASSIGNMENT_INTERVALS_MS)),
    ):
        is_known = name != "consumer_assignment_interval_ms" or targets.has_assignment_interval
        if draw.chance(_SETTING_SHARE) and is_known:
            values[name] = drawn
        elif draw.chance(_DELETED_SHARE) and is_known:
            deleted.append(name.replace("_", "."))
    if not values and not deleted:
        values["consumer_heartbeat_interval_ms"] = interval_ms[1]
    yield GroupConfigChange(
        at_ms=at_ms, group=targets.group(draw), **values, deletes=tuple(deleted)
    )


def _broker_config_change(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    interval_ms = draw.pick((None, *_ASSIGNMENT_INTERVALS_MS))
    if targets.has_assignment_interval:
        yield BrokerConfigChange(at_ms=at_ms, group_consumer_assignment_interval_ms=interval_ms)


# -- administrators ----------------------------------------------------------------------------


def _group_delete(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    """Mostly of a group whose members are all away; then a log may be cleaned of it, or move."""
    yield from _admin_trouble(draw, targets, at_ms)
    group = targets.group(draw)
    if draw.chance(_OUTAGE_SHARE):
        closed_ms = max(0, at_ms - draw.between(_CLOSING_MS))
        down_ms = at_ms - closed_ms + draw.between(rule.duration_ms)
        for client in targets.clients:
            if client.group_id == group:
                yield ClientClose(at_ms=closed_ms, client=client.name, down_ms=down_ms)
    yield GroupDelete(at_ms=at_ms, group=group)
    if draw.chance(0.4):
        again_ms = targets.within(at_ms + draw.between((1, 3_000)))
        yield GroupDelete(at_ms=again_ms, group=group)
    if draw.chance(0.5):
        later_ms = targets.within(at_ms + draw.between((0, 3_000)))
        yield LogCompaction(at_ms=later_ms, drops_tombstones=draw.chance(0.6))
    if draw.chance(0.3):
        later_ms = targets.within(at_ms + draw.between((0, 100)))
        yield CoordinatorMove(at_ms=later_ms, keeps_tail=draw.chance(0.5))


def _offsets_delete(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield from _admin_trouble(draw, targets, at_ms)
    topic = draw.pick(targets.topics)
    yield OffsetsDelete(
        at_ms=at_ms,
        topic=topic.name,
        partitions=tuple(draw.some(range(topic.partition_count), 0.5)),
        group=_any_group(draw, targets),
    )


def _offsets_alter(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield from _admin_trouble(draw, targets, at_ms)
    topic = draw.pick(targets.topics)
    yield OffsetsAlter(
        at_ms=at_ms,
        topic=topic.name,
        partitions=tuple(draw.some(range(topic.partition_count), 0.5)),
        group=_any_group(draw, targets),
        offset=draw.between((0, 100)),
    )


def _offsets_list(
    draw: Draw, rule: FaultRule, targets: FaultTargets, at_ms: int
) -> Iterable[Fault]:
    yield from _admin_trouble(draw, targets, at_ms)
    yield OffsetsList(at_ms=at_ms, require_stable=draw.chance(0.3), group=_any_group(draw, targets))


def _any_group(draw: Draw, targets: FaultTargets) -> str | None:
    """One of the groups, or one that nobody belongs to."""
    return _STRANGE_GROUP if draw.chance(_STRANGE_GROUP_SHARE) else targets.group(draw)


def _admin_trouble(draw: Draw, targets: FaultTargets, at_ms: int) -> Iterable[Fault]:
    """Sometimes the answer to an administrator gets lost, or the request."""
    if draw.chance(_ADMIN_TROUBLE_SHARE):
        yield ConnectionLoss(at_ms=at_ms, client=ADMIN, moment=draw.pick(tuple(Moment)))


ADMIN_MAKERS: Mapping[str, Maker] = {
    "broker_config_change": _broker_config_change,
    "group_config_change": _group_config_change,
    "group_delete": _group_delete,
    "offsets_alter": _offsets_alter,
    "offsets_delete": _offsets_delete,
    "offsets_list": _offsets_list,
}
"""Kind of event -> what draws it."""
