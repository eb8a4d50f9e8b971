"""Every cause of a rebalance, provoked, and named where the rebalance begins."""

from __future__ import annotations

from typing import Any

import pytest
from classic_builders import GROUP_ID, ClassicBench, HoldingShard, subscription
from mixed_builders import mixed, owned

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.hosting.minimal_shard import MinimalShard
from rebalance_sim.protocol.runtime.outcome import Outcome
from rebalance_sim.protocol.runtime.rebalance_causes import (
    REASONS,
    Rebalance,
    RebalanceCause,
    cause_by_reason,
    cause_of_leave,
)
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.classic_messages import LeaveGroupRequest, MemberIdentity
from rebalance_sim.protocol.wire.topics import Topic

C = RebalanceCause
STABLE = ClassicGroupState.STABLE


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the rebalances that began, in their order."""
    names: list[str] = []

    def noted(shard: MinimalShard, what: object, outcome: Outcome, *rest: object) -> None:
        names.extend(rebalance.name for rebalance in outcome.rebalances)

    def handled(shard: MinimalShard, number: int, what: object, *rest: Any) -> None:
        noted(shard, what, *rest)

    take = MinimalShard.take

    def taken(shard: MinimalShard, outcome: Outcome) -> None:
        noted(shard, None, outcome)
        take(shard, outcome)

    monkeypatch.setattr(MinimalShard, "take", taken)
    monkeypatch.setattr(MinimalShard, "handled", handled)
    monkeypatch.setattr(MinimalShard, "fired", noted)
    monkeypatch.setattr(MinimalShard, "written", noted)
    return names


def test_the_first_member_and_each_later_one(seen: list[str]) -> None:
    ClassicBench().stable("A", "B")
    assert seen == ["classic.member_joined"] * 2


def test_a_member_that_leaves(seen: list[str]) -> None:
    bench = ClassicBench().stable("A", "B")
    seen.clear()
    bench.leave("B")
    assert seen == ["classic.member_left"]


def test_a_member_that_is_not_heard_of(seen: list[str]) -> None:
    bench = ClassicBench().stable("A", "B")
    seen.clear()
    bench.wait(9_000)
    bench.beat("A")
    bench.wait(2_000)
    assert seen == ["classic.session_timeout"]


def test_a_generation_that_is_not_synced(seen: list[str]) -> None:
    bench = ClassicBench()
    bench.join("A", session_ms=100_000)
    seen.clear()
    bench.wait(25_000)
    assert seen == ["classic.sync_timeout"]


@pytest.mark.parametrize(
    ("name", "options", "cause"),
    [
        ("A", {}, "leader_rejoined"),
        ("B", {"metadata": subscription(generation=1)}, "metadata_changed"),
        ("B", {"metadata": subscription(("bar", "foo"))}, "subscription_changed"),
        ("A", {"reason": "cached metadata has changed from x to y"}, "topics_changed"),
        ("A", {"reason": "need to revoke partitions and re-join"}, "partitions_revoked"),
        ("A", {"reason": "rebalance enforced by user"}, "enforced"),
        ("A", {"reason": REASONS[C.PATTERN_MATCHED]}, "pattern_matched"),
        ("A", {"reason": "subscription has changed from x to y"}, "subscription_changed"),
        ("A", {"reason": "group is already rebalancing"}, "leader_rejoined"),
    ],
)
def test_a_member_that_joins_again(
    seen: list[str], name: str, options: dict[str, Any], cause: str
) -> None:
    """By its reason, or else by what the coordinator sees of it."""
    bench = ClassicBench().stable("A", "B")
    seen.clear()
    bench.send_join(name, **options)
    assert seen == [f"classic.{cause}"]


def test_what_comes_while_a_rebalance_is_under_way_begins_none(seen: list[str]) -> None:
    bench = ClassicBench().stable("A", "B", "C")
    bench.leave("C")
    seen.clear()
    bench.send_join("B")
    assert seen == []
    bench.send_join("A")
    assert seen == []


def test_a_static_member_that_returns_before_the_assignment(seen: list[str]) -> None:
    bench = ClassicBench()
    bench.join("A", instance="i")
    seen.clear()
    bench.ids.pop("A")
    bench.join("A", instance="i")
    assert seen == ["classic.static_replacement"]


def test_a_leader_assignment_that_cannot_be_written(seen: list[str]) -> None:
    bench = ClassicBench(holds_commits=True)
    assert isinstance(bench.shard, HoldingShard)
    bench.join("A")
    bench.shard.commit()
    bench.sync("A", give={"A": (0,)})
    seen.clear()
    bench.shard.fail()
    assert seen == ["classic.write_failed"]


def test_a_load_that_finds_too_many_members() -> None:
    bench = ClassicBench().stable("A", "B")
    bench.shard._config = ClassicBench(group_max_size=1).shard._config
    bench.shard.restart()
    assert bench.group.rebalance_cause is C.CAPACITY
    assert bench.state is ClassicGroupState.PREPARING_REBALANCE


def test_a_poll_that_does_not_come() -> None:
    assert cause_of_leave([REASONS[C.POLL_TIMEOUT]]) is C.POLL_TIMEOUT
    assert cause_of_leave(["the consumer is being closed"]) is C.MEMBER_LEFT
    assert cause_of_leave(["rebalance enforced by user"]) is C.MEMBER_LEFT


def test_each_member_of_a_batch_has_a_reason_of_its_own() -> None:
    late = REASONS[C.POLL_TIMEOUT]
    for others, cause in (((late,), C.POLL_TIMEOUT), (("",), C.MEMBER_LEFT)):
        bench = ClassicBench().stable("A", "B", "C")
        reasons = dict(zip("AB", (late, *others), strict=True))
        members = (MemberIdentity(bench.id(name), None, why) for name, why in reasons.items())
        # Who is not removed has no say.
        bench.shard.request(
            LeaveGroupRequest(
                group_id=GROUP_ID, members=(*members, MemberIdentity("no one", None, "bored"))
            )
        )
        assert bench.group.rebalance_cause is cause


def test_other_reasons_stand_for_nothing() -> None:
    assert cause_by_reason("") is None
    assert cause_by_reason("group is already rebalancing") is None


def test_conversions_both_ways(seen: list[str]) -> None:
    bench = ClassicBench().stable("A")
    seen.clear()
    bench.consume("X")
    assert seen == ["consumer.migration"]
    bench.consume("X", -1)
    assert seen == ["consumer.migration", "classic.migration"]


def test_an_empty_classic_group_is_not_converted(seen: list[str]) -> None:
    bench = ClassicBench().stable("A")
    bench.leave("A")
    seen.clear()
    bench.consume("X")
    assert seen == ["consumer.member_joined"]


def test_members_of_a_mixed_group(seen: list[str]) -> None:
    bench = mixed()
    assert seen == ["consumer.member_joined"] * 2
    seen.clear()
    bench.join("B")
    bench.leave("B")
    assert seen == ["consumer.member_joined", "consumer.member_left"]


def test_a_classic_member_that_is_called_back_and_does_not_come(seen: list[str]) -> None:
    bench = mixed(group_consumer_migration_policy="upgrade")
    bench.consume("Y")
    bench.beat("A", generation=3)
    seen.clear()
    for _ in range(5):
        bench.wait(4_500)
        bench.beat("A", generation=3)
        bench.consume("X", 4, topic_partitions=owned(0))
    assert "consumer.rebalance_timeout" in seen


def test_a_classic_member_that_does_not_sync(seen: list[str]) -> None:
    bench = mixed(group_consumer_migration_policy="upgrade")
    bench.join("B", session_ms=100_000)
    seen.clear()
    bench.wait(20_000)
    assert "consumer.sync_timeout" in seen


def test_topics_and_subscriptions_of_a_consumer_group(seen: list[str]) -> None:
    bench = ClassicBench(topics={"foo": 4, "bar": 1})
    bench.consume("X")
    seen.clear()
    bench.consume("X", 2, subscribed_topic_names=("bar", "foo"))
    image = bench.shard.coordinator.image
    bench.shard.update_image(image.with_topic(Topic(topic_id="foo", name="foo", partition_count=6)))
    bench.consume("X", 3)
    assert seen == ["consumer.subscription_changed", "consumer.topics_changed"]


def test_a_pattern_that_matches_other_topics(seen: list[str]) -> None:
    """The join itself raises nothing: what the pattern matches is not known yet."""
    bench = ClassicBench()
    bench.consume("X", subscribed_topic_names=None, subscribed_topic_regex="f.*")
    bench.wait(0)
    assert seen == ["consumer.pattern_matched"]


def test_sessions_and_revocations_of_a_consumer_group(seen: list[str]) -> None:
    bench = ClassicBench()
    bench.consume("X")
    bench.consume("Y")
    bench.consume("X", 2)
    seen.clear()
    bench.wait(30_000)
    assert seen == ["consumer.rebalance_timeout"]
    bench.wait(60_000)
    assert seen == ["consumer.rebalance_timeout", "consumer.session_timeout"]


def test_a_static_successor_with_another_subscription(seen: list[str]) -> None:
    bench = ClassicBench(topics={"foo": 4, "bar": 1})
    bench.consume("X", instance_id="i")
    bench.consume("X", -2, instance_id="i")
    seen.clear()
    bench.consume("Y", instance_id="i", subscribed_topic_names=("bar",))
    assert seen == ["consumer.static_replacement"]


def test_a_fenced_member_of_the_text(seen: list[str]) -> None:
    bench = ClassicBench(SEMANTICS["kip-848"])
    bench.consume("X")
    seen.clear()
    bench.consume("X", 17)
    assert seen[:1] == ["consumer.member_fenced"]


def test_a_name_says_protocol_and_cause() -> None:
    assert Rebalance("classic", C.MIGRATION).name == "classic.migration"
