"""Where the tasks of a Streams application run, and where copies of their state are kept.

A small relative of Kafka Streams' high availability assignor (KIP-441), for the protocol of
KIP-848. The rule that matters: an active task moves only to a member whose copy of its state is
nearly as good as the owner's. Where balance wants it somewhere else, a *warm-up* of the task goes
there first; when that has caught up, its member says so, and the next assignment moves the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rebalance_sim.protocol.assignors.client_side.streams_metadata import (
    StreamsAssignment,
    StreamsMember,
)
from rebalance_sim.protocol.assignors.server import (
    GroupSpec,
    MemberSpec,
    SubscriptionType,
    UniformAssignor,
)
from rebalance_sim.protocol.wire.topics import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsConfig:
    """Settings of a Streams application, with Kafka's names and defaults.

    ``acceptable_recovery_lag`` is in records: a copy that lags no more can take a task over.
    ``max_warmup_replicas`` bounds the warm-ups of the whole group at one time. Raises ValueError
    for a negative number, and for no warm-up at all, with which nothing could ever be balanced.
    """

    num_standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    rack_aware_assignment_tags: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (
            ("num_standby_replicas", 0),
            ("acceptable_recovery_lag", 0),
            ("max_warmup_replicas", 1),
        ):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be >= {least}, got {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsInstance:
    """A member as the placement sees it: what it says, what it subscribes to, what it runs."""

    says: StreamsMember
    subscribed_topic_ids: frozenset[str]
    target: frozenset[TopicPartition]


@dataclass(slots=True)
class _Share:
    active: set[TopicPartition] = field(default_factory=set)
    standby: set[TopicPartition] = field(default_factory=set)
    warm_up: set[TopicPartition] = field(default_factory=set)

    @property
    def load(self) -> int:
        return len(self.active) + len(self.standby) + len(self.warm_up)


class Placement:
    """One computation; its steps in their order. A mutant replaces one of them.

    ``partition_counts`` (topic id -> number of partitions) has the topics of all subscriptions.
    """

    def __init__(
        self,
        instances: Mapping[str, StreamsInstance],
        partition_counts: Mapping[str, int],
        config: StreamsConfig,
    ) -> None:
        self.config = config
        self.instances = {member_id: instances[member_id] for member_id in sorted(instances)}
        self._counts = partition_counts
        self._shares = {member_id: _Share() for member_id in self.instances}
        self._tasks = [
            TopicPartition(topic_id, number)
            for topic_id in sorted(partition_counts)
            for number in range(partition_counts[topic_id])
        ]
        existing = set(self._tasks)
        self._owner = {
            task: member_id
            for member_id, instance in self.instances.items()
            for task in sorted(instance.target & existing)
            if task.topic_id in instance.subscribed_topic_ids
        }
        self._lags: dict[tuple[str, TopicPartition], int] = {}
        for instance in self.instances.values():
            for task, lag in instance.says.task_lags.items():
                key = instance.says.process_id, task
                self._lags[key] = min(lag, self._lags.get(key, lag))

    def shares(self) -> dict[str, StreamsAssignment]:
        """Active, standby and warm-up tasks of every member; each task is active exactly once."""
        holders = self._holders()
        wishes = self._place_active(holders, self._balanced(holders))
        self._place_warm_ups(wishes)
        self._place_standbys()
        return {
            member_id: StreamsAssignment(
                active=frozenset(share.active),
                standby=frozenset(share.standby),
                warm_up=frozenset(share.warm_up),
            )
            for member_id, share in self._shares.items()
        }

    # -- what is known ---------------------------------------------------------------------

    def process_of(self, member_id: str) -> str:
        """The instance of the application that a member belongs to; they share a store."""
        return self.instances[member_id].says.process_id

    def lag_of(self, member_id: str, task: TopicPartition) -> int | None:
        """How far the copy in the member's process lags; None where no one has said."""
        return self._lags.get((self.process_of(member_id), task))

    def is_caught_up(self, member_id: str, task: TopicPartition) -> bool:
        """Can the member take the task over without a long restoration?

        The process that runs it is trusted, unless it says otherwise.
        """
        lag = self.lag_of(member_id, task)
        if lag is not None:
            return lag <= self.config.acceptable_recovery_lag
        owner_id = self._owner.get(task)
        return owner_id is not None and self.process_of(owner_id) == self.process_of(member_id)

    def _subscribers(self, task: TopicPartition) -> list[str]:
        return [
            member_id
            for member_id, instance in self.instances.items()
            if task.topic_id in instance.subscribed_topic_ids
        ]

    # -- active tasks ----------------------------------------------------------------------

    def _holders(self) -> dict[TopicPartition, str]:
        """Task -> its owner, or the member that is best prepared to take it over."""
        holders = dict(self._owner)
        load = dict.fromkeys(self.instances, 0)
        for member_id in holders.values():
            load[member_id] += 1
        for task in self._tasks:
            if task in holders:
                continue
            members = self._subscribers(task)
            prepared = [m for m in members if self.is_caught_up(m, task)]
            if prepared:
                successor = min(prepared, key=lambda m: (load[m], self._lag_rank(m, task), m))
            else:
                started = [m for m in members if self.lag_of(m, task) is not None]
                if not started:
                    continue
                successor = min(started, key=lambda m: (self._lag_rank(m, task), load[m], m))
            holders[task] = successor
            load[successor] += 1
        return holders

    def _lag_rank(self, member_id: str, task: TopicPartition) -> tuple[bool, int]:
        lag = self.lag_of(member_id, task)
        return lag is None, lag or 0

    def _balanced(self, holders: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
        """Where tasks would be if state did not matter: balanced, and moved as little as can be."""
        current: dict[str, set[TopicPartition]] = {m: set() for m in self.instances}
        for task, member_id in holders.items():
            current[member_id].add(task)
        members = {
            member_id: MemberSpec(
                subscribed_topic_ids=instance.subscribed_topic_ids,
                current=frozenset(current[member_id]),
            )
            for member_id, instance in self.instances.items()
        }
        alike = len({m.subscribed_topic_ids for m in members.values()}) <= 1
        kind = SubscriptionType.HOMOGENEOUS if alike else SubscriptionType.HETEROGENEOUS
        spec = GroupSpec(members=members, subscription_type=kind)
        shares = UniformAssignor().assign(spec, self._counts)
        return {task: member_id for member_id, share in shares.items() for task in share}

    def _place_active(
        self, holders: Mapping[TopicPartition, str], wanted: Mapping[TopicPartition, str]
    ) -> list[tuple[TopicPartition, str]]:
        """Place every task; the result are (task, member) that must warm up before they get it."""
        wishes = []
        for task in self._tasks:
            member_id = wanted[task]
            runner = self.runner_of(task, member_id, holders.get(task))
            self._shares[runner].active.add(task)
            if runner != member_id and self.is_caught_up(runner, task):
                wishes.append((task, member_id))
        return wishes

    def runner_of(self, task: TopicPartition, wanted: str, holder: str | None) -> str:
        """Who runs the task now: whom balance wants, if its copy is good enough; else a member
        with a good copy; else the one that has come furthest."""
        if self.is_caught_up(wanted, task):
            return wanted
        if holder is not None and self.is_caught_up(holder, task):
            return holder
        prepared = [m for m in self._subscribers(task) if self.is_caught_up(m, task)]
        if prepared:
            return min(prepared, key=lambda m: (self._lag_rank(m, task), m))
        if holder is None or self._lag_rank(wanted, task) < self._lag_rank(holder, task):
            return wanted
        return holder

    # -- copies ----------------------------------------------------------------------------

    def _place_warm_ups(self, wishes: Iterable[tuple[TopicPartition, str]]) -> None:
        """As many as may be at one time; those that have begun come first."""
        order = sorted(wishes, key=lambda wish: (self._lag_rank(wish[1], wish[0]), wish[0]))
        for task, member_id in order[: self.config.max_warmup_replicas]:
            self._shares[member_id].warm_up.add(task)

    def _place_standbys(self) -> None:
        wanted = self.config.num_standby_replicas
        if not wanted:
            return
        fair = -(-wanted * len(self._tasks) // len(self.instances)) if self.instances else 0
        placed: dict[TopicPartition, list[str]] = {task: [] for task in self._tasks}
        for member_id, share in self._shares.items():
            for task in (*share.active, *share.warm_up):
                placed[task].append(member_id)
        for task in self._tasks:
            for _ in range(wanted):
                members = self.standby_candidates(task, placed[task])
                if not members:
                    break
                chosen = min(members, key=lambda m: self._standby_rank(m, task, placed[task], fair))
                self._shares[chosen].standby.add(task)
                placed[task].append(chosen)

    def standby_candidates(self, task: TopicPartition, placed: Iterable[str]) -> list[str]:
        """Members in processes that have nothing to do with the task yet."""
        taken = {self.process_of(member_id) for member_id in placed}
        return [m for m in self._subscribers(task) if self.process_of(m) not in taken]

    def _standby_rank(
        self, member_id: str, task: TopicPartition, placed: Iterable[str], fair: int
    ) -> tuple[int, bool, int, int, str]:
        """Lowest first: other tags than the copies have, a copy that is there, few tasks."""
        tags = self.instances[member_id].says.client_tags
        shared = sum(
            any(
                tags.get(tag) == self.instances[other].says.client_tags.get(tag) for other in placed
            )
            for tag in self.config.rack_aware_assignment_tags
        )
        share = self._shares[member_id]
        has_copy = self.lag_of(member_id, task) is not None and len(share.standby) < fair
        return shared, not has_copy, len(share.standby), share.load, member_id
