"""What the faults of a generated scenario may hit."""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.data_plane.topic_spec import TopicSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.ports import DrawRule


@dataclass(slots=True, kw_only=True)
class Targets:
    """The clients, topics and brokers of a scenario, and how the brokers are set up.

    ``has_assignment_interval``: the simulated version has this setting, and can alter it at run
    time. ``gone`` are clients that leave for good: one stays in any case.
    """

    clients: tuple[ClientSpec, ...]
    topics: tuple[TopicSpec, ...]
    broker_count: int
    offsets_partition_count: int
    duration_ms: int
    config: CoordinatorConfig
    has_assignment_interval: bool
    gone: set[str] = field(default_factory=set)

    def within(self, at_ms: int) -> int:
        """The time, or the last one before the quiet period."""
        return min(at_ms, self.duration_ms - 1)

    @property
    def topic_names(self) -> tuple[str, ...]:
        """The names of the topics, in their order."""
        return tuple(topic.name for topic in self.topics)

    def read_by(self, client: ClientSpec) -> tuple[str, ...]:
        """What a client subscribes to by name, or, if it has a pattern, all topics."""
        return client.topics or self.topic_names

    def team(self, group: str | None) -> list[ClientSpec]:
        """The clients of a group."""
        return [client for client in self.clients if client.group_id == group]

    def pair(self, draw: Draw) -> tuple[ClientSpec, ClientSpec] | None:
        """Two clients of one group; None where the first that is drawn has no other."""
        one = self.client(draw)
        others = [client for client in self.team(one.group_id) if client is not one]
        return (one, draw.pick(others)) if others else None

    def client(self, draw: Draw) -> ClientSpec:
        """One of the clients."""
        return draw.pick(self.clients)

    def broker(self, draw: Draw) -> int | None:
        """Mostly the leader, sometimes another."""
        return draw.between((0, self.broker_count - 1)) if draw.chance(0.3) else None

    def offsets_partition(self, draw: Draw, *, broker: int | None = None) -> int | None:
        """Which partition's leader is meant where no ``broker`` is named. Nothing is drawn where
        there is but one."""
        count = self.offsets_partition_count
        return draw.pick((None, *range(count))) if count > 1 and broker is None else None

    def group(self, draw: Draw) -> str | None:
        """One of the groups. Nothing is drawn where there is but one."""
        groups = sorted({client.group_id or "" for client in self.clients})
        return (draw.pick(groups) or None) if len(groups) > 1 else None

    def down_ms(self, draw: Draw, rule: DrawRule, name: str) -> int | None:
        """How long a client's process is away; None: for good, which one client never is."""
        down_ms = draw.between(rule.duration_ms)
        is_last = len(self.gone | {name}) >= len(self.clients)
        if not draw.chance(rule.forever_probability) or is_last:
            return down_ms
        self.gone.add(name)
        return None
