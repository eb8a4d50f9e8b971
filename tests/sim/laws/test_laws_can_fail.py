"""Each law notices what it is there for: rules that are broken, recordings that were altered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from recording import Delivery, Recording, record
from test_laws import LAWS
from worlds import client, spec

from rebalance_sim.invariants.step import StepKind
from rebalance_sim.protocol.clients.common.commit_queue import CommitQueue
from rebalance_sim.protocol.clients.common.subscription_state import SubscriptionState
from rebalance_sim.protocol.clients.java.consumer.member_rules import MemberRules
from rebalance_sim.protocol.wire.offset_messages import OffsetFetchResponse
from rebalance_sim.sim.client.application import Application
from rebalance_sim.sim.faults.clients import ClientCrash, PollStall
from rebalance_sim.sim.spec import OffsetReset, TopicSpec

STARTS_LATE_MS = 20_000
AWAY = PollStall(at_ms=30_000, duration_ms=20_000, client="a")
CRASH = ClientCrash(at_ms=34_000, client="b")


def run(kind: str = "java", **settings: Any) -> Recording:
    """Two clients, the second of which comes later, while the first is away for too long."""
    of_clients = {
        "kind": kind,
        "max_poll_interval_ms": 10_000,
        "manual_commit_interval_ms": 3_000,
        "auto_offset_reset": OffsetReset.EARLIEST,
        **settings,
    }
    return record(
        spec(
            client("a", **of_clients),
            client("b", **of_clients, start_ms=STARTS_LATE_MS),
            topics=(TopicSpec(name="orders", partition_count=4, records_per_second=50),),
            data_plane=True,
            faults=(AWAY, CRASH),
        )
    )


def violated(recording: Recording) -> set[str]:
    """Names of laws."""
    return {law.__name__ for law in LAWS if law(recording)}


@pytest.mark.parametrize("kind", ["java", "classic", "librdkafka"])
def test_none_is_violated_in_a_small_world(kind: str) -> None:
    assert violated(run(kind)) == set()


def is_not_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll at which an application is back tells it nothing, and hands out records."""
    monkeypatch.setattr(Application, "poll_if_due", lambda _: None)
    monkeypatch.setattr(Application, "_is_told_first", lambda _: False)


def test_a_poll_that_hands_records_out_before_it_tells_of_the_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_not_told_first(monkeypatch)
    assert violated(run("classic")) == {"nothing_before_it_is_told_of_a_loss"}


def test_a_position_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    set_positions = SubscriptionState.set_positions

    def off(state: SubscriptionState, positions: Any) -> None:
        set_positions(state, {partition: at + 7 for partition, at in positions.items()})

    monkeypatch.setattr(SubscriptionState, "set_positions", off)
    assert "at_the_committed_offset_or_where_reset_says" in violated(run())


@pytest.mark.parametrize(
    ("offset", "laws"),
    [
        (
            lambda state: state.position + 1,
            {
                "nothing_is_committed_that_was_not_handed_out",
                "a_new_commit_is_of_what_poll_has_returned",
            },
        ),
        (lambda state: state.position // 2, {"a_new_commit_is_of_what_poll_has_returned"}),
    ],
    ids=["a record too far", "half as far"],
)
def test_a_commit_of_something_else_than_the_position(
    monkeypatch: pytest.MonkeyPatch, offset: Callable[[Any], int], laws: set[str]
) -> None:
    monkeypatch.setattr(MemberRules, "offset_to_commit", lambda _, state: offset(state))
    assert laws <= violated(run())


def test_a_commit_that_leaves_a_partition_out(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = CommitQueue._all_consumed

    def all_but_one(queue: CommitQueue) -> Any:
        return dict(list(everything(queue).items())[1:])

    monkeypatch.setattr(CommitQueue, "_all_consumed", all_but_one)
    assert violated(run()) == {"a_commit_without_offsets_leaves_nothing_out"}


def test_partitions_that_are_handed_out_after_they_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemberRules, "delivers_records_of", lambda _, state: True)
    is_not_told_first(monkeypatch)
    assert "only_to_who_may_fetch" in violated(run())


def test_a_poll_of_more_than_max_poll_records() -> None:
    settings = {"processing_records_per_second": 100, "max_poll_records": 50}
    assert violated(run(**settings)) == set()
    told = run(**settings)
    seen = next(m.client for m in told.moments if m.client is not None)
    small = replace(seen.spec, max_poll_records=10, processing_records_per_second=20)
    moments = [
        m if m.client is None else m._replace(client=m.client._replace(spec=small))
        for m in told.moments
    ]
    assert violated(replace(told, moments=moments)) == {"no_more_than_max_poll_records"}


def altered(recording: Recording, alter: Callable[[list[Delivery]], list[Delivery]]) -> set[str]:
    """Laws that a recording violates whose deliveries have been altered."""
    return violated(replace(recording, deliveries=alter(list(recording.deliveries))))


def test_a_gap_and_a_record_that_comes_twice_in_one_time_with_a_partition() -> None:
    told = run()
    last = told.deliveries[-1]
    assert "in_order_without_gaps" in altered(told, lambda all_of_them: all_of_them[1:])
    assert "in_order_without_gaps" in altered(told, lambda all_of_them: [*all_of_them, last])


def test_a_record_that_comes_after_its_partition_is_given_up() -> None:
    told = run()
    first = told.deliveries[0]._replace(since=len(told.moments), until=len(told.moments))
    found = altered(told, lambda all_of_them: [*all_of_them, first])
    assert {"nothing_after_it_is_told_of_a_loss"} <= found


def test_a_coordinator_that_tells_another_offset() -> None:
    told = run()
    moments = [
        m._replace(response=replace(m.response, offsets=dict.fromkeys(m.response.offsets, 1)))
        if isinstance(m.response, OffsetFetchResponse)
        else m
        for m in told.moments
    ]
    found = violated(replace(told, moments=moments))
    assert found == {"the_committed_offset_is_the_last_one_confirmed"}


@pytest.mark.parametrize(
    ("figure", "law"),
    [
        ("records_skipped", "every_record_is_handed_out_or_skipped_or_still_ahead"),
        ("records_redelivered", "every_record_is_handed_out_or_skipped_or_still_ahead"),
        ("lag_records_at_end", "what_is_ahead_is_lag"),
    ],
)
def test_a_figure_that_is_off(figure: str, law: str) -> None:
    told = run()
    metrics = {**told.result.metrics, figure: told.result.metrics[figure] - 10_000}
    assert violated(replace(told, result=replace(told.result, metrics=metrics))) == {law}


def test_records_that_no_one_is_handed_though_no_one_started_behind_them() -> None:
    found = altered(run(), lambda all_of_them: all_of_them[4:])
    assert "what_is_skipped_has_a_cause" in found


def test_records_that_get_lost_with_an_application_that_goes_on() -> None:
    """Nothing is processed, and the one that crashes is not seen to."""
    told = run()
    flowed = [one for one in told.flowed if one.kind != "processed"]
    moments = [one for one in told.moments if one.kind is not StepKind.CLIENT_CRASHED]
    assert "what_is_lost_was_in_hand" not in violated(replace(told, flowed=flowed))
    assert "what_is_lost_was_in_hand" in violated(replace(told, flowed=flowed, moments=moments))
