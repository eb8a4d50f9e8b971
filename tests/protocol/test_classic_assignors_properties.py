"""What classic client assignors guarantee for any group (classic §5, §10.1)."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_sim.protocol.assignors.classic import (
    CLASSIC_ASSIGNORS,
    Assigned,
    ClaimingMember,
    ClassicAssignor,
    EndlessAssignmentError,
)
from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition, ungrouped
from rebalance_sim.protocol.assignors.classic.sticky import CooperativeStickyAssignor
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.protocol.wire.embedded import NamedPartitions, Subscription

checked = settings(max_examples=60, deadline=None)
EVERY_ASSIGNOR = pytest.mark.parametrize("name", list(CLASSIC_ASSIGNORS))
STICKY = pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
COOPERATIVE = CLASSIC_ASSIGNORS["cooperative-sticky"]

Counts = Mapping[str, int]


class Client:
    """A member as it goes through generations: what it owns, and what it was told last."""

    def __init__(self, member_id: str, topics: tuple[str, ...], instance: str | None) -> None:
        self.member_id, self.topics, self.instance = member_id, topics, instance
        self.owned: frozenset[NamedPartition] = frozenset()
        self.generation = self.last_generation = -1
        self.last: tuple[NamedPartitions, ...] | None = None

    def claim(self, assignor: ClassicAssignor) -> ClaimingMember:
        """Its row in the leader's list. Without cooperation it has given everything up."""
        owned = self.owned if assignor.supports_cooperative else ()
        by_topic: dict[str, list[int]] = {}
        for topic, number in sorted(owned):
            by_topic.setdefault(topic, []).append(number)
        return ClaimingMember(
            member_id=self.member_id,
            group_instance_id=self.instance,
            subscription=Subscription(
                topics=self.topics,
                owned_partitions=tuple(NamedPartitions(t, tuple(n)) for t, n in by_topic.items()),
                generation_id=self.generation,
                user_data=assignor.user_data(
                    last_assigned=self.last, last_generation_id=self.last_generation
                ),
            ),
        )

    def take(self, share: tuple[NamedPartitions, ...], generation: int) -> None:
        """Its SyncGroup is answered."""
        self.owned = frozenset(ungrouped(share))
        self.last, self.last_generation = share, generation


Story = list[tuple[Counts, list[ClaimingMember], Assigned]]


def story(assignor: ClassicAssignor, seed: int) -> Story:
    """Generations of a group whose members come, go, subscribe again, and miss answers."""
    rng = random.Random(seed)
    names = "xyz"[: rng.randint(1, 3)]
    counts = {topic: rng.randint(0, 7) for topic in names}
    identical = rng.random() < 0.5
    clients: list[Client] = []
    reported: Story = []
    for generation in range(1, rng.randint(3, 10)):
        for _ in range(rng.choice((0, 0, 1, 2)) + (not clients)):
            topics = tuple(t for t in names if identical or rng.random() < 0.6)
            member_id = f"{rng.randrange(1000):03}-{generation}-{len(clients)}"
            instance = f"i{generation}{len(clients)}" if rng.random() < 0.3 else None
            clients.append(Client(member_id, topics, instance))
        if len(clients) > 1 and rng.random() < 0.3:
            clients.remove(rng.choice(clients))
        if rng.random() < 0.2:
            counts = {**counts, rng.choice(names): rng.randint(0, 9)}
        if not identical and rng.random() < 0.3:
            rng.choice(clients).topics = tuple(t for t in names if rng.random() < 0.6)
        members = [client.claim(assignor) for client in clients]
        rng.shuffle(members)
        result = assignor.assign(partition_counts=counts, members=members)
        reported.append((dict(counts), members, result))
        for client in clients:
            if assignor.supports_cooperative and rng.random() < 0.15:
                continue  # It misses the answer, and continues with what it has.
            client.generation = generation
            client.take(result[client.member_id], generation)
    return reported


def shares(result: Assigned) -> dict[str, list[NamedPartition]]:
    return {member_id: ungrouped(share) for member_id, share in result.items()}


