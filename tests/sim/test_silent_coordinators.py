"""What each client library does while its coordinator loads, or stands still.

The figures are those of kafka-clients 4.3.1 and librdkafka 2.16.0 against 4.3.1 brokers: a broker
whose process was stopped, and a proxy that turned answers into COORDINATOR_LOAD_IN_PROGRESS.
Source: client §2.1, §10.1, classic §4.4, §4.6, and ``docs/findings.md#sim-unpaced-join``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from worlds import Watched, client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.runtime.coordinator_config import CoordinatorConfig
from rebalance_sim.sim.faults.brokers import BrokerHostLoss, BrokerPause
from rebalance_sim.sim.spec import BrokerSpec, DelaySpec

PAUSE_MS = 20_000
LOAD_MS = 10_000
SESSION_MS = 45_000
LIBRDKAFKA_CLASSIC: dict[str, Any] = {"kind": "librdkafka-classic", "assignors": ("range",)}


def sent(watched: Watched, effect_type: str) -> list[int]:
    """When clients have sent requests of a kind."""
    return [
        step["at_ms"]
        for step in watched.steps(StepKind.CLIENT_EVENT)
        for effect in step.get("effects", ())
        if effect["type"] == effect_type
    ]


def gaps(times: list[int]) -> list[int]:
    """The times between them."""
    return [after - before for before, after in pairwise(times)]


def loading(**settings: Any) -> Watched:
    """A newcomer whose only broker loads, until shortly before the end of that."""
    brokers = BrokerSpec(count=1, load=DelaySpec(min_ms=LOAD_MS))
    watched = Watched(spec(client("a", **settings), brokers=brokers))
    watched.advance_to(LOAD_MS)
    return watched


def paused(until_ms: int, **settings: Any) -> Watched:
    """A member alone in its group, whose coordinator stands still."""
    faults = (BrokerPause(at_ms=PAUSE_MS, duration_ms=100_000),)
    # Such a seed that no look-up goes to the broker that stands still.
    watched = Watched(spec(client("a", **settings), faults=faults, duration_ms=150_000, seed=2))
    watched.advance_to(until_ms)
    return watched


# --- a coordinator that loads ---------------------------------------------------------------------


def test_a_java_newcomer_sends_a_heartbeat_per_round_trip_while_its_coordinator_loads() -> None:
    """The real one sent 27,517 in 15.7 s (``docs/findings.md#sim-unpaced-join``)."""
    times = sent(loading(), "SendHeartbeat")
    assert set(gaps(times[1:])) == {4}  # a round trip of 2 ms each way
    assert len(times) > 2_400


def test_a_java_classic_newcomer_repeats_its_join_after_the_same_backoff_each_time() -> None:
    times = sent(loading(kind="classic"), "SendJoinGroup")
    assert set(gaps(times[1:])) == {104}


def test_a_librdkafka_newcomer_repeats_its_heartbeat_twice_and_begins_anew() -> None:
    """179 in 19 s: one, again after 100 and 200 ms, and the next at once."""
    found = gaps(sent(loading(kind="librdkafka"), "SendHeartbeat"))
    for first, second, third in zip(found[0::3], found[1::3], found[2::3], strict=False):
        assert 80 <= first <= 130
        assert 160 <= second <= 250
        assert third <= 10


def test_a_librdkafka_classic_newcomer_joins_again_after_an_interval_and_a_backoff() -> None:
    times = sent(loading(**LIBRDKAFKA_CLASSIC), "SendJoinGroup")
    assert set(gaps(times)) == {2_000}
    assert len(times) == 5


# --- a coordinator that stands still --------------------------------------------------------------


def test_the_java_consumer_waits_for_its_request_timeout_and_keeps_its_session() -> None:
    watched = paused(70_000)
    heartbeats = [at_ms for at_ms in sent(watched, "SendHeartbeat") if at_ms > PAUSE_MS]
    assert heartbeats[1] - heartbeats[0] >= 30_000
    assert watched.fetchable("a") == set(range(6))


def test_the_java_classic_heartbeat_thread_goes_on_while_heartbeats_are_in_flight() -> None:
    watched = paused(70_000, kind="classic")
    heartbeats = [at_ms for at_ms in sent(watched, "SendClassicHeartbeat") if at_ms > PAUSE_MS]
    assert gaps(heartbeats[:10]) == [3_000] * 9
    (search,) = (at_ms for at_ms in sent(watched, "FindCoordinator") if at_ms > PAUSE_MS)
    assert search == heartbeats[0] + 30_000
    assert watched.fetchable("a") == set(range(6))


def test_a_java_classic_member_commits_on_while_its_coordinator_stands_still() -> None:
    watched = paused(48_000, kind="classic", enable_auto_commit=True)
    times = [at_ms for at_ms in sent(watched, "SendCommit") if at_ms > PAUSE_MS]
    assert gaps(times) == [5_000] * (len(times) - 1)
    assert len(times) >= 5


def test_a_librdkafka_member_goes_on_elsewhere_when_the_broker_is_fenced() -> None:
    watched = paused(35_000, kind="librdkafka")
    assert watched.fetchable("a") == set(range(6))
    heartbeats = [at_ms for at_ms in sent(watched, "SendHeartbeat") if at_ms > PAUSE_MS]
    assert heartbeats[1] - heartbeats[0] == 5_000


def test_a_librdkafka_classic_member_notices_only_with_its_session_timer() -> None:
    """Its heartbeat may take as long as the session, whatever other requests may take. Joining, it
    continues at another broker as soon as the heartbeat in flight is late."""
    watched = paused(80_000, **LIBRDKAFKA_CLASSIC)
    lost = sent(watched, "RunCallback")[-2]
    heartbeat = [at_ms for at_ms in sent(watched, "SendClassicHeartbeat") if at_ms < lost][-1]
    joins = [at_ms for at_ms in sent(watched, "SendJoinGroup") if at_ms > PAUSE_MS]
    searches = [at_ms for at_ms in sent(watched, "FindCoordinator") if at_ms > PAUSE_MS]
    assert heartbeat > PAUSE_MS
    assert heartbeat + SESSION_MS - 3_000 <= lost <= heartbeat + SESSION_MS
    assert joins[0] - lost <= 100  # into the dead connection
    assert heartbeat + SESSION_MS <= searches[0] <= heartbeat + SESSION_MS + 1_001
    assert joins[1] - searches[0] <= 50
    watched.advance_to(100_000)
    assert watched.fetchable("a") == set(range(6))


def test_librdkafka_waits_45_s_for_the_answer_to_its_first_heartbeat() -> None:
    """The broker's host is lost with it, just before the quiet period, and comes back soon: no one
    tells the client, who is not late while it waits, and is so if it does not come back then."""
    faults = (BrokerHostLoss(at_ms=19_500, duration_ms=500),)
    config = CoordinatorConfig(
        group_consumer_assignment_interval_ms=0,
        group_consumer_session_timeout_ms=6_000,
        group_consumer_min_session_timeout_ms=6_000,
        group_consumer_max_session_timeout_ms=6_000,
        group_consumer_heartbeat_interval_ms=1_000,
        group_consumer_min_heartbeat_interval_ms=1_000,
    )
    brokers = BrokerSpec(
        replication=DelaySpec(min_ms=1_000), load=DelaySpec(min_ms=20), metadata=DelaySpec(min_ms=5)
    )
    late = client(
        "a",
        kind="librdkafka",
        start_ms=19_300,
        max_poll_interval_ms=5_000,
        request_timeout_ms=2_000,
    )
    watched = Watched(
        spec(
            late,
            faults=faults,
            config=config,
            brokers=brokers,
            duration_ms=20_000,
            quiet_period_ms=100_000,
        )
    )
    watched.advance_to(60_000)
    (joined_ms,) = sent(watched, "SendHeartbeat")
    assert 19_300 <= joined_ms < 19_500
    (checker,) = watched.checkers.values()
    assert checker.liveness.quiet.bound_ms < 60_000 - 20_000
    assert watched.late() == {}
    watched.run()
    again_ms = sent(watched, "SendHeartbeat")[1]
    assert joined_ms + 45_000 <= again_ms <= joined_ms + 47_000
    assert watched.state("a") == "STABLE"
