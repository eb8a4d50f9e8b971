"""What a recording does not contain explains what differs, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rebalance_sim.conformance.broker_replay import BrokerReplayReport, replay_broker_trace
from rebalance_sim.conformance.broker_trace import load_broker_trace
from rebalance_sim.conformance.tolerances import LATE_MS, Tolerance, Unknowns

FOLDER = Path(__file__).parents[2] / "conformance" / "traces"
LATE_BATCH = 7
"""Place in the log of a wide recording where a timer was late; the model writes at 2504 ms."""

EXPLAINS = {
    "late-timer": "kafka-4.3.1-wide/wide_0116.json",
    "late-resolution": "kafka-4.4.0-probes/probe_pattern_joins_names_range.json",
    "slow-request": "kafka-4.3.1-wide/wide_0166.json",
    "metadata-time": "kafka-4.4.0-wide/wide_4013.json",
    "passing-topic": "kafka-4.3.1-wide/wide_0151.json",
    "commit-time": "kafka-4.3.1-wide-batching/wide_2053.json",
    "config-time": "kafka-4.3.1-wide-batching/wide_2059.json",
    "other-topics": "kafka-4.3.1-wide/wide_0157.json",
    "other-records": "kafka-4.4.0-wide/wide_830019.json",
    "slot-order": "kafka-4.3.1-wide/wide_0112.json",
    "shared-name": "kafka-4.3.1-wide/wide_0218.json",
    "leader": "kafka-4.3.1-wide-batching/wide_2036.json",
    "place-of-id": "kafka-4.4.0/migration_two_classic.json",
    "load-time": "kafka-4.3.1-restart/restart_stable.json",
}
"""Tolerance -> a recording that agrees only with it."""

Document = dict[str, Any]


def replayed(tmp_path: Path, source: str, edit: Callable[[Document], None]) -> BrokerReplayReport:
    document = json.loads((FOLDER / source).read_text(encoding="utf-8"))
    edit(document)
    edited = tmp_path / "edited.json"
    edited.write_text(json.dumps(document), encoding="utf-8")
    return replay_broker_trace(load_broker_trace(edited))


@pytest.mark.parametrize("name", EXPLAINS)
def test_a_recording_agrees_with_the_one_thing_that_it_does_not_contain(name: str) -> None:
    report = replay_broker_trace(load_broker_trace(FOLDER / EXPLAINS[name]))
    assert report.passed
    explained = [one for one in report.explanations if one.name == name]
    assert explained
    assert any(one.responses or one.batches for one in explained)


def test_every_tolerance_has_a_recording() -> None:
    assert EXPLAINS.keys() == set(Tolerance)


def last_heartbeat(document: Document) -> Document:
    return next(
        step
        for step in reversed(document["steps"])
        if step["op"] in ("heartbeat", "classic_heartbeat")
        and step["response"]["error_code"] == "none"
    )


def another_error(document: Document) -> None:
    last_heartbeat(document)["response"]["error_code"] = "not_coordinator"


def another_epoch(document: Document) -> None:
    last_heartbeat(document)["response"]["member_epoch"] += 1


@pytest.mark.quick_one_of(4)
@pytest.mark.parametrize(
    "name",
    [
        "slow-request",
        "shared-name",
        "leader",
        "metadata-time",
        "config-time",
        "late-timer",
        "other-topics",
        "slot-order",
    ],
)
def test_a_made_up_answer_is_not_explained_where_a_true_one_is(name: str, tmp_path: Path) -> None:
    report = replayed(tmp_path, EXPLAINS[name], another_error)
    assert report.responses_total - report.responses_ok == 1
    assert not report.passed
    assert '"not_coordinator"' in (report.first_difference or "")


@pytest.mark.parametrize("name", ["late-resolution", "place-of-id", "load-time"])
def test_a_made_up_epoch_is_not_explained(name: str, tmp_path: Path) -> None:
    report = replayed(tmp_path, EXPLAINS[name], another_epoch)
    assert report.responses_total - report.responses_ok == 1


def test_settings_that_come_into_force_after_their_bound_are_not_explained(tmp_path: Path) -> None:
    def edit(document: Document) -> None:
        late = document["steps"][138]
        assert late["response"]["heartbeat_interval_ms"] == 1000
        document["steps"] = document["steps"][:139]
        document["end_ms"] = [*document["end_ms"][:138], 5_900]
        document["log"] = []
        late["at_ms"] = 5_800

    report = replayed(tmp_path, EXPLAINS["config-time"], edit)
    assert report.responses_total - report.responses_ok == 1


@pytest.mark.parametrize(("seen_ms", "is_explained"), [(11_900, True), (9_000, False)])
def test_a_topic_passes_while_it_is_being_made_alone(
    seen_ms: int, is_explained: bool, tmp_path: Path
) -> None:
    step_of_creation = "101"

    def edit(document: Document) -> None:
        document["seen_ms"][step_of_creation] = seen_ms

    report = replayed(tmp_path, EXPLAINS["passing-topic"], edit)
    assert report.explained("batches").get("passing-topic") == (1 if is_explained else None)


def test_a_topic_is_not_known_long_before_metadata_shows_it(tmp_path: Path) -> None:
    def edit(document: Document) -> None:
        """One hash for what was never seen, and for what is seen three seconds later."""
        for batch in document["log"]:
            for record in batch["records"]:
                value = record["value"] or {}
                if value.get("metadata_hash") == 5:
                    assert batch["at_ms"] == 9091
                    value["metadata_hash"] = 6

    report = replayed(tmp_path, EXPLAINS["passing-topic"], edit)
    assert not report.passed


def test_the_time_of_the_last_target_tells_which_request_was_slow() -> None:
    """The next target was due 1 ms later, and missed, 30 steps after the slow one."""
    trace = load_broker_trace(FOLDER / "kafka-4.3.1-wide-batching/wide_721042.json")
    report = replay_broker_trace(trace)
    assert report.passed
    (one,) = report.explanations
    assert (one.name, one.detail) == ("slow-request", "step 58, +1 ms")
    assert len(one.responses) == 50


def test_a_join_phase_without_delay_can_end_after_the_next_request() -> None:
    report = replay_broker_trace(load_broker_trace(FOLDER / "kafka-4.3.1-wide/wide_0196.json"))
    assert report.passed
    (one,) = report.explanations
    assert (one.name, one.detail) == ("late-timer", "classic-join, due at 3233 ms, 88 ms late")
    assert len(one.responses) == 43


@pytest.mark.parametrize(
    ("late_ms", "explained"),
    [(LATE_MS - 100, {"late-timer": 1}), (LATE_MS + 100, {})],
)
def test_a_timer_may_be_late_within_its_bound_alone(
    late_ms: int, explained: dict[str, int], tmp_path: Path
) -> None:
    def edit(document: Document) -> None:
        document["log"][LATE_BATCH]["at_ms"] = 2504 + late_ms

    report = replayed(tmp_path, "kafka-4.3.1-wide-batching/wide_2004.json", edit)
    assert report.explained("batches") == explained
    assert report.passed == bool(explained)


def test_no_answer_is_beyond_the_bounds_of_its_question() -> None:
    subject = next(iter(asked().asked)).subject
    assert asked({subject: LATE_MS + 1}).given == LATE_MS
    assert asked({subject: -1}).given == 0
    assert asked({subject: 7}).given == 7


class asked:
    """One question, put with these answers."""

    def __init__(self, answers: Any = None) -> None:
        unknowns = Unknowns(answers or {})
        self.given = unknowns.ask(Tolerance.LATE_TIMER, "it", at_ms=5, most=LATE_MS)
        self.asked = unknowns.asked
