"""Rules with a clock, timers and declared state, over the smallest host of a coordinator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from coordinator_builders import GROUP_ID, Bench

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.consumer_rules import ConsumerGroupRules
from rebalance_sim.protocol.consumer.removal import remove_members
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.outcome import Outcome, TimerKey
from rebalance_sim.protocol.runtime.rebalance_causes import RebalanceCause
from rebalance_sim.protocol.runtime.rule_desk import (
    GroupState,
    GroupTimer,
    MemberState,
    MemberTimer,
    RuleTimerKind,
)
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.consumer_messages import LEAVE_EPOCH

CORRECT = SEMANTICS["kafka-4.4-clean"]
GRACE = TimerKey(RuleTimerKind.RULE, GROUP_ID, "grace")


class Waits(ConsumerGroupRules):
    waits = GroupState(False)
    gone_ms = GroupState[int | None](None, is_time=True)
    grace = GroupTimer("grace_is_over")

    def on_members_removed(self, group: Any, members: Any, cause: Any) -> None:
        self.waits[group.group_id] = True
        self.gone_ms[group.group_id] = self.now_ms
        self.grace.set(group.group_id, after_ms=5_000)

    def computes_target(self, group: Any, member: Any) -> bool:
        if member.member_id not in group.members:
            self.grace.cancel(group.group_id)
            self.waits[group.group_id] = False
        return not self.waits[group.group_id]

    def grace_is_over(self, group: Any) -> None:
        self.waits[group.group_id] = False


class RemovesLater(ConsumerGroupRules):
    """A member that is refused three times is removed a second later."""

    refusals = MemberState(0)
    removal = MemberTimer("removes")

    def accepts_epoch(self, member: Any, request: Any) -> bool:
        is_accepted = super().accepts_epoch(member, request)
        if not is_accepted:
            about = request.group_id, member.member_id
            self.refusals[about] += 1
            if self.refusals[about] == 3:
                self.removal.set(about, after_ms=1_000)
        return is_accepted

    def removes(self, group: Any, member: Any) -> Outcome:
        cause = RebalanceCause.MEMBER_FENCED
        return remove_members(self.context, group, [member], now_ms=self.now_ms, cause=cause)


def bench_with(*rules: type, **config: Any) -> Bench:
    return Bench(CORRECT.changed_by(*rules), **config)


def two_members(bench: Bench) -> ConsumerGroup:
    for member_id in "ab":
        bench.join(member_id)
    bench.beat("a", owned="")
    bench.beat("b", owned="")
    return group_of(bench)


def group_of(bench: Bench) -> ConsumerGroup:
    return bench.shard.coordinator.groups_of(ConsumerGroup)[GROUP_ID]


def is_due(bench: Bench) -> bool:
    group = group_of(bench)
    return group.group_epoch > group.target_assignment_epoch


def test_a_timer_of_a_rule_expires_into_its_decision() -> None:
    bench = bench_with(Waits)
    two_members(bench)
    bench.shard.advance_to(1_000)
    bench.beat("b", epoch=LEAVE_EPOCH)
    assert bench.shard.timers[GRACE].at_ms == 6_000
    bench.shard.advance_to(5_900)
    bench.beat("a")
    assert is_due(bench)
    bench.shard.advance_to(6_000)
    assert GRACE not in bench.shard.timers
    bench.beat("a")
    assert not is_due(bench)


def test_a_rule_may_cancel_its_timer() -> None:
    bench = bench_with(Waits)
    two_members(bench)
    bench.beat("b", epoch=LEAVE_EPOCH)
    assert GRACE in bench.shard.timers
    bench.join("c")
    assert GRACE not in bench.shard.timers
    assert not is_due(bench)


def test_without_the_rule_the_next_heartbeat_computes() -> None:
    bench = bench_with()
    two_members(bench)
    bench.beat("b", epoch=LEAVE_EPOCH)
    bench.beat("a")
    assert not is_due(bench)


def test_a_timer_of_a_member_may_write_records() -> None:
    bench = bench_with(RemovesLater)
    two_members(bench)
    for _ in range(3):
        bench.beat("b", epoch=99)
    bench.shard.advance_to(999)
    assert set(group_of(bench).members) == {"a", "b"}
    bench.shard.advance_to(1_000)
    assert set(group_of(bench).members) == {"a"}


def test_a_timer_of_a_member_that_has_gone_does_nothing() -> None:
    bench = bench_with(RemovesLater)
    two_members(bench)
    for _ in range(3):
        bench.beat("b", epoch=99)
    bench.beat("b", epoch=LEAVE_EPOCH)
    written = len(bench.shard.log)
    bench.shard.advance_to(2_000)
    assert len(bench.shard.log) == written


def test_the_state_of_a_member_goes_with_it() -> None:
    bench = bench_with(RemovesLater)
    two_members(bench)
    bench.beat("b", epoch=99)
    bench.beat("b", epoch=99)
    bench.beat("b", epoch=LEAVE_EPOCH)
    bench.join("b")
    bench.beat("b", epoch=99)
    assert not [key for key in bench.shard.timers if key.kind is RuleTimerKind.RULE]


def test_a_failover_loses_state_and_timers() -> None:
    bench = bench_with(Waits)
    two_members(bench)
    bench.beat("b", epoch=LEAVE_EPOCH)
    bench.shard.restart()
    assert GRACE not in bench.shard.timers
    bench.beat("a")
    assert not is_due(bench)


def test_after_load_a_rule_may_set_again_what_the_log_tells() -> None:
    class Restores(Waits):
        def after_load(self, group: Any) -> None:
            if group.group_epoch > group.target_assignment_epoch:
                self.on_members_removed(group, (), None)

    restores = type("Restores", (ConsumerGroupRules,), {**vars(Waits), **vars(Restores)})
    bench = bench_with(restores)
    two_members(bench)
    bench.beat("b", epoch=LEAVE_EPOCH)
    bench.shard.advance_to(3_000)
    bench.shard.restart()
    assert bench.shard.timers[GRACE].at_ms == 8_000
    bench.beat("a")
    assert is_due(bench)


def test_state_is_part_of_snapshots_and_of_the_key_of_a_state() -> None:
    bench = bench_with(Waits)
    bench.shard = _WithoutHistory(
        config=replace(bench.shard.coordinator.config),
        semantics=bench.semantics,
        image=bench.shard.coordinator.image,
    )
    two_members(bench)
    bench.beat("b", epoch=LEAVE_EPOCH)
    coordinator, now_ms = bench.shard.coordinator, bench.shard.now_ms
    waiting = coordinator.snapshot()
    key = coordinator.state_key(now_ms=now_ms)
    coordinator.fire(GRACE, now_ms=now_ms)
    assert coordinator.state_key(now_ms=now_ms) != key
    coordinator.restore(waiting)
    assert coordinator.state_key(now_ms=now_ms) == key
    assert coordinator.state_key(now_ms=now_ms + 1_000) != key, "gone_ms is another time ago"
    bench.beat("a")
    assert is_due(bench)


class _WithoutHistory(MinimalShard):
    keeps_history = False


def test_times_are_compared_by_how_far_they_are_from_now() -> None:
    keys = []
    for at_ms in (0, 7_000):
        bench = bench_with(Waits)
        bench.shard = _WithoutHistory(
            config=bench.shard.coordinator.config,
            semantics=bench.semantics,
            image=bench.shard.coordinator.image,
        )
        bench.shard.advance_to(at_ms)
        two_members(bench)
        bench.beat("b", epoch=LEAVE_EPOCH)
        keys.append(bench.shard.coordinator.state_key(now_ms=at_ms))
    assert keys[0] == keys[1]


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda rules: setattr(rules, "seen", 1), "a rule sets its attribute seen"),
        (lambda rules: rules.waits[GROUP_ID], None),
        (lambda rules: rules.waits[GROUP_ID, "a"], r"write waits\[group_id\]"),
        (lambda rules: rules.waits.__setitem__(GROUP_ID, []), "can be changed in place"),
        (lambda rules: rules.gone_ms.__setitem__(GROUP_ID, 1.5), "a time is a whole number"),
        (lambda rules: rules.grace.set(GROUP_ID, after_ms=-1), "grace: after_ms is -1"),
        (lambda rules: rules.grace.set(GROUP_ID, after_ms=0.5), "grace: after_ms is 0.5"),
        (lambda rules: rules.grace.set(5, after_ms=1), r"write grace\[group_id\]"),
    ],
)
def test_what_a_rule_cannot_keep_is_refused(write: Any, said: str | None) -> None:
    rules = bench_with(Waits).shard.coordinator._context.rules
    if said is None:
        write(rules)
        return
    with pytest.raises((AttributeError, TypeError, ValueError), match=said):
        write(rules)


@pytest.mark.parametrize("declare", [lambda: GroupState([]), lambda: GroupTimer(print)])
def test_what_cannot_be_declared_is_refused(declare: Any) -> None:
    with pytest.raises(TypeError, match=r"can be changed in place|name the method"):
        declare()
