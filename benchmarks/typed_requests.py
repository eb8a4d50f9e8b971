"""Random typed requests to brokers, with every property checked after each step.

Run: ``python benchmarks/typed_requests.py --seeds 0:2500 [--state FILE]``.

A seed makes a cluster of its own: a version, settings, topics, 400 requests drawn by
``request_draws.py``, and in between what befalls brokers: elections, crashes, writes that fail,
partitions of the network, compaction, topics and settings that change, time that passes. No client
is there: each request is handed to a broker as it came from a connection.

A seed fails if an exception escapes from a coordinator, a property is violated that no known issue
explains, a request is never answered or twice, or the harness raises.
``--state`` keeps how far it has come, and continues from there. The exit code is 1 if a seed
failed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import traceback
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from request_draws import GROUPS, TOPICS, RequestDraws

from rebalance_sim.invariants.engine.checker import Checker
from rebalance_sim.protocol.hosting.error_answers import WriteError
from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator
from rebalance_sim.protocol.runtime.coordinator_config import MIGRATION_POLICIES, CoordinatorConfig
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.sim.broker.broker import Broker
from rebalance_sim.sim.faults.coordinators import LogCompaction
from rebalance_sim.sim.faults.settings import BrokerConfigChange
from rebalance_sim.sim.group import Group
from rebalance_sim.sim.observe.routing import Router
from rebalance_sim.sim.spec import BrokerSpec, TopicSpec, WorldSpec
from rebalance_sim.sim.trace import Trace
from rebalance_sim.sim.world import World

REQUESTS_PER_SEED = 400
_DURATION_MS = 10**9
_QUIET_MS = 200_000
"""Longer than any request may be parked: rebalance timeouts that are drawn beyond that are
answered by no one in this time, see ``_is_owed``."""

_PAUSES_MS = (1, 1, 5, 20, 500, 1_100, 3_000, 7_000, 12_000, 31_000, 65_000)
_WRITE_ERRORS = (WriteError.STORAGE, WriteError.NOT_ENOUGH_REPLICAS)
_REPAIRED = ("classic-dropped-group",)
"""What random requests meet again and again, and a client hardly ever. What comes of it where the
log has lost its tail as well is not judged rightly."""
_MIXED_VERSIONS = ("kafka-4.4", "kafka-4.3", "kafka-4.1", "kip-848")


@dataclass(slots=True)
class Report:
    """What became of one seed: requests handed in, steps, known issues, and what went wrong."""

    seed: int
    requests: int = 0
    steps: int = 0
    known: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)


class _Connection:
    """A connection as brokers know it: here nothing is on its way."""

    def __init__(self, client_name: str, draws: RequestDraws, report: Report) -> None:
        self.client_name = client_name
        self.is_open = True
        self.waiting: dict[int, Any] = {}
        self._draws = draws
        self._report = report

    def answer(self, correlation_id: int, response: Any) -> None:
        """The broker answers."""
        if not self.is_open:
            return
        request = self.waiting.pop(correlation_id, None)
        if request is None:
            self._report.problems.append(f"answered twice: {response!r}")
            return
        self._draws.note_answer(response)
        code = getattr(response, "error_code", None)
        name = type(request).__name__.removesuffix("Request")
        self._report.answers[f"{name} {'-' if code is None else code.name}"] += 1

    def abandon(self, *, is_silent: bool = False) -> None:
        """The broker's process has ended."""
        self.is_open = False
        self.waiting.clear()


