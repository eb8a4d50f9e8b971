"""Episodes of rebalancing: in small worlds whose times are known.

Sources: classic §9.2 for what is measured, classic §9.3 for what it takes.
"""

from __future__ import annotations

from typing import Any

from worlds import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Watched, client, spec

from rebalance_sim.protocol.clients.kinds import CLASSIC
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.clients import ClientCrash, PollStall
from rebalance_sim.sim.spec import ClientSpec, DelaySpec, WorldSpec

DELTA_MS = 4
"""There and back, in these worlds."""

WRITE_MS = 2
"""From an append until it is committed."""

POLL_MS = 100
"""From one poll to the next."""

CALLBACK_MS = 40

POSITION_MS = 3 * DELTA_MS + 2 * POLL_MS
"""Until a new owner knows where to start: committed offsets, then the end of the log."""


def measured(watched: Watched) -> dict[str, float]:
    """All metrics as they stand."""
    return dict(watched.world.result().metrics)


def gained(watched: Watched, until_ms: int) -> dict[str, float]:
    """How far metrics grow from now on until this time."""
    before = measured(watched)
    watched.advance_to(until_ms)
    return {name: value - before.get(name, 0) for name, value in measured(watched).items()}


def scale_out(*clients: ClientSpec) -> Watched:
    """A world in which all but the last client are at rest."""
    world = spec(*clients, partition_count=12)
    watched = Watched(world)
    watched.advance_to(clients[-1].start_ms - 1)
    return watched


def test_a_newcomer_costs_what_the_critical_path_says() -> None:
    """Consumer protocol: δ + w + (H + δ) + r + (δ + w) + (H + δ) + a, and each moved partition has
    no owner for r + δ + w + (H + δ) + a."""
    revoke_ms = assign_ms = CALLBACK_MS
    slow = DelaySpec(min_ms=CALLBACK_MS)
    clients = [client(name, callback=slow) for name in "ab"]
    watched = scale_out(*clients, client("c", start_ms=30_000, callback=slow))
    cost = gained(watched, 59_000)
    heard_ms = HEARTBEAT_INTERVAL_MS + DELTA_MS
    assert cost["rebalance_episodes"] == 1
    longest_ms = DELTA_MS + WRITE_MS + heard_ms + revoke_ms + POLL_MS
    longest_ms += DELTA_MS + WRITE_MS + heard_ms + assign_ms + POLL_MS
    assert HEARTBEAT_INTERVAL_MS // 2 < cost["rebalance_ms"] <= longest_ms
    assert cost["partition_moves"] == cost["partition_moves_needed"] == 4
    unowned_ms = revoke_ms + DELTA_MS + WRITE_MS + heard_ms + assign_ms + POLL_MS + POSITION_MS
    assert 0 < cost["unowned_partition_ms"] <= 4 * unowned_ms
    # Partitions that stay with their owners have one all the time.
    assert cost["needless_revocations"] == 0
    assert cost["member_stopped_ms"] == cost["group_stopped_ms"] == 0


def test_round_trips_of_a_newcomer() -> None:
    """The joiner asks once (before the episode begins), and once for each batch of freed
    partitions; who gives some up learns of it, and acknowledges."""
    watched = scale_out(client("a"), client("b", start_ms=20_000))
    cost = gained(watched, 59_000)
    learns = acknowledges = 1
    for_freed_partitions = 1
    acknowledges_them = 1
    assert cost["rebalance_requests"] == learns + acknowledges + for_freed_partitions + (
        acknowledges_them
    )


def classic_scale_out(assignor: str) -> dict[str, float]:
    """What a third classic client costs that comes to two at rest."""
    classic: dict[str, Any] = {
        "kind": CLASSIC,
        "assignors": (assignor,),
        "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS,
        "callback": DelaySpec(min_ms=CALLBACK_MS),
    }
    members = [client(name, **classic) for name in "ab"]
    config = CoordinatorConfig(group_initial_rebalance_delay_ms=0)
    newcomer = client("c", start_ms=30_000, **classic)
    watched = Watched(spec(*members, newcomer, partition_count=12, config=config))
    watched.advance_to(29_999)
    return gained(watched, 59_000)


