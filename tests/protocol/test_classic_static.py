"""Static members of a classic group: their return, their silence, their names."""

from __future__ import annotations

import pytest
from classic_builders import SESSION_MS, ClassicBench, HoldingShard, codes, spelled, subscription

from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.errors import ErrorCode

PREPARING = ClassicGroupState.PREPARING_REBALANCE
COMPLETING = ClassicGroupState.COMPLETING_REBALANCE
STABLE = ClassicGroupState.STABLE

FENCED, UNKNOWN = ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID


def static_pair(**options: object) -> ClassicBench:
    """A leads, with instance id a; B follows, with instance id b. Stable."""
    bench = ClassicBench(**options)  # type: ignore[arg-type]
    bench.join("A", instance="a")
    bench.join("B", instance="b")
    bench.send_join("A", instance="a")
    assert codes(bench.joined("B")) == [ErrorCode.NONE]
    if isinstance(bench.shard, HoldingShard):
        bench.sync("B", instance="b")
        bench.sync("A", instance="a", give={"A": (0, 2), "B": (1, 3)})
        bench.shard.commit()
        bench.shard.answers.clear()
    else:
        bench.settle()
    return bench


def test_a_static_member_needs_no_id_in_advance() -> None:
    bench = ClassicBench()
    response = bench.send_join("A", instance="a")
    assert codes(response) == [ErrorCode.NONE]
    assert bench.id("A").startswith("a-")
    assert bench.group.static_members == {"a": bench.id("A")}


# -- stable: no rebalance ------------------------------------------------------------------


def test_a_follower_returns_with_its_assignment_and_no_one_notices() -> None:
    bench = static_pair()
    old_id, generation = bench.id("B"), bench.generation
    response = bench.send_join("B2", instance="b")
    assert response is not None
    assert (response.generation_id, response.leader) == (generation, bench.id("A"))
    assert (response.skip_assignment, response.members) == (False, ())
    assert (bench.state, bench.beat("A", instance="a")) == (STABLE, ErrorCode.NONE)
    synced = bench.sync("B2", instance="b")
    assert synced is not None
    assert spelled(synced.assignment) == [1, 3]
    assert old_id not in bench.group.members


def test_the_leader_returns_as_the_leader_but_skips_the_assignment() -> None:
    bench = static_pair()
    response = bench.send_join("A2", instance="a")
    assert response is not None
    assert response.leader == response.member_id == bench.id("A2")
    assert response.skip_assignment
    assert {row.member_id for row in response.members} == set(bench.group.members)


def test_an_old_client_that_returns_as_the_leader_is_told_of_the_former_one() -> None:
    bench = static_pair()
    old_id = bench.id("A")
    response = bench.send_join("A2", instance="a", version=8)
    assert response is not None
    assert (response.leader, response.skip_assignment, response.members) == (old_id, False, ())
    assert bench.group.leader_id == bench.id("A2")


def test_the_return_is_answered_when_it_is_committed() -> None:
    bench = static_pair(holds_commits=True)
    assert bench.send_join("B2", instance="b") is None
    assert bench.group.num_awaiting_join == 1
    assert isinstance(bench.shard, HoldingShard)
    bench.shard.commit()
    assert codes(bench.joined("B2")) == [ErrorCode.NONE]
    assert bench.group.num_awaiting_join == 0


@pytest.mark.parametrize(("version", "leader"), [(9, "A2"), (8, "A")])
def test_who_returns_is_told_who_leads_when_that_is_committed(version: int, leader: str) -> None:
    bench = static_pair(holds_commits=True)
    assert bench.send_join("B2", instance="b", version=version) is None
    assert bench.send_join("A2", instance="a") is None
    assert isinstance(bench.shard, HoldingShard)
    bench.shard.commit()
    follower, successor = bench.joined("B2"), bench.joined("A2")
    assert follower is not None
    assert successor is not None
    assert follower.leader == bench.id(leader)
    assert (successor.leader, successor.skip_assignment) == (bench.id("A2"), True)


def test_a_failed_write_brings_the_predecessor_back() -> None:
    bench = static_pair(holds_commits=True)
    before = bench.group.members[bench.id("B")]
    old_id, old_metadata = before.member_id, before.protocols
    assert bench.send_join("B2", instance="b", metadata=subscription(("foo", "bar"))) is None
    assert isinstance(bench.shard, HoldingShard)
    bench.shard.fail(ErrorCode.NOT_COORDINATOR)
    refused = bench.joined("B2")
    assert refused is not None
    assert (refused.error_code, refused.member_id) == (ErrorCode.NOT_COORDINATOR, "")
    member = bench.group.members[old_id]
    assert (member.protocols, member.session_timeout_ms) == (old_metadata, SESSION_MS)
    assert bench.group.static_members["b"] == old_id
    assert bench.group.num_awaiting_join == 0
    assert bench.state is STABLE
    assert f"classic-session {old_id}" in {f"{k.kind} {k.member_id}" for k in bench.shard.timers}


def test_the_record_of_a_return_still_names_the_old_client() -> None:
    bench = static_pair()
    bench.send_join("B2", instance="b")
    value = bench.group.written
    assert value is not None
    (row,) = (m for m in value.members if m.group_instance_id == "b")
    assert (row.member_id, row.client_id) == (bench.id("B2"), "B")


def test_a_return_with_another_subscription_starts_no_rebalance_either() -> None:
    bench = static_pair()
    bench.send_join("B2", instance="b", metadata=subscription(("foo", "bar")))
    assert bench.state is STABLE


