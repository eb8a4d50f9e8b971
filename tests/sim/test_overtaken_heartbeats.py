"""A heartbeat that its client has given up, and that comes after the one that was sent instead.

Source: docs/findings.md#sim-overtaken-heartbeat.
"""

from __future__ import annotations

from typing import Any

import pytest
from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.sim.faults.clients import ClientClose
from rebalance_sim.sim.faults.connections import NetworkSlowdown
from rebalance_sim.sim.spec import BrokerSpec

SLOW = NetworkSlowdown(at_ms=26_500, duration_ms=2_000, client="b", factor=2_000)
"""What b sends in that time takes 4 s; it gives a heartbeat up after 2 s."""


def late_heartbeat(*faults: Any, is_repaired: bool) -> Watched:
    """The heartbeat that b sends at 27.1 s arrives at 31.1 s, the next one at 29.2 s."""
    return Watched(
        spec(
            client("a"),
            client("b", start_ms=22_000, request_timeout_ms=2_000),
            faults=(SLOW, *faults),
            brokers=BrokerSpec(count=1),
            repairs=("sim-overtaken-heartbeat",) if is_repaired else (),
        )
    )


def handled(watched: Watched, member_id: str) -> list[int]:
    """When heartbeats of a member were handled after 25 s."""
    return [
        step["at_ms"]
        for step in watched.steps(StepKind.COORDINATOR_REQUEST)
        if step["request"].get("member_id") == member_id and step["at_ms"] > 25_000
    ]


@pytest.mark.parametrize("is_repaired", [True, False])
def test_a_heartbeat_that_was_overtaken_is_handled_by_shipped_brokers_alone(
    is_repaired: bool,
) -> None:
    watched = late_heartbeat(is_repaired=is_repaired)
    watched.advance_to(32_000)
    member_id = watched.world.clients()["b"].member.member_id
    again, *others = handled(watched, member_id)
    assert 29_100 <= again <= 29_300
    late = [at_ms for at_ms in others if at_ms > 30_000]
    assert late == ([] if is_repaired else [31_101])
    watched.run()
    assert watched.fetchable("a") | watched.fetchable("b") == set(range(6))


def test_a_leave_counts_whenever_it_comes() -> None:
    watched = late_heartbeat(ClientClose(at_ms=27_500, client="b"), is_repaired=True)
    watched.run()
    assert watched.group().members.keys() == {watched.world.clients()["a"].member.member_id}
    assert watched.fetchable("a") == set(range(6))
