"""A run's trace as a file, and what it tells: messages, changes, the violation at its step."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.scenarios.errors import ScenarioError
from rebalance_sim.scenarios.generate.generator import generate
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario, load_scenario
from rebalance_sim.scenarios.settings import Setting
from rebalance_sim.scenarios.traces.exchanges import ADMIN, exchanges_of
from rebalance_sim.scenarios.traces.run_trace import RunTrace, read_trace, run_trace_of, trace_lines
from rebalance_sim.scenarios.traces.selection import Selection, step_named
from rebalance_sim.scenarios.traces.sequence_diagram import plot_sequence
from rebalance_sim.scenarios.traces.story import Entry, Role, folded, story_of
from rebalance_sim.sim.trace import FullTrace

MEMBERS_ONLY = {
    "ConsumerGroupHeartbeatRequest",
    "HeartbeatRequest",
    "JoinGroupRequest",
    "SyncGroupRequest",
}


def _traced(scenario: Scenario) -> RunTrace:
    trace = FullTrace()
    return run_trace_of(trace, run(scenario, trace=trace))


@cache
def _early_grant() -> RunTrace:
    return _traced(defect_scenario("mut-early-grant"))


@pytest.mark.parametrize(
    ("profile", "seed"), [("faulty", 3), ("classic", 3), ("librdkafka_classic", 2), ("whole", 4)]
)
def test_every_request_that_a_broker_handles_was_sent_by_a_client(profile: str, seed: int) -> None:
    """All but what administrators ask; and every answer a client takes has its request."""
    trace = _traced(generate(profile, seed))
    exchanges = exchanges_of(trace.steps)
    kinds = Counter(step["kind"] for step in trace.steps)
    assert sum(e.handled is not None for e in exchanges) == kinds["coordinator.request"]
    assert sum(e.released is not None for e in exchanges) == kinds["response.released"]
    from_no_one = {e.request["type"] for e in exchanges if e.client == ADMIN}
    assert from_no_one.isdisjoint(MEMBERS_ONLY)
    answered = sum("response" in (step.get("event") or ()) for step in trace.steps)
    assert sum(e.received is not None for e in exchanges) == answered > 0
    for exchange in exchanges:
        numbers = [step["step"] for step in exchange.steps]
        assert numbers == sorted(numbers)


def test_a_trace_file_ends_with_the_verdict_and_is_read_back(tmp_path: Path) -> None:
    trace = FullTrace()
    result = run(defect_scenario("mut-early-grant"), trace=trace)
    file = tmp_path / "trace.jsonl"
    file.write_text("".join(f"{line}\n" for line in trace_lines(trace, result)))
    read = read_trace(file)
    assert read == RunTrace(
        steps=[json.loads(line) for line in trace.lines],
        outcome="violation",
        violations=list(result.violations),
    )
    assert read.violated_at(result.violations[0].step) == [result.violations[0]]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_a_trace_file_is_a_scenario_file_too(tmp_path: Path, suffix: str) -> None:
    scenario = generate("faulty", 3)
    result = run(scenario, trace=(trace := FullTrace()))
    text = "".join(f"{line}\n" for line in trace_lines(trace, result)).encode()
    file = tmp_path / f"trace{suffix}"
    file.write_bytes(gzip.compress(text) if suffix.endswith(".gz") else text)
    assert load_scenario(file) == scenario
    assert load_scenario(file, [Setting.of("world.seed", 4)]).seed == 4
    assert run(str(file)).digest == result.digest


@pytest.mark.parametrize("last", ["", '{"kind": "verdict"}', "[]", '{"scenario": ""}', "{"])
def test_a_trace_without_its_scenario_is_no_scenario(tmp_path: Path, last: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(last)
    with pytest.raises(ScenarioError, match=rf"{file}: has no scenario in its last line"):
        load_scenario(file)


@pytest.mark.parametrize("line", ['{"step": 1}', "[]", "7", "{", '{"kind": "x", "step": "1"}'])
def test_a_line_that_is_no_step_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text(f'{{"step": 1, "at_ms": 0, "kind": "fault", "detail": "x"}}\n{line}\n')
    with pytest.raises(ScenarioError, match=rf"{file}: line 2: no step of a trace"):
        read_trace(file)


def test_the_story_of_a_double_owner_names_both_grants_and_the_violation() -> None:
    """Two members join one after the other, and the second is given what the first still has."""
    texts = [(entry.role, str(entry)) for entry in story_of(_early_grant())]
    at = next(i for i, (role, _) in enumerate(texts) if role is Role.VIOLATION)
    assert "VIOLATED  coordinator.exclusive_ownership: orders-" in texts[at][1]
    before = "\n".join(text for _, text in texts[:at])
    assert "b -> broker-0  join (epoch 0), subscribes to orders" in before
    assert "a  STABLE" not in before or "epoch" in before
    joins = [t for t in before.splitlines() if "assignment of" in t and "assigned +orders" in t]
    assert len(joins) >= 2


def test_steady_heartbeats_are_left_out_of_the_story() -> None:
    trace = _early_grant()
    sent = [e for e in exchanges_of(trace.steps) if e.sent is not None]
    told = [e for e in story_of(trace) if e.role is Role.MESSAGE and e.to.startswith("broker")]
    assert 0 < len(told) < len(sent) / 2


def test_an_answer_that_is_lost_says_so() -> None:
    trace = _traced(defect_scenario("KIP-848-lost-response"))
    lost = [e for e in exchanges_of(trace.steps) if e.released and e.sent and not e.received]
    assert lost
    told = [entry for entry in story_of(trace) if str(entry).endswith("(not received)")]
    assert told and all(entry.actor.startswith("broker") for entry in told)


def test_what_repeats_itself_is_told_once_with_its_count() -> None:
    def entry(step: int, text: str) -> Entry:
        return Entry(step=step, at_ms=step, role=Role.MESSAGE, text=text, actor="a", to="b")

    refused = [entry(n, text) for n in range(5) for text in ("heartbeat", "NOT_COORDINATOR")]
    lines = folded([entry(0, "join"), *refused, entry(9, "epoch 1")])
    assert [(line.entry.text, line.count) for line in lines] == [
        ("join", 1),
        ("heartbeat", 5),
        ("NOT_COORDINATOR", 5),
        ("epoch 1", 1),
    ]


def test_a_selection_keeps_the_client_the_context_and_the_violated_step() -> None:
    trace = _early_grant()
    violated = step_named(trace, "violation")

    def numbers(selection: Selection) -> list[int]:
        return [s["step"] for s in selection.of(trace, trace.steps, lambda s: s["step"])]

    assert numbers(Selection()) == [step["step"] for step in trace.steps]
    near = numbers(Selection(around=violated, context=3))
    assert near == list(range(violated - 3, violated + 4))
    mine = numbers(Selection(clients=["a"]))
    others = {step["step"] for step in trace.steps if step.get("client") == "b"}
    assert not others & set(mine) and violated in mine
    only = numbers(Selection(kinds=["fault"]))
    kinds = {step["kind"] for step in trace.steps if step["step"] in only}
    assert kinds == {"fault", "coordinator.request"} or violated in only


@pytest.mark.parametrize(
    ("selection", "reported"),
    [
        (Selection(clients=["c"]), "no client 'c' in this trace"),
        (Selection(kinds=["fautl"]), "did you mean 'fault'"),
        (Selection(around=10**9), "no step 1000000000: the trace has steps 1 to"),
    ],
)
def test_what_the_trace_does_not_have_is_refused(selection: Selection, reported: str) -> None:
    with pytest.raises(ScenarioError, match=reported):
        selection.of(_early_grant(), [], lambda item: 0)


def test_a_diagram_shows_every_client_and_the_violated_property() -> None:
    entries = story_of(_early_grant())
    at = next(i for i, entry in enumerate(entries) if entry.role is Role.VIOLATION)
    figure = plot_sequence(entries[max(0, at - 30) : at + 3], title="shown")
    [axes] = figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert {"a", "b", "broker-0"} <= set(texts)
    assert any("coordinator.exclusive_ownership" in text.replace("\n", " ") for text in texts)
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_sequence([])
