"""What leaders of classic groups compute is what their assignor says: dealt, balanced, kept.

How many partitions there are is the leader's own knowledge, so it is taken from what it hands out.
Source: classic §5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from rebalance_sim.invariants.properties.classic.classic_clients import OfLeaderAssignment
from rebalance_sim.invariants.property import Finding
from rebalance_sim.protocol.assignors.classic.classic_assignor import NamedPartition, ungrouped
from rebalance_sim.protocol.assignors.classic.sticky import CooperativeUserData, StickyUserData
from rebalance_sim.protocol.classic.classic_group import ClassicGroup
from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS
from rebalance_sim.protocol.wire.embedded import Subscription

ORDER = 181

_Shares = Mapping[str, list[NamedPartition]]


def _counts(partitions: Collection[NamedPartition]) -> dict[str, int]:
    """Topic -> how many partitions it has at least."""
    counts: dict[str, int] = {}
    for topic, number in partitions:
        counts[topic] = max(counts.get(topic, 0), number + 1)
    return counts


class DealtInOrder(OfLeaderAssignment):
    """classic §5.1, §5.2. Both assignors look at nothing but order and subscriptions."""

    id = "classic.assignor.dealt"
    sentence = (
        "A client that leads a group of range deals each topic to its subscribers in even runs, "
        "one of roundrobin deals all partitions in a circle: members with an instance id come "
        "first, by that, then the others by member id."
    )
    clauses = ("classic §5.1", "classic §5.2")
    violated_by = ("test:deals-out-of-order",)
    client_kinds = CLASSIC_KINDS

    def _judge_shares(
        self,
        group: ClassicGroup,
        shares: dict[str, list[NamedPartition]],
        claims: dict[str, Subscription],
    ) -> Finding | None:
        if group.protocol_name not in ("range", "roundrobin"):
            return None
        instances = {member_id: name for name, member_id in group.static_members.items()}
        order = sorted(shares, key=lambda id_: (id_ not in instances, instances.get(id_, id_)))
        counts = _counts([p for share in shares.values() for p in share])
        deal = _range if group.protocol_name == "range" else _roundrobin
        expected = deal(order, {id_: claims[id_].topics for id_ in order}, counts)
        for member_id in order:
            if {*shares[member_id]} != expected[member_id]:
                return Finding(
                    f"{group.protocol_name} gives {member_id} {_names(expected[member_id])}; its "
                    f"leader has given it {_names(shares[member_id])}"
                )
        return None


def _range(
    order: list[str], topics_of: Mapping[str, Collection[str]], counts: Mapping[str, int]
) -> dict[str, set[NamedPartition]]:
    dealt: dict[str, set[NamedPartition]] = {member_id: set() for member_id in order}
    for topic, count in counts.items():
        takers = [member_id for member_id in order if topic in topics_of[member_id]]
        for place, member_id in enumerate(takers):
            # The first ones have one more: a run ends where even shares, rounded up, end.
            first, last = (
                at * (count // len(takers)) + min(at, count % len(takers))
                for at in (place, place + 1)
            )
            dealt[member_id] |= {NamedPartition(topic, n) for n in range(first, last)}
    return dealt


def _roundrobin(
    order: list[str], topics_of: Mapping[str, Collection[str]], counts: Mapping[str, int]
) -> dict[str, set[NamedPartition]]:
    dealt: dict[str, set[NamedPartition]] = {member_id: set() for member_id in order}
    circle = list(order)
    for topic in sorted(counts):
        for number in range(counts[topic]):
            taker = next((m for m in circle if topic in topics_of[m]), None)
            if taker is None:
                break  # Given to somebody who does not subscribe to it: another property.
            dealt[taker].add(NamedPartition(topic, number))
            place = circle.index(taker) + 1
            circle = circle[place:] + circle[:place]
    return dealt


class StickyShares(OfLeaderAssignment):
    """classic §5.3, §5.4, where all subscribe alike. What changes hands in a cooperative group is
    with nobody for a generation, so that a share may be smaller. librdkafka's claims are what was
    given to its members, not what they own: what they keep is not judged."""

    id = "classic.assignor.sticky"
    sentence = (
        "Where the members of a classic group subscribe alike, a client that leads it by sticky or "
        "cooperative-sticky gives nobody more than an even share, rounded up, in a group of sticky "
        "nobody less than one rounded down; and in a group without conflicting claims, and of Java "
        "clients if it is cooperative, everybody keeps as much of what it has, the smallest "
        "numbers first."
    )
    clauses = ("classic §5.3", "classic §5.4", "defects S8")
    violated_by = ("test:sticky-uneven", "test:sticky-forgets", "test:sticky-by-topic")
    client_kinds = CLASSIC_KINDS

    def _judge_shares(
        self,
        group: ClassicGroup,
        shares: dict[str, list[NamedPartition]],
        claims: dict[str, Subscription],
    ) -> Finding | None:
        is_cooperative = group.protocol_name == "cooperative-sticky"
        if not is_cooperative and group.protocol_name != "sticky":
            return None
        if len({frozenset(claim.topics) for claim in claims.values()}) != 1:
            return None
        given = [partition for share in shares.values() for partition in share]
        owned = [p for claim in claims.values() for p in ungrouped(claim.owned_partitions)]
        most = -(-len({*given, *owned}) // len(shares))
        counts = _counts(given)
        least = sum(counts.values()) // len(shares)
        for member_id, share in shares.items():
            if len(share) > most or (not is_cooperative and len(share) < least):
                return Finding(
                    f"{member_id} is given {len(share)} partitions of {len({*given, *owned})}; "
                    f"{len(shares)} members share them"
                )
        return self._judge_kept(claims, shares, counts, least, is_cooperative=is_cooperative)

    @staticmethod
    def _judge_kept(
        claims: dict[str, Subscription],
        shares: _Shares,
        counts: Mapping[str, int],
        least: int,
        *,
        is_cooperative: bool,
    ) -> Finding | None:
        claimed: dict[str, list[NamedPartition]] = {}
        for member_id, claim in claims.items():
            said = claim.user_data
            if is_cooperative and not isinstance(said, CooperativeUserData):
                return None  # A member of librdkafka, which may be the one that leads.
            if isinstance(said, StickyUserData):
                claimed[member_id] = ungrouped(said.previous_assignment)
            else:
                claimed[member_id] = ungrouped(claim.owned_partitions)
        everything = [p for mine in claimed.values() for p in mine]
        if len(everything) != len({*everything}):
            return None
        for member_id, mine in sorted(claimed.items()):
            there = {p for p in mine if p.partition < counts.get(p.topic, 0)}
            first = sorted(there, key=lambda p: (p.partition, p.topic))[:least]
            if not {*first}.issubset(shares[member_id]):
                return Finding(
                    f"{member_id} has {_names(there)}, its share is {least} at least, and it is "
                    f"given {_names(shares[member_id])}"
                )
        return None


class StickyLoads(OfLeaderAssignment):
    """classic §5.3: moving goes on until no single move makes loads more alike. What a cooperative
    leader wants shows only once everybody has given up what it has to."""

    id = "classic.assignor.sticky_loads"
    sentence = (
        "Where the members of a classic group of sticky subscribe to different topics, a client "
        "that leads it gives nobody a partition of a topic that a member with two partitions "
        "less subscribes to."
    )
    clauses = ("classic §5.3",)
    violated_by = ("test:sticky-moves-nothing",)
    client_kinds = CLASSIC_KINDS

    def _judge_shares(
        self,
        group: ClassicGroup,
        shares: dict[str, list[NamedPartition]],
        claims: dict[str, Subscription],
    ) -> Finding | None:
        if group.protocol_name != "sticky":
            return None
        least: dict[str, tuple[int, str]] = {}
        for member_id, claim in claims.items():
            mine = len(shares[member_id]), member_id
            for topic in claim.topics:
                least[topic] = min(mine, least.get(topic, mine))
        for member_id, share in shares.items():
            for topic in sorted({partition.topic for partition in share}):
                load, other = least.get(topic, (len(share), member_id))
                if load + 1 < len(share):
                    return Finding(
                        f"{member_id} is given {len(share)} partitions, some of {topic}, which "
                        f"{other} subscribes to, too: it is given {load}"
                    )
        return None


def _names(partitions: Collection[NamedPartition]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in sorted(partitions)) or "nothing"
