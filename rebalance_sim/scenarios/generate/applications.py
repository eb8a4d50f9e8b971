"""Applications for a generated scenario: without a listener, with workers, with poison pills."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from rebalance_sim.protocol.transactions.transaction_spans import IsolationLevel
from rebalance_sim.sim.client.transactions_spec import VERSIONS, TransactionsSpec
from rebalance_sim.sim.data_plane.poison_pills import OnFailure, PillEffect, PoisonPillSpec
from rebalance_sim.sim.data_plane.workers_spec import Commits, WhenRevoked, WorkersSpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.coordinator_move import CoordinatorMove
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import ClientSpec, DelaySpec, OffsetReset, TopicSpec
from rebalance_sim.sim.streams import Streams

_SHARE = 0.6
"""Of clients, or topics, that take part in a feature of the scenario."""
_WORKER_RATES = (20, 200, 2_000)
_IN_FLIGHT = (10, 100, 1_000)
_DRAIN_MS = (0, 2_000, 30_000)
_COMMIT_MS = (500, 2_000)
_TRANSACTION_MS = (5_000, 15_000, 60_000)
_INTERVAL_MS = (100, 1_000)
_ONE_IN = (100, 1_000)
_SLOW_MS = (2_000, 30_000, 400_000)
_LEAST_RECORDS_PER_SECOND = 10
_OUTPUT, _READERS = "output", "readers"
_OF_TRANSACTIONS = 0.5
"""Of moves of coordinators, where there are transactions."""


def draw_applications(
    features: Set[str],
    streams: Streams,
    topics: tuple[TopicSpec, ...],
    clients: tuple[ClientSpec, ...],
    *,
    has_data_plane: bool,
) -> tuple[tuple[TopicSpec, ...], tuple[ClientSpec, ...]]:
    """Topics and clients with what the features ask for; workers and poison pills only in a world
    with a data plane. Without any of the features nothing is drawn."""
    if "no_listener" in features:
        draw = Draw(streams.get("generate/no-listener"))
        clients = tuple(_without_listener(c) if draw.chance(_SHARE) else c for c in clients)
    if has_data_plane and "workers" in features:
        draw = Draw(streams.get("generate/workers"))
        clients = tuple(_with_workers(c, draw) if draw.chance(_SHARE) else c for c in clients)
    if has_data_plane and "transactions" in features:
        draw = Draw(streams.get("generate/transactions"))
        clients = tuple(_with_transactions(c, draw) if draw.chance(_SHARE) else c for c in clients)
    if has_data_plane and "poison_pills" in features:
        draw = Draw(streams.get("generate/poison-pills"))
        clients = tuple(replace(c, on_failure=draw.pick(tuple(OnFailure))) for c in clients)
        topics = tuple(_with_pill(t, draw) if draw.chance(_SHARE) else t for t in topics)
    return topics, clients


def draw_outputs(
    features: Set[str],
    streams: Streams,
    topics: tuple[TopicSpec, ...],
    clients: tuple[ClientSpec, ...],
    faults: Iterable[Fault],
) -> tuple[tuple[TopicSpec, ...], tuple[ClientSpec, ...]]:
    """Topics and clients; applications with transactions write to one more topic, and a group of
    its own reads that. None where a pattern has one of them read what it writes."""
    patterns = [client.topic_regex for client in clients]
    patterns += [getattr(fault, "topic_regex", None) for fault in faults]
    writers = [client for client in clients if client.transactions is not None]
    if "output_topics" not in features or not writers or any(patterns):
        return topics, clients
    draw = Draw(streams.get("generate/outputs"))
    level = draw.pick(tuple(IsolationLevel))
    readers = tuple(
        replace(
            draw.pick(clients),
            name=f"reader-{number}",
            group_id=_READERS,
            topics=(_OUTPUT,),
            isolation_level=level,
            instance_id=None,
            server_assignor=None,
            transactions=None,
            auto_offset_reset=OffsetReset.EARLIEST,
        )
        for number in range(draw.between((1, 2)))
    )
    clients = tuple(
        client
        if client.transactions is None
        else replace(client, transactions=replace(client.transactions, output_topic=_OUTPUT))
        for client in clients
    )
    topic = TopicSpec(name=_OUTPUT, partition_count=draw.between((1, 2)))
    return (*topics, topic), (*clients, *readers)


def move_transactions(
    streams: Streams, clients: Iterable[ClientSpec], faults: tuple[Fault, ...]
) -> tuple[Fault, ...]:
    """The faults; where a client has transactions, their coordinator moves as often as that of a
    group. There is one partition of ``__transaction_state``."""
    if all(client.transactions is None for client in clients):
        return faults
    draw = Draw(streams.get("generate/transaction-moves"))
    return tuple(
        replace(fault, offsets_partition=None, transaction_state_partition=0)
        if isinstance(fault, CoordinatorMove) and draw.chance(_OF_TRANSACTIONS)
        else fault
        for fault in faults
    )


def _without_listener(client: ClientSpec) -> ClientSpec:
    return replace(client, listener=False, callback=DelaySpec(min_ms=0), commits_when_revoked=False)


def _with_workers(client: ClientSpec, draw: Draw) -> ClientSpec:
    ways = [way for way in WhenRevoked if client.listener or way is not WhenRevoked.DRAIN]
    workers = WorkersSpec(
        records_per_second=draw.pick(_WORKER_RATES),
        in_flight_max=draw.pick(_IN_FLIGHT),
        when_revoked=draw.pick(ways),
        drain_ms=draw.pick(_DRAIN_MS),
        commits=draw.pick(tuple(Commits)),
    )
    commits = draw.chance(_SHARE)
    return replace(
        client,
        workers=workers,
        processing_records_per_second=None,
        manual_commit_interval_ms=draw.pick(_COMMIT_MS) if commits else None,
        enable_auto_commit=not commits,
        commits_when_revoked=client.listener and draw.chance(_SHARE),
    )


def _with_transactions(client: ClientSpec, draw: Draw) -> ClientSpec:
    transactions = TransactionsSpec(
        transaction_timeout_ms=draw.pick(_TRANSACTION_MS),
        commit_interval_ms=draw.pick(_INTERVAL_MS),
        version=draw.pick(VERSIONS),
    )
    return replace(
        client,
        transactions=transactions,
        workers=None,
        enable_auto_commit=False,
        manual_commit_interval_ms=None,
        commits_when_revoked=False,
    )


def _with_pill(topic: TopicSpec, draw: Draw) -> TopicSpec:
    effect = draw.pick(tuple(PillEffect))
    pill = PoisonPillSpec(
        effect=effect,
        every=draw.pick(_ONE_IN),
        lasts_ms=draw.pick(_SLOW_MS) if effect is PillEffect.SLOW else None,
    )
    rate = max(topic.records_per_second, _LEAST_RECORDS_PER_SECOND)
    return replace(topic, records_per_second=rate, poison_pills=(pill,))
