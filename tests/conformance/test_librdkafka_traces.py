"""What recorded librdkafka consumers did comes out of our second kind of member, all of it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from client_traces import FOLDER, Edit, edited, find, replay, requests_of, what_of

from rebalance_sim.conformance.client_replay import load_client_trace
from rebalance_sim.conformance.errors import TraceError
from rebalance_sim.conformance.host_choice import drive
from rebalance_sim.protocol.clients.common.requests import Loss
from rebalance_sim.protocol.clients.common.values import CallbackKind
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_core import (
    LibrdkafkaClassicCore,
)
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_classic_rebalance import (
    ClassicRebalance,
)
from rebalance_sim.protocol.clients.librdkafka.classic.librdkafka_joining import Joining
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_consumer_core import (
    LibrdkafkaConsumerCore,
)
from rebalance_sim.protocol.clients.librdkafka.consumer.librdkafka_heartbeats import Heartbeats
from rebalance_sim.protocol.clients.librdkafka.coordinator_connection import CoordinatorLink
from rebalance_sim.protocol.clients.librdkafka.librdkafka_commits import Commits
from rebalance_sim.protocol.clients.librdkafka.librdkafka_rebalance import Rebalance
from rebalance_sim.protocol.clients.librdkafka.librdkafka_states import CoordinatorState, JoinState
from rebalance_sim.protocol.clients.librdkafka.poll_timer import PollWatch

RECORDED = FOLDER / "librdkafka"
TRACES = sorted(RECORDED.glob("*.json"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_recorded_librdkafka_consumer_is_met(path: Path) -> None:
    report = replay(path)
    assert report.needs is None
    assert report.first_difference is None
    assert report.is_met
    assert report.requests_total > 0


def test_nothing_that_a_consumer_did_is_left_out() -> None:
    """What is compared is counted here by hand, event by event, from the files."""
    counted: Counter[str] = Counter()
    for path in TRACES:
        document = json.loads(path.read_text())
        for process in load_client_trace(path).processes:
            # Only the whole trace is known here, so take the processes' own events.
            counted.update(what_of(event) for event in process.events)
        assert document["client"].startswith("librdkafka 2.16")
    reports = [replay(path) for path in TRACES]
    assert sum(r.requests_total for r in reports) == counted["request"]
    assert sum(r.commits_total for r in reports) == counted["commit"]
    assert sum(r.states_total for r in reports) == counted["state"]
    assert sum(r.callbacks_total for r in reports) == counted["callback_end"]
    assert counted["request"] > 900
    assert counted["other"] == 0


@pytest.mark.parametrize(
    "name",
    [
        "subscription_change",
        "two_members",
        "request_lost_acknowledging",
        "killed",
        "classic_cooperative",
        "mixed_group_eager",
    ],
)
def test_a_recording_a_few_milliseconds_different_is_met_as_well(tmp_path: Path, name: str) -> None:
    """What is inferred from a trace does not depend on single milliseconds.

    A trace with retries (`coordinator_restart`) is none for this: their distances are all that is
    known of the random draws behind them.
    """
    noise = random.Random(name)

    def stretch(document: dict[str, Any]) -> None:
        shift_ms = last_ms = 0
        for event in document["events"]:
            # Whatever happened in one millisecond stays together: it says what caused what.
            if event["at_ms"] > last_ms + 5:
                shift_ms += noise.randint(0, 3)
            last_ms = event["at_ms"]
            event["at_ms"] += shift_ms

    assert replay(edited(tmp_path, RECORDED / f"{name}.json", stretch)).is_met


# --- the comparison can fail ---------------------------------------------------------------------


def wrong_owned_list(document: dict[str, Any]) -> None:
    acknowledgement = next(
        event
        for event in document["events"]
        if event["kind"] == "request"
        and event["body"].get("topic_partitions") == {"orders": [0, 1]}
    )
    acknowledgement["body"]["topic_partitions"] = {"orders": [0]}


def no_pattern(document: dict[str, Any]) -> None:
    join = find(document, kind="request", api="ConsumerGroupHeartbeat")
    join["body"]["subscribed_topic_regex"] = None


def wrong_callback(document: dict[str, Any]) -> None:
    find(document, kind="callback_begin", callback="on_revoke")["partitions"] = {"orders": [3]}


def assigned_too_late(document: dict[str, Any]) -> None:
    find(document, kind="callback_end", callback="on_assign")["assignment"] = {}


def other_join_state(document: dict[str, Any]) -> None:
    find(document, what="join_state", to="wait-incr-unassign-to-complete")["to"] = "steady"


def other_coordinator_state(document: dict[str, Any]) -> None:
    find(document, what="coordinator_state", to="term")["to"] = "query-coord"


def everything_committed(document: dict[str, Any]) -> None:
    commit = find(document, kind="request", api="OffsetCommit")
    commit["body"]["topics"]["orders"] = {"0": 8, "1": 8, "2": 8, "3": 8}


def signed_offset_fetch(document: dict[str, Any]) -> None:
    fetch = find(document, kind="request", api="OffsetFetch")
    fetch["body"]["groups"][0]["member_id"] = "A#1"


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (wrong_owned_list, "topic_partitions={'orders': [0]}"),
        (no_pattern, "expected ConsumerGroupHeartbeat"),
        (wrong_callback, "expected callback(callback=on_revoke"),
        (assigned_too_late, "assignment_at_end={}"),
        (other_join_state, "expected join_state(from=wait-unassign-call, to=steady)"),
        (other_coordinator_state, "to=query-coord"),
        (everything_committed, "expected OffsetCommit"),
        (signed_offset_fetch, "expected OffsetFetch"),
    ],
)
def test_an_edited_trace_is_not_met_and_the_report_says_where(
    tmp_path: Path, edit: Edit, says: str
) -> None:
    report = replay(edited(tmp_path, RECORDED / "two_members.json", edit))
    assert not report.is_met
    assert says in str(report.first_difference)


def owned_by_an_eager_member(document: dict[str, Any]) -> None:
    rejoin = requests_of(document, "JoinGroup", "A")[2]
    (protocol,) = rejoin["body"]["protocols"]
    protocol["owned_partitions"] = {"orders": [0, 1, 2, 3]}


def other_claims(document: dict[str, Any]) -> None:
    rejoin = requests_of(document, "JoinGroup", "A")[2]
    rejoin["body"]["protocols"][0]["user_data"]["generation"] = 2


def nothing_said_back(document: dict[str, Any]) -> None:
    sync = requests_of(document, "SyncGroup", "A")[1]
    del sync["body"]["assignments"]["A#1"]["<user_data>"]


def the_lower_half_kept(document: dict[str, Any]) -> None:
    sync = requests_of(document, "SyncGroup", "A")[1]
    sync["body"]["assignments"]["A#1"]["orders"] = [0, 1]


def steady_without_joining_again(document: dict[str, Any]) -> None:
    find(document, what="join_state", **{"from": "steady"}, to="init")["to"] = "wait-assign-call"


def no_leave(document: dict[str, Any]) -> None:
    document["events"].remove(requests_of(document, "LeaveGroup", "A")[0])


def revoked_instead_of_lost(document: dict[str, Any]) -> None:
    for kind in ("callback_begin", "callback_end"):
        find(document, kind=kind, callback="on_lost")["callback"] = "on_revoke"


def heartbeats_to_the_end(document: dict[str, Any]) -> None:
    beat = requests_of(document, "Heartbeat", "B")[3]
    document["events"].insert(
        document["events"].index(beat), {**beat, "at_ms": beat["at_ms"] - 1_000, "id": 999}
    )


def keeps_its_id(document: dict[str, Any]) -> None:
    requests_of(document, "JoinGroup", "B")[3]["body"]["member_id"] = "B#1"


@pytest.mark.parametrize(
    ("trace", "edit", "says"),
    [
        ("classic_eager", owned_by_an_eager_member, "expected JoinGroup"),
        ("classic_eager", no_leave, "got LeaveGroup"),
        ("classic_cooperative", other_claims, "'generation': 2"),
        ("classic_cooperative", nothing_said_back, "expected SyncGroup"),
        ("classic_cooperative", the_lower_half_kept, "expected SyncGroup"),
        ("classic_cooperative", steady_without_joining_again, "expected join_state(from=steady"),
        ("classic_session_timeout", revoked_instead_of_lost, "got callback(callback=on_lost"),
        ("classic_session_timeout", heartbeats_to_the_end, "expected Heartbeat"),
        ("classic_session_timeout", keeps_its_id, "expected JoinGroup"),
    ],
)
def test_an_edited_trace_of_the_classic_protocol_is_not_met(
    tmp_path: Path, trace: str, edit: Edit, says: str
) -> None:
    report = replay(edited(tmp_path, RECORDED / f"{trace}.json", edit))
    assert not report.is_met
    assert says in str(report.first_difference)


def test_a_subscription_counts_unless_the_client_refused_it(tmp_path: Path) -> None:
    def accept(document: dict[str, Any]) -> None:
        document["events"].remove(find(document, kind="exception", during="subscribe_regex"))

    report = replay(edited(tmp_path, RECORDED / "regex_invalid.json", accept))
    assert "expected nothing, got ConsumerGroupHeartbeat" in str(report.first_difference)


def _nothing(*arguments: Any, **named: Any) -> None:
    """In place of what a mutant leaves out."""


def _commit_all_owned(self: Commits, partitions: Any) -> Any:
    return {p: offset for p, offset in self._stored.items() if offset >= 0}


def _commit_none(self: Commits) -> Any:
    return {}


def _full_after_a_late_answer(on_lost: Callable[..., None]) -> Callable[..., None]:
    def run(self: Heartbeats, loss: Loss, *, is_leave: bool) -> None:
        on_lost(self, loss, is_leave=is_leave)
        self._core.sends_full_request = True

    return run


@pytest.mark.parametrize(
    ("part", "method", "mutant", "trace"),
    [
        (Commits, "take_stored", _commit_all_owned, "two_members"),
        (Commits, "_moved", _commit_none, "killed"),
        (
            Heartbeats,
            "_on_lost",
            _full_after_a_late_answer(Heartbeats._on_lost),
            "response_delayed",
        ),
        (Heartbeats, "_look_again", _nothing, "response_lost_steady"),
        (LibrdkafkaConsumerCore, "expedite_heartbeat", _nothing, "subscription_change"),
        (CoordinatorLink, "mark_dead", _nothing, "response_lost_commit_before_revocation"),
        (PollWatch, "switch", _nothing, "poll_paused"),
        (PollWatch, "switch", _nothing, "static_poll_paused"),
        (Heartbeats, "send_leave", _nothing, "join_consume_close"),
        (Joining, "_assign", _nothing, "classic_eager"),
        (ClassicRebalance, "join_next_generation", _nothing, "classic_cooperative"),
        (ClassicRebalance, "_after_unassign", Rebalance._after_unassign, "classic_eager"),
        (LibrdkafkaClassicCore, "note_alive", _nothing, "classic_session_timeout"),
        (CoordinatorLink, "cut", _nothing, "classic_session_timeout"),
        (
            Heartbeats,
            "_on_lost",
            _full_after_a_late_answer(Heartbeats._on_lost),
            "fenced_after_silence",
        ),
        (Heartbeats, "_on_lost", _nothing, "response_lost_leaving"),
    ],
)
def test_a_mutant_does_not_pass_for_the_real_client(
    part: type, method: str, mutant: Any, trace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, method, mutant)
    assert not replay(RECORDED / f"{trace}.json").is_met


# --- what is fed ---------------------------------------------------------------------------------


def test_a_search_that_the_client_gave_up_is_lost_though_the_broker_answered_it() -> None:
    """The answer came over a connection that the client had closed: it says that it looks again."""
    trace = load_client_trace(RECORDED / "request_lost_acknowledging.json")
    items = drive(trace.processes[0])
    states = [i.content["to"] for i in items if i.what == "coordinator_state"]
    assert states[:5] == [
        CoordinatorState.QUERY_COORD.value,
        CoordinatorState.WAIT_COORD.value,
        CoordinatorState.QUERY_COORD.value,
        CoordinatorState.WAIT_COORD.value,
        CoordinatorState.WAIT_BROKER_TRANSPORT.value,
    ]


def test_every_name_of_a_state_in_the_traces_is_one_of_the_machines() -> None:
    known = {
        "join_state": {state.value for state in JoinState},
        "coordinator_state": {state.value for state in CoordinatorState},
    }
    for path in TRACES:
        for process in load_client_trace(path).processes:
            for event in process.events:
                if event["kind"] == "state":
                    assert {event["from"], event["to"]} <= known[event["what"]], path.stem


def test_callbacks_of_one_name_are_told_apart_by_whether_anything_was_lost() -> None:
    trace = load_client_trace(RECORDED / "poll_paused.json")
    items = drive(trace.processes[0])
    names = [i.content["callback"] for i in items if i.what == "callback"]
    assert "on_lost" in names and "on_revoke" in names
    assert CallbackKind.LOST.value not in names


def test_a_state_without_its_kind_is_refused_in_one_line(tmp_path: Path) -> None:
    def forget(document: dict[str, Any]) -> None:
        del find(document, kind="state")["what"]

    with pytest.raises(TraceError, match=r"event \d+ lacks or misspells 'what'"):
        load_client_trace(edited(tmp_path, RECORDED / "two_members.json", forget))
