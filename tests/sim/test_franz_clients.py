"""Settings of franz-go that change a rebalance, or what is delivered twice (franz §6, §7)."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_sim.protocol.clients.kinds import FRANZ, FRANZ_CLASSIC, JAVA
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import scenario_of
from rebalance_sim.sim.client.client_processes import redeployed
from rebalance_sim.sim.client.client_spec import ClientSpec


def result_of(*clients: dict[str, Any], **world: Any) -> Any:
    """A run of a world with records, 40 s and a quiet period long."""
    topic = {"name": "orders", "partition_count": 4, "records_per_second": 20}
    rows = [{"topics": ["orders"], **client} for client in clients]
    return run(
        scenario_of(
            {
                "name": "x",
                "world": {
                    "seed": 1,
                    "duration_ms": 40_000,
                    "data_plane": True,
                    "topics": [topic],
                    "clients": rows,
                    **world,
                },
            }
        )
    )


def after_a_crash(*, greedy: bool) -> tuple[int, int]:
    """Records handed out twice, and lost: ``a`` cannot keep up, and crashes in the middle of a
    batch, of which all has been committed if it is greedy."""
    a = {
        "name": "a",
        "kind": FRANZ,
        "processing_records_per_second": 60,
        "auto_commit_interval_ms": 1_000,
        "greedy_auto_commit": greedy,
        "auto_offset_reset": "earliest",
    }
    crash = {"kind": "client_crash", "at_ms": 21_500, "client": "a", "down_ms": 1_000}
    result = result_of(a, faults=[crash])
    assert result.outcome == "ok", result.reason
    return result.metrics["records_redelivered"], result.metrics["records_lost"]


def test_who_commits_greedily_loses_what_others_are_given_twice() -> None:
    redelivered, lost = after_a_crash(greedy=False)
    assert redelivered > 0 and not lost
    redelivered, lost = after_a_crash(greedy=True)
    assert lost > 0 and not redelivered


def test_other_libraries_have_no_such_setting() -> None:
    with pytest.raises(ValueError, match="greedy_auto_commit: java has no such setting: leave it"):
        ClientSpec(name="a", greedy_auto_commit=True)
    greedy = ClientSpec(name="a", kind=FRANZ, greedy_auto_commit=True)
    assert not redeployed(greedy, {"kind": JAVA}).greedy_auto_commit
    assert redeployed(greedy, {"kind": FRANZ_CLASSIC}).greedy_auto_commit


def test_a_group_goes_over_to_eager_when_somebody_votes_for_nothing_else() -> None:
    """Where all is revoked before the SyncGroup no partition has two consumers."""
    mixed = {"kind": FRANZ_CLASSIC, "assignors": ["cooperative-sticky", "range"]}
    eager = {"kind": FRANZ_CLASSIC, "assignors": ["range"], "start_ms": 15_000}
    clients = ({"name": "a", **mixed}, {"name": "b", **mixed}, {"name": "c", **eager})
    for leaves in ([], [{"kind": "client_close", "at_ms": 30_000, "client": "c"}]):
        result = result_of(*clients, faults=leaves, repairs=["sim-late-downgrade"])
        assert result.outcome == "ok", result.reason


def test_a_commit_that_has_waited_leaves_out_what_was_given_up() -> None:
    """Answers are slow, and ``a`` has to give up more before it is done with what b is given."""
    a, b, c, d = (
        {"name": name, "kind": FRANZ, "auto_commit_interval_ms": 1_000} for name in "abcd"
    )
    late = {"start_ms": 11_000}
    slow = {"kind": "replication_slowdown", "at_ms": 7_000, "duration_ms": 6_000, "factor": 500}
    of_known: dict[bool, tuple[str, set[str]]] = {}
    for is_repaired in (False, True):
        result = result_of(
            {**a, "callback": {"min_ms": 500}},
            {**b, "start_ms": 8_000},
            {**c, **late},
            {**d, **late},
            faults=[slow],
            network={"latency": {"min_ms": 2}},
            config={
                "group_consumer_assignment_interval_ms": 0,
                "group_consumer_heartbeat_interval_ms": 1_000,
                "group_consumer_min_heartbeat_interval_ms": 1_000,
            },
            repairs=["sim-waiting-commit"] if is_repaired else [],
        )
        of_known[is_repaired] = (result.outcome, set(result.known))
    assert of_known == {False: ("known", {"sim-waiting-commit"}), True: ("ok", set())}
