"""Figures that count clients, as docs/results.md defines them."""

from __future__ import annotations

from recording import ClientSeen, Recording


def client_figures(recording: Recording) -> dict[str, float]:
    """Of all groups together."""
    seen = [moment.client for moment in recording.moments if moment.client is not None]
    last: dict[str, ClientSeen] = {one.name: one for one in seen}
    return {
        "clients_started": len(last),
        "fatal_clients": len([one for one in last.values() if one.state == "FATAL"]),
        "never_stable_clients": len(last.keys() - {c.name for c in seen if c.state == "STABLE"}),
        "idle_clients": len(last.keys() - {one.name for one in seen if one.fetchable}),
    }
