"""Only classic members remain in a consumer group, and it becomes a classic one again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from classic_builders import GROUP_ID, SESSION_MS, ClassicBench, codes, spelled, subscription

from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.timer_keys import ConsumerTimer
from rebalance_sim.protocol.migration.downgrade import Downgrade
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import GroupMetadata
from rebalance_sim.protocol.wire.topics import TopicPartition

EMPTY = ClassicGroupState.EMPTY
PREPARING = ClassicGroupState.PREPARING_REBALANCE
STABLE = ClassicGroupState.STABLE
NONE, REBALANCE = ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS


def owned(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("foo", number) for number in numbers)


def is_classic(bench: ClassicBench) -> bool:
    coordinator = bench.shard.coordinator
    assert (GROUP_ID in coordinator.groups_of(ConsumerGroup)) != (
        GROUP_ID in coordinator.groups_of(ClassicGroup)
    )
    return GROUP_ID in coordinator.groups_of(ClassicGroup)


def mixed(*classic: str, **options: Any) -> ClassicBench:
    """X (consumer protocol) with these classic members, all of them at the target."""
    bench = ClassicBench(**options)
    bench.consume("X")
    for name in classic or ("A",):
        bench.join(name)
    for _ in range(3):
        x = bench.consumers.members["X"]
        bench.consume("X", x.member_epoch, topic_partitions=frozenset(x.assigned))
        for name in classic or ("A",):
            member = bench.consumers.members[bench.id(name)]
            bench.join(name, metadata=subscription(generation=member.member_epoch))
            bench.sync(name, generation=bench.consumers.members[bench.id(name)].member_epoch)
    assert bench.consumers.state.value == "Stable"
    return bench


# -- what triggers it ----------------------------------------------------------------------


def x_leaves(bench: ClassicBench) -> None:
    bench.consume("X", -1)


def x_is_removed(bench: ClassicBench) -> None:
    assert bench.leave("X") == [NONE]


def x_falls_silent(bench: ClassicBench) -> None:
    bench.join("A", metadata=subscription(generation=9), session_ms=200_000, rebalance_ms=200_000)
    bench.sync("A", generation=bench.consumers.members[bench.id("A")].member_epoch)
    bench.wait(bench.due_ms("session", "X") - bench.shard.now_ms)


def x_does_not_revoke(bench: ClassicBench) -> None:
    long = {"session_ms": 100_000, "rebalance_ms": 100_000}
    x = bench.consumers.members["X"]
    bench.consume("X", x.member_epoch, rebalance_timeout_ms=2_000)
    bench.join("B", **long)
    bench.join("C", **long)
    bench.join("A", metadata=subscription(generation=9), **long)
    x = bench.consumers.members["X"]
    bench.consume("X", x.member_epoch, topic_partitions=frozenset(x.assigned))
    assert "rebalance X" in bench.timers()
    bench.wait(2_000)


@pytest.mark.parametrize("trigger", [x_leaves, x_is_removed, x_falls_silent, x_does_not_revoke])
def test_the_last_member_of_the_consumer_protocol_goes(
    trigger: Callable[[ClassicBench], None],
) -> None:
    bench = mixed()
    newcomers = 2 if trigger is x_does_not_revoke else 0
    epoch = bench.consumers.group_epoch + newcomers
    trigger(bench)
    assert is_classic(bench)
    assert (bench.state, bench.generation) == (PREPARING, epoch)
    assert bench.id("A") in bench.group.members


def test_a_classic_member_that_goes_from_classic_members_converts_as_well() -> None:
    """Such a group arises when the last consumer member rejoins with its own id by JoinGroup."""
    bench = mixed("A", "B")
    bench.send_join("X", member_id="X")
    assert bench.consumers.classic_member_count == len(bench.consumers.members) == 3
    bench.leave("B")
    assert is_classic(bench)
    assert bench.members() == {"A", "X"}


@pytest.mark.parametrize(
    "kind", [ConsumerTimer.REJOIN, ConsumerTimer.RESYNC, ConsumerTimer.SESSION]
)
def test_a_classic_member_that_expires_may_leave_only_classic_members_behind(
    kind: ConsumerTimer,
) -> None:
    bench = mixed("A", "B")
    bench.send_join("X", member_id="X")
    if kind is ConsumerTimer.REJOIN:
        bench.consumers.awaited_rejoins.add(bench.id("B"))
    key = next(k for k in bench.shard.timers if k.kind == "session")._replace(
        kind=kind, member_id=bench.id("B")
    )
    bench.shard.take(bench.shard.coordinator.fire(key, now_ms=bench.shard.now_ms))
    assert is_classic(bench)


def test_somebody_else_of_the_consumer_protocol_remains() -> None:
    bench = mixed()
    bench.consume("Y")
    bench.consume("X", -1)
    assert not is_classic(bench)


def test_the_last_member_of_all_goes_and_an_empty_consumer_group_remains() -> None:
    bench = mixed()
    bench.leave("A", "X")
    assert not is_classic(bench)
    assert not bench.consumers.members


def test_a_static_member_that_is_only_away_keeps_the_group_as_it_is() -> None:
    bench = ClassicBench()
    bench.consume("X", instance_id="i")
    bench.join("A")
    bench.consume("X", -2, instance_id="i")
    assert not is_classic(bench)
    bench.join("A", metadata=subscription(generation=3), session_ms=200_000, rebalance_ms=200_000)
    bench.wait(45_000)
    assert is_classic(bench)


@pytest.mark.parametrize(
    ("policy", "converts"),
    [("bidirectional", True), ("downgrade", True), ("upgrade", False)],
)
def test_the_policy_decides(policy: str, converts: bool) -> None:
    bench = mixed(group_consumer_migration_policy=policy)
    bench.consume("X", -1)
    assert is_classic(bench) == converts
    if not converts:
        assert set(bench.consumers.members) == {bench.id("A")}
        assert codes(bench.send_join("A", metadata=subscription(generation=3))) == [NONE]


def test_more_members_than_a_classic_group_may_have_stay_where_they_are() -> None:
    bench = mixed("A", "B", group_max_size=1)
    bench.consume("X", -1)
    assert not is_classic(bench)
    bench.leave("B")
    assert is_classic(bench)


# -- what comes of it ----------------------------------------------------------------------


def test_the_whole_conversion_is_one_batch() -> None:
    bench = mixed("A", "B")
    bench.consume("X", -1)
    assert bench.wrote() == "8† 8† 8† 7† 7† 7† 6† 5† 5† 5† 4† 3† 2"


def test_patterns_go_as_well() -> None:
    bench = mixed()
    bench.consume("X", 3, subscribed_topic_regex="fo+", subscribed_topic_names=())
    bench.wait(0)
    bench.consume("X", -1)
    assert bench.wrote() == "8† 8† 7† 7† 6† 5† 5† 16† 4† 3† 2"


def test_members_get_their_targets_and_the_lowest_id_leads() -> None:
    bench = mixed("A", "B")
    targets = {name: bench.consumers.target_of(bench.id(name)) for name in ("A", "B")}
    epoch = bench.consumers.group_epoch
    bench.consume("X", -1)
    group = bench.group
    for name, target in targets.items():
        member = group.members[bench.id(name)]
        assert spelled(member.assignment) == sorted(p.partition for p in target)
        assert (member.session_timeout_ms, member.client_id) == (SESSION_MS, name)
    assert group.leader_id == min(group.members)
    assert (group.protocol_type, group.protocol_name) == ("consumer", "range")
    assert group.subscribed_topics == {"foo"}
    _, records = bench.shard.batches[-1]
    record = records[-1]
    assert isinstance(record, GroupMetadata) and record.value is not None
    assert record.value.generation == epoch


def test_an_assignment_is_written_in_the_version_of_the_members_own_metadata() -> None:
    bench = ClassicBench()
    bench.consume("X")
    bench.join("A", metadata=subscription(version=1))
    bench.consume("X", -1)
    given: Any = bench.group.members[bench.id("A")].assignment
    assert given.version == 1


def test_the_protocol_is_put_to_the_vote_again() -> None:
    bench = ClassicBench()
    bench.consume("X")
    for name in ("A", "B", "C"):
        bench.join(name, protocols=("range", "sticky") if name == "A" else ("sticky", "range"))
    bench.consume("X", -1)
    assert bench.group.protocol_name == "sticky"


def test_members_at_the_epoch_are_called_and_those_behind_lose_what_they_have() -> None:
    bench = mixed("A", "B")
    bench.consume("Y", 0)
    behind = bench.consumers.members[bench.id("B")].member_epoch
    bench.join("A", metadata=subscription(generation=behind))
    epoch = bench.consumers.group_epoch
    bench.leave("X", "Y")
    assert bench.beat("A", generation=epoch) is REBALANCE
    assert bench.beat("B", generation=behind) is ErrorCode.ILLEGAL_GENERATION


def test_the_next_generation_follows_the_epoch() -> None:
    bench = mixed()
    epoch = bench.consumers.group_epoch
    bench.consume("X", -1)
    response = bench.send_join("A")
    assert response is not None
    assert (response.generation_id, response.leader) == (epoch + 1, bench.id("A"))


def test_no_one_rejoins_and_the_group_is_empty() -> None:
    bench = mixed()
    epoch = bench.consumers.group_epoch
    bench.consume("X", -1)
    bench.wait(SESSION_MS)
    assert (bench.state, bench.generation) == (EMPTY, epoch + 1)


def test_all_timers_are_classic_from_here_on() -> None:
    bench = mixed("A", "B", semantics=SEMANTICS["kafka-4.4-clean"])
    bench.consume("Y")
    bench.beat("A", generation=bench.consumers.members[bench.id("A")].member_epoch)
    bench.leave("X", "Y")
    assert bench.timers() == {"classic-join", "classic-session A", "classic-session B"}
    assert bench.due_ms("classic-session", "A") == bench.shard.now_ms + SESSION_MS


@pytest.mark.parametrize(("version", "stays"), [("kafka-4.4", False), ("kafka-4.4-clean", True)])
def test_who_did_not_sync_before_is_removed_when_the_group_is_a_consumer_group_again(
    version: str, stays: bool
) -> None:
    """Finding sim-kept-timers: the timer continues while the group is a classic one."""
    bench = mixed("A", "B", semantics=SEMANTICS[version])
    generation = bench.consumers.members["X"].member_epoch
    bench.join("A", metadata=subscription(generation=generation), rebalance_ms=2_000)
    bench.consume("X", -1)
    bench.consume("X")
    assert bench.id("A") in bench.consumers.members
    bench.wait(2_000)
    assert (bench.id("A") in bench.consumers.members) == stays
    assert bench.id("B") in bench.consumers.members


def test_the_group_comes_back_stable_from_a_load() -> None:
    bench = mixed("A", "B")
    epoch = bench.consumers.group_epoch
    bench.consume("X", -1)
    bench.shard.restart()
    assert is_classic(bench)
    assert (bench.state, bench.generation, bench.members()) == (STABLE, epoch, {"A", "B"})


def test_members_that_were_gone_in_the_log_do_not_come_back() -> None:
    bench = mixed("A", "B")
    bench.consume("X", -1)
    assert bench.consume("X", 3).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_write_that_never_happened_leaves_the_consumer_group_as_it_was() -> None:
    bench = mixed()
    before = dict(bench.consumers.members)
    coordinator = bench.shard.coordinator
    outcome = coordinator.handle(
        ConsumerGroupHeartbeatRequest(group_id=GROUP_ID, member_id="X", member_epoch=-1),
        now_ms=bench.shard.now_ms,
    )
    assert isinstance(outcome.on_commit, Downgrade)
    coordinator.write_failed(outcome.on_commit, ErrorCode.NOT_COORDINATOR, is_undone=True, now_ms=0)
    assert GROUP_ID not in coordinator.groups_of(ClassicGroup)
    assert bench.consumers.members == before


def test_there_and_back_again() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.consume("X")
    epoch = bench.consumers.group_epoch
    bench.consume("X", -1)
    bench.send_join("A")
    bench.send_join("B")
    bench.joined("A")
    bench.settle()
    assert (bench.state, bench.generation) == (STABLE, epoch + 1)
    bench.consume("X")
    assert bench.consumers.group_epoch == epoch + 2
    assert bench.consumers.classic_member_count == 2


# -- a classic member takes the last member of the consumer protocol -------------------------


def last_seat(version: str = "kafka-4.3", **options: Any) -> ClassicBench:
    bench = ClassicBench(SEMANTICS[version], topics={"foo": 4, "bar": 2}, **options)
    bench.consume("X", instance_id="i")
    return bench


def test_a_replacement_with_the_same_subscription_starts_no_rebalance() -> None:
    bench = last_seat()
    response = bench.send_join("A", instance="i")
    assert response is not None
    assert (response.generation_id, response.leader, response.members) == (2, "", ())
    assert bench.wrote() == "8† 7† 5† 5 7 8 5 8 8† 7† 6† 5† 4† 3† 2"
    assert (bench.state, bench.generation) == (STABLE, 2)
    assert bench.beat("A", instance="i") is NONE
    synced = bench.sync("A", instance="i")
    assert synced is not None
    assert spelled(synced.assignment) == [0, 1, 2, 3], "the target of that member"
    assert bench.timers() == {"classic-session A"}


def test_a_replacement_with_another_subscription_starts_a_rebalance() -> None:
    bench = last_seat()
    response = bench.send_join("A", instance="i", metadata=subscription(("foo", "bar")))
    assert response is not None
    assert response.generation_id == 0, "as Kafka has it: good for nothing"
    assert bench.wrote() == "8† 7† 5† 5 7 8 5 3 8† 7† 6† 5† 4† 3† 2"
    assert (bench.state, bench.generation) == (PREPARING, 2)
    assert bench.beat("A", generation=0, instance="i") is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(("version", "state"), [("kafka-4.3", PREPARING), ("kafka-4.1", STABLE)])
def test_a_target_that_is_overdue_counts_as_a_change_in_4_3_only(
    version: str, state: ClassicGroupState
) -> None:
    bench = last_seat(version)
    bench.consume("Y")
    bench.consume("Y", -1)
    bench.send_join("A", instance="i")
    assert bench.state is state


def test_a_replacement_of_a_classic_member_converts_nothing() -> None:
    bench = last_seat(group_consumer_migration_policy="bidirectional")
    bench.consume("Y")
    bench.send_join("A", instance="i")
    assert not is_classic(bench)
    bench.send_join("A2", instance="i", member_id="")
    assert not is_classic(bench)


def test_a_replacement_under_a_policy_that_forbids_it_leaves_a_consumer_group() -> None:
    bench = last_seat(group_consumer_migration_policy="upgrade")
    assert codes(bench.send_join("A", instance="i")) == [NONE]
    assert not is_classic(bench)
    assert bench.consumers.classic_member_count == 1


def test_a_static_member_that_changes_its_protocol_under_its_own_id_converts_too() -> None:
    bench = last_seat()
    assert codes(bench.send_join("X", member_id="X", instance="i")) == [NONE]
    assert is_classic(bench)
    assert bench.state is STABLE
