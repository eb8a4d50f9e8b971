"""Drawing what client-side assignors the clients of a scenario offer.

Clients of one application run one program, so they offer the same names; they differ where a
rolling upgrade, an instance with several members, or a slow machine makes them differ. Random
streams are its own: a scenario without the feature is what it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rebalance_sim.scenarios.generate.departures import gone_for_good
from rebalance_sim.sim.client.assignor_spec import ClientAssignorsSpec, StreamsSpec
from rebalance_sim.sim.client.client_spec import ClientSpec
from rebalance_sim.sim.delays import DelaySpec
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.streams import Streams

_NAMES = (
    ("streams",),
    ("streams",),
    ("streams",),
    ("sticky",),
    ("range",),
    ("sticky", "range"),
    ("streams", "sticky"),
)
_ALL_OFFER_SHARE = 0.75
_OFFER_SHARE = 0.7
_ROLLING_SHARE = 0.4
_OLD_SHARE = 0.4
_SHARED_PROCESS_SHARE = 0.25
_REVERSED_SHARE = 0.3
_SLOW_SHARE = 0.2
_SLOW_MS = 120_000
"""Longer than any rebalance timeout: such a member is always replaced."""

_AT_ONCE = DelaySpec(min_ms=0)


class DrawnAssignors:
    """The assignors of one application, drawn once; ``of`` has what one client offers."""

    def __init__(self, streams: Streams, client_count: int) -> None:
        self._streams = streams
        draw = Draw(streams.get("generate/assignors"))
        self._names = draw.pick(_NAMES)
        self._is_offered_by_all = draw.chance(_ALL_OFFER_SHARE)
        self._is_rolling = draw.chance(_ROLLING_SHARE)
        self._compute = DelaySpec(
            min_ms=0, max_ms=draw.pick((0, 100, 1_000, 4_000)), tail_ms=draw.pick((0, 0, 500))
        )
        self._slow = draw.between((0, client_count - 1)) if draw.chance(_SLOW_SHARE) else None
        self._state_records = draw.pick((0, 2_000, 20_000))
        self._standbys = draw.pick((0, 1, 1, 2))
        self._warm_ups = draw.pick((1, 2, 4))
        self._tags = draw.pick(((), ("zone",)))

    def of(self, index: int, name: str) -> ClientAssignorsSpec | None:
        """What the client with this index and name offers; None: it leaves all to the broker."""
        draw = Draw(self._streams.get(f"generate/assignors/{index}"))
        if not self._is_offered_by_all and not draw.chance(_OFFER_SHARE):
            return None
        names = self._names[::-1] if draw.chance(_REVERSED_SHARE) else self._names
        is_old = self._is_rolling and draw.chance(_OLD_SHARE)
        return ClientAssignorsSpec(
            names=names,
            maximum_version=0 if is_old else 1,
            compute=DelaySpec(min_ms=_SLOW_MS) if index == self._slow else self._compute,
            streams=self._streams_of(draw, name) if "streams" in names else None,
        )

    def _streams_of(self, draw: Draw, name: str) -> StreamsSpec:
        return StreamsSpec(
            process_id="shared" if draw.chance(_SHARED_PROCESS_SHARE) else name,
            client_tags={"zone": draw.pick(("x", "y"))},
            num_standby_replicas=self._standbys,
            acceptable_recovery_lag=1_000,
            max_warmup_replicas=self._warm_ups,
            rack_aware_assignment_tags=self._tags,
            state_records=self._state_records,
        )


def keep_some_computing(
    clients: tuple[ClientSpec, ...], faults: Iterable[Fault]
) -> tuple[ClientSpec, ...]:
    """Who is slow is quick, if no one else stays that reads what everybody writes (coordinator
    §12.3): in a group that can compute nothing, nothing is left to judge. Who is replaced may be
    there to the end, as a deployment that continues then is not brought to its end."""
    gone = gone_for_good(faults)
    offers = [client.client_assignors for client in clients if client.client_assignors is not None]
    newest = max((offer.version for offer in offers), default=0)
    for client in clients:
        offer = client.client_assignors
        is_able = offer is None or (not _is_slow(client) and offer.maximum_version >= newest)
        if is_able and client.name not in gone:
            return clients
    return tuple(
        replace(client, client_assignors=replace(client.client_assignors, compute=_AT_ONCE))
        if client.client_assignors is not None and _is_slow(client)
        else client
        for client in clients
    )


def _is_slow(client: ClientSpec) -> bool:
    offered = client.client_assignors
    return offered is not None and offered.compute.min_ms >= _SLOW_MS
