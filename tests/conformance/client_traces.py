"""Recorded clients, replayed and counted by hand, and how to edit a recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rebalance_sim.conformance.client_replay import (
    ClientReplayReport,
    load_client_trace,
    replay_client_trace,
)

__all__ = ["FOLDER", "Edit", "edited", "find", "replay", "requests_of", "what_of"]

FOLDER = Path(__file__).parents[2] / "conformance" / "traces" / "clients"

Edit = Callable[[dict[str, Any]], None]

_OF_OFFSETS = ("OffsetCommit", "OffsetFetch")
_OF_GROUPS = (
    *("ConsumerGroupHeartbeat", "FindCoordinator"),
    *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"),
)


def replay(path: Path) -> ClientReplayReport:
    return replay_client_trace(load_client_trace(path))


def what_of(event: dict[str, Any]) -> str:
    """As what an event of a trace is compared: a request of the group, of offsets, or its kind."""
    if event["kind"] != "request":
        return str(event["kind"])
    if event["api"] in _OF_OFFSETS:
        return "commit"
    return "request" if event["api"] in _OF_GROUPS else "other"


def edited(tmp_path: Path, path: Path, edit: Edit) -> Path:
    document = json.loads(path.read_text())
    edit(document)
    target = tmp_path / path.name
    target.write_text(json.dumps(document))
    return target


def find(document: dict[str, Any], **wanted: Any) -> dict[str, Any]:
    return next(
        event
        for event in document["events"]
        if all(event.get(key) == value for key, value in wanted.items())
    )


def requests_of(document: dict[str, Any], api: str, client: str) -> list[dict[str, Any]]:
    return [
        event
        for event in document["events"]
        if (event["kind"], event.get("api"), event["client"]) == ("request", api, client)
    ]
