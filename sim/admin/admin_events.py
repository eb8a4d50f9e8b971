"""What administrators do to groups while everything runs: to settings, offsets, whole groups.

Like faults they are plain data with a time, and check themselves: ValueError names the field.
Settings keep Kafka's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rebalance_sim.protocol.runtime.coordinator_config import GROUP_SETTINGS
from rebalance_sim.sim.faults.fault_base import At, check_time

__all__ = [
    "ADMIN",
    "AdminRequest",
    "BrokerConfigChange",
    "GroupConfigChange",
    "GroupDelete",
    "OffsetsAlter",
    "OffsetsDelete",
    "OffsetsList",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfigChange(At):
    """An administrator alters the dynamic settings of a group (IncrementalAlterConfigs).

    What is left out stays as it is; ``deletes`` names settings that go back to the broker's value.
    Each broker goes by it from when it hears of it: heartbeat intervals count from the next answer
    on, session timeouts from the next heartbeat on, and running timers are not adjusted. ``group``
    None is the group of the world.
    """

    group: str | None = None
    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None
    deletes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        At.__post_init__(self)
        if not self.changes:
            raise ValueError("a change of settings must set or delete at least one")
        for name in self.deletes:
            if getattr(self, name.replace(".", "_"), None) is not None:
                raise ValueError(f"deletes: {name} is set as well")

    @property
    def changes(self) -> Mapping[str, int | None]:
        """Kafka's dotted names -> new value; None deletes the setting."""
        changes: dict[str, int | None] = {}
        for setting in GROUP_SETTINGS:
            value = getattr(self, setting.name)
            if value is not None:
                changes[setting.name.replace("_", ".")] = value
        return {**changes, **dict.fromkeys(name.replace("_", ".") for name in self.deletes)}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfigChange(At):
    """An administrator alters a setting of all brokers while they run.

    Only the assignment interval can be; None brings the one back that they were started with.
    """

    group_consumer_assignment_interval_ms: int | None = None

    @property
    def changes(self) -> Mapping[str, int | None]:
        """Kafka's dotted names -> new value; None deletes the setting."""
        return {"group.consumer.assignment.interval.ms": self.group_consumer_assignment_interval_ms}


ADMIN = "admin"
"""The name under which faults of the network hit the administrators' client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDelete(At):
    """An administrator deletes a group with its offsets (deleteConsumerGroups).

    Refused while the group has members. ``group`` None is the group of the world, here and below.
    """

    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfTopic(At):
    """Something about the offsets of some partitions of a topic; none named means all it has."""

    topic: str
    partitions: tuple[int, ...] = ()
    group: str | None = None

    def __post_init__(self) -> None:
        At.__post_init__(self)
        if not self.topic:
            raise ValueError("topic must not be empty")
        if any(number < 0 for number in self.partitions):
            raise ValueError("partitions must be numbers from 0 on")


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsDelete(_OfTopic):
    """An administrator forgets committed offsets of a topic (deleteConsumerGroupOffsets).

    Refused for topics that a member of the group subscribes to.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsAlter(_OfTopic):
    """An administrator sets committed offsets of a topic (alterConsumerGroupOffsets).

    A commit without membership: refused while a group of consumers has members; a group that does
    not exist comes into being.
    """

    offset: int = 0

    def __post_init__(self) -> None:
        _OfTopic.__post_init__(self)
        check_time(self, "offset", least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetsList(At):
    """An administrator asks for all committed offsets of a group (listConsumerGroupOffsets).

    ``require_stable`` waits for what is not committed yet; without it the answer is immediate, from
    committed state.
    """

    require_stable: bool = False
    group: str | None = None


AdminRequest = GroupDelete | OffsetsDelete | OffsetsAlter | OffsetsList
"""What an administrator asks of the group's coordinator."""
