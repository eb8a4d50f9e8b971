"""Mutants of what brokers decide, in drawn runs: timers, patterns, settings, first join phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from falsified_reactions import AT_WORK, CLEAN, FALSIFIED, at_work, run_mutant

from rebalance_sim.protocol.classic import classic_rebalance, join, leave
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer import consumer_type, regexes, timer_expiry
from rebalance_sim.protocol.hosting import routing
from rebalance_sim.protocol.hosting.shard import ShardState
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import ConfigsInForce
from rebalance_sim.protocol.wire.consumer_messages import ListGroupsResponse

__all__ = ["AT_WORK", "CLEAN", "FALSIFIED", "at_work", "run_mutant"]


# -- timers ----------------------------------------------------------------------------------------

_fired = timer_expiry.fired


def _of_any_epoch(context: Any, group: Any, key: Any, *, epoch: int, now_ms: int) -> Any:
    member = None if group is None else group.members.get(key.member_id)
    current = epoch if member is None else member.member_epoch
    return _fired(context, group, key, epoch=current, now_ms=now_ms)


run_mutant("rebalance-timer-of-former-epoch", "whole", 125, (consumer_type, "fired", _of_any_epoch))


# -- patterns --------------------------------------------------------------------------------------

_take_image = GroupCoordinator.update_image
_resolve = regexes.resolve


def _sees_no_new_topic(self: GroupCoordinator, image: Any, *, now_ms: int = 0) -> Any:
    version = self._context.newest_topic_version
    timers = _take_image(self, image, now_ms=now_ms)
    self._context.newest_topic_version = version
    return timers


def _never_ends(context: Any, group_id: str, group: Any, *, now_ms: int) -> Any:
    under_way = context.part(regexes.Resolutions)
    resolution = under_way.get(group_id)
    outcome = _resolve(context, group_id, group, now_ms=now_ms)
    if resolution is not None:
        under_way[group_id] = resolution
    return outcome


run_mutant(
    "new-topics-match-nothing",
    "faulty",
    18,
    (GroupCoordinator, "update_image", _sees_no_new_topic),
)
run_mutant("resolution-never-ends", "operations", 2, (timer_expiry, "resolve", _never_ends))


# -- lists -----------------------------------------------------------------------------------------


def _refuses_unless_loading(self: routing.GroupRequests, request: Any, now_ms: int) -> Any:
    for shard in self._shards:
        if shard.state is not ShardState.LOADING:
            return shard.refuse_read(request)
    return ListGroupsResponse()


run_mutant(
    "lists-only-while-it-loads",
    "faulty",
    2,
    (routing.GroupRequests, "list", _refuses_unless_loading),
)


# -- settings --------------------------------------------------------------------------------------

_altered = ConfigsInForce.altered


def _replaced(
    self: ConfigsInForce, group_id: str, changes: Mapping[str, Any], **options: Any
) -> ConfigsInForce:
    others = {name: config for name, config in self.groups.items() if name != group_id}
    return _altered(replace(self, groups=others), group_id, changes, **options)


run_mutant("settings-are-replaced", "operations", 0, (ConfigsInForce, "altered", _replaced))


# -- first join phases -----------------------------------------------------------------------------

_tick = classic_rebalance.initial_tick


def _forgets_newcomers(op: Any, group: Any) -> None:
    group.new_member_added = False
    _tick(op, group)


def _counts_nobody_as_newcomer(op: Any, group: Any) -> None:
    group.new_member_added = True
    _tick(op, group)


def _whole_group_is_enough(op: Any, group: Any, cause: Any) -> None:
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        if group.has_all_joined:
            classic_rebalance.complete_join_phase(op, group)
    else:
        classic_rebalance.prepare_rebalance(op, group, cause)


run_mutant("newcomers-prolong-nothing", "classic", 4, (leave, "initial_tick", _forgets_newcomers))
run_mutant(
    "first-phase-prolonged-for-nobody",
    "classic",
    4,
    (leave, "initial_tick", _counts_nobody_as_newcomer),
)
run_mutant(
    "first-phase-cut-short",
    "classic",
    4,
    (join, "rebalance_or_complete", _whole_group_is_enough),
)
