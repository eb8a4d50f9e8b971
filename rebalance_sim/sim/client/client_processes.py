"""The client processes: started, killed, closed, and started again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from rebalance_sim.protocol.clients.common.events import (
    Close,
    EnforceRebalance,
    Subscribe,
    Unsubscribe,
)
from rebalance_sim.protocol.clients.common.values import MembershipOperation
from rebalance_sim.protocol.clients.kinds import CLASSIC, JAVA, KINDS
from rebalance_sim.protocol.clients.versions import version_in
from rebalance_sim.protocol.wire.classic_messages import MemberIdentity
from rebalance_sim.sim.by_name import ByName
from rebalance_sim.sim.client.client_checks import (
    can_be_greedy,
    default_assignors,
    takes_assignors,
)
from rebalance_sim.sim.client.client_conditions import ClientConditions
from rebalance_sim.sim.client.client_process import ClientProcess
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.client.environment import ClientEnvironment
from rebalance_sim.sim.clock import PlannedCall
from rebalance_sim.sim.streams import delay_sampler


def redeployed(spec: ClientSpec, changes: Mapping[str, Any]) -> ClientSpec:
    """The same application with other settings, as far as they fit: without assignors that its
    library does not have, and with a heartbeat that fits into the timeouts."""
    rest = dict(changes)
    kind, assignors = rest.pop("kind", spec.kind), rest.pop("assignors", spec.assignors)
    if not takes_assignors(kind, assignors):
        assignors = spec.assignors if takes_assignors(kind, spec.assignors) else None
    version = rest.pop("version", spec.version)
    spec = _migrated(
        spec, kind, version, default_assignors(kind) if assignors is None else assignors
    )
    if spec.client_assignors is not None or KINDS[kind].is_classic:
        rest.pop("server_assignor", None)
    if spec.transactions is not None:
        rest.pop("enable_auto_commit", None)  # Deployments know nothing of transactions.
    session_ms = rest.get("session_timeout_ms", spec.session_timeout_ms)
    heartbeat_ms = rest.get("heartbeat_interval_ms", spec.heartbeat_interval_ms)
    max_poll_ms = rest.get("max_poll_interval_ms", spec.max_poll_interval_ms)
    rest["heartbeat_interval_ms"] = min(heartbeat_ms, max(1, min(session_ms, max_poll_ms) // 3))
    return replace(spec, **rest)


def _migrated(
    spec: ClientSpec, kind: str, version: str | None, assignors: tuple[str, ...]
) -> ClientSpec:
    """The same application with another library, without what that does not know."""
    return replace(
        spec,
        kind=kind,
        version=version_in(kind, version),
        assignors=assignors,
        uses_topic_ids=spec.uses_topic_ids if KINDS[kind].knows_topic_ids else False,
        client_assignors=spec.client_assignors if kind == JAVA else None,
        greedy_auto_commit=spec.greedy_auto_commit and can_be_greedy(kind),
    )


class ClientGroup(Protocol):
    """The group that some clients belong to."""

    tie_break: Callable[[], float]

    def on_process_start(self, process: ClientProcess) -> None:
        """A client has a new process."""


class ClientProcesses:
    """Every client by name. ``processes``: the newest process of each that has started, by name."""

    def __init__(
        self,
        environment: ClientEnvironment,
        specs: Iterable[ClientSpec],
        groups: Mapping[str, ClientGroup],
    ) -> None:
        self.environment = environment
        self._clock = environment.clock
        self._specs = {spec.name: spec for spec in specs}
        self._groups = {
            name: groups[environment.group_of(spec)] for name, spec in self._specs.items()
        }
        self._numbers = {name: number for number, name in enumerate(sorted(self._specs))}
        self._topics = {name: spec.topics for name, spec in self._specs.items()}
        self._restart_due: dict[str, int] = {}
        self._starts: dict[str, list[PlannedCall]] = defaultdict(list)
        self._processes: ByName[ClientProcess] = ByName()
        self.conditions = {name: self._new_conditions(spec) for name, spec in self._specs.items()}

    def _new_conditions(self, spec: ClientSpec) -> ClientConditions:
        stream = self.environment.streams.get(f"callback/{spec.name}")
        return ClientConditions(delay_sampler(spec.callback, stream))

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of the specification."""
        return tuple(self._specs)

    def schedule_starts(self, started_by_others: Collection[str] = ()) -> None:
        """Let every client start at its time, but for these."""
        for name in sorted(self._specs.keys() - set(started_by_others)):
            self._start_at(name, self._specs[name].start_ms)

    @property
    def processes(self) -> Mapping[str, ClientProcess]:
        """Client name -> its present process, in ascending name."""
        return self._processes.in_order()

    def group_id_of(self, name: str) -> str:
        """The group that a client belongs to."""
        return self.environment.group_of(self._specs[name])

    def live(self, name: str) -> ClientProcess | None:
        """The process of a client; None while it has none."""
        process = self._processes.get(name)
        return process if process is not None and process.is_alive else None

    def step_clock(self, name: str, step_ms: int) -> bool:
        """The wall clock of a client's host is set, but not to a time before 0. False: no process
        uses it now; one that does may follow."""
        conditions = self.conditions[name]
        step_ms = max(step_ms, -conditions.clock_ahead_ms - self._clock.now_ms)
        conditions.clock_ahead_ms += step_ms
        process = self.live(name)
        return process is not None and process.step_clock(step_ms)

    def stays(self, name: str) -> bool:
        """Whether a client has a process that no one has asked to close."""
        process = self.live(name)
        return process is not None and not process.application.is_exiting

    # --- what happens to processes ----------------------------------------------------------------

    def crash(self, name: str, down_ms: int | None) -> bool:
        """Kill the process, if there is one."""
        process = self.live(name)
        if process is None:
            return False
        process.end()
        self._restart_due.pop(name, None)
        self.environment.steps.client_crashed(process)
        if down_ms is not None:
            self.restart_later(name, down_ms)
        return True

    def close(self, name: str, down_ms: int | None, operation: MembershipOperation) -> bool:
        """Let the application close its consumer and end."""
        process = self.live(name)
        if process is None:
            return False
        if down_ms is not None:
            self.restart_later(name, down_ms)
        timeout_ms = process.spec.close_timeout_ms
        process.call(Close(timeout_ms=timeout_ms, operation=operation))
        return True

    def retire(self, name: str) -> None:
        """Let the application close its consumer, and never start again, though it is down now."""
        self._restart_due.pop(name, None)
        self.close(name, None, MembershipOperation.DEFAULT)

    def subscribe(self, name: str, topics: tuple[str, ...], topic_regex: str | None = None) -> bool:
        """Let the application change its subscription, now and in processes to come."""
        self._topics[name] = topics
        if topic_regex is not None:
            self._specs[name] = replace(self._specs[name], topics=(), topic_regex=topic_regex)
        process = self.live(name)
        if process is None:
            return False
        if topic_regex is not None:
            process.call(Subscribe(topic_regex=topic_regex))
        else:
            process.call(Subscribe(topic_names=frozenset(topics)) if topics else Unsubscribe())
        return True

    def enforce_rebalance(self, name: str) -> bool:
        """Let the application ask for a rebalance, if its library lets it."""
        process = self.live(name)
        if process is None or process.spec.kind != CLASSIC:
            return False
        process.call(EnforceRebalance())
        return True

    def change(self, name: str, changes: Mapping[str, Any]) -> None:
        """Let the client's processes to come have other settings (fields of ``ClientSpec``)."""
        rest = dict(changes)
        topics = rest.pop("topics", None)
        if topics is not None:
            self._topics[name] = topics
        self._specs[name] = redeployed(self._specs[name], rest)

    def identities(self, names: Iterable[str], group_id: str) -> tuple[MemberIdentity, ...]:
        """As what an administrator knows the members of a group that these clients are: static ones
        by instance id, whether they run or not, others by their member id."""
        found: dict[MemberIdentity, None] = {}
        for name in sorted(names):
            process = self._processes.get(name)
            if process is None or process.member.config.group_id != group_id:
                continue
            if process.spec.instance_id is not None:
                found[MemberIdentity("", process.spec.instance_id)] = None
            elif process.member.member_id:
                found[MemberIdentity(process.member.member_id)] = None
        return tuple(found)

    def migrate(
        self, name: str, kind: str, version: str | None, assignors: tuple[str, ...]
    ) -> None:
        """Let the client's processes to come be of another kind, and, None: as long as the library
        is the same, of the same version."""
        spec = self._specs[name]
        self._specs[name] = _migrated(spec, kind, version or spec.version, assignors)

    def restart_later(self, name: str, delay_ms: int) -> None:
        """Start a new process after a while, or as soon as the old one has ended after that."""
        at_ms = self._clock.simulated_ms + delay_ms
        self._restart_due[name] = at_ms
        self._start_at(name, at_ms)

    def on_process_end(self, process: ClientProcess) -> None:
        """``close`` has returned: the process ends."""
        process.end()
        self.environment.on_gone(process)
        due_ms = self._restart_due.get(process.name)
        if due_ms is not None and due_ms <= self._clock.simulated_ms:
            self._start_at(process.name, due_ms)

    def restart_all_due(self) -> None:
        """The quiet period begins: processes that are to come back do so now."""
        for name in sorted(self._restart_due):
            self._restart_due[name] = self._clock.simulated_ms
            self._start_at(name, self._clock.simulated_ms)

    def end_pills(self) -> None:
        """Faults stop: no record keeps an application any more."""
        self.environment.data_plane.end_pills()
        for process in self.processes.values():
            if process.is_alive:
                process.application.end_pills()

    def _start_at(self, name: str, at_ms: int) -> None:
        tie_break = self._groups[name].tie_break
        call = self._clock.plan_at(at_ms, tie_break(), self._on_start, name)
        self._starts[name].append(call)

    def _on_start(self, name: str) -> None:
        before = self._processes.get(name)
        if before is not None:
            due_ms = self._restart_due.get(name)
            if before.is_alive or due_ms is None or due_ms > self._clock.simulated_ms:
                return
        self._restart_due.pop(name, None)
        for call in self._starts.pop(name):
            self._clock.forget(call)  # It is alive by then, or started again later.
        conditions = self.conditions[name]
        conditions.on_new_process()
        process = ClientProcess(
            self.environment,
            self._specs[name],
            conditions,
            self,
            number=self._numbers[name],
            incarnation=1 if before is None else before.incarnation + 1,
        )
        self._processes.put(name, process)
        self._groups[name].on_process_start(process)
        self.environment.steps.client_started(process)
        process.start(self._topics[name])
