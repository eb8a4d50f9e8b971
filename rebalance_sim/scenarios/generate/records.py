"""Records for a generated scenario: whether they flow, how many come, and who is slow with them."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import replace

from rebalance_sim.scenarios.generate.departures import gone_for_good
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.deployments import ClientRedeploy
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.spec import ClientSpec, TopicSpec
from rebalance_sim.sim.streams import Streams

_WITH_RECORDS = frozenset({"data_plane", "high_rate", "slow_processing"})
_HIGH_RATES = (1_000, 10_000, 100_000)
_MAX_POLL_RECORDS = (10, 100, 500, 500)
_MAX_FETCH_RECORDS = (100, 1_000, 1_000, 10_000)
_SLOW_SHARE = 0.7
_POLLS_PER_INTERVAL = 3
"""In the poll interval of a client that keeps polling."""
_SHARES_OF_LOAD_PERCENT = (25, 60, 90, 110, 300)
"""What a slow client processes, of an equal part of all that is produced."""


def draw_records(
    features: Set[str],
    streams: Streams,
    topics: tuple[TopicSpec, ...],
    clients: tuple[ClientSpec, ...],
) -> tuple[bool, tuple[TopicSpec, ...], tuple[ClientSpec, ...]]:
    """Whether the world has a data plane, and its topics and clients with what that needs.

    Without one of the features everything stays as it is, and nothing is drawn.
    """
    if _WITH_RECORDS.isdisjoint(features):
        return False, topics, clients
    draw = Draw(streams.get("generate/records"))
    if "high_rate" in features:
        topics = tuple(replace(t, records_per_second=draw.pick(_HIGH_RATES)) for t in topics)
    load = sum(topic.records_per_second * topic.partition_count for topic in topics)
    percent = draw.pick(_SHARES_OF_LOAD_PERCENT)
    rate = max(1, load * percent // 100 // len(clients))
    max_poll_records = draw.pick(_MAX_POLL_RECORDS)
    max_fetch_records = draw.pick(_MAX_FETCH_RECORDS)
    slow_share = _SLOW_SHARE if "slow_processing" in features else 0.0
    clients = tuple(
        replace(
            client,
            max_poll_records=max_poll_records,
            max_partition_fetch_records=max_fetch_records,
            processing_records_per_second=rate if draw.chance(slow_share) else None,
        )
        for client in clients
    )
    return True, topics, clients


def keep_some_polling(
    clients: tuple[ClientSpec, ...], faults: Iterable[Fault]
) -> tuple[ClientSpec, ...]:
    """Every other client, with the first, polls no more records than it can process in time, also
    when it is started again with another poll interval: where all are thrown out by each full
    batch, no one is left to judge. So do all others, if those are closed for good."""
    shortest_ms = {client.name: client.max_poll_interval_ms for client in clients}
    faults = tuple(faults)
    for fault in faults:
        if isinstance(fault, ClientRedeploy) and fault.max_poll_interval_ms:
            known_ms = shortest_ms.get(fault.client, fault.max_poll_interval_ms)
            shortest_ms[fault.client] = min(known_ms, fault.max_poll_interval_ms)
    gone = gone_for_good(faults)
    step = 1 if gone.issuperset(client.name for client in clients[::2]) else 2
    return tuple(
        client
        if index % step
        else replace(client, max_poll_records=_in_time(client, shortest_ms[client.name]))
        for index, client in enumerate(clients)
    )


def _in_time(client: ClientSpec, max_poll_interval_ms: int) -> int:
    rate = client.processing_records_per_second
    if rate is None:
        return client.max_poll_records
    in_time = rate * max_poll_interval_ms // (_POLLS_PER_INTERVAL * 1_000)
    return max(1, min(client.max_poll_records, in_time))