def test_a_newcomer_to_an_eager_group_stops_everybody() -> None:
    """Eager: δ + max(h + g + r) + δ + c + δ + w + a. Every partition, moved or kept, has no owner
    from its owner's revocation until the end of the sync."""
    cost = classic_scale_out("range")
    heard_ms = HEARTBEAT_INTERVAL_MS + DELTA_MS + POLL_MS + CALLBACK_MS
    longest_ms = DELTA_MS + heard_ms + 2 * DELTA_MS + WRITE_MS + POLL_MS + CALLBACK_MS
    assert cost["rebalance_episodes"] == 1
    assert 0 < cost["rebalance_ms"] <= longest_ms
    unowned_ms = heard_ms + 2 * DELTA_MS + WRITE_MS + POLL_MS + CALLBACK_MS + POSITION_MS
    assert 12 * 2 * CALLBACK_MS <= cost["unowned_partition_ms"] <= 12 * unowned_ms
    assert cost["group_stopped_ms"] >= CALLBACK_MS
    assert cost["member_stopped_ms"] >= 2 * 2 * CALLBACK_MS
    # Each of two has six, and range gives them 0-3 and 4-7 of 0-11; the newcomer's four, and two
    # that need not have moved.
    assert cost["partition_moves_needed"] == 4
    assert cost["partition_moves_beyond_need"] == 2
    assert cost["needless_revocations"] == 12 - 4 - 2
    # Join for an id, Join and Sync of the newcomer; Join and Sync of each of the others.
    assert (cost["joins_sent"], cost["syncs_sent"]) == (2 + 2, 1 + 2)
    assert cost["group_records_written"] == 1


def test_a_newcomer_to_a_cooperative_group_stops_no_one_and_takes_two_generations() -> None:
    """Cooperative: a moved partition has no owner for r and the second of two rounds; a kept one
    has one all the time."""
    cost = classic_scale_out("cooperative-sticky")
    round_ms = HEARTBEAT_INTERVAL_MS + DELTA_MS + POLL_MS + 2 * DELTA_MS + WRITE_MS + POLL_MS
    assert cost["rebalance_episodes"] == 1
    assert cost["rebalance_ms"] <= 2 * DELTA_MS + 2 * (round_ms + CALLBACK_MS)
    assert cost["partition_moves"] == cost["partition_moves_needed"] == 4
    unowned_ms = CALLBACK_MS + round_ms + CALLBACK_MS + POSITION_MS
    assert 4 * CALLBACK_MS <= cost["unowned_partition_ms"] <= 4 * unowned_ms
    assert cost["needless_revocations"] == 0
    assert cost["member_stopped_ms"] == cost["group_stopped_ms"] == 0
    assert (cost["joins_sent"], cost["syncs_sent"]) == (2 + 2 + 3, 3 + 3)
    assert cost["group_records_written"] == 2


def test_what_begins_before_the_last_has_ended_is_one_episode() -> None:
    def two_newcomers(gap_ms: int) -> dict[str, float]:
        newcomers = client("b", start_ms=20_000), client("c", start_ms=20_000 + gap_ms)
        watched = Watched(spec(client("a"), *newcomers))
        watched.advance_to(19_999)
        return gained(watched, 59_000)

    together, apart = two_newcomers(10), two_newcomers(20_000)
    assert together["rebalances"] == apart["rebalances"] == 2
    assert together["rebalance_episodes"] == 1
    assert apart["rebalance_episodes"] == 2


def test_a_killed_member_is_noticed_when_its_session_ends() -> None:
    faults = (ClientCrash(at_ms=20_000, client="b"),)
    watched = Watched(spec(client("a"), client("b"), faults=faults, quiet_period_ms=90_000))
    watched.run()
    found = measured(watched)
    least_ms = SESSION_TIMEOUT_MS - HEARTBEAT_INTERVAL_MS
    assert least_ms <= found["crash_detection_ms_max"] <= SESSION_TIMEOUT_MS + DELTA_MS
    assert found["crash_detection_ms_mean"] == found["crash_detection_ms_max"]
    assert not watched.world.metrics.rebalances.is_watching


