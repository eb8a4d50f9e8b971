"""Replicas follow the lag of their group, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from worlds import Watched, client, of_file, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.sim.faults.clients import ClientPause
from rebalance_sim.sim.faults.fault import Fault
from rebalance_sim.sim.faults.scaling import LagAutoscaler
from rebalance_sim.sim.spec import OffsetReset, TopicSpec

CLIENTS = ("a", "b", "c", "d")


def world(
    *others: Fault, rate: int, processing: int, until_ms: int = 200_000, **values: Any
) -> Watched:
    """Four pods that each process so many records a second, of which ``rate`` come."""
    fault = LagAutoscaler(at_ms=0, duration_ms=until_ms, clients=CLIENTS, **values)
    pods = (
        client(
            name, processing_records_per_second=processing, auto_offset_reset=OffsetReset.EARLIEST
        )
        for name in CLIENTS
    )
    topic = TopicSpec(name="orders", partition_count=4, records_per_second=rate)
    return Watched(
        spec(
            *pods,
            faults=(*others, fault),
            topics=(topic,),
            data_plane=True,
            duration_ms=until_ms,
            quiet_period_ms=200_000,
        )
    )


def starts(watched: Watched) -> dict[str, list[int]]:
    return {
        name: [s["at_ms"] for s in watched.steps(StepKind.CLIENT_STARTED, client=name)]
        for name in CLIENTS
    }


def closes(watched: Watched) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for step in watched.steps(StepKind.CLIENT_EVENT):
        if step["event"]["type"] == "Close":
            found.setdefault(step["client"], []).append(step["at_ms"] // 1_000)
    return found


def test_replicas_are_added_when_there_is_more_lag_than_they_are_to_have() -> None:
    # 4 partitions of 25 records/s come, one pod processes 40: the lag grows by about 60 a second.
    # After 15 s it is about 900: 9 of 100, and there are four.
    watched = world(rate=25, processing=40, lag_threshold_records=100, start_ms=2_000)
    watched.advance_to(40_000)
    assert starts(watched) == {"a": [0], "b": [17_000], "c": [17_000], "d": [17_000]}


def test_no_more_than_the_most_and_no_fewer_than_the_least() -> None:
    watched = world(
        rate=25, processing=40, lag_threshold_records=100, min_replicas=2, max_replicas=3
    )
    watched.advance_to(40_000)
    assert starts(watched) == {"a": [0], "b": [0], "c": [15_000], "d": []}


def test_a_lag_within_the_tolerance_changes_nothing() -> None:
    # At 60 s the lag is about 60 * 60 = 3600: for one pod, 9 % more than 3300.
    for tolerance_percent, count in ((20, 1), (0, 2)):
        watched = world(
            rate=25,
            processing=40,
            interval_ms=60_000,
            lag_threshold_records=3_300,
            tolerance_percent=tolerance_percent,
        )
        watched.advance_to(61_000)
        assert sum(map(len, starts(watched).values())) == count


def test_replicas_go_when_fewer_have_been_wanted_for_long_enough() -> None:
    # The only pod stands still from 5 s to 20 s, with 100 records/s to come; at 15 s about 1000
    # wait. Four pods have processed them soon after, and next to nothing waits from then on.
    pause = ClientPause(at_ms=5_000, duration_ms=15_000, client="a")
    watched = world(
        pause,
        rate=25,
        processing=2_000,
        lag_threshold_records=300,
        stabilization_window_ms=60_000,
    )
    watched.advance_to(74_000)
    assert starts(watched) == {"a": [0], "b": [15_000], "c": [15_000], "d": [15_000]}
    assert closes(watched) == {}
    watched.run()
    # What was wanted at 15 s or 30 s is no more than 60 s old at 75 s or 90 s.
    went = closes(watched)
    assert sorted(went) == ["b", "c", "d"]
    assert all(at_s in ([90], [105]) for at_s in went.values())
    assert watched.fetchable("a") == set(range(4))


def test_without_a_window_replicas_go_at_once_and_may_come_back() -> None:
    pause = ClientPause(at_ms=5_000, duration_ms=15_000, client="a")
    watched = world(
        pause, rate=25, processing=2_000, lag_threshold_records=300, stabilization_window_ms=0
    )
    watched.run()
    assert len(starts(watched)["b"]) >= 1
    assert min(min(at_s) for at_s in closes(watched).values()) <= 45


def test_the_example_doubles_its_replicas_and_takes_them_away_after_five_minutes() -> None:
    watched = Watched(of_file("experiments/scenarios/autoscaler.toml"))
    watched.advance_to(900_000)
    # At 150 s four partitions have waited for 30 s: 6000 records, and four replicas are the most.
    for name in ("app-02", "app-03"):
        [at_ms] = [s["at_ms"] for s in watched.steps(StepKind.CLIENT_STARTED, client=name)]
        assert at_ms in (135_000, 150_000)
    # Four process 1000 records a second, of which 400 are new: in 10 to 30 s there are few left.
    # At 165 s or 180 s more than two were wanted for the last time.
    went = closes(watched)
    assert sorted(went) == ["app-02", "app-03"]
    assert all(at_s in ([465], [480], [495]) for at_s in went.values())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"clients": ()}, "clients must name the pods"),
        ({"max_replicas": 5}, r"max_replicas \(5\) must be at most the number of clients \(4\)"),
        ({"min_replicas": 3, "max_replicas": 2}, r"min_replicas \(3\) must be at most max_"),
        ({"lag_threshold_records": 0}, "lag_threshold_records must be >= 1, got 0"),
    ],
)
def test_an_autoscaler_that_cannot_be_is_refused(values: dict[str, Any], message: str) -> None:
    given = {"clients": CLIENTS, "lag_threshold_records": 10, **values}
    with pytest.raises(ValueError, match=message):
        LagAutoscaler(at_ms=0, duration_ms=1, **given)


def test_an_autoscaler_without_records_is_refused() -> None:
    fault = LagAutoscaler(at_ms=0, duration_ms=1, clients=("a",), lag_threshold_records=10)
    with pytest.raises(ValueError, match=r"faults\[0\]: a lag_autoscaler needs records.*true"):
        spec(client("a"), faults=(fault,))


def test_an_autoscaler_without_some_of_its_pods_has_the_others() -> None:
    fault = LagAutoscaler(
        at_ms=0, duration_ms=1, clients=CLIENTS, lag_threshold_records=10, min_replicas=2
    )
    left = fault.without(clients=("a", "b", "c"))
    assert left is not None
    assert (left.clients, left.min_replicas) == (("d",), 1)
    assert fault.without(clients=CLIENTS) is None
