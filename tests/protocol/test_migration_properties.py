"""Random histories of members of both protocols satisfy the properties of classic §10.2."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from classic_builders import GROUP_ID, ClassicBench, subscription, timer_names
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import Record
from rebalance_sim.protocol.wire.topics import TopicPartition

classic = st.sampled_from(["A", "B", "sC"])
consumers = st.sampled_from(["X", "Y", "sZ"])
"""Those that begin with s are static, and share one instance id."""


def instance_of(name: str) -> str | None:
    return "i" if name.startswith("s") else None


class RandomMigration(RuleBasedStateMachine):
    """Clients of both kinds that do anything at any time."""

    @initialize(
        version=st.sampled_from(["kafka-4.3", "kafka-4.1", "kip-848"]),
        policy=st.sampled_from(["bidirectional", "upgrade", "downgrade", "disabled"]),
        interval_ms=st.sampled_from([0, 1_000]),
        delay_ms=st.sampled_from([0, 500]),
    )
    def start(self, version: str, policy: str, interval_ms: int, delay_ms: int) -> None:
        self.version = version
        self.policy = policy
        self.bench = ClassicBench(
            SEMANTICS[version],
            delay_ms=delay_ms,
            topics={"foo": 4, "bar": 2},
            group_consumer_migration_policy=policy,
            group_consumer_assignment_interval_ms=interval_ms,
        )
        self.epoch = 0
        self.batches = 0
        self.has_loaded = False

    def classic_group(self) -> ClassicGroup | None:
        return self.bench.shard.coordinator.groups_of(ClassicGroup).get(GROUP_ID)

    def consumer_group(self) -> ConsumerGroup | None:
        return self.bench.shard.coordinator.groups_of(ConsumerGroup).get(GROUP_ID)

    def generation_of(self, name: str) -> int:
        group = self.consumer_group()
        if group is not None:
            member = group.members.get(self.bench.id(name))
            return -1 if member is None else member.member_epoch
        found = self.classic_group()
        return -1 if found is None else found.generation_id

    # -- the consumer protocol -------------------------------------------------------------

    @rule(name=consumers, both=st.booleans())
    def join_as_consumer(self, name: str, both: bool) -> None:
        topics = ("bar", "foo") if both else ("foo",)
        self.bench.consume(name, subscribed_topic_names=topics, instance_id=instance_of(name))

    @rule(name=consumers, acknowledges=st.booleans())
    def heartbeat(self, name: str, acknowledges: bool) -> None:
        group = self.consumer_group()
        member = group.members.get(name) if group else None
        if member is not None and member.member_epoch > 0:
            owned = frozenset(member.assigned) if acknowledges else None
            self.bench.consume(
                name, member.member_epoch, topic_partitions=owned, instance_id=instance_of(name)
            )

    @rule(name=consumers, epoch=st.sampled_from([-1, -2]))
    def leave_as_consumer(self, name: str, epoch: int) -> None:
        if epoch == -1 or instance_of(name):
            self.bench.consume(name, epoch, instance_id=instance_of(name))

    # -- the classic protocol --------------------------------------------------------------

    @rule(
        name=classic,
        both=st.booleans(),
        keeps=st.booleans(),
        forgets_id=st.booleans(),
        rebalance_ms=st.sampled_from([1_000, 60_000]),
    )
    def join_as_classic(
        self, name: str, both: bool, keeps: bool, forgets_id: bool, rebalance_ms: int
    ) -> None:
        group = self.consumer_group()
        member = group.members.get(self.bench.id(name)) if group else None
        owned: dict[str, tuple[int, ...]] = {}
        if member is not None and keeps:
            for topic, number in sorted(member.assigned):
                owned[topic] = (*owned.get(topic, ()), number)
        metadata = subscription(
            ("foo", "bar") if both else ("foo",), owned, generation=self.generation_of(name)
        )
        options: dict[str, Any] = {
            "metadata": metadata,
            "instance": instance_of(name),
            "rebalance_ms": rebalance_ms,
            "member_id": "" if forgets_id else None,
        }
        response = self.bench.send_join(name, **options)
        is_mixed = bool(group and group.members)
        if response is not None and response.error_code is ErrorCode.NONE and is_mixed:
            assert response.members == ()

    @rule(name=classic)
    def sync(self, name: str) -> None:
        before = self.consumer_group()
        generation = self.generation_of(name)
        response = self.bench.sync(
            name,
            generation=generation,
            give={name: (0, 1), "no one": (2,)},
            instance=instance_of(name),
            protocol=None,
        )
        if before is not None:
            assert response is not None, "nothing is parked in a consumer group"
            if response.error_code is ErrorCode.NONE:
                member = before.members[self.bench.id(name)]
                given: Any = response.assignment
                assert {(t, n) for t, ns in given.partitions for n in ns} == set(member.assigned)

    @rule(name=classic)
    def beat(self, name: str) -> None:
        self.bench.beat(name, generation=self.generation_of(name), instance=instance_of(name))

    @rule(name=st.one_of(classic, consumers))
    def leave_group(self, name: str) -> None:
        self.bench.leave((name, instance_of(name)))

    # -- the world -------------------------------------------------------------------------

    @rule(ms=st.sampled_from([0, 500, 1_500, 20_000]))
    def wait(self, ms: int) -> None:
        self.bench.wait(ms)

    @rule()
    def restart(self) -> None:
        self.bench.shard.restart()
        self.has_loaded = True

    @rule()
    def grow_topic(self) -> None:
        image = self.bench.shard.coordinator.image
        bar = image.by_name["bar"]
        if bar.partition_count < 5:
            grown = replace(bar, partition_count=bar.partition_count + 1)
            self.bench.shard.update_image(image.with_topic(grown))

    # -- what must hold --------------------------------------------------------------------

    @invariant()
    def there_is_one_group_at_most_and_its_number_never_falls_back_unless_it_was_empty(
        self,
    ) -> None:
        consumer, classic_one = self.consumer_group(), self.classic_group()
        assert consumer is None or classic_one is None
        if consumer is not None:
            number, is_empty = consumer.group_epoch, not consumer.members
        elif classic_one is not None:
            number, is_empty = classic_one.generation_id, not classic_one.members
        else:
            number, is_empty = 0, True
        # A load may use a generation again that was never synced.
        is_reloaded = self.has_loaded and classic_one is not None
        assert is_empty or number >= self.epoch or is_reloaded
        self.epoch = 0 if is_empty else number

    @invariant()
    def a_consumer_group_agrees_with_itself(self) -> None:
        group = self.consumer_group()
        if group is None:
            return
        assert group.target_assignment_epoch <= group.group_epoch
        speakers = [m for m in group.members.values() if m.classic_metadata is not None]
        assert group.classic_member_count == len(speakers)
        names = Counter(
            name
            for member in speakers
            if member.classic_metadata
            for name, _ in member.classic_metadata.supported_protocols
        )
        assert group.classic_protocols == dict(names)
        owners: Counter[TopicPartition] = Counter()
        for member in group.members.values():
            assert member.member_epoch <= group.group_epoch
            owners.update([*member.assigned, *member.pending_revocation])
        assert not owners or max(owners.values()) == 1
        assert set(group.current_partition_epoch) == set(owners)
        assert group.awaited_rejoins <= set(group.members)

    @invariant()
    def timers_belong_to_members_of_their_kind(self) -> None:
        armed = timer_names(self.bench.shard)
        group = self.consumer_group()
        if group is None:
            return
        for member_id, member in group.members.items():
            assert f"session {member_id}" in armed
            if member.classic_metadata is not None and not self.has_loaded:
                # A load gives this timer to everybody who revokes, as it does in Kafka.
                assert f"rebalance {member_id}" not in armed
        for member_id in group.awaited_rejoins:
            assert f"mixed-join {member_id}" in armed

    @invariant()
    def every_batch_leaves_a_log_that_loads_to_the_same_group(self) -> None:
        batches = self.bench.shard.batches
        if len(batches) == self.batches:
            return
        self.batches = len(batches)
        follower = ClassicBench(SEMANTICS[self.version], topics={"foo": 4, "bar": 2})
        records: list[Record] = list(self.bench.shard.log)
        for record in records:
            follower.shard.coordinator.replay(record, strict=False)
        mine, theirs = (
            self.consumer_group(),
            follower.shard.coordinator.groups_of(ConsumerGroup).get(GROUP_ID),
        )
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert mine.members == theirs.members
            assert mine.target_assignment == theirs.target_assignment
            assert mine.group_epoch == theirs.group_epoch
        soft, loaded = (
            self.classic_group(),
            follower.shard.coordinator.groups_of(ClassicGroup).get(GROUP_ID),
        )
        assert (soft is None) == (loaded is None)

    def teardown(self) -> None:
        """Left alone, everybody expires, and the group is gone at the next check."""
        self.bench.wait(1_500_000)
        assert self.consumer_group() is None
        assert self.classic_group() is None


TestRandomMigrations = RandomMigration.TestCase
TestRandomMigrations.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
