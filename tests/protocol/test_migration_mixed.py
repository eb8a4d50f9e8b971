"""Classic members in a consumer group: how their requests are translated."""

from __future__ import annotations

from typing import Any

import pytest
from classic_builders import ClassicBench, codes, spelled, subscription, text
from mixed_builders import member, mixed, owned

from rebalance_sim.protocol.consumer.consumer_group import ConsumerGroup
from rebalance_sim.protocol.consumer.timer_keys import member_timers
from rebalance_sim.protocol.versions.semantics import CLEAN_SEMANTICS, SEMANTICS
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupDescribeRequest
from rebalance_sim.protocol.wire.errors import ErrorCode
from rebalance_sim.protocol.wire.records import MemberState

NONE, UNKNOWN, FENCED = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)
ILLEGAL, REBALANCE = ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# -- joining -------------------------------------------------------------------------------


def test_a_newcomer_gets_an_id_of_which_nothing_is_kept() -> None:
    bench = ClassicBench()
    bench.consume("X")
    batches = len(bench.shard.batches)
    response = bench.send_join("A")
    assert response is not None
    assert response.error_code is ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id not in bench.consumers.members
    assert len(bench.shard.batches) == batches
    assert bench.timers() == {"session X"}


def test_a_classic_member_joins_as_a_follower_without_members() -> None:
    bench = ClassicBench()
    bench.consume("X")
    response = bench.join("A", protocols=("sticky", "range"))
    assert response is not None
    assert (response.generation_id, response.protocol_type) == (3, "consumer")
    assert response.protocol_name == "sticky", "its own first choice; no one votes"
    assert (response.leader, response.members, response.skip_assignment) == ("", (), False)
    assert bench.wrote() == "5 3 7 7 6 8"


def test_an_unknown_id_is_taken_as_it_is() -> None:
    bench = ClassicBench()
    bench.consume("X")
    assert codes(bench.send_join("A", member_id="my-own")) == [NONE]
    assert "my-own" in bench.consumers.members


def test_an_old_client_gets_its_id_with_its_membership() -> None:
    bench = ClassicBench()
    bench.consume("X")
    response = bench.send_join("A", version=3)
    assert codes(response) == [NONE]
    assert bench.id("A") in bench.consumers.members


