"""Who may fetch what, integrated over time: small groups worked out by hand."""

from __future__ import annotations

import pytest
from worlds import orders

from rebalance_sim.protocol.clients.common.effects import RunCallback
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.clock import Clock
from rebalance_sim.sim.observe.ownership import Ownership


class StubMember:
    def __init__(self) -> None:
        self.fetchable: frozenset[TopicPartition] = frozenset()
        self.ownership_version = 0
        self.running_callback: RunCallback | None = None


class StubClient:
    def __init__(self, name: str) -> None:
        self.name = name
        self.incarnation = 1
        self.is_alive = True
        self.member = StubMember()


class Story:
    """Clients ``a``, ``b`` and ``c`` of a topic with four partitions."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.owned = Ownership(self.clock)
        self.clients = {name: StubClient(name) for name in "abc"}
        for partition in sorted(orders(0, 1, 2, 3)):
            self.owned.add(partition)

    def at(self, at_ms: int, **may_fetch: tuple[int, ...]) -> None:
        """At this time these clients may fetch these partitions, all others what they did."""
        self.clock.run_until(at_ms)
        for name, numbers in may_fetch.items():
            client = self.clients[name]
            client.member.fetchable = orders(*numbers)
            client.member.ownership_version += 1
            self.owned.look_at(client)  # type: ignore[arg-type]

    def start(self, name: str, at_ms: int) -> None:
        self.at(at_ms)
        self.clients[name].incarnation += 1
        self.owned.on_started(self.clients[name])  # type: ignore[arg-type]

    def drop(self, name: str, at_ms: int) -> None:
        self.at(at_ms)
        self.clients[name].member.fetchable = orders()
        self.owned.drop(self.clients[name])  # type: ignore[arg-type]

    def end(self, *staying: str, are_alike: bool = True) -> tuple[int, int]:
        self.owned.end_episode(frozenset(staying), are_alike=are_alike)
        return self.owned.episode_moves()


@pytest.fixture
def story() -> Story:
    return Story()


def test_areas_add_up_partitions_over_time(story: Story) -> None:
    story.at(100, a=(0, 1, 2, 3))
    story.at(300, a=(0, 1))
    story.at(350, b=(2,))
    story.at(400)
    # Four for 100 ms, two for 50 ms, one for 50 ms.
    assert story.owned.areas() == (4 * 100 + 2 * 50 + 1 * 50, 4 * 400)
    assert story.owned.areas() == (550, 1_600)


def test_a_partition_that_is_deleted_no_longer_counts(story: Story) -> None:
    story.at(100)
    story.owned.remove(TopicPartition("orders:1", 3))
    story.at(200)
    assert story.owned.areas() == (400 + 300, 400 + 300)


def test_a_member_stands_still_from_its_last_partition_to_the_next(story: Story) -> None:
    story.at(100, a=(0, 1), b=(2, 3))
    story.at(200, a=())
    story.at(500, a=(0,))
    story.at(600, b=(3,))  # keeps one: it does not stop
    assert story.owned.member_stopped_ms == 300


def test_a_member_that_never_gets_anything_back_did_not_stop_but_leave(story: Story) -> None:
    story.at(100, a=(0, 1))
    story.at(200, a=())
    story.drop("a", 300)
    story.at(500, a=(0, 1))  # the next process of that name
    assert story.owned.member_stopped_ms == 0


def test_a_partition_is_owned_from_the_end_of_one_callback_to_the_beginning_of_the_other(
    story: Story,
) -> None:
    member = story.clients["a"].member
    member.running_callback = RunCallback(kind=CallbackKind.ASSIGNED, partitions=orders(0, 1))
    story.owned.on_callback(story.clients["a"])  # type: ignore[arg-type]
    story.at(100, a=(0, 1))
    member.running_callback = None
    story.at(130)
    story.owned.look_at(story.clients["a"])  # type: ignore[arg-type]
    member.running_callback = RunCallback(kind=CallbackKind.REVOKED, partitions=orders(1))
    story.owned.on_callback(story.clients["a"])  # type: ignore[arg-type]
    story.at(200)
    story.owned.look_at(story.clients["a"])  # type: ignore[arg-type]
    story.at(250, a=(0,))
    unowned_ms, _ = story.owned.areas()
    assert unowned_ms == 4 * 250 - (200 - 130) - (250 - 130)


def test_the_group_stands_still_while_no_one_owns_anything(story: Story) -> None:
    story.at(100, a=(0, 1), b=(2, 3))
    story.at(200, a=())
    story.at(250, b=())
    story.at(400, b=(0,))
    assert story.owned.group_stopped_ms == 150
    story.at(900, b=())
    assert story.owned.group_stopped_ms == 150  # no one has come back yet


def test_the_time_before_the_first_owner_is_no_standstill(story: Story) -> None:
    story.at(5_000, a=(0, 1, 2, 3))
    assert story.owned.group_stopped_ms == 0


def test_what_comes_back_to_who_gave_it_up_was_given_up_for_nothing(story: Story) -> None:
    story.at(100, a=(0, 1, 2), b=(3,))
    story.at(200, a=(), b=())
    story.at(300, a=(0, 1), b=(2, 3))
    assert story.owned.needless_revocations == 3
    assert story.owned.move_count == 1


def test_what_somebody_else_had_meanwhile_was_not_given_up_for_nothing(story: Story) -> None:
    story.at(100, a=(0,))
    story.at(200, a=(), b=(0,))
    story.at(300, a=(0,), b=())
    assert story.owned.needless_revocations == 0
    assert story.owned.move_count == 2


def test_a_killed_process_has_given_nothing_up(story: Story) -> None:
    story.at(100, a=(0, 1))
    story.drop("a", 200)
    story.start("a", 300)
    story.at(400, a=(0, 1))
    assert story.owned.needless_revocations == 0


def test_each_process_waits_for_its_first_partition_once(story: Story) -> None:
    story.start("a", 100)
    story.start("b", 200)
    story.at(300, a=(0, 1, 2, 3))
    story.at(400, a=())
    story.at(500, a=(0, 1))
    story.drop("b", 600)  # gone before it got anything
    waits = story.owned.first_assignment
    assert (waits.count, waits.sum_ms, waits.longest_ms) == (1, 200, 200)


def test_a_newcomer_needs_its_share_and_no_more(story: Story) -> None:
    story.at(100, a=(0, 1, 2, 3))
    story.owned.begin_episode()
    story.at(200, a=(0, 1), b=(2, 3))
    assert story.end("a", "b") == (2, 2)


def test_an_exchange_is_beyond_what_is_needed(story: Story) -> None:
    story.at(100, a=(0, 1), b=(2, 3))
    story.owned.begin_episode()
    story.at(200, a=(2, 3), b=(0, 1))
    assert story.end("a", "b") == (4, 0)


def test_what_comes_back_within_an_episode_has_not_moved(story: Story) -> None:
    story.at(100, a=(0, 1, 2, 3))
    story.owned.begin_episode()
    story.at(200, a=(0, 1, 2), b=(3,))
    story.at(300, a=(0, 1, 2, 3), b=())
    assert story.end("a") == (0, 0)
    assert story.owned.move_count == 2


def test_partitions_of_who_has_left_have_to_move(story: Story) -> None:
    story.at(100, a=(0, 1), b=(2,), c=(3,))
    story.drop("a", 200)
    story.owned.begin_episode()
    story.at(300, b=(0, 2), c=(1, 3))
    assert story.end("b", "c") == (2, 2)


def test_where_subscriptions_differ_only_those_of_who_has_left_have_to(story: Story) -> None:
    story.at(100, a=(0, 1, 2, 3))
    story.owned.begin_episode()
    story.at(200, a=(0, 1), b=(2, 3))
    assert story.end("a", "b", are_alike=False) == (2, 0)


def test_a_first_owner_is_no_move(story: Story) -> None:
    story.owned.begin_episode()
    story.at(200, a=(0, 1, 2, 3))
    story.at(300, a=(0, 1), b=(2, 3))
    assert story.end("a", "b") == (0, 0)


def test_a_client_that_still_looks_for_its_position_belongs_to_the_episode_before(
    story: Story,
) -> None:
    story.at(100, a=(0, 1, 2, 3))
    story.owned.begin_episode()
    story.at(200, a=(0, 1))
    story.end("a", "b")
    story.at(250, b=(2, 3))
    assert story.owned.episode_moves() == (2, 2)
    story.owned.begin_episode()
    story.at(300, a=(1,), b=(0, 2, 3))
    assert story.end("a", "b") == (3, 2)
