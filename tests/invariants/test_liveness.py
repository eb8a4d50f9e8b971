"""Liveness: nothing before its time, and a reason when late."""

from __future__ import annotations

import pytest
from classic_world import ClassicWorld, StubClient
from client_world import ClientWorld
from falsified_clients import FALSIFIED

from rebalance_sim.invariants.engine.liveness import Liveness
from rebalance_sim.invariants.model.wanted_clients import outlasts_a_join
from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.assignors.classic import CLASSIC_ASSIGNORS
from rebalance_sim.protocol.classic.classic_states import ClassicGroupState
from rebalance_sim.protocol.clients.common.classic_config import ClassicConsumerConfig
from rebalance_sim.protocol.clients.common.events import Poll, PollingStopped, Unsubscribe
from rebalance_sim.protocol.clients.common.member_states import ClientState
from rebalance_sim.protocol.clients.kinds import LIBRDKAFKA_CLASSIC

FOREVER_MS = 10_000_000


def late(world: ClientWorld, at_ms: int = FOREVER_MS) -> list[str]:
    """Ids of properties that are late, each once, in order."""
    return list(dict.fromkeys(stuck.property.id for stuck in world.checker.liveness.verdict(at_ms)))


@pytest.fixture
def quiet() -> ClientWorld:
    """Two clients at rest, in the quiet period."""
    world = ClientWorld("a", "b", stop_at_first=False)
    world.checker.liveness.on_quiet_period_start(world.now_ms)
    return world


def crash(world: ClientWorld, name: str) -> None:
    """A process is gone without a word."""
    world.processes[name].is_alive = False
    world.show(StepKind.CLIENT_CRASHED, client=world.processes.pop(name))


def test_a_group_at_rest_owes_nothing(quiet):
    """Neither early nor late."""
    assert late(quiet) == []
    assert quiet.checker.liveness.pending(quiet.now_ms) == []


def test_there_is_no_verdict_without_a_calm():
    """While faults go on, nothing has to happen."""
    world = ClientWorld("a", stop_at_first=False)
    crash(world, "a")
    assert late(world) == []


def test_a_ghost_is_late_after_the_longest_session_and_not_before(quiet):
    """defects L3: a crashed member's timer should have removed it."""
    crash(quiet, "a")
    liveness = quiet.checker.liveness
    start_ms = quiet.now_ms
    assert late(quiet, start_ms + liveness.quiet.ghost_bound_ms - 1) == []
    verdict = liveness.verdict(start_ms + liveness.quiet.ghost_bound_ms)
    assert [stuck.property.id for stuck in verdict] == ["liveness.stale_members_removed"]
    assert verdict[0].subject == "member id-a"
    assert verdict[0].reason == "is registered at epoch 3, and no living client uses it"


def test_a_load_in_the_quiet_period_starts_the_bounds_anew(quiet):
    """coordinator L4: after a failover all timers start from zero."""
    crash(quiet, "a")
    bound_ms = quiet.checker.liveness.quiet.ghost_bound_ms
    due_ms = quiet.now_ms + bound_ms
    quiet.now_ms += 1_000
    quiet.restart()
    assert late(quiet, due_ms) == []
    assert late(quiet, due_ms + 1_000) == ["liveness.stale_members_removed"]


@pytest.mark.parametrize("is_from_before", [True, False])
def test_a_leave_from_before_the_quiet_period_starts_the_bounds_anew(is_from_before):
    """The network was slow when it was sent. One that is sent later starts nothing again."""
    world = ClientWorld("a", "b", stop_at_first=False)
    world.checker.liveness.on_quiet_period_start(world.now_ms + is_from_before)
    bound_ms = world.checker.liveness.quiet.bound_ms
    world.holds_heartbeats = True
    world.handle("a", Unsubscribe())
    world.run_for(1_000)
    (name, leave), *_ = (h for h in world.held_heartbeats if h[1].request.member_epoch < 0)
    assert name == "a"
    world.now_ms += 10_000
    world.request(leave.request)
    due_ms = world.now_ms + bound_ms
    liveness = world.checker.liveness
    assert bool(liveness.not_judged(due_ms - 1)) is is_from_before
    assert not liveness.not_judged(due_ms)


def test_all_is_judged_once_the_bounds_have_passed_that_a_load_began_anew(quiet):
    """Until then silence means nothing, though the quiet period is as long as it was to be."""
    liveness = quiet.checker.liveness
    due_ms = quiet.now_ms + liveness.quiet.bound_ms
    assert liveness.not_judged(due_ms - 1)
    assert not liveness.not_judged(due_ms)
    quiet.now_ms += 1_000
    quiet.restart()
    assert liveness.not_judged(due_ms)
    assert not liveness.not_judged(due_ms + 1_000)