def owned(members: Sequence[ClaimingMember]) -> dict[str, set[NamedPartition]]:
    return {m.member_id: {*ungrouped(m.subscription.owned_partitions)} for m in members}


def wanted(counts: Counts, members: Sequence[ClaimingMember]) -> set[NamedPartition]:
    topics = {topic for member in members for topic in member.subscription.topics}
    return {NamedPartition(t, n) for t in topics & counts.keys() for n in range(counts[t])}


@EVERY_ASSIGNOR
@checked
@given(seed=st.integers(0, 2**32))
def test_lists_are_disjoint_and_hold_only_what_members_subscribe_to(name: str, seed: int) -> None:
    for counts, members, result in story(CLASSIC_ASSIGNORS[name], seed):
        topics = {m.member_id: m.subscription.topics for m in members}
        given_out = shares(result)
        assert given_out.keys() == topics.keys()
        times = Counter(p for share in given_out.values() for p in share)
        assert all(count == 1 for count in times.values())
        assert times.keys() <= wanted(counts, members)
        assert all(p.topic in topics[m] for m, share in given_out.items() for p in share)


@EVERY_ASSIGNOR
@checked
@given(seed=st.integers(0, 2**32))
def test_everything_is_given_out_but_what_somebody_has_still(name: str, seed: int) -> None:
    """classic C11: cooperative-sticky leaves out what is transferring, and no other assignor
    anything."""
    assignor = CLASSIC_ASSIGNORS[name]
    for counts, members, result in story(assignor, seed):
        missing = wanted(counts, members).difference(*shares(result).values())
        held = set().union(*owned(members).values()) if assignor.supports_cooperative else set()
        assert missing <= held


@EVERY_ASSIGNOR
@checked
@given(seed=st.integers(0, 2**32))
def test_the_order_of_the_member_list_does_not_matter(name: str, seed: int) -> None:
    assignor = CLASSIC_ASSIGNORS[name]
    for counts, members, result in story(assignor, seed):
        assert assignor.assign(partition_counts=counts, members=members[::-1]) == result


@checked
@given(seed=st.integers(0, 2**32))
def test_cooperative_sticky_never_revokes_and_assigns_in_one_round(seed: int) -> None:
    """classic C10, C11: no one gets what another member that is still there claims to own."""
    for _, members, result in story(COOPERATIVE, seed):
        claims = owned(members)
        for member_id, share in shares(result).items():
            others = set().union(*(c for m, c in claims.items() if m != member_id))
            got = {p for p in share if p not in claims[member_id]}
            assert not got & others


@EVERY_ASSIGNOR
@checked
@given(member_count=st.integers(1, 8), counts=st.lists(st.integers(0, 9), min_size=1, max_size=3))
def test_equal_subscriptions_are_balanced(name: str, member_count: int, counts: list[int]) -> None:
    """range: within one per topic; the others: within one over all."""
    topics = tuple("xyz"[: len(counts)])
    members = [Client(f"m{n}", topics, None).claim(COOPERATIVE) for n in range(member_count)]
    result = CLASSIC_ASSIGNORS[name].assign(
        partition_counts=dict(zip(topics, counts, strict=True)), members=members
    )
    loads = [Counter(p.topic for p in share) for share in shares(result).values()]
    for topic in topics:
        per_topic = [load[topic] for load in loads]
        assert name != "range" or max(per_topic) - min(per_topic) <= 1
    totals = [load.total() for load in loads]
    assert name == "range" or max(totals) - min(totals) <= 1


@STICKY
@checked
@given(seed=st.integers(0, 2**32))
def test_a_group_that_has_come_to_rest_keeps_what_it_has(name: str, seed: int) -> None:
    """The same members ask again until nothing is in transfer, and then nothing moves."""
    assignor = CLASSIC_ASSIGNORS[name]
    counts, members, result = story(assignor, seed)[-1]
    clients = {m.member_id: Client(m.member_id, m.subscription.topics, None) for m in members}
    results = [result]
    for generation in range(100, 104):
        for member_id, client in clients.items():
            client.generation = generation
            client.take(results[-1][member_id], generation)
        rows = [client.claim(assignor) for client in clients.values()]
        results.append(assignor.assign(partition_counts=counts, members=rows))
    assert results[-1] == results[-2] == results[-3]
    assert {p for s in shares(results[-1]).values() for p in s} == wanted(counts, members)


