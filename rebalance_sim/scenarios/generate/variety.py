"""Drawing what differs between the clients of a scenario that are alike otherwise.

Each client has a random stream of its own, and each setting is drawn whether the feature is there
or not, so that one shifts nothing of another.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from typing import Any

from rebalance_sim.protocol.clients.kinds import CLASSIC_KINDS
from rebalance_sim.sim.draw import Draw
from rebalance_sim.sim.spec import ClientSpec
from rebalance_sim.sim.streams import Streams

_SHARE = 0.5
_MAX_POLL_INTERVALS_MS = (5_000, 8_000, 12_000)
_REQUEST_TIMEOUTS_MS = (2_000, 4_000, 8_000)
_PROCESSING_MS = (20, 50, 200, 500, 1_000)
_AUTO_COMMIT_INTERVALS_MS = (500, 2_000, 5_000, 10_000)
_CLOSE_TIMEOUTS_MS = (0, 1_000, 30_000)
_METADATA_AGES_MS = (2_000, 5_000, 10_000)
_RACKS = ("", "rack-a", "rack-b")
ZONES = ("zone-a", "zone-b", "zone-c")
_MANUAL_COMMIT_INTERVALS_MS = (1_000, 4_000, 10_000)
_MANUAL_COMMIT_SHARE = 0.5
_REVOKED_COMMIT_SHARE = 0.4


def vary(
    features: Set[str], streams: Streams, clients: tuple[ClientSpec, ...]
) -> tuple[ClientSpec, ...]:
    """The clients with settings of their own, as far as the scenario has these features."""
    return tuple(_varied(features, streams, index, client) for index, client in enumerate(clients))


def vary_processing(
    features: Set[str], streams: Streams, clients: tuple[ClientSpec, ...]
) -> tuple[ClientSpec, ...]:
    """Applications whose time away from ``poll`` is drawn each time, unless records say."""
    if "varied_processing" not in features:
        return clients
    factor = Draw(streams.get("generate/processing")).pick((2, 5))
    return tuple(
        replace(
            client,
            processing_max_ms=min(client.processing_ms * factor, client.max_poll_interval_ms // 2),
        )
        if client.processing_records_per_second is None
        else client
        for client in clients
    )


def spread(features: Set[str], clients: tuple[ClientSpec, ...]) -> tuple[ClientSpec, ...]:
    """The clients in zones by turns, if the scenario has some."""
    if "zones" not in features:
        return clients
    return tuple(
        replace(client, rack=ZONES[index % len(ZONES)]) for index, client in enumerate(clients)
    )


def _varied(features: Set[str], streams: Streams, index: int, client: ClientSpec) -> ClientSpec:
    changes: dict[str, Any] = {}
    if "mixed_settings" in features:
        changes |= _settings(Draw(streams.get(f"generate/settings/{index}")), client)
    if "manual_commits" in features:
        changes |= _commits(Draw(streams.get(f"generate/manual-commits/{index}")))
    return replace(client, **changes) if changes else client


def _settings(draw: Draw, client: ClientSpec) -> dict[str, Any]:
    session_ms = client.session_timeout_ms
    drawn: dict[str, Any] = {
        "max_poll_interval_ms": draw.pick(_MAX_POLL_INTERVALS_MS),
        "request_timeout_ms": draw.pick(_REQUEST_TIMEOUTS_MS),
        "processing_ms": draw.pick(_PROCESSING_MS),
        "auto_commit_interval_ms": draw.pick(_AUTO_COMMIT_INTERVALS_MS),
        "close_timeout_ms": draw.pick(_CLOSE_TIMEOUTS_MS),
        "metadata_max_age_ms": draw.pick(_METADATA_AGES_MS),
        "rack": draw.pick(_RACKS),
        "session_timeout_ms": draw.pick((session_ms, max(6_000, session_ms // 2))),
        "heartbeat_interval_ms": draw.pick((1_000, 1_500, 2_500)),
    }
    chosen = {name: value for name, value in drawn.items() if draw.chance(_SHARE)}
    if client.kind not in CLASSIC_KINDS:
        for name in ("metadata_max_age_ms", "session_timeout_ms", "heartbeat_interval_ms"):
            chosen.pop(name, None)
    session_ms = min(session_ms, chosen.get("session_timeout_ms", session_ms))
    max_poll_ms = chosen.get("max_poll_interval_ms", client.max_poll_interval_ms)
    heartbeat_ms = chosen.get("heartbeat_interval_ms", client.heartbeat_interval_ms)
    # A member that learns of a rebalance after its timeout is removed, again and again.
    heartbeat_ms = min(heartbeat_ms, session_ms // 3, max_poll_ms // 3)
    return {**chosen, "session_timeout_ms": session_ms, "heartbeat_interval_ms": heartbeat_ms}


def _commits(draw: Draw) -> dict[str, Any]:
    if not draw.chance(_MANUAL_COMMIT_SHARE):
        return {}
    return {
        "manual_commit_interval_ms": draw.pick(_MANUAL_COMMIT_INTERVALS_MS),
        "commits_synchronously": draw.chance(0.5),
        "enable_auto_commit": draw.chance(0.3),
        "commits_when_revoked": draw.chance(_REVOKED_COMMIT_SHARE),
    }
