"""What recorded clients of franz-go did comes out of our third kind of member, all of it."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from client_traces import FOLDER, Edit, edited, replay, requests_of, what_of

from rebalance_sim.conformance.client_replay import load_client_trace

RECORDED = FOLDER / "franz-go"
TRACES = sorted(RECORDED.glob("*.json"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_recorded_client_of_franz_go_is_met(path: Path) -> None:
    report = replay(path)
    assert report.first_difference is None
    assert report.is_met
    assert report.requests_total > 0


def test_nothing_that_a_client_of_franz_go_did_is_left_out() -> None:
    """What is compared is counted here by hand, event by event, from the files."""
    counted: Counter[str] = Counter()
    for path in TRACES:
        assert json.loads(path.read_text())["client"] == "franz-go 1.22.3"
        for process in load_client_trace(path).processes:
            counted.update(what_of(event) for event in process.events)
    reports = [replay(path) for path in TRACES]
    assert sum(r.requests_total for r in reports) == counted["request"]
    assert sum(r.commits_total for r in reports) == counted["commit"]
    assert sum(r.callbacks_total for r in reports) == counted["callback_end"]
    assert counted["request"] > 600
    assert counted["other"] == 0


# --- the comparison can fail ---------------------------------------------------------------------


def no_assignor(document: dict[str, Any]) -> None:
    requests_of(document, "ConsumerGroupHeartbeat", "A")[0]["body"]["server_assignor"] = None


def named_leave(document: dict[str, Any]) -> None:
    leave = requests_of(document, "ConsumerGroupHeartbeat", "A")[-1]
    leave["body"]["instance_id"] = "i1"


def silent_end_of_a_session(document: dict[str, Any]) -> None:
    events = document["events"]
    empty = next(
        index
        for index, event in enumerate(events)
        if event.get("callback") == "OnPartitionsRevoked" and event.get("partitions") == {}
    )
    del events[empty : empty + 2]


def other_reason(document: dict[str, Any]) -> None:
    requests_of(document, "JoinGroup", "A")[-1]["body"]["reason"] = "because"


def unsigned_fetch(document: dict[str, Any]) -> None:
    group = requests_of(document, "OffsetFetch", "A")[0]["body"]["groups"][0]
    group["member_id"] = None


@pytest.mark.parametrize(
    ("name", "edit", "says"),
    [
        ("two_members", no_assignor, "expected ConsumerGroupHeartbeat"),
        ("static_close_and_return", named_leave, "instance_id=i1"),
        ("two_members", silent_end_of_a_session, "callback"),
        ("classic_cooperative", other_reason, "reason=because"),
        ("classic_cooperative", unsigned_fetch, "expected OffsetFetch"),
    ],
)
def test_an_edited_trace_of_franz_go_is_not_met(
    tmp_path: Path, name: str, edit: Edit, says: str
) -> None:
    report = replay(edited(tmp_path, RECORDED / f"{name}.json", edit))
    assert not report.is_met
    assert says in str(report.first_difference)