class TypedRequests:
    """One cluster, and one seed."""

    def __init__(self, seed: int, *, semantics: str | None = None, trace: Trace | None = None):
        self.report = Report(seed)
        self._draw = draw = random.Random(f"typed requests {seed}")
        versions = [name for name in SEMANTICS if draw.random() < 0.2] or list(_MIXED_VERSIONS)
        drawn = draw.choice(versions)
        self.world = World(_spec(draw, seed, semantics or drawn), trace=trace)
        world = self.world
        groups = {
            group_id: Group(
                group_id,
                cluster=world.cluster,
                clock=world.clock,
                semantics=world.semantics,
                client_specs=(),
                has_data_plane=False,
                tie_break=random.Random(f"{seed} {group_id}").random,
            )
            for group_id in GROUPS
        }
        self.checkers = {name: Checker(group) for name, group in groups.items()}
        partitions = {name: group.partition for name, group in groups.items()}
        world.steps.checker = Router(partitions, self.checkers)
        self._groups = groups
        self._draws = RequestDraws(
            draw,
            self._coordinator_of,
            has_client_assignors=world.semantics.coordinator.has_client_assignors,
        )
        self._next_id = 0
        self._actions = (
            self._elect,
            self._crash,
            self._restart,
            self._fail_writes,
            self._write_again,
            self._cut_off,
            self._rejoin,
            self._slow,
            self._compact,
            self._create_topic,
            self._grow_topic,
            self._delete_topic,
            self._alter_brokers,
        )
        self._connections: dict[Broker, _Connection] = {}

    def run(self, count: int = REQUESTS_PER_SEED) -> Report:
        """Hand in so many requests, then heal everything and wait."""
        report = self.report
        try:
            self._run(count)
        except Exception:
            report.problems.append(traceback.format_exc(limit=-6))
        report.steps = self.world.steps.count
        for group_id, checker in self.checkers.items():
            for violation in checker.violations:
                report.problems.append(f"group {group_id!r}: {violation}")
            for violation, times in checker.suspected:
                report.known[" or ".join(violation.suspects)] += times
        return report

    def _run(self, count: int) -> None:
        draw, world = self._draw, self.world
        world.advance_to(1)
        calm = draw.choice((0.0, 0.02, 0.1))
        for _ in range(count):
            if self._is_over():
                return
            if draw.random() < calm:
                draw.choice(self._actions)()
            self._send(self._draws.request())
            if draw.random() < 0.4:
                world.advance_to(world.now_ms + draw.choice(_PAUSES_MS))
                self._draws.note_topics(world.controller.image)
        self._end()

    def _is_over(self) -> bool:
        return any(checker.is_stopped for checker in self.checkers.values())

    def _send(self, request: Any) -> None:
        draw = self._draw
        broker = draw.choice(self.world.brokers)
        group_id = getattr(request, "group_id", None)
        if group_id is not None and draw.random() < 0.9:
            shard = self._groups[group_id].acting_shard()
            if shard is not None:
                broker = self.world.brokers[shard.node_id]
        if not broker.is_alive:
            return
        connection = self._connections.get(broker)
        if connection is None or not connection.is_open:
            name = f"client-{broker.node_id}"
            connection = _Connection(name, self._draws, self.report)
            self._connections[broker] = connection
            broker.connections[connection] = None
        self._next_id += 1
        self.report.requests += 1
        connection.waiting[self._next_id] = request
        broker.on_request(connection, self._next_id, request)

    def _end(self) -> None:
        """Everything is healed; what is parked or held is answered within its timeout."""
        world = self.world
        for broker in world.brokers:
            broker.append_errors.clear()
            self._let_back(broker)
            if not broker.is_alive:
                broker.restart()
        world.replication_factor = 1
        world.advance_to(world.now_ms + _QUIET_MS)
        if self._is_over():
            return
        if world.clock.stands_still:
            self.report.problems.append(f"time stands still: {world.steps.last()}")
            return
        for connection in self._connections.values():
            for request in connection.waiting.values():
                if _is_owed(request):
                    self.report.problems.append(f"never answered: {request!r}")

    def _coordinator_of(self, group_id: str) -> GroupCoordinator | None:
        shard = self._groups[group_id].acting_shard()
        return None if shard is None else shard.coordinator

    # --- what befalls brokers ---------------------------------------------------------------------

    def _elect(self) -> None:
        controller = self.world.controller
        partition = self._draw.choice(controller.partitions)
        successor = partition.successor()
        if successor is not None:
            controller.move(partition.partition, successor)

    def _crash(self) -> None:
        alive = [broker for broker in self.world.brokers if broker.is_alive]
        if len(alive) > 1:
            broker = self._draw.choice(alive)
            broker.crash()
            broker.connections.clear()

    def _restart(self) -> None:
        for broker in self.world.brokers:
            if not broker.is_alive:
                broker.restart()

    def _fail_writes(self) -> None:
        broker = self._draw.choice(self.world.brokers)
        broker.append_errors.append(self._draw.choice(_WRITE_ERRORS))

    def _write_again(self) -> None:
        for broker in self.world.brokers:
            broker.append_errors.clear()

    def _cut_off(self) -> None:
        """It continues as a leader that does not know of its successor."""
        broker = self._draw.choice(self.world.brokers)
        if broker.is_alive and not broker.is_cut_off:
            broker.cut_off_count = broker.isolation_count = 1
            self.world.controller.fence(broker)

    def _rejoin(self) -> None:
        for broker in self.world.brokers:
            self._let_back(broker)

    def _let_back(self, broker: Broker) -> None:
        if broker.is_cut_off:
            broker.cut_off_count = broker.isolation_count = 0
            if broker.is_alive:
                self.world.controller.on_broker_up(broker)
                broker.pump_both_ways()

    def _slow(self) -> None:
        self.world.replication_factor = self._draw.choice((1, 1, 100, 5_000))

    def _compact(self) -> None:
        draw = self._draw
        fault = LogCompaction(
            at_ms=0,
            cleaned_percent=draw.choice((30, 70, 100)),
            drops_tombstones=draw.random() < 0.5,
        )
        fault.begin(self.world)

    # --- administrators ---------------------------------------------------------------------------

    def _create_topic(self) -> None:
        self.world.topics.create(self._draw.choice(TOPICS), self._draw.choice((1, 2, 4)))

    def _grow_topic(self) -> None:
        self.world.topics.grow(self._draw.choice(TOPICS), self._draw.choice((2, 4, 6)))

    def _delete_topic(self) -> None:
        self.world.topics.delete(self._draw.choice(TOPICS))

    def _alter_brokers(self) -> None:
        if self.world.spec.has_assignment_interval:
            interval_ms = self._draw.choice((None, 0, 500, 5_000))
            change = BrokerConfigChange(at_ms=0, group_consumer_assignment_interval_ms=interval_ms)
            self.world.settings.apply(change)


