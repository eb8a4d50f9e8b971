"""Builders of small worlds, and what tests ask of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.invariants.property import Violation
from rebalance_sim.invariants.step import Step, StepKind, WorldView
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.scenarios.scenario import load_scenario
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import (
    BrokerSpec,
    ClientSpec,
    DelaySpec,
    NetworkSpec,
    TopicSpec,
    WorldSpec,
)
from rebalance_sim.sim.trace import FullTrace
from rebalance_sim.sim.world import World

SESSION_TIMEOUT_MS = 45_000
HEARTBEAT_INTERVAL_MS = 5_000


def client(name: str, **settings: Any) -> ClientSpec:
    """A consumer of ``orders`` that commits nothing unless told to."""
    defaults: dict[str, Any] = {"topics": ("orders",), "enable_auto_commit": False}
    return ClientSpec(name=name, **{**defaults, **settings})


def spec(
    *clients: ClientSpec,
    faults: tuple[Fault, ...] = (),
    partition_count: int = 6,
    **settings: Any,
) -> WorldSpec:
    """A world with the topic ``orders`` in which nothing takes a random time, unless told so."""
    defaults: dict[str, Any] = {
        "seed": 1,
        "topics": (TopicSpec(name="orders", partition_count=partition_count),),
        "duration_ms": 60_000,
        "quiet_period_ms": 120_000,
        "network": NetworkSpec(latency=DelaySpec(min_ms=2)),
        "brokers": BrokerSpec(
            replication=DelaySpec(min_ms=2),
            load=DelaySpec(min_ms=20),
            metadata=DelaySpec(min_ms=5),
        ),
        "config": CoordinatorConfig(group_consumer_assignment_interval_ms=0),
    }
    return WorldSpec(clients=clients, faults=faults, **{**defaults, **settings})


def of_file(path: str) -> WorldSpec:
    """The world of a scenario file, with a quiet period of two minutes."""
    return replace(load_scenario(path).world, quiet_period_ms=120_000)


class Watched:
    """A world whose every step is checked and written down. ``checkers`` by group."""

    def __init__(self, world_spec: WorldSpec) -> None:
        self.trace = FullTrace()
        self.checkers: dict[str, Checker] = {}

        def make_checker(view: WorldView) -> Checker:
            checker = self.checkers[view.group_id] = Checker(view)
            checker.liveness.on_quiet_period_start(world_spec.duration_ms)
            return checker

        self.world = World(world_spec, make_checker=make_checker, trace=self.trace)

    def advance_to(self, at_ms: int) -> None:
        """Let everything before that time happen, and nothing break."""
        assert self.world.advance_to(at_ms)
        self.assert_sound()

    def run(self) -> Any:
        """Run to the end: nothing may break, and everything must happen in time."""
        result = self.world.run()
        self.assert_sound()
        assert self.late() == {}
        return result

    def assert_sound(self) -> None:
        """No property has been violated, but by known issues: without those that may be why, none
        is."""
        violated = self.violated()
        assert not violated, violated
        suspects = {issue for one in self.suspected() for issue in one.suspects}
        if suspects:
            assert not self.without(*suspects).violated()

    def violated(self) -> dict[str, list[str]]:
        """What has been violated so far, by group, and not by a known issue for sure."""
        found = {name: list(map(str, c.violations)) for name, c in self.checkers.items()}
        return {name: violated for name, violated in found.items() if violated}

    def suspected(self) -> list[Violation]:
        """What has been violated so far, maybe by a known issue."""
        return [one for c in self.checkers.values() for one, _ in c.suspected]

    def without(self, *issues: str) -> Watched:
        """The same world up to now, without these known issues."""
        spec = self.world.spec
        other = Watched(replace(spec, repairs=(*spec.repairs, *issues)))
        now_ms = self.world.now_ms
        if now_ms > other.world.end_ms:
            other.world.run()
        else:
            other.world.advance_to(now_ms)
        return other

    def violated_by(self, issue: str) -> set[str]:
        """Ids of the properties that are violated or late now, and not so without this issue."""
        return self._broken() - self.without(issue)._broken()

    def _broken(self) -> set[str]:
        now_ms = self.world.now_ms
        late = [one for c in self.checkers.values() for one in c.liveness.verdict(now_ms)]
        violated = [one for c in self.checkers.values() for one in c.violations]
        found = {one.property.id for one in (*violated, *self.suspected())}
        return found | {one.property.id for one in late}

    def late(self) -> dict[str, list[str]]:
        """What has not happened in time, by group."""
        now_ms = self.world.now_ms
        found = {n: list(map(str, c.liveness.verdict(now_ms))) for n, c in self.checkers.items()}
        return {name: late for name, late in found.items() if late}

    def steps(self, kind: StepKind, **wanted: Any) -> list[dict[str, Any]]:
        """The steps of a kind so far whose fields have these values."""
        found = (json.loads(line) for line in self.trace.lines)
        return [
            step
            for step in found
            if step["kind"] == kind.value and all(step.get(k) == v for k, v in wanted.items())
        ]

    def fetchable(self, name: str) -> set[int]:
        """Numbers of the partitions that a client may fetch now."""
        process = self.world.clients()[name]
        return {p.partition for p in process.member.fetchable} if process.is_alive else set()

    def group(self, group_id: str | None = None) -> Any:
        """A group as its acting shard has it; by default the first."""
        view = self.world.groups[group_id or self.world.group_id]
        shard = view.acting_shard()
        assert shard is not None
        return shard.coordinator.groups_of(ConsumerGroup)[view.group_id]

    def state(self, name: str) -> str:
        """The state of a client's member."""
        name_of_state: str = self.world.clients()[name].member.state.value
        return name_of_state


class Recorder:
    """A checker that only remembers the kinds of steps, and when they came."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, StepKind]] = []

    def after_step(self, step: Step) -> None:
        self.seen.append((step.at_ms, step.kind))

    def at_end(self) -> None:
        pass


def orders(*numbers: int) -> frozenset[TopicPartition]:
    """Partitions of the first generation of ``orders``."""
    return frozenset(TopicPartition("orders:1", number) for number in numbers)
