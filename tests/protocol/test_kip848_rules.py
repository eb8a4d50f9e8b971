"""Where the text of KIP-848 differs from shipped brokers (coordinator §13)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from coordinator_builders import Bench, FailingAssignor, assert_accepted, assert_refused, parts

from rebalance_sim.protocol.assignors.server import UniformAssignor
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.kip_848 import LazyPromotion
from rebalance_sim.protocol.versions.semantics import SEMANTICS, Semantics
from rebalance_sim.protocol.wire.consumer_messages import ConsumerGroupHeartbeatResponse

EAGER = SEMANTICS["kip-848"]
LAZY = EAGER.changed_by(LazyPromotion)

either_promotion = pytest.mark.parametrize("semantics", [EAGER, LAZY], ids=["eager", "lazy"])


def joined(semantics: object = EAGER, **config: int) -> Bench:
    """A has everything, at epoch 1."""
    bench = Bench(semantics, **config)  # type: ignore[arg-type]
    bench.join("A")
    bench.wait(0)
    bench.join("A")
    assert bench.view("A") == "1/0 STABLE foo-0 foo-1 foo-2"
    return bench


def waiting(semantics: object = EAGER) -> Bench:
    """B waits for foo-2, which A is told to revoke."""
    bench = joined(semantics)
    bench.join("B")
    bench.wait(0)
    bench.join("B")
    bench.beat("A")
    assert bench.view("A") == "1/1 UNREVOKED foo-0 foo-1 (foo-2)"
    assert bench.view("B") == "2/0 UNRELEASED -"
    return bench


def test_row_10_the_coordinator_computes_the_target_by_itself() -> None:
    bench = Bench(EAGER)
    response = bench.join("A")
    assert bench.wrote == "5A 3"
    assert (response.member_epoch, response.assignment) == (0, None)
    bench.wait(0)
    assert bench.wrote == "7A 6"
    assert bench.join("A").assignment == parts("foo[0-2]")


def test_row_10_a_computation_that_fails_is_tried_again() -> None:
    assignors: dict[str, object] = {"uniform": FailingAssignor()}
    rules = type("Rules", (MigrationRules,), {"assignors": assignors})
    bench = Bench(EAGER.changed_by(rules))
    bench.join("A")
    bench.wait(0)
    assert bench.epochs == (1, 0)
    assignors["uniform"] = UniformAssignor()
    bench.wait(499)
    assert bench.epochs == (1, 0)
    bench.wait(1)
    assert bench.epochs == (1, 1)


def test_row_10_also_after_leaves_and_expiries() -> None:
    bench = waiting()
    bench.leave("B")
    assert bench.wrote == "8†B 7†B 5†B 3"
    bench.wait(0)
    assert bench.wrote == "7A 6"
    assert bench.epochs == (3, 3)
    bench.beat("A", owned="foo[0,1]")
    bench.join("B")
    bench.wait(45_000)
    assert "8†A 7†A 5†A 3" in bench.wrote
    assert bench.state == "Empty"


def test_row_1_and_2_every_answer_carries_assigned_and_pending_partitions() -> None:
    bench = waiting()
    response = bench.beat("B")
    assert (response.assignment, response.pending_topic_partitions) == (
        frozenset(),
        parts("foo[2]"),
    )
    response = bench.beat("A")
    assert (response.assignment, response.pending_topic_partitions) == (
        parts("foo[0,1]"),
        frozenset(),
    )


def test_row_6_a_join_needs_a_positive_rebalance_timeout() -> None:
    for timeout_ms in (0, -2):
        assert_refused(
            Bench(EAGER).join("A", rebalance_timeout_ms=timeout_ms),
            "INVALID_REQUEST",
            "RebalanceTimeoutMs must be provided in first request.",
        )
    assert_accepted(Bench(EAGER).join("A", rebalance_timeout_ms=1))


def test_row_7_a_wrong_epoch_removes_the_member_and_row_8_it_may_join_again() -> None:
    bench = waiting()
    assert_refused(bench.beat("A", epoch=7), "FENCED_MEMBER_EPOCH")
    assert bench.wrote == "8†A 7†A 5†A 3 8B"
    assert bench.timer("session", "A") is None
    assert bench.timer("rebalance", "A") is None
    assert_accepted(bench.join("A"))


def test_row_8_a_known_member_rejoins_at_epoch_0() -> None:
    bench = waiting()
    assert_accepted(bench.join("B"))
    assert "B" in bench.group.members


@pytest.mark.parametrize(("owned", "code"), [("foo[0]", "NONE"), ("foo[2]", "FENCED_MEMBER_EPOCH")])
def test_row_9_a_lost_response_is_forgiven_with_what_is_still_assigned(
    owned: str, code: str
) -> None:
    """As in the code: a member at its previous epoch has nothing left to revoke."""
    bench = waiting()
    bench.beat("A", owned="foo[0,1]")
    assert bench.view("A") == "2/1 STABLE foo-0 foo-1"
    assert bench.beat("A", owned=owned, epoch=1).error_code.name == code


def test_row_9_does_not_let_a_member_in_that_is_away() -> None:
    bench = Bench(EAGER)
    for _ in range(2):
        bench.join("A", instance_id="i")
        bench.wait(0)
    bench.set_topic("foo", 4)
    bench.wait(0)
    bench.beat("A", instance_id="i")
    previous = bench.member("A").previous_member_epoch
    assert previous == 1
    bench.go_away("A", "i")
    assert_refused(
        bench.beat("A", owned="", epoch=previous, instance_id="i"), "FENCED_MEMBER_EPOCH"
    )


def test_who_has_dropped_a_topic_meanwhile_is_promoted_to_the_others_only() -> None:
    bench = Bench(EAGER, topics={"foo": 4, "bar": 4})
    for member_id, topics in (("A", "foo"), ("C", "bar"), ("B", "foo bar")):
        bench.join(member_id, topics)
        bench.wait(0)
        bench.join(member_id, topics)
    target = bench.group.target_of("B")
    assert {partition.topic_id for partition in target} == {"foo", "bar"}
    bench.beat("B", topics="bar")  # The new target is not computed yet.
    assert bench.assigned("B") == ""
    bench.leave("A")
    assert bench.assigned("B") == ""
    bench.leave("C")
    assert bench.member("B").assigned.keys() == {p for p in target if p.topic_id == "bar"}
    assert bench.member("B").state.name == "STABLE"


@either_promotion
def test_row_11_and_12_topics_are_noticed_without_a_heartbeat_and_after_a_load(
    semantics: object,
) -> None:
    bench = joined(semantics)
    bench.set_topic("foo", 4)
    bench.wait(0)
    assert bench.wrote == "3 7A 6"
    assert bench.epochs == (2, 2)
    bench.set_topic("other", 1)
    bench.wait(0)
    assert bench.wrote == ""

    shard = bench.shard
    shard.timers.clear()
    bench.set_topic("foo", 5)
    shard.restart()
    bench.wait(0)
    assert bench.epochs == (3, 3)


def test_row_12_a_load_that_finds_nothing_changed_writes_nothing() -> None:
    bench = joined()
    bench.restart()
    bench.wait(0)
    assert bench.wrote == ""


def test_row_13_the_epoch_stays_while_a_second_revocation_follows() -> None:
    bench = waiting()
    bench.join("C")
    bench.wait(0)
    bench.beat("A", owned="foo[0,1]")
    assert bench.view("A") == "1/1 UNREVOKED foo-0 (foo-1)"
    by_4_1 = SEMANTICS["kafka-4.1"].coordinator().revoking_epoch(bench.member("A"))
    assert by_4_1 == 2


def test_row_22_a_commit_needs_the_present_epoch() -> None:
    bench = waiting()
    bench.beat("A", owned="foo[0,1]")
    assert bench.commit("A", 1, {"foo-0": 1})["foo-0"].name == "STALE_MEMBER_EPOCH"
    assert bench.commit("A", 2, {"foo-0": 1})["foo-0"].name == "NONE"


# -- two readings of the case studies ------------------------------------------------------


@either_promotion
def test_a_released_partition_passes_at_the_release_or_at_the_next_heartbeat(
    semantics: object,
) -> None:
    bench = waiting(semantics)
    bench.beat("A", owned="foo[0,1]")
    assert bench.wrote == ("8A 8B" if semantics is EAGER else "8A")
    if semantics is EAGER:
        # The previous epoch stays, so that a lost response of B is still forgiven.
        assert bench.view("B") == "2/0 STABLE foo-2"
    response = bench.beat("B")
    assert bench.assigned("B") == "foo-2"
    assert response == ConsumerGroupHeartbeatResponse(
        member_id="B",
        member_epoch=2,
        heartbeat_interval_ms=5_000,
        assignment=parts("foo[2]"),
        pending_topic_partitions=frozenset(),
    )


def test_a_leave_promotes_whoever_waits_for_what_was_left() -> None:
    bench = waiting()
    bench.leave("A")
    assert bench.wrote == "8†A 7†A 5†A 3 8B"
    assert bench.assigned("B") == "foo-2"


def test_who_has_something_left_to_revoke_is_not_promoted() -> None:
    """Revoke before assign: B drops a topic at the target epoch while it waits for foo-2."""
    bench = Bench(EAGER, topics={"foo": 3, "bar": 1})
    bench.join("A")
    bench.wait(0)
    bench.join("A")
    bench.join("B", "foo bar")
    bench.wait(0)
    bench.join("B", "foo bar")
    waits_for = bench.group.target_of("B") - set(bench.member("B").assigned)
    assert waits_for
    assert bench.assigned("B") == "bar-0"
    bench.beat("A")
    bench.beat("B", topics="foo")  # The new target is not computed yet.
    assert bench.member("B").pending_revocation
    bench.beat("A", owned=bench.assigned_list("A"))
    member = bench.member("B")
    assert member.assigned == {}
    assert member.state.name == "UNREVOKED_PARTITIONS"


@either_promotion
def test_a_group_settles(semantics: object) -> None:
    bench = waiting(semantics)
    bench.join("C")
    bench.wait(0)
    bench.join("C")
    for _ in range(3):
        bench.settle()
    assert bench.state == "Stable"
    assert {m: len(bench.member(m).assigned) for m in "ABC"} == dict.fromkeys("ABC", 1)


# -- what the text says, and a known issue -----------------------------------------------------


def held_when_its_owner_has_released_it(semantics: Semantics) -> str:
    """B, which has sent nothing since A gave foo-2 up."""
    bench = waiting(semantics)
    bench.beat("A", owned="foo[0,1]")
    return bench.view("B")


HISTORIES: dict[str, tuple[Callable[[Semantics], Any], Any, Any]] = {
    "sim-unheard-grant": (
        held_when_its_owner_has_released_it,
        "2/0 UNRELEASED -",
        "2/0 STABLE foo-2",
    ),
}
"""Name -> history, what comes of it by the clean rules, what comes of it with the defect."""


@pytest.mark.parametrize("name", HISTORIES)
def test_the_defect_shows_with_its_switch_and_not_without(name: str) -> None:
    history, right, wrong = HISTORIES[name]
    clean = SEMANTICS["kip-848-clean"]
    assert history(clean) == right
    assert history(clean.with_defects(name)) == wrong