def test_a_killed_static_member_is_in_its_own_way_until_its_session_ends() -> None:
    """It did not say that it would be back, so its instance id is not free before that."""
    faults = (ClientCrash(at_ms=20_000, client="b", down_ms=3_000),)
    watched = Watched(spec(client("a"), client("b", instance_id="b"), faults=faults))
    watched.run()
    found = measured(watched)
    least_ms = SESSION_TIMEOUT_MS - HEARTBEAT_INTERVAL_MS
    assert least_ms <= found["crash_detection_ms_max"] <= SESSION_TIMEOUT_MS + DELTA_MS


def test_a_client_that_no_one_knew_is_missed_by_no_one() -> None:
    faults = (ClientCrash(at_ms=20_000, client="b"),)
    late = client("b", start_ms=19_999)
    watched = Watched(spec(client("a"), late, faults=faults))
    watched.run()
    assert "crash_detection_ms_max" not in measured(watched)


def test_an_application_that_does_not_poll_holds_the_episode_open() -> None:
    """Its coordinator waits for the revocation, and so does who is to get the partition."""
    stall_ms = 12_000
    faults = (PollStall(at_ms=19_000, duration_ms=stall_ms, client="a"),)
    world = spec(client("a"), client("b", start_ms=20_000), faults=faults)
    watched = Watched(world)
    watched.advance_to(19_999)
    watched.advance_to(25_000)
    assert watched.world.metrics.rebalances.open_count == 1
    cost = gained(watched, 59_000)
    assert cost["rebalance_episodes"] == 1
    assert cost["rebalance_ms"] > stall_ms - 1_000
    assert cost["rebalance_coordinator_ms"] <= cost["rebalance_ms"]
    assert cost["rebalance_episodes_open"] == -1


def test_no_one_watches_a_group_at_rest() -> None:
    watched = Watched(spec(client("a"), client("b")))
    watched.advance_to(30_000)
    assert not watched.world.metrics.rebalances.is_watching
    cost = gained(watched, 59_000)
    assert cost["rebalance_episodes"] == cost["rebalance_requests"] == 0
    assert cost["rebalance_ms"] == cost["member_rebalance_ms"] == 0


def test_looking_at_the_metrics_changes_none_of_them() -> None:
    def world() -> WorldSpec:
        return spec(client("a"), client("b", start_ms=20_000), client("c", start_ms=21_000))

    often, once = Watched(world()), Watched(world())
    for at_ms in range(0, 60_000, 701):
        often.advance_to(at_ms)
        measured(often)
    often.advance_to(59_999)
    once.advance_to(59_999)
    assert measured(often) == measured(once)


def test_each_episode_has_a_row_that_says_why_it_began_and_what_it_cost() -> None:
    watched = scale_out(client("a"), client("b"), client("c", start_ms=30_000))
    watched.advance_to(59_000)
    metrics, rows = measured(watched), list(watched.world.metrics.rebalances.rows())
    assert len(rows) == metrics["rebalance_episodes"]
    assert {row.cause for row in rows} == {"consumer.member_joined"}
    assert rows[0].moved == 0
    newcomer = rows[-1]
    assert 30_000 <= newcomer.at_ms < 31_000
    assert (newcomer.began, newcomer.moved) == (1, 4)
    assert 0 < newcomer.unowned_partition_ms < newcomer.partition_ms
    assert newcomer.partition_ms == 12 * newcomer.duration_ms
    assert sum(row.duration_ms for row in rows) == metrics["rebalance_ms"]
    unowned = sum(row.unowned_partition_ms for row in rows)
    assert unowned == metrics["rebalance_unowned_partition_ms"]


def test_a_group_that_never_rebalanced_has_no_row() -> None:
    watched = Watched(spec(client("a", start_ms=50_000)))
    watched.advance_to(40_000)
    assert list(watched.world.metrics.rebalances.rows()) == []
