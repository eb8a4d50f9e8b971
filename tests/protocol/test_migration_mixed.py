"""Classic members in a consumer group: how their requests are translated."""

from __future__ import annotations

from typing import Any

import pytest
from classic_builders import (
    SESSION_MS,
    ClassicBench,
    HoldingShard,
    codes,
    spelled,
    subscription,
    text,
)

from protocol.classic_group.states import ClassicGroupState
from protocol.consumer_group.member import Member
from protocol.errors import ErrorCode
from protocol.messages import ConsumerGroupDescribeRequest
from protocol.messages_offsets import OffsetFetchRequest
from protocol.records import MemberState
from protocol.semantics import SEMANTICS
from protocol.topics import TopicPartition

NONE, UNKNOWN, FENCED = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
)
ILLEGAL, REBALANCE = ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS
INCONSISTENT = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def member(bench: ClassicBench, name: str) -> Member:
    return bench.consumers.members[bench.id(name)]


def epoch(bench: ClassicBench, name: str) -> int:
    return member(bench, name).member_epoch


def owned(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("foo", number) for number in numbers)


def mixed(**options: Any) -> ClassicBench:
    """X (consumer protocol) and A (classic), each with half of foo, all settled."""
    bench = ClassicBench(**options)
    bench.consume("X")
    bench.join("A")
    bench.consume("X", 2, topic_partitions=owned(0, 1, 2, 3))
    bench.consume("X", 2, topic_partitions=owned(0, 1))
    bench.join("A", metadata=subscription(generation=3))
    bench.sync("A", generation=3)
    assert (epoch(bench, "A"), epoch(bench, "X")) == (3, 3)
    assert text(member(bench, "A").assigned) == "foo-2 foo-3"
    assert member(bench, "A").state is MemberState.STABLE
    return bench


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
    assert response.protocol_name == "sticky", "its own first choice; nobody votes"
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


def test_a_full_group_takes_nobody_but_members_and_heirs() -> None:
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
    bench = ClassicBench(group_consumer_migration_policy=policy)
    bench.consume("X")
    bench.consume("X", -1)
    assert codes(bench.send_join("A", member_id="nobody")) == [UNKNOWN]
    assert bench.consumers.group_epoch == 3, "and not if the join is refused"
    response = bench.join("A")
    assert response is not None
    assert response.generation_id == 1
    assert bench.wrote() == "6† 4† 3† 2"


# -- static members ------------------------------------------------------------------------


def test_a_classic_member_takes_over_an_instance_that_nobody_has_left() -> None:
    bench = mixed()
    bench.consume("Y", instance_id="i")
    response = bench.send_join("B", instance="i")
    assert codes(response) == [NONE]
    assert bench.wrote().startswith("8† 7† 5† 5 7 8 5")
    assert "Y" not in bench.consumers.members
    assert bench.consumers.static_members["i"] == bench.id("B")


