"""What an exploration came to, in words."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_sim.scenarios.explore.explored import Explored
from rebalance_sim.scenarios.explore.judge import CALL_PROPERTIES, replaced_in
from rebalance_sim.scenarios.explore.scope import Disturbance, Scope
from rebalance_sim.scenarios.explore.state_facts import STATE_PROPERTIES

LEFT_OUT = (
    "how long anything takes: a member's own deadlines come in their order, everything else at any "
    "time",
    "records that are not committed yet, and writes that fail",
    "two connections of one member at the same time, and answers that overtake each other",
    "positions that take their time, and metadata that are old",
    "patterns, and clients of other libraries than Java's",
    "liveness properties, and those that need the history of a run",
)
"""What no scope has."""


def describe(explored: Explored) -> Iterator[str]:
    """The verdict: whether all was seen, what was looked for, what was found, what was left out."""
    scope, progress = explored.scope, explored.progress
    yield f"{_complete(explored)}: {describe_scope(scope)}"
    yield (
        f"{progress.states:,} states, {explored.transitions:,} transitions, "
        f"depth {progress.depth}; {progress.seconds:,.1f} s, {progress.rate:,.0f} states/s, "
        f"{progress.memory_mb:,} MB; "
        f"{explored.calls:,} calls of machines"
    )
    if explored.cut_off:
        yield f"cut off at {explored.cut_off}; {progress.frontier:,} states were still to be seen"
    checked = len(CALL_PROPERTIES)
    yield (
        f"checked: {checked} properties of every call of the coordinator, "
        f"{len(STATE_PROPERTIES)} of every state, and that no machine breaks its own rules"
    )
    for rule, properties in replaced_in(scope).items():
        yield f"not judged once {rule} has acted, which replaces that: {', '.join(properties)}"
    for path in explored.paths:
        suspects = " or ".join(path.finding.suspects)
        known = f" [maybe {suspects}]" if suspects else ""
        yield (
            f"violated after {len(path.actions)} steps: {path.finding.property}{known}: "
            f"{path.finding.detail}"
        )
    if not explored.paths:
        yield "violated: nothing"
    absent = [one.value for one in Disturbance if one not in scope.disturbances]
    if absent and scope.max_disturbances:
        yield f"left out: {', '.join(absent)}"
    if not scope.has_classic:
        yield "left out: members of the classic protocol"
    else:
        yield (
            "left out: classic members that see a topic grow, whose own session ends, or that wait "
            "longer for a heartbeat's answer than for the next heartbeat"
        )
    if not any(scope.instances):
        yield "left out: static members"
    if not scope.returns:
        yield "left out: processes that come back"
    if not scope.slow_lookups:
        yield "left out: offset fetches and searches of coordinators that take their time"
    if not scope.slow_metadata:
        yield "left out: metadata that take their time"
    for one in LEFT_OUT:
        yield f"left out: {one}"


def describe_scope(scope: Scope) -> str:
    """The scope in a line."""
    parts = [
        _count(scope.members, "member"),
        f"{_count(scope.topics, 'topic')} of {_count(scope.partitions, 'partition')}",
    ]
    if scope.max_disturbances:
        parts.append(
            f"at most {_count(scope.max_disturbances, 'disturbance')} of "
            f"{_count(len(scope.disturbances), 'kind')}"
        )
    else:
        parts.append("no disturbance")
    parts.append(scope.semantics)
    parts += [f"with {defect}" for defect in scope.defects]
    parts += [f"without {repair}" for repair in scope.repairs]
    if scope.auto_commit:
        parts.append("auto-commit")
    if scope.assignment_interval:
        parts.append("assignment interval")
    if scope.slow_lookups:
        parts.append("slow lookups")
    if scope.slow_metadata:
        parts.append("slow metadata")
    if scope.kinds:
        parts.append("kinds " + " ".join(scope.kinds))
    if any(scope.instances):
        ids = (scope.instance_of(name) or "none" for name in scope.names)
        parts.append(f"instance ids {' '.join(ids)}")
    if scope.returns:
        parts.append("processes come back")
    if scope.full:
        parts.append("group full")
    return ", ".join(parts)


def _complete(explored: Explored) -> str:
    return "cut off" if explored.cut_off else "complete"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
