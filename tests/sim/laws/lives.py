"""Who was handed what, in which time with a partition: facts that several laws ask for."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from recording import ClientSeen, Delivery, Moment, Recording

from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.protocol.wire.topics import TopicPartition
from rebalance_sim.sim.spec import WorldSpec

RECORDS_PER_SECOND = 20


def with_records(spec: WorldSpec) -> WorldSpec:
    """The same world with a data plane, and with records in each of its topics. Nothing is written
    to output topics: between markers and aborted records a position is no count of what was handed
    out, which properties judge (transactions §5)."""
    topics = tuple(
        replace(topic, records_per_second=topic.records_per_second or RECORDS_PER_SECOND)
        for topic in spec.topics
    )
    clients = tuple(
        replace(
            client,
            isolation_level=IsolationLevel.READ_UNCOMMITTED,
            transactions=client.transactions and replace(client.transactions, output_topic=None),
        )
        for client in spec.clients
    )
    return replace(spec, data_plane=True, topics=topics, clients=clients)


class Life(NamedTuple):
    """One client process from its start on: ``moments`` are those of the run, by number."""

    name: str
    incarnation: int
    moments: list[tuple[int, Moment, ClientSeen]]

    def seen(self, since: int, until: int) -> list[ClientSeen]:
        """What it was like after the first ``since`` moments of the run, and after each of its own
        up to ``until``."""
        first = bisect_left(self.moments, since, key=lambda one: one[0])
        last = bisect_left(self.moments, until, key=lambda one: one[0])
        return [seen for _, _, seen in self.moments[max(0, first - 1) : last]]


def lives(recording: Recording) -> dict[tuple[str, int], Life]:
    """Every client process, by name and incarnation."""
    found: dict[tuple[str, int], Life] = {}
    for at, moment in enumerate(recording.moments):
        seen = moment.client
        if seen is not None:
            key = seen.name, seen.incarnation
            found.setdefault(key, Life(*key, [])).moments.append((at, moment, seen))
    return found


class Holding(NamedTuple):
    """One time of a process with a partition. ``begins``: the moment since which its member has a
    position, which is ``position``; None if it never had one."""

    life: Life
    partition: TopicPartition
    number: int
    begins: int | None
    position: int | None
    handed_out: list[Delivery]


def holdings(recording: Recording) -> Iterator[Holding]:
    """Every time of every process with a partition."""
    found: dict[tuple[int, TopicPartition], Holding] = {}
    for life in lives(recording).values():
        for at, _, seen in life.moments:
            for partition, held in seen.held.items():
                key = held.number, partition
                if key not in found or found[key].position is None:
                    begins = None if held.position is None else at
                    found[key] = Holding(life, partition, *key[:1], begins, held.position, [])
    for delivery in recording.deliveries:
        found[delivery.held, delivery.partition].handed_out.append(delivery)
    yield from found.values()


def told(delivery: Delivery) -> str:
    """In words."""
    return (
        f"{delivery.at_ms} ms: {delivery.client} #{delivery.incarnation} is handed "
        f"{delivery.partition} {delivery.start} to {delivery.end}, time {delivery.held} with it"
    )
