"""Which assignor computes the target, and what happens when it fails (coordinator §5.3-§5.6)."""

from __future__ import annotations

from typing import Any

import pytest
from coordinator_builders import Bench, FailingAssignor, assert_accepted, assert_refused

from rebalance_sim.protocol.assignors.server import RangeAssignor, UniformAssignor
from rebalance_sim.protocol.migration.migration_rules import MigrationRules
from rebalance_sim.protocol.versions.semantics import SEMANTICS


class Recorder:
    """Says which of two assignors was asked."""

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name = name
        self._inner = RangeAssignor() if name == "range" else UniformAssignor()
        self._asked = asked

    def assign(self, spec: Any, partition_counts: Any) -> Any:
        self._asked.append(self.name)
        return self._inner.assign(spec, partition_counts)


class VotingBench(Bench):
    """Remembers which assignor computed each target."""

    def __init__(self, **config: Any) -> None:
        self.asked: list[str] = []
        assignors = {name: Recorder(name, self.asked) for name in ("uniform", "range")}
        super().__init__(with_assignors(assignors), **config)

    def vote(self, member_id: str, assignor: str | None) -> str:
        """A join with this vote; the assignor that computed the target for it."""
        self.join(member_id, server_assignor=assignor)
        return self.asked[-1]

    def rebalance(self, member_id: str, assignor: str | None = None) -> str:
        """A heartbeat that finds a grown topic; the assignor that computed the target."""
        self.set_topic("foo", self.shard.coordinator.image.by_name["foo"].partition_count + 1)
        before = len(self.asked)
        self.beat(member_id, server_assignor=assignor)
        assert len(self.asked) == before + 1
        return self.asked[-1]


def with_assignors(assignors: dict[str, Any]) -> Any:
    version = SEMANTICS["kafka-4.3"]
    return version.changed_by(type("Rules", (MigrationRules,), {"assignors": assignors}))


# -- 5.3 the vote --------------------------------------------------------------------------


def test_no_one_voted_the_first_configured_one_is_taken() -> None:
    assert VotingBench().vote("A", None) == "uniform"
    bench = VotingBench(group_consumer_assignors=("range", "uniform"))
    assert bench.vote("A", None) == "range"
    assert bench.describe().assignor == "range"


def test_members_that_name_none_do_not_vote_and_the_most_votes_win() -> None:
    bench = VotingBench()
    assert bench.vote("A", None) == "uniform"
    assert bench.vote("B", "range") == "range"
    assert bench.vote("C", None) == "range"
    assert bench.vote("D", "uniform") == "uniform"  # One each: the sender's.
    assert bench.vote("E", "range") == "range"
    assert bench.describe().assignor == "range"


def test_one_vote_each_goes_to_the_sender_if_it_voted_else_to_uniform() -> None:
    bench = VotingBench()
    bench.vote("U", "uniform")
    assert bench.vote("R", "range") == "range"
    assert bench.rebalance("U") == "uniform"
    assert bench.rebalance("R") == "range"
    assert bench.vote("N", None) == "uniform"
    assert bench.rebalance("N") == "uniform"
    assert bench.describe().assignor == "uniform"


def test_two_votes_each_are_uniform_whoever_sends() -> None:
    bench = VotingBench()
    for member_id, assignor in (("R1", "range"), ("R2", "range"), ("U1", "uniform")):
        bench.vote(member_id, assignor)
    assert bench.vote("U2", "uniform") == "uniform"
    for sender in ("R1", "R2", "U1", "U2"):
        assert bench.rebalance(sender) == "uniform"


def test_a_tie_is_uniform_even_if_range_is_configured_first() -> None:
    bench = VotingBench(group_consumer_assignors=("range", "uniform"))
    bench.vote("R", "range")
    bench.vote("U", "uniform")
    bench.vote("N", None)
    assert bench.asked == ["range", "uniform", "uniform"]
    assert bench.describe().assignor == "uniform"


def test_a_vote_that_changes_counts_at_once_for_its_sender() -> None:
    bench = VotingBench()
    bench.vote("A", "uniform")
    assert bench.rebalance("A", "range") == "range"
    assert bench.group.server_assignors == {"range": 1}


