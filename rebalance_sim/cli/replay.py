"""``rebalance-sim replay``: a case study or a trace, step by step, for reading along."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rebalance_sim.cli.conformance import Replayed, replay_trace
from rebalance_sim.cli.errors import BadInput
from rebalance_sim.cli.exit_codes import FOUND, OK
from rebalance_sim.cli.output import check_outputs, say, write_text
from rebalance_sim.spark.store.opening import local_copy

if TYPE_CHECKING:
    from rebalance_sim.scenarios.case_studies import CaseResponse, CaseState, ReplayedStep
    from rebalance_sim.scenarios.traces.run_trace import RunTrace, TraceStep
    from rebalance_sim.scenarios.traces.story import Entry

DEFAULT_CONTEXT = 20
"""Steps, or lines of ``--diff``, on each side."""

DIAGRAM_ENTRIES = 120
"""More do not fit a page, and matplotlib takes its time."""

# Fields of a step of a run's trace that its first line has room for, or that say little.
_IN_HEADLINE = (
    "step", "at_ms", "kind", "client", "shard", "detail", "state", "member_epoch", "leader_epoch",
    "log_end_offset", "high_watermark", "incarnation", "member_id", "records",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """What of a run's trace to show, as the command line says it."""

    around: str | None
    context: int
    clients: Sequence[str]
    kinds: Sequence[str]
    diff: bool
    svg: Path | None

    @property
    def is_default(self) -> bool:
        return not (self.around or self.clients or self.kinds or self.diff or self.svg)


def replay(
    what: Annotated[str, typer.Argument(help="Name of a case study, or a trace file.")],
    around: Annotated[
        str | None,
        typer.Option(help="Of a run: only what is near this step, or near the first violation."),
    ] = None,
    context: Annotated[
        int, typer.Option(min=0, help="How much to show before and after --around.")
    ] = DEFAULT_CONTEXT,
    client: Annotated[
        list[str] | None, typer.Option(help="Of a run: only this client; may be repeated.")
    ] = None,
    kinds: Annotated[
        str | None,
        typer.Option(help="Of a run: only these kinds of step, as in coordinator.request,fault."),
    ] = None,
    diff: Annotated[
        bool, typer.Option("--diff", help="Of a run: messages, and state as changes of it.")
    ] = False,
    svg: Annotated[
        Path | None, typer.Option(help="Of a run: draw a sequence diagram into this file instead.")
    ] = None,
) -> int:
    """Print a case study of KIP-848, a recorded trace, or a run's own trace, step by step."""
    chosen = _Chosen(
        around=around,
        context=context,
        clients=client or (),
        kinds=[kind.strip() for kind in (kinds or "").split(",") if kind.strip()],
        diff=diff,
        svg=svg,
    )
    check_outputs({"--svg": svg}, [Path(what)])
    if svg is not None and svg.suffix not in ("", ".svg"):
        raise BadInput(f"replay: --svg {svg}: the diagram is SVG: end the file's name in .svg")
    with local_copy(what) as path:
        return _replay(what, path, chosen)


def _replay(what: str, path: Path, chosen: _Chosen) -> int:
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return _replay_run(path, chosen)
    if not chosen.is_default:
        raise BadInput(
            f"replay: {what} is not the trace of a run (.jsonl), of which alone parts can be shown"
        )
    if path.suffix == ".json":
        replayed = replay_trace(path)
        _say_all(_recorded_trace(replayed))
        return FOUND if replayed.verdict == "differs" else OK
    return _replay_case_study(what)


def _say_all(lines: Iterable[str]) -> None:
    for line in lines:
        say(line)


# --- case studies --------------------------------------------------------------------------------