@pytest.mark.parametrize(
    ("semantics", "kept", "state"),
    [
        ("kafka-4.3", (1,), STABLE),
        ("kafka-4.3-clean", (1,), PREPARING),
        ("kafka-4.3-clean", (1, 3), STABLE),
    ],
)
def test_who_was_to_give_something_up_and_join_again_returns(
    semantics: str, kept: tuple[int, ...], state: ClassicGroupState
) -> None:
    bench = static_pair(semantics=SEMANTICS[semantics])
    owner = subscription(owned={"foo": (1, 3)}, generation=bench.generation)
    bench.send_join("B", instance="b", metadata=owner)
    bench.send_join("A", instance="a")
    bench.joined("B")
    bench.sync("A", instance="a", give={"A": (0, 2), "B": kept})
    bench.send_join("B2", instance="b")
    assert bench.state is state


def test_a_return_that_changes_the_selected_protocol_starts_a_rebalance() -> None:
    bench = ClassicBench()
    both = ("range", "sticky")
    bench.join("A", instance="a", protocols=both)
    bench.settle()
    assert bench.group.protocol_name == "range"
    assert codes(bench.send_join("A2", instance="a", protocols=("sticky", "range"))) == [
        ErrorCode.NONE
    ]
    assert (bench.state, bench.group.protocol_name) == (COMPLETING, "sticky")
    assert bench.generation == 2


def test_no_one_waits_for_the_sync_of_an_id_that_has_been_replaced() -> None:
    bench = static_pair()
    bench.send_join("A", instance="a")
    bench.send_join("B", instance="b")
    bench.joined("A")
    bench.sync("A", instance="a", give={"A": (0,), "B": (1,)})
    assert bench.group.pending_sync == {bench.id("B")}
    assert "classic-sync" in bench.timers()
    bench.send_join("B2", instance="b")
    assert not bench.group.pending_sync
    assert "classic-sync" not in bench.timers()


# -- other states --------------------------------------------------------------------------


def test_a_return_while_the_group_completes_starts_another_rebalance() -> None:
    bench = static_pair()
    bench.send_join("A", instance="a")
    bench.send_join("B", instance="b")
    bench.joined("A")
    assert bench.state is COMPLETING
    assert bench.sync("B", instance="b") is None
    assert bench.send_join("B2", instance="b") is None
    assert codes(bench.synced("B")) == [FENCED]
    assert bench.state is PREPARING


def test_a_return_during_the_join_phase_joins_it() -> None:
    bench = static_pair()
    bench.send_join("B", instance="b", metadata=subscription(generation=2))
    assert bench.state is PREPARING
    assert bench.send_join("B2", instance="b") is None
    assert codes(bench.joined("B")) == [FENCED]
    assert codes(bench.send_join("A", instance="a"), bench.joined("B2")) == [ErrorCode.NONE] * 2
    assert bench.generation == 3


# -- the old id afterwards -----------------------------------------------------------------


@pytest.mark.parametrize(("instance", "code"), [("b", FENCED), (None, UNKNOWN)])
def test_the_old_id_is_good_for_nothing(instance: str | None, code: ErrorCode) -> None:
    bench = static_pair()
    bench.send_join("B2", instance="b")
    assert bench.beat("B", instance=instance) is code
    assert codes(bench.sync("B", instance=instance)) == [code]
    assert codes(bench.send_join("B", instance=instance)) == [code]
    assert bench.commit_offset("B", bench.generation, instance=instance) is code


def test_the_session_of_the_old_id_ends_without_effect() -> None:
    bench = static_pair()
    bench.wait(SESSION_MS - 1)
    bench.send_join("B2", instance="b")
    bench.beat("A", instance="a")
    bench.wait(1)
    assert bench.members() == {"A", "B2"}
    assert bench.state is STABLE


@pytest.mark.parametrize(
    ("name", "instance", "code"),
    [("A", "b", FENCED), ("A", "c", UNKNOWN), ("no one", "a", FENCED)],
)
def test_an_instance_id_belongs_to_one_member_id(name: str, instance: str, code: ErrorCode) -> None:
    bench = static_pair()
    assert codes(bench.send_join(name, member_id=bench.id(name), instance=instance)) == [code]


# -- silence -------------------------------------------------------------------------------


def test_a_silent_static_member_is_carried_along() -> None:
    bench = ClassicBench()
    bench.join("A", instance="a", rebalance_ms=2_000, session_ms=60_000)
    bench.settle()
    assert bench.join("B", rebalance_ms=2_000) is None
    bench.wait(2_000)
    response = bench.joined("B")
    assert response is not None
    assert (response.generation_id, response.leader) == (2, bench.id("B"))
    assert {row.member_id for row in response.members} == {bench.id("A"), bench.id("B")}
    assert bench.beat("A", instance="a", generation=2) is ErrorCode.NONE


def test_only_silent_static_members_remain_and_the_phase_waits_for_them() -> None:
    bench = ClassicBench()
    bench.join("A", instance="a", rebalance_ms=2_000, session_ms=5_000)
    bench.settle()
    bench.join("B", rebalance_ms=2_000)
    bench.leave("B")
    bench.joined("B")
    bench.wait(2_000)
    assert (bench.state, bench.members()) == (PREPARING, {"A"})
    assert bench.due_ms("classic-join") == bench.shard.now_ms + 2_000
    bench.wait(3_000)
    assert bench.state is ClassicGroupState.EMPTY


def test_a_static_member_is_out_when_its_session_ends() -> None:
    bench = static_pair()
    bench.wait(SESSION_MS - 1)
    bench.beat("A", instance="a")
    bench.wait(1)
    assert bench.members() == {"A"}
    assert bench.state is PREPARING