@pytest.mark.parametrize(
    ("member_id", "instance", "code"),
    [("X", "i", FENCED), ("nobody", "j", UNKNOWN), ("Y", "i", NONE)],
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
        ("nobody", 3, None, UNKNOWN),
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


# -- timers --------------------------------------------------------------------------------


def test_who_is_called_back_and_does_not_come_is_out_after_its_rebalance_timeout() -> None:
    bench = mixed()
    bench.join("A", metadata=subscription(generation=3), rebalance_ms=4_000, session_ms=60_000)
    bench.sync("A", generation=3)
    bench.consume("Y")
    assert bench.beat("A", generation=3) is REBALANCE
    bench.wait(3_000)
    assert bench.beat("A", generation=3) is REBALANCE, "which does not start the timer anew"
    bench.wait(999)
    assert bench.id("A") in bench.consumers.members
    bench.wait(1)
    assert bench.id("A") not in bench.consumers.members
    assert bench.wrote() == "8† 7† 5† 3"


def test_who_rejoins_and_does_not_sync_is_out_after_its_rebalance_timeout() -> None:
    bench = mixed()
    bench.join("A", metadata=subscription(generation=3), rebalance_ms=4_000, session_ms=60_000)
    bench.wait(3_999)
    assert bench.beat("A", generation=3) is NONE
    bench.wait(1)
    assert bench.id("A") not in bench.consumers.members


def test_each_request_moves_the_timers_on() -> None:
    bench = mixed()
    assert bench.timers() == {"session X", "session A"}
    bench.consume("Y")
    bench.beat("A", generation=3)
    assert "mixed-join A" in bench.timers()
    bench.join("A", metadata=subscription(generation=3))
    assert "mixed-join A" not in bench.timers()
    assert "mixed-sync A" in bench.timers()
    bench.sync("A", generation=epoch(bench, "A"))
    assert not {timer for timer in bench.timers() if timer.startswith("mixed")}
    assert bench.due_ms("session", "A") == bench.shard.now_ms + SESSION_MS


def test_a_member_can_be_called_back_again() -> None:
    bench = mixed()
    for newcomer in ("Y", "Z"):
        bench.consume(newcomer)
        assert bench.beat("A", generation=epoch(bench, "A")) is REBALANCE
        assert "mixed-join A" in bench.timers()
        bench.join("A", metadata=subscription(generation=epoch(bench, "A")))
        bench.sync("A", generation=epoch(bench, "A"))


def test_the_timers_of_a_join_start_when_it_is_committed() -> None:
    bench = ClassicBench(holds_commits=True)
    bench.consume("X")
    bench.join("A")
    assert bench.timers() == {"session X"}
    assert isinstance(bench.shard, HoldingShard)
    bench.wait(2_000)
    bench.shard.commit()
    assert bench.timers() == {"session X", "session A", "mixed-sync A"}
    assert bench.due_ms("session", "A") == bench.shard.now_ms + SESSION_MS


def test_a_member_that_has_left_before_its_join_is_committed_gets_no_timers() -> None:
    bench = ClassicBench(holds_commits=True)
    bench.consume("X")
    bench.join("A")
    bench.leave("A")
    assert isinstance(bench.shard, HoldingShard)
    bench.shard.commit()
    assert bench.timers() == {"session X"}


def test_a_member_that_changes_to_the_consumer_protocol_is_not_held_to_a_sync() -> None:
    bench = mixed()
    bench.join("A", metadata=subscription(generation=3), rebalance_ms=3_000)
    assert bench.consume(bench.id("A"), 3, topic_partitions=owned(2, 3)).error_code is NONE
    bench.wait(3_000)
    assert bench.id("A") in bench.consumers.members


def test_a_silent_classic_member_is_out_after_its_own_session() -> None:
    bench = mixed()
    bench.wait(SESSION_MS - 1)
    bench.consume("X", 3)
    bench.wait(1)
    assert set(bench.consumers.members) == {"X"}


# -- leaving -------------------------------------------------------------------------------


def test_members_of_both_protocols_may_leave_in_one_batch_at_the_price_of_one_epoch() -> None:
    bench = mixed()
    bench.consume("Y", instance_id="i")
    before = bench.consumers.group_epoch
    assert bench.leave("A", "X", ("", "j"), ("nobody", "i"), ("Z", None)) == [
        NONE,
        NONE,
        UNKNOWN,
        FENCED,
        UNKNOWN,
    ]
    assert set(bench.consumers.members) == {"Y"}
    assert bench.wrote() == "8† 7† 5† 8† 7† 5† 3"
    assert bench.consumers.group_epoch == before + 1
    assert bench.leave(("", "i")) == [NONE]
    assert not bench.consumers.members


def test_a_batch_in_which_nobody_leaves_writes_nothing() -> None:
    bench = mixed()
    batches = len(bench.shard.batches)
    assert bench.leave("nobody") == [UNKNOWN]
    assert len(bench.shard.batches) == batches


# -- offsets, describe ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "generation", "version", "code"),
    [
        ("A", 3, 9, NONE),
        ("A", 3, 5, NONE),
        ("A", 4, 9, ILLEGAL),
        ("A", 2, 9, ILLEGAL),
        ("X", 3, 9, NONE),
        ("X", 4, 9, ErrorCode.STALE_MEMBER_EPOCH),
        ("X", 3, 8, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_each_protocol_has_its_own_words_for_a_refused_commit(
    name: str, generation: int, version: int, code: ErrorCode
) -> None:
    bench = mixed()
    due_ms = bench.due_ms("session", name)
    bench.wait(10)
    assert bench.commit_offset(name, generation, version=version) is code
    assert bench.due_ms("session", name) == due_ms, "a commit does not renew a session here"


@pytest.mark.parametrize(
    ("name", "code"), [("A", ILLEGAL), ("X", ErrorCode.STALE_MEMBER_EPOCH), ("nobody", UNKNOWN)]
)
def test_each_protocol_has_its_own_words_for_a_refused_fetch(name: str, code: ErrorCode) -> None:
    bench = mixed()
    request = OffsetFetchRequest(
        group_id="group", partitions=owned(0), member_id=bench.id(name), member_epoch=1
    )
    response: Any = bench.shard.request(request)
    assert response.error_code is code


def test_describe_tells_the_protocols_apart() -> None:
    bench = mixed()
    response: Any = bench.shard.request(ConsumerGroupDescribeRequest(group_ids=("group",)))
    types = {bench.name(row.member_id): row.member_type for row in response[0].members}
    assert types == {"A": 0, "X": 1}


def test_describe_knows_no_classic_group() -> None:
    bench = ClassicBench().stable("A")
    assert bench.state is ClassicGroupState.STABLE
    response: Any = bench.shard.request(ConsumerGroupDescribeRequest(group_ids=("group",)))
    assert response[0].error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert response[0].error_message == "Group group is not a consumer group."


def test_a_load_knows_the_classic_members_but_not_who_was_called_back() -> None:
    bench = mixed()
    bench.consume("Y")
    bench.beat("A", generation=3)
    bench.shard.restart()
    a = member(bench, "A")
    assert a.classic_metadata is not None
    assert bench.consumers.classic_member_count == 1
    assert not {timer for timer in bench.timers() if timer.startswith("mixed")}
    assert bench.beat("A", generation=3) is REBALANCE
    assert "mixed-join A" in bench.timers()