def _replay_case_study(name: str) -> int:
    from rebalance_sim.scenarios.case_studies import load_case_study
    from rebalance_sim.scenarios.case_studies import replay as replay_steps

    case = load_case_study(name)
    topics = ", ".join(f"{topic} with {count} partitions" for topic, count in case.topics.items())
    say(f"{case.title}: case study {case.name!r} of KIP-848, {topics}")
    differing = 0
    for played in replay_steps(case):
        differing += bool(played.differences)
        _say_all(_case_step(played))
    say()
    if differing:
        say(f"{differing} of {len(case.steps)} steps differ from the text")
        return FOUND
    say(f"all {len(case.steps)} steps are as the text has them")
    return OK


def _case_step(played: ReplayedStep) -> Iterator[str]:
    step = played.step
    yield ""
    yield f"{step.number:>3}  {step.action} {step.member or step.topic}".rstrip()
    yield f"     {step.narrative}"
    yield from _case_state(played.state)
    reported = played.response
    if reported is not None:
        yield f"     {step.member} learns: {', '.join(_reported(reported))}"
    for difference in played.differences:
        yield f"     DIFFERS  {difference}"


def _reported(response: CaseResponse) -> Iterator[str]:
    if response.error is not None:
        yield response.error
    if response.epoch is not None:
        yield f"epoch {response.epoch}"
    for name, partitions in (
        ("assigned", response.assigned),
        ("to revoke", response.revoke),
        ("not yet free", response.pending),
    ):
        if partitions is not None:
            yield f"{name} {_names(partitions)}"


def _case_state(state: CaseState) -> Iterator[str]:
    yield f"     group epoch {state.group_epoch}, target of epoch {state.target_epoch}"
    for member in sorted(state.current):
        current = state.current[member]
        target = state.target.get(member, frozenset())
        waits = f", waits for {_names(current.pending)}" if current.pending else ""
        classic = state.classic_members.get(member)
        speaks = f", classic: {classic}" if classic else ""
        yield (
            f"     {member}  epoch {current.epoch}, holds {_names(current.partitions)}"
            f"{waits}, target {_names(target)}{speaks}"
        )


def _names(partitions: Iterable[str]) -> str:
    return " ".join(sorted(partitions)) or "nothing"


# --- traces recorded from brokers and clients ----------------------------------------------------


def _recorded_trace(replayed: Replayed) -> Iterator[str]:
    """A broker's trace beside the model's answers; a client's events; then the verdict."""
    if replayed.is_broker_trace and replayed.verdict != "needs":
        yield from _broker_steps(replayed.path)
    else:
        yield from _recorded_events(replayed.path)
    yield ""
    yield from replayed.describe()


def _broker_steps(path: Path) -> Iterator[str]:
    from rebalance_sim.conformance.broker_replay import replay_steps
    from rebalance_sim.conformance.broker_trace import load_broker_trace

    for exchange, records in replay_steps(load_broker_trace(path)):
        step = exchange.step
        yield ""
        yield _headline(exchange.index + 1, step["at_ms"], step["op"])
        yield from _details(step, skip=("at_ms", "op", "response"))
        if "response" in step:
            yield f"     broker    {_compact(step['response'])}"
            if exchange.got != step["response"]:
                yield f"     model     {_compact(exchange.got)}"
        yield from _records(records)


def _recorded_events(path: Path) -> Iterator[str]:
    from rebalance_sim.conformance.broker_trace import read_json

    data = read_json(path)
    for number, event in enumerate(data.get("events") or data["steps"], start=1):
        who = f"{event.get('client', '')} {event.get('kind') or event['op']}".strip()
        yield _headline(number, event["at_ms"], who)
        yield from _details(event, skip=("at_ms", "client", "kind", "op"))


# --- traces of our own runs ----------------------------------------------------------------------


def _replay_run(path: Path, chosen: _Chosen) -> int:
    from rebalance_sim.scenarios.traces.run_trace import read_trace
    from rebalance_sim.scenarios.traces.selection import Selection, step_named
    from rebalance_sim.scenarios.traces.story import story_of

    trace = read_trace(path)
    selection = Selection(
        around=None if chosen.around is None else step_named(trace, chosen.around),
        context=chosen.context,
        clients=chosen.clients,
        kinds=chosen.kinds,
    )
    if chosen.svg is not None:
        entries = selection.of(trace, story_of(trace), lambda entry: entry.step)
        _write_diagram(entries, trace, chosen.svg)
    elif chosen.diff:
        entries = selection.of(trace, story_of(trace), lambda entry: entry.step)
        _say_all(_story_line(entry) for entry in entries)
    else:
        for step in selection.of(trace, trace.steps, lambda step: step["step"]):
            _say_all(_full_step(trace, step))
    _say_all(_verdict(trace))
    return OK


