"""Random typed requests: no exception escapes from a coordinator, no property is violated that no
known issue explains, and every request is answered once."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from request_draws import GROUPS
from typed_requests import TypedRequests

from rebalance_sim.protocol.runtime.coordinator import GroupCoordinator

SEEDS_BY_DEFAULT = 40
SEEDS_WHEN_SLOW = 400
ONCE_WRONG = (
    *(99, 180, 228, 330),  # An empty group that could not be written, and conversions to and fro.
    *(548, 704),  # Who has left for a while joins again without its instance id.
    *(643, 759),  # A conversion of a group without members could not be written.
    675,  # A group that is back after one has the previous timeouts.
    *(1092, 1238),  # A JoinGroup that names its member meets a group of offsets alone.
    *(5, 34),  # A refused conversion has answered a SyncGroup; an instance id that is empty.
    366,  # A timer that was armed by what the lost batch had said.
    1192,  # A session that the lost batch had made shorter.
    *(751, 1138),  # A classic group that is back had lost its sync timer.
    2182,  # A member joins again in the place of a static one, with what it subscribed to.
    *(162, 328),  # A JoinGroup whose write is taken back counts as if it still waited.
    2196,  # Of two conversions that are lost, the first says what the group was.
    309,  # The id of a topic is what a request says, whatever the client calls it.
    1902,  # Compaction has left the tombstone of a target, and a member of the next group.
)
"""Seeds in which a property was wrong, or what a host does with timers when a batch is lost."""

EVERY_KIND = (
    *("ConsumerGroupHeartbeat", "ConsumerGroupDescribe", "ListGroups", "DescribeGroups"),
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "DeleteGroups", "AlterGroupConfig"),
    *("OffsetCommit", "OffsetFetch", "OffsetDelete"),
)


@pytest.mark.parametrize("seed", range(SEEDS_BY_DEFAULT))
def test_a_cluster_stands_random_requests(seed):
    assert not TypedRequests(seed).run(200).problems


AS_IT_WAS = {1092: "kafka-4.3-clean"}
"""Seed -> the version that it ran when it was called wrong, where another is drawn by now."""


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_a_seed_that_was_called_wrong(seed):
    assert not TypedRequests(seed, semantics=AS_IT_WAS.get(seed)).run().problems


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS_BY_DEFAULT, SEEDS_WHEN_SLOW))
def test_a_cluster_stands_many_random_requests(seed):
    assert not TypedRequests(seed).run().problems


def test_the_same_seed_sends_the_same_requests():
    first, second = (TypedRequests(3) for _ in range(2))
    reports = first.run(100), second.run(100)
    assert reports[0] == reports[1]
    assert first.world.trace.digest() == second.world.trace.digest()


def test_every_kind_of_request_is_sent_and_some_of_each_succeed():
    answers = sum((TypedRequests(seed).run(200).answers for seed in range(8)), start=Counter())
    sent = {name.split()[0] for name in answers}
    assert sent >= set(EVERY_KIND)
    for kind in ("ConsumerGroupHeartbeat", "JoinGroup", "LeaveGroup", "OffsetFetch"):
        assert answers[f"{kind} NONE"] > 5
        assert sum(count for name, count in answers.items() if name.startswith(kind)) > 20


def test_what_escapes_is_a_problem(monkeypatch):
    def fail(self, request, **_):
        raise ZeroDivisionError(GROUPS[0])

    monkeypatch.setattr(GroupCoordinator, "handle", fail)
    problems = TypedRequests(0).run(20).problems
    assert any("ZeroDivisionError" in problem for problem in problems)