def test_a_changed_vote_waits_for_the_next_bump_but_is_described_at_once() -> None:
    bench = VotingBench()
    bench.vote("A", "uniform")
    bench.beat("A", server_assignor="range")
    assert bench.wrote == "5A"
    assert bench.asked == ["uniform"]
    assert bench.describe().assignor == "range"


def test_a_vote_goes_with_its_member_and_a_returning_member_inherits_it() -> None:
    bench = VotingBench()
    bench.join("A", server_assignor="range", instance_id="i")
    bench.go_away("A", "i")
    bench.join("A2", instance_id="i")
    assert bench.group.server_assignors == {"range": 1}
    assert bench.rebalance("A2") == "range"
    bench.leave("A2", "i")
    assert bench.group.server_assignors == {}


def test_a_stored_vote_for_an_assignor_that_is_no_longer_configured_fails() -> None:
    bench = Bench()
    bench.join("A", server_assignor="range")
    narrow = Bench(group_consumer_assignors=("uniform",))
    for record in bench.shard.log:
        narrow.shard.coordinator.replay(record, strict=False)
    assert_accepted(narrow.beat("A"))
    narrow.set_topic("foo", 4)
    assert_refused(narrow.beat("A"), "UNKNOWN_SERVER_ERROR")


# -- 5.5 what is written -------------------------------------------------------------------


def test_only_changed_targets_are_written_but_a_first_one_even_if_it_is_empty() -> None:
    bench = Bench(topics={"foo": 1})
    bench.join("A")
    bench.join("B")
    assert bench.wrote == "5B 3 7B 6 8B"
    assert bench.group.target_assignment["B"] == frozenset()


def test_the_inverted_target_follows_whichever_order_records_come_in() -> None:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    targets = [r for r in bench.records if r.type_id == 7]
    for order in (targets, targets[::-1]):
        other = Bench()
        other.join("A")
        for record in order:
            other.group.replay(record)
        assert other.group.inverted_target == bench.group.inverted_target


# -- 5.6 the error path --------------------------------------------------------------------


@pytest.fixture
def failing() -> tuple[Bench, dict[str, Any]]:
    """A settled member, and the assignors of its broker, to be made to fail and repaired."""
    assignors: dict[str, Any] = {"uniform": UniformAssignor()}
    bench = Bench(with_assignors(assignors))
    bench.join("A")
    assignors["uniform"] = FailingAssignor()
    return bench, assignors


def test_a_failing_assignor_undoes_the_whole_heartbeat(
    failing: tuple[Bench, dict[str, Any]],
) -> None:
    bench, _ = failing
    session = bench.timer("session", "A")
    bench.wait(1_000)
    bench.set_topic("foo", 4)
    for _ in range(2):  # It counts as expired again, and is tried again.
        assert_refused(bench.beat("A"), "UNKNOWN_SERVER_ERROR")
        assert bench.wrote == ""
    assert_refused(bench.join("B"), "UNKNOWN_SERVER_ERROR")
    assert sorted(bench.group.members) == ["A"]
    assert bench.epochs == (2, 2)
    assert bench.timer("session", "A") == session
    assert bench.timer("session", "B") is None


def test_the_next_heartbeat_after_a_failure_tries_again(
    failing: tuple[Bench, dict[str, Any]],
) -> None:
    bench, assignors = failing
    bench.set_topic("foo", 4)
    bench.beat("A")
    assignors["uniform"] = UniformAssignor()
    assert_accepted(bench.beat("A"))
    assert bench.wrote == "3 7A 6 8A"


def test_a_failure_does_not_keep_patterns_from_being_resolved_later(
    failing: tuple[Bench, dict[str, Any]],
) -> None:
    bench, assignors = failing
    join = {"subscribed_topic_regex": "f.*"}
    assert_refused(bench.join("B", **join), "UNKNOWN_SERVER_ERROR")
    assignors["uniform"] = UniformAssignor()
    assert_accepted(bench.join("B", **join))
    bench.wait(0)
    assert bench.group.resolved_regexes["f.*"].topics == ("foo",)


def test_a_permanently_failing_assignor_expires_all_sessions(
    failing: tuple[Bench, dict[str, Any]],
) -> None:
    bench, _ = failing
    bench.set_topic("foo", 4)
    for _ in range(9):
        bench.beat("A")
        bench.wait(5_000)
    assert bench.wrote == "8†A 7†A 5†A 3"