def _write_diagram(entries: Sequence[Entry], trace: RunTrace, file: Path) -> None:
    from rebalance_sim.scenarios.traces.sequence_diagram import plot_sequence, write_svg
    from rebalance_sim.scenarios.traces.story import folded

    shown = [line.entry for line in folded(entries)]
    if len(shown) > DIAGRAM_ENTRIES:
        raise BadInput(
            f"replay: a diagram of {len(shown)} entries is not readable: narrow it to "
            f"{DIAGRAM_ENTRIES} by --around violation, --context or --client"
        )
    if not shown:
        raise BadInput("replay: nothing that is selected can be drawn: widen the selection")
    write_text(file, "")
    title = trace.violations[0].property if trace.violations else ""
    write_svg(plot_sequence(shown, title=title), file)


def _story_line(entry: Entry) -> str:
    mark = ">>" if entry.role.value == "violation" else "  "
    return f"{mark}{_headline(entry.step, entry.at_ms, str(entry))}"


def _full_step(trace: RunTrace, step: TraceStep) -> Iterator[str]:
    try:
        yield _headline(step["step"], step["at_ms"], f"{step['kind']} {_actor(step)}")
        yield from _details(step, skip=_IN_HEADLINE)
        yield from _records(step.get("records", ()))
    except (KeyError, TypeError) as problem:
        raise BadInput(f"step {step['step']} is no step of a trace ({problem})") from problem
    for row in trace.violated_at(step["step"]):
        yield f">>   VIOLATED  {row.property}: {row.detail}"


def _verdict(trace: RunTrace) -> Iterator[str]:
    if trace.outcome:
        yield ""
        yield trace.outcome if trace.outcome == "ok" else trace.outcome.upper()
    for row in trace.violations:
        yield f"  {row.property} at step {row.step}, {row.at_ms / 1000:,.3f} s: {row.detail}"
        yield f"    {row.sentence}"


def _actor(step: Mapping[str, Any]) -> str:
    """Who took the step, and how it stands after it."""
    if "client" in step:
        return f"{step['client']}  {step['state']}, epoch {step['member_epoch']}"
    if "shard" in step:
        committed = f"{step['high_watermark']} of {step['log_end_offset']} records committed"
        return f"{step['shard']}  leader epoch {step['leader_epoch']}, {committed}"
    return str(step.get("detail", ""))


# --- lines ---------------------------------------------------------------------------------------


def _headline(number: int, at_ms: int, what: str) -> str:
    return f"{number:>6}  {at_ms / 1000:>10.3f} s  {what}"


def _details(values: Mapping[str, Any], *, skip: Iterable[str]) -> Iterator[str]:
    for name, value in values.items():
        if name not in skip and value != []:
            yield f"     {name:<9} {_compact(value)}"


def _records(records: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for record in records:
        value = "removed" if record["value"] is None else _compact(record["value"])
        key = "".join(f" {name}" for name in record["key"].values())
        yield f"     record    {record['type']}{key}: {value}"


def _compact(value: Any) -> str:
    """Values that name their type as ``Type field=value``, strings in a row, the rest as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "type" in value:
        fields = (f" {name}={_compact(item)}" for name, item in value.items() if name != "type")
        return str(value["type"]) + "".join(fields)
    if isinstance(value, list) and value and all(isinstance(item, dict | str) for item in value):
        is_plain = all(isinstance(item, str) for item in value)
        text = (" " if is_plain else "; ").join(map(_compact, value))
        return f"[{text}]"
    return json.dumps(value, ensure_ascii=False)