def _is_owed(request: Any) -> bool:
    """Whether an answer must have come: a JoinGroup may be parked as long as it asked for itself,
    and what waits for it waits as long."""
    return not hasattr(request, "generation_id") and not hasattr(request, "protocols")


def _spec(draw: random.Random, seed: int, semantics: str) -> WorldSpec:
    has_big_batches = draw.random() < 0.9
    config = CoordinatorConfig(
        group_consumer_session_timeout_ms=6_000,
        group_consumer_min_session_timeout_ms=5_000,
        group_consumer_max_session_timeout_ms=60_000,
        group_consumer_heartbeat_interval_ms=1_000,
        group_consumer_min_heartbeat_interval_ms=500,
        group_consumer_max_heartbeat_interval_ms=15_000,
        group_consumer_assignment_interval_ms=draw.choice((0, 0, 1_000)),
        group_consumer_max_size=draw.choice((2, 4, 100)),
        group_consumer_migration_policy=draw.choice((*MIGRATION_POLICIES, "bidirectional")),
        group_consumer_regex_refresh_interval_ms=draw.choice((10_000, 600_000)),
        group_initial_rebalance_delay_ms=draw.choice((0, 0, 3_000)),
        group_max_size=draw.choice((2, 4, 100)),
        group_coordinator_append_linger_ms=draw.choice((0, -1, 5, 50)),
        message_max_bytes=1_048_588 if has_big_batches else draw.choice((300, 1_000, 4_000)),
        offset_metadata_max_bytes=draw.choice((4, 4_096)),
        offsets_retention_minutes=draw.choice((1, 10_080)),
        offsets_retention_check_interval_ms=draw.choice((20_000, 600_000)),
    )
    topics = tuple(
        TopicSpec(name=name, partition_count=draw.choice((1, 2, 4))) for name in TOPICS[:3]
    )
    return WorldSpec(
        seed=seed,
        topics=topics,
        clients=(),
        duration_ms=_DURATION_MS,
        quiet_period_ms=0,
        group_id="g",
        semantics=semantics,
        repairs=tuple(i for i in _REPAIRED if SEMANTICS[semantics].can_repair(i)),
        config=config,
        brokers=BrokerSpec(
            count=draw.choice((1, 3)), offsets_partition_count=draw.choice((1, 1, 2))
        ),
    )


def _load(path: Path | None) -> dict[str, Any]:
    if path is None or not path.exists():
        return {"requests": 0, "steps": 0, "seeds": 0, "known": {}, "failed": {}}
    state: dict[str, Any] = json.loads(path.read_text())
    return state


def _add(state: dict[str, Any], report: Report) -> None:
    state["requests"] += report.requests
    state["steps"] += report.steps
    state["seeds"] += 1
    for issue, times in report.known.items():
        state["known"][issue] = state["known"].get(issue, 0) + times
    if report.problems:
        state["failed"][str(report.seed)] = report.problems[0]


def _print(state: Mapping[str, Any]) -> None:
    print(
        f"{state['seeds']} seeds, {state['requests']} requests, {state['steps']} steps, "
        f"{len(state['failed'])} failed"
    )
    for issue, times in sorted(state["known"].items()):
        print(f"  known {issue}: {times}")


def main() -> int:
    """Run the seeds that are asked for, but those that the state has."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", default="0:250", help="first and end, such as 0:2500")
    parser.add_argument("--semantics", help="this version instead of one that is drawn")
    parser.add_argument("--state", type=Path, help="file that keeps how far it has come")
    parser.add_argument("--seconds", type=float, help="stop after so long")
    arguments = parser.parse_args()
    first, _, end = arguments.seeds.partition(":")
    state = _load(arguments.state)
    began_s = time.monotonic()
    for seed in range(state.get("next", int(first)), int(end or int(first) + 1)):
        report = TypedRequests(seed, semantics=arguments.semantics).run()
        _add(state, report)
        state["next"] = seed + 1
        for problem in report.problems[:1]:
            print(f"seed {seed}: {problem}", flush=True)
        if arguments.state is not None and seed % 50 == 49:
            arguments.state.write_text(json.dumps(state))
        if arguments.seconds is not None and time.monotonic() - began_s > arguments.seconds:
            break
    if arguments.state is not None:
        arguments.state.write_text(json.dumps(state))
    _print(state)
    return 1 if state["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