def test_partitions_of_a_ghost_are_worked_on_by_no_one(quiet):
    """defects L2, with the reason."""
    crash(quiet, "a")
    reasons = {stuck.reason for stuck in quiet.checker.liveness.verdict(FOREVER_MS)}
    assert "is held by id-a, which no living client uses" in reasons
    assert "liveness.partitions_owned" in late(quiet)


def test_a_waiting_client_says_what_it_waits_for_and_since_when(quiet):
    """The newcomer's share is still with its owner, whose callback takes its time."""
    quiet.now_ms += 10
    quiet.start("c")
    quiet.handle("c", Poll())
    ledger = quiet.checker.model.acting_ledger()
    waits_for = min(ledger.targets["id-c"])
    holder = ledger.holders.owner[waits_for]
    since_ms = ledger.state_since_ms[holder]
    pending = quiet.checker.liveness.pending(quiet.now_ms)
    stuck = next(s for s in pending if s.subject == "c")
    assert stuck.property.id == "liveness.converges"
    assert stuck.reason.removeprefix("(RECONCILING, epoch 4) ") == (
        f"waits for partition orders-{waits_for.partition} held by {holder[3:]} ({holder}) "
        f"in STABLE since {since_ms} ms"
    )
    assert stuck.since_ms == quiet.now_ms


def test_a_revocation_is_late_after_the_rebalance_timeout_and_not_before():
    """coordinator L2: the deadline must not move away."""
    world = FALSIFIED["test:moving-deadline"]()
    limit_ms = 300_000 + world.checker.liveness.quiet.slack_ms
    assert "liveness.revocation_bounded" not in late(world, world.now_ms + limit_ms)
    assert "liveness.revocation_bounded" in late(world, world.now_ms + limit_ms + 1)


def test_an_unserved_group_is_late(quiet):
    """defects L6: no coordinator is active."""
    quiet.shard.is_active = False
    assert late(quiet)[0] == "liveness.group_served"


def test_a_leave_that_never_ends_is_late(quiet):
    """client C28: unsubscribe blocks for ever."""
    quiet.holds_heartbeats = True
    quiet.handle("a", Unsubscribe())
    assert quiet.member("a").leave_is_pending
    assert "client.leave.completes" in late(quiet)


def test_clients_that_do_not_want_to_work_are_left_alone(quiet):
    """Unsubscribed, failed for good, or away from poll: no one waits for them."""
    quiet.handle("a", Unsubscribe())
    quiet.run_for(20_000)
    assert quiet.member("a").state is ClientState.UNSUBSCRIBED
    assert late(quiet) == []
    quiet.handle("b", PollingStopped())
    assert "liveness.converges" not in late(quiet)


def test_bounds_come_from_the_configuration(quiet):
    """Session, rebalance timeout, intervals, and one request that is never answered."""
    liveness: Liveness = quiet.checker.liveness
    assert liveness.quiet.slack_ms == 4 * 5_000 + 0 + 30_000
    assert liveness.quiet.ghost_bound_ms == 60_000 + liveness.quiet.slack_ms
    assert liveness.quiet.bound_ms == liveness.quiet.ghost_bound_ms + 300_000


def absent_static_member(*, session_timeout_ms: int, max_poll_interval_ms: int = 5_000) -> bool:
    """Whether the group is excused: I has gone, and librdkafka's A asks for the next generation;
    the longest rebalance timeout is 20 s."""
    bench = ClassicWorld(stop_at_first=False)
    bench.stable("A")
    bench.enter("I", instance="i", session_timeout_ms=session_timeout_ms)
    bench.join_group("A")
    bench.sync_group("A", {"A": (0, 1, 2, 3)})
    bench.sync_group("I", instance="i")
    bench.leave_group("A")
    bench.ids.pop("A")
    bench.enter("A")
    config = ClassicConsumerConfig(
        group_id="group", assignors=(CLASSIC_ASSIGNORS["range"],),
        max_poll_interval_ms=max_poll_interval_ms,
    )  # fmt: skip
    client = StubClient(
        "A", kind=LIBRDKAFKA_CLASSIC, member_id=bench.ids["A"], state=ClientState.JOINING,
        has_subscription=True, subscribed_topic_names=frozenset({"orders"}), is_closed=False,
        blocked_in=None, config=config,
    )  # fmt: skip
    bench.show_client(client)
    assert bench.classic.state is ClassicGroupState.PREPARING_REBALANCE
    return outlasts_a_join(bench.checker.model, bench.classic)


def test_join_phases_follow_on_each_other_only_where_the_absent_outlives_them():
    """classic §1.5, §4.6: it has to outlive each, and the client must not wait for its end."""
    assert absent_static_member(session_timeout_ms=20_000)
    assert not absent_static_member(session_timeout_ms=19_999)
    assert not absent_static_member(session_timeout_ms=20_000, max_poll_interval_ms=17_001)