@STICKY
@checked
@given(
    member_count=st.integers(2, 8),
    count=st.integers(0, 40),
    goes=st.integers(0, 7),
)
def test_no_more_moves_than_a_departure_takes(
    name: str, member_count: int, count: int, goes: int
) -> None:
    """Who stays keeps everything when a member goes, and what was its goes out at once."""
    assignor = CLASSIC_ASSIGNORS[name]
    clients = [Client(f"m{n}", ("t",), None) for n in range(member_count)]
    first = assignor.assign(
        partition_counts={"t": count}, members=[c.claim(assignor) for c in clients]
    )
    for client in clients:
        client.generation = 1
        client.take(first[client.member_id], 1)
    stay = [c for index, c in enumerate(clients) if index != goes % member_count]
    then = shares(
        assignor.assign(partition_counts={"t": count}, members=[c.claim(assignor) for c in stay])
    )
    assert all(client.owned <= {*then[client.member_id]} for client in stay)
    assert sum(map(len, then.values())) == count


@checked
@given(seed=st.integers(0, 2**32))
def test_no_member_is_much_fuller_than_who_could_relieve_it(seed: int) -> None:
    """No single move makes two members' loads more alike."""
    assignor = CLASSIC_ASSIGNORS["sticky"]
    for _, members, result in story(assignor, seed):
        topics = {m.member_id: m.subscription.topics for m in members}
        given_out = shares(result)
        for share in given_out.values():
            for partition in share:
                for taker in topics:
                    if partition.topic in topics[taker]:
                        assert len(share) <= len(given_out[taker]) + 1


# --- defects -------------------------------------------------------------------------------------


def lagging_owner() -> list[ClaimingMember]:
    """Z owns t0 since generation 1. It missed generation 2, in which B had t1 and C came."""
    had, others = Client("Z", ("t",), None), [Client(name, ("t",), None) for name in "BC"]
    had.generation = 1
    had.take((NamedPartitions("t", (0,)),), 1)
    for other, share in zip(others, ((NamedPartitions("t", (1,)),), ()), strict=True):
        other.generation = 2
        other.take(share, 2)
    return [client.claim(COOPERATIVE) for client in (had, *others)]


def test_a_partition_of_a_member_that_missed_a_round_stays_with_it() -> None:
    result = COOPERATIVE.assign(partition_counts={"t": 3}, members=lagging_owner())
    assert shares(result) == {"Z": [("t", 0)], "B": [("t", 1)], "C": [("t", 2)]}


def with_defect(name: str) -> ClassicAssignor:
    """The cooperative assignor with a defect."""
    return SEMANTICS["kafka-4.3"].with_defects(name).rules(CooperativeStickyAssignor)()


def test_kafka_14639_gives_it_to_somebody_else_at_once() -> None:
    defective = with_defect("KAFKA-14639")
    result = defective.assign(partition_counts={"t": 3}, members=lagging_owner())
    assert shares(result) == {"Z": [("t", 2)], "B": [("t", 1)], "C": [("t", 0)]}


def test_librdkafka_4783_does_not_come_to_an_end() -> None:
    """No one can relieve a, so it never gets even; b and c pass one partition to and fro."""
    defective = with_defect("librdkafka-4783")
    topics = {"a": ("x", "y"), "b": ("y",), "c": ("y",)}
    members = [Client(name, subs, None).claim(COOPERATIVE) for name, subs in topics.items()]
    counts = {"x": 3, "y": 1}
    result = COOPERATIVE.assign(partition_counts=counts, members=members)
    assert sorted(map(len, shares(result).values())) == [0, 1, 3]
    with pytest.raises(EndlessAssignmentError):
        defective.assign(partition_counts=counts, members=members)
