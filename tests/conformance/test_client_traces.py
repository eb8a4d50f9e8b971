"""What recorded Java consumers did comes out of our member; and the comparison can fail."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from client_traces import FOLDER, Edit, edited, find, replay

from rebalance_sim.conformance import java_host
from rebalance_sim.conformance.client_compare import recorded_items
from rebalance_sim.conformance.client_input import polls
from rebalance_sim.conformance.client_observed import Observed
from rebalance_sim.conformance.client_replay import load_client_trace
from rebalance_sim.conformance.errors import TraceError
from rebalance_sim.conformance.expected import load_expected
from rebalance_sim.conformance.host_choice import drive
from rebalance_sim.protocol.clients.java.consumer.java_consumer import ConsumerMember
from rebalance_sim.protocol.versions.semantics import SEMANTICS

JAVA = sorted((FOLDER / "java").glob("*.json"))
VERSIONS = sorted(FOLDER.glob("java-*/*.json"))
TWO_MEMBERS = FOLDER / "java" / "two_members.json"


@pytest.mark.parametrize("path", JAVA + VERSIONS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_recorded_java_consumer_is_met(path: Path) -> None:
    report = replay(path)
    assert report.needs is None
    assert report.requests_ok == report.requests_total
    assert report.callbacks_ok == report.callbacks_total
    assert report.states_ok == report.states_total
    expected = load_expected(path)
    missing = {} if expected is None else expected.missing
    assert report.commits_ok == report.commits_total - missing.get("commits", 0)
    assert report.is_met is not bool(missing)
    assert report.requests_total > 0


def test_all_traces_together_hold_what_the_reference_counts() -> None:
    """728 transitions (client §1.2), of consumer-protocol clients alone."""
    reports = [replay(path) for path in JAVA]
    assert len(reports) == 39
    assert sum(r.states_total for r in reports) == 728
    assert sum(r.states_ok for r in reports) == 728
    # 758 heartbeats; 124 searches, of which 13 were let through together and count once.
    of_consumer_protocol = 758 + 124 - 12
    joins, syncs, classic_heartbeats, leaves = 32, 23, 73, 8
    assert sum(r.requests_ok for r in reports) == (
        of_consumer_protocol + joins + syncs + classic_heartbeats + leaves
    )


@pytest.mark.parametrize("version, other", [("4.3.1", "4.4.0"), ("4.4.0", "4.3.1")])
def test_the_other_version_does_not_meet_a_target_without_names(
    tmp_path: Path, version: str, other: str
) -> None:
    """KAFKA-20145: 4.3.1 acknowledges it again and again, 4.4.0 once."""
    path = FOLDER / f"java-{version}" / "target_with_unknown_topic.json"
    mistaken = tmp_path / path.name
    text = path.read_text()
    mistaken.write_text(text.replace(f"kafka-clients {version}", f"kafka-clients {other}"))
    report = replay(mistaken)
    assert report.requests_ok < report.requests_total
    assert report.states_ok < report.states_total


# --- the comparison can fail ---------------------------------------------------------------------


def acknowledgement(document: dict[str, Any]) -> dict[str, Any]:
    return next(
        event
        for event in document["events"]
        if event["kind"] == "request"
        and event["api"] == "ConsumerGroupHeartbeat"
        and event["body"]["topic_partitions"] == {"orders": [0, 1]}
    )


def wrong_owned_list(document: dict[str, Any]) -> None:
    acknowledgement(document)["body"]["topic_partitions"] = {"orders": [0]}


def later_heartbeat(document: dict[str, Any]) -> None:
    acknowledgement(document)["at_ms"] += 400


def one_heartbeat_less(document: dict[str, Any]) -> None:
    document["events"].remove(acknowledgement(document))


def wrong_callback(document: dict[str, Any]) -> None:
    find(document, kind="callback_begin", callback="onPartitionsRevoked")["partitions"] = {
        "orders": [3]
    }


def wrong_assignment_at_end(document: dict[str, Any]) -> None:
    find(document, kind="callback_end", callback="onPartitionsRevoked")["assignment"] = {}


def wrong_epoch_of_a_state(document: dict[str, Any]) -> None:
    find(document, kind="state", to="PREPARE_LEAVING")["member_epoch"] = -1


def wrong_offset(document: dict[str, Any]) -> None:
    find(document, kind="request", api="OffsetCommit")["body"]["topics"]["orders"]["2"] = 1


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (wrong_owned_list, "topic_partitions={'orders': [0]}"),
        (later_heartbeat, "ConsumerGroupHeartbeat"),
        (one_heartbeat_less, "ConsumerGroupHeartbeat"),
        (wrong_callback, "expected callback(callback=onPartitionsRevoked"),
        (wrong_assignment_at_end, "assignment_at_end={}"),
        (wrong_epoch_of_a_state, "expected state(from=STABLE, to=PREPARE_LEAVING)"),
        (wrong_offset, "expected OffsetCommit"),
    ],
)
def test_an_edited_trace_is_not_met_and_the_report_says_where(
    tmp_path: Path, edit: Edit, says: str
) -> None:
    report = replay(edited(tmp_path, TWO_MEMBERS, edit))
    assert not report.is_met
    assert says in str(report.first_difference)


@pytest.mark.parametrize(
    ("name", "trace"),
    [
        ("KAFKA-16215", "coordinator_restart"),
        ("KAFKA-17293", "response_lost_steady"),
        ("KAFKA-18641", "poll_paused_short_during_rebalance"),
        ("KAFKA-16258", "poll_paused"),
        ("Dekaf-1348", "static_close_and_return"),
        ("mut-ack-before-stop", "slow_revoked_callback"),
        ("mut-client-keeps-sent-fields", "request_lost_acknowledging"),
        ("mut-client-reports-target", "slow_revoked_callback"),
        ("mut-client-revokes-twice", "two_members"),
        ("mut-client-revokes-on-fence", "poll_paused"),
        ("mut-client-keeps-leave-epoch", "unsubscribe_subscribe"),
    ],
)
def test_a_member_with_a_defect_does_not_pass_for_the_real_client(
    name: str, trace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Defective(ConsumerMember):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(
                **{**arguments, "rules": SEMANTICS["kafka-4.3-clean"].with_defects(name).member}
            )

    path = FOLDER / "java" / f"{trace}.json"
    assert replay(path).is_met
    monkeypatch.setattr(java_host, "ConsumerMember", Defective)
    assert not replay(path).is_met


def wrong_assignment_of_the_leader(document: dict[str, Any]) -> None:
    sync = find(document, kind="request", api="SyncGroup", id=12)
    sync["body"]["assignments"] = {"B#1": {"orders": [0, 1]}, "A#1": {"orders": [2, 3]}}


def wrong_generation_of_a_heartbeat(document: dict[str, Any]) -> None:
    find(document, kind="request", api="Heartbeat")["body"]["generation_id"] = 7


def join_that_owns_something(document: dict[str, Any]) -> None:
    join = find(document, kind="request", api="JoinGroup", id=11)
    join["body"]["protocols"][0]["owned_partitions"] = {"orders": [0]}


def no_leave(document: dict[str, Any]) -> None:
    document["events"].remove(find(document, kind="request", api="LeaveGroup"))


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (wrong_assignment_of_the_leader, "SyncGroup"),
        (wrong_generation_of_a_heartbeat, "Heartbeat(generation_id=7"),
        (join_that_owns_something, "JoinGroup"),
        (no_leave, "LeaveGroup"),
    ],
)
def test_an_edited_trace_of_a_classic_client_is_not_met(
    tmp_path: Path, edit: Edit, says: str
) -> None:
    eager = FOLDER / "java" / "classic_eager.json"
    assert replay(eager).is_met
    report = replay(edited(tmp_path, eager, edit))
    assert not report.is_met
    assert says in str(report.first_difference)


def test_an_answer_to_a_leader_with_a_member_that_never_joined_is_refused(tmp_path: Path) -> None:
    def intruder(document: dict[str, Any]) -> None:
        event = find(document, kind="response", api="JoinGroup", id=11, client="A")
        event["body"]["members"][0]["member_id"] = "no one"

    eager = FOLDER / "java" / "classic_eager.json"
    with pytest.raises(TraceError, match="JoinGroup is missing"):
        load_client_trace(edited(tmp_path, eager, intruder))


# --- gaps that the tolerance for times would hide ------------------------------------------------


def requests(items: list[Observed], api: str) -> list[Observed]:
    return [item for item in items if item.what == api]


def test_searches_and_retries_keep_their_distance() -> None:
    """client §13: search answer to search >= 80 ms, loading to retry >= 80 % of the backoff."""
    trace = load_client_trace(FOLDER / "java" / "coordinator_restart.json")
    for process in trace.processes:
        items = drive(process)
        searches = requests(items, "FindCoordinator")
        gaps = [b.at_ms - a.at_ms for a, b in pairwise(searches)]
        assert min(gaps) >= 80
        recorded = [e for e in process.events if e["kind"] == "response"]
        loading = [
            e["at_ms"]
            for e in recorded
            if e["body"].get("error_code") == "coordinator_load_in_progress"
        ]
        heartbeats = [item.at_ms for item in requests(items, "ConsumerGroupHeartbeat")]
        waits = [min(t for t in heartbeats if t > at_ms) - at_ms for at_ms in loading]
        assert all(
            wait >= 0.8 * nominal for wait, nominal in zip(waits, (100, 200, 400), strict=False)
        )


def test_a_late_answer_is_followed_by_the_minimum_backoff() -> None:
    trace = load_client_trace(FOLDER / "java" / "response_delayed.json")
    items = drive(trace.processes[0])
    after = [i.at_ms for i in requests(items, "ConsumerGroupHeartbeat") if i.at_ms > 5_636]
    assert after[0] - 5_636 >= 80


@pytest.mark.parametrize(
    "name", ["connections_killed", "regex_change", "target_returns_while_revoking", "poll_paused"]
)
def test_a_recording_a_few_milliseconds_different_is_met_as_well(tmp_path: Path, name: str) -> None:
    """What is inferred from a trace does not depend on single milliseconds."""
    noise = random.Random(name)

    def shift(document: dict[str, Any]) -> None:
        last_ms = 0
        for event in document["events"]:
            last_ms = max(last_ms, event["at_ms"] + noise.randint(0, 10))
            event["at_ms"] = last_ms

    assert replay(edited(tmp_path, FOLDER / "java" / f"{name}.json", shift)).is_met


# --- what is fed ----------------------------------------------------------------------------------


def test_nothing_is_polled_inside_a_slow_callback_or_after_close() -> None:
    process = load_client_trace(FOLDER / "java" / "slow_revoked_callback.json").processes[0]
    times = [poll.at_ms for poll in polls(process)]
    assert [t for t in times if 3_479 < t < 6_479] == []
    close_ms = find({"events": process.events}, action="close", kind="action_begin")["at_ms"]
    assert max(times) < close_ms
    assert min(times) >= find({"events": process.events}, action="subscribe")["at_ms"]


def test_a_client_with_two_processes_is_split_at_its_second_creation() -> None:
    trace = load_client_trace(FOLDER / "java" / "rolling_bounce_static.json")
    assert [p.name for p in trace.processes] == [
        "A",
        "A, process 2",
        "B",
        "B, process 2",
        "C",
        "C, process 2",
    ]
    first, second = trace.processes[:2]
    assert (first.member_id, second.member_id) == ("A#1", "A#2")
    assert len(recorded_items(second)) > 10


# --- files that cannot be used --------------------------------------------------------------------


def test_a_cut_off_file_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "cut.json"
    path.write_text(TWO_MEMBERS.read_text()[:9_000])
    with pytest.raises(TraceError, match=r"cut\.json: line \d+: .*cut off"):
        load_client_trace(path)


def test_an_unknown_client_version_is_refused(tmp_path: Path) -> None:
    path = edited(tmp_path, TWO_MEMBERS, lambda d: d.update(client="kafka-clients 9.9.0"))
    with pytest.raises(TraceError, match=r"'kafka-clients 9\.9\.0' is not modelled; known"):
        load_client_trace(path)


def test_a_missing_key_an_unknown_error_and_a_bad_setting_are_named(tmp_path: Path) -> None:
    def no_events(document: dict[str, Any]) -> None:
        del document["events"]

    def bad_error(document: dict[str, Any]) -> None:
        event = find(document, kind="response", api="ConsumerGroupHeartbeat")
        event["body"]["error_code"] = "no_such_error"

    def bad_setting(document: dict[str, Any]) -> None:
        document["client_configs"]["A"]["max.poll.interval.ms"] = "-5"

    def no_client(document: dict[str, Any]) -> None:
        document["events"] = []

    for edit, message in (
        (no_events, "has no 'events'"),
        (bad_error, "event 7 lacks or misspells 'NO_SUCH_ERROR'"),
        (bad_setting, "client_configs of A: max_poll_interval_ms must be >= 1, got -5"),
        (no_client, "no client was created"),
    ):
        with pytest.raises(TraceError, match=message):
            load_client_trace(edited(tmp_path, TWO_MEMBERS, edit))


def test_a_report_is_a_plain_dictionary_of_its_fields() -> None:
    report = replay(TWO_MEMBERS)
    assert json.loads(json.dumps(report.to_dict()))["states_total"] == report.states_total
    assert set(report.to_dict()) == {
        "name",
        "requests_ok",
        "requests_total",
        "callbacks_ok",
        "callbacks_total",
        "states_ok",
        "states_total",
        "commits_ok",
        "commits_total",
        "needs",
        "first_difference",
    }