def test_an_ordinary_rejoin_rewrites_the_metadata_only() -> None:
    bench = mixed()
    bench.join("A", metadata=subscription(owned={"foo": (2, 3)}, generation=3))
    assert bench.wrote() == "5"
    batches = len(bench.shard.batches)
    bench.join("A", metadata=subscription(owned={"foo": (2, 3)}, generation=3))
    assert len(bench.shard.batches) == batches, "the very same bytes write nothing"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"protocols": ("range",)}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"protocols": ("sticky", "range")}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"protocols": ("sticky",)}, INCONSISTENT),
        ({"protocols": ()}, INCONSISTENT),
        ({"protocol_type": "connect"}, INCONSISTENT),
        ({"session_ms": 999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"metadata": b"\xff", "version": 3}, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_who_may_join(options: dict[str, Any], code: ErrorCode) -> None:
    assert codes(mixed().send_join("B", **options)) == [code]


def test_without_classic_members_any_protocol_will_do() -> None:
    bench = ClassicBench()
    bench.consume("X")
    assert codes(bench.join("A", protocols=("anything",))) == [NONE]


def test_a_full_group_takes_only_members_and_their_successors() -> None:
    bench = ClassicBench(group_consumer_max_size=2)
    bench.consume("X", instance_id="i")
    bench.join("A")
    assert codes(bench.send_join("B")) == [ErrorCode.GROUP_MAX_SIZE_REACHED]
    assert codes(bench.send_join("A")) == [NONE]


@pytest.mark.parametrize(
    ("version", "policy", "code"),
    [
        ("kafka-4.3", "disabled", INCONSISTENT),
        ("kafka-4.1", "disabled", ErrorCode.MEMBER_ID_REQUIRED),
        ("kafka-4.3", "upgrade", ErrorCode.MEMBER_ID_REQUIRED),
        ("kafka-4.3", "downgrade", ErrorCode.MEMBER_ID_REQUIRED),
    ],
)
def test_a_group_that_can_never_be_uniform_again_takes_no_classic_member(
    version: str, policy: str, code: ErrorCode
) -> None:
    bench = ClassicBench(SEMANTICS[version], group_consumer_migration_policy=policy)
    bench.consume("X")
    assert codes(bench.send_join("A")) == [code]


@pytest.mark.parametrize("policy", ["bidirectional", "disabled"])
def test_an_empty_consumer_group_gives_way_under_every_policy(policy: str) -> None:
    bench = ClassicBench(group_consumer_migration_policy=policy, semantics=CLEAN_SEMANTICS)
    bench.consume("X")
    bench.consume("X", -1)
    assert codes(bench.send_join("A", member_id="no one")) == [UNKNOWN]
    assert bench.consumers.group_epoch == 3, "and not if the join is refused"
    response = bench.join("A")
    assert response is not None
    assert response.generation_id == 1
    assert bench.wrote() == "6† 4† 3† 2"


def test_a_shipped_coordinator_forgets_an_empty_group_of_which_it_refuses_a_join() -> None:
    """classic-dropped-group."""
    bench = ClassicBench()
    bench.consume("X")
    bench.consume("X", -1)
    written = len(bench.shard.batches)
    assert codes(bench.send_join("A", member_id="no one")) == [UNKNOWN]
    assert len(bench.shard.batches) == written
    assert not bench.shard.coordinator.groups_of(ConsumerGroup)
    (described,) = bench.shard.request(ConsumerGroupDescribeRequest(group_ids=("group",)))
    assert described.error_code is ErrorCode.NONE, "reads are shown what is committed"
    bench.join("A")
    assert bench.wrote() == "2", "a classic group, and no tombstone of the other"


# -- static members ------------------------------------------------------------------------


def test_a_classic_member_takes_over_an_instance_that_no_one_has_left() -> None:
    bench = mixed()
    bench.consume("Y", instance_id="i")
    response = bench.send_join("B", instance="i")
    assert codes(response) == [NONE]
    assert bench.wrote().startswith("8† 7† 5† 5 7 8 5")
    assert "Y" not in bench.consumers.members
    assert bench.consumers.static_members["i"] == bench.id("B")


def test_an_empty_instance_id_is_one_as_any_other() -> None:
    bench = mixed()
    assert codes(bench.send_join("B", instance="")) == [NONE]
    former = bench.consumers.static_members[""]
    assert bench.consumers.members[former].instance_id == ""
    assert codes(bench.send_join("C", instance="")) == [NONE]
    assert former not in bench.consumers.members
    assert bench.consumers.static_members[""] != former


@pytest.mark.parametrize(
    ("member_id", "instance", "code"),
    [("X", "i", FENCED), ("no one", "j", UNKNOWN), ("Y", "i", NONE)],
)
def test_a_static_join_with_an_id(member_id: str, instance: str, code: ErrorCode) -> None:
    bench = mixed()
    bench.consume("Y", instance_id="i")
    response = bench.send_join("B", member_id=member_id, instance=instance)
    assert response is not None
    assert response.error_code is code
    assert response.member_id == ("Y" if code is NONE else "")


def test_a_member_may_change_its_protocol_under_its_own_id() -> None:
    bench = mixed()
    assert codes(bench.send_join("X", member_id="X")) == [NONE]
    assert bench.consumers.classic_member_count == 2, "which converts nothing"
    response = bench.consume("X", 3, topic_partitions=owned(0, 1))
    assert response.error_code is NONE
    assert bench.consumers.classic_member_count == 1


# -- reconciliation ------------------------------------------------------------------------


def test_an_eager_member_moves_to_the_target_in_one_step() -> None:
    bench = ClassicBench().stable("A")
    bench.consume("X")
    assert bench.beat("A", generation=1) is REBALANCE
    response = bench.join("A", metadata=subscription(generation=1))
    assert response is not None
    assert response.generation_id == 2
    assert text(member(bench, "A").assigned) == "foo-0 foo-1"
    assert text(bench.consume("X", 2).assignment) == "foo-2 foo-3"


def test_a_cooperative_member_learns_what_to_revoke_at_its_old_epoch() -> None:
    bench = ClassicBench().stable("A")
    bench.consume("X")
    bench.beat("A", generation=1)
    all_of_it = subscription(owned={"foo": (0, 1, 2, 3)}, generation=1)
    response = bench.join("A", metadata=all_of_it)
    assert response is not None
    assert response.generation_id == 1, "the old epoch"
    assert member(bench, "A").state is MemberState.UNREVOKED_PARTITIONS
    synced = bench.sync("A", generation=1)
    assert synced is not None
    assert spelled(synced.assignment) == [0, 1]
    assert bench.consume("X", 2).assignment is None, "nothing is released yet"
    assert bench.beat("A", generation=1) is REBALANCE
    rest = subscription(owned={"foo": (0, 1)}, generation=1)
    response = bench.join("A", metadata=rest)
    assert response is not None
    assert response.generation_id == 2
    assert text(bench.consume("X", 2).assignment) == "foo-2 foo-3"


def test_a_waiting_member_is_called_when_all_it_waits_for_is_free() -> None:
    bench = ClassicBench(topics={"foo": 6})
    bench.consume("X")
    bench.consume("Y")
    bench.consume("X", 2, topic_partitions=owned(0, 1, 2))
    bench.consume("Y", 3)
    bench.join("A")
    missing = bench.consumers.target_of(bench.id("A"))
    donors = {name for name in ("X", "Y") if not missing.isdisjoint(member(bench, name).assigned)}
    assert donors == {"X", "Y"}, "the history is made so that it waits for two"
    bench.sync("A", generation=4)
    for name in ("X", "Y"):
        assert bench.beat("A", generation=4) is NONE
        keeps = frozenset(member(bench, name).assigned) - missing
        bench.consume(name, 3, topic_partitions=frozenset(member(bench, name).assigned))
        bench.consume(name, 3, topic_partitions=keeps)
    assert bench.beat("A", generation=4) is REBALANCE
    bench.join("A", metadata=subscription(generation=4))
    assert frozenset(member(bench, "A").assigned) == missing


def test_a_topic_that_is_unknown_cannot_block_a_revocation() -> None:
    bench = ClassicBench().stable("A")
    bench.consume("X")
    gone = subscription(owned={"gone": (0,)}, generation=1)
    response = bench.join("A", metadata=gone)
    assert response is not None
    assert response.generation_id == 2


def test_a_topic_that_a_revoking_member_drops_is_given_up_at_once() -> None:
    bench = ClassicBench(topics={"foo": 4, "bar": 1})
    both = ("foo", "bar")
    bench.join("A", metadata=subscription(both))
    bench.sync("A", give={"A": (0, 1, 2, 3)})
    bench.consume("X", subscribed_topic_names=both)
    everything = {"foo": (0, 1, 2, 3)}
    bench.join("A", metadata=subscription(both, everything, generation=1))
    assert member(bench, "A").state is MemberState.UNREVOKED_PARTITIONS
    kept = text(member(bench, "A").assigned)
    assert kept
    bench.join("A", metadata=subscription(("bar",), everything, generation=1))
    assert member(bench, "A").state is MemberState.UNREVOKED_PARTITIONS
    assert not member(bench, "A").assigned
    assert len(member(bench, "A").pending_revocation) == 4


def test_a_changed_subscription_raises_the_epoch() -> None:
    bench = mixed(topics={"foo": 4, "bar": 2})
    response = bench.join("A", metadata=subscription(("foo", "bar"), generation=3))
    assert response is not None
    assert response.generation_id == 4
    assert bench.wrote().startswith("5 3 7")


# -- who must rejoin -----------------------------------------------------------------------


@pytest.mark.parametrize(("version", "code"), [("kafka-4.1", REBALANCE), ("kafka-4.3", NONE)])
def test_a_leave_alone_calls_back_in_4_1_only(version: str, code: ErrorCode) -> None:
    bench = ClassicBench(SEMANTICS[version], topics={"foo": 4, "bar": 1})
    first = 1 if version == "kafka-4.1" else 2
    bench.consume("X", subscribed_topic_names=("bar",))
    bench.consume("Y", subscribed_topic_names=("bar",))
    bench.join("A")
    generation = first + 2
    assert bench.beat("A", generation=generation) is NONE
    bench.consume("Y", -1)
    assert bench.consumers.group_epoch > bench.consumers.target_assignment_epoch == generation
    assert bench.beat("A", generation=generation) is code
    assert codes(bench.sync("A", generation=generation)) == [code]
    bench.consume("X", first)
    assert bench.beat("A", generation=generation) is REBALANCE, "the target is known by now"


@pytest.mark.parametrize(
    ("name", "generation", "instance", "code"),
    [
        ("A", 3, None, NONE),
        ("A", 2, None, ILLEGAL),
        ("A", 4, None, ILLEGAL),
        ("no one", 3, None, UNKNOWN),
        ("X", 3, None, UNKNOWN),
        ("A", 3, "i", UNKNOWN),
    ],
)
def test_who_may_send_heartbeats_and_syncs(
    name: str, generation: int, instance: str | None, code: ErrorCode
) -> None:
    bench = mixed()
    assert bench.beat(name, generation=generation, instance=instance) is code
    assert codes(bench.sync(name, generation=generation, instance=instance)) == [code]


@pytest.mark.parametrize(
    ("protocol", "protocol_type", "code"),
    [
        ("range", "consumer", NONE),
        (None, None, NONE),
        ("sticky", "consumer", INCONSISTENT),
        ("range", "connect", INCONSISTENT),
    ],
)
def test_a_sync_names_the_members_first_protocol(
    protocol: str | None, protocol_type: str | None, code: ErrorCode
) -> None:
    bench = mixed()
    response = bench.sync("A", generation=3, protocol=protocol, protocol_type=protocol_type)
    assert codes(response) == [code]
    if code is NONE and response is not None:
        assert (response.protocol_name, response.protocol_type) == ("range", "consumer")
        assert spelled(response.assignment) == [2, 3]


def test_who_leaves_takes_the_rebalance_timer_of_a_load_along() -> None:
    """A load arms one for one that has to revoke something, of either protocol."""
    leaver = member(mixed(), "A")
    cancelled = {command.key.kind for command in member_timers("group", leaver)}
    assert cancelled == {"session", "rebalance", "mixed-join", "mixed-sync"}
