"""Which known issue a violation is: the same scenario, without the issue, does not show it.

The issues that are known to violate a property are tried. Beside the run a reference without the
issue is fed the same: the last decision before the violation that it takes otherwise is the cause.
Then the run is made again without the issue. What it does not show is known; what shows without any
that could be the reason is a violation. The random streams of a world belong to its parts, so that
a repair changes what follows from the issue, and nothing else.

A sweep cannot pay for all of that in each run (``Prove``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from functools import cache
from itertools import zip_longest
from typing import Any

from rebalance_sim.invariants.known.known_issues import page_of
from rebalance_sim.invariants.property import THE_GROUP
from rebalance_sim.invariants.reference.difference import Difference
from rebalance_sim.invariants.reference.tree import PROTOCOL, Place, places_of
from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.scenarios.result import (
    PASSING,
    REPAIRED,
    SAMPLED,
    UNPROVEN,
    Cause,
    KnownRow,
    RepairedRun,
    RunResult,
    Suspected,
    ViolationRow,
)
from rebalance_sim.scenarios.rule_differences import Rules, watched_by
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.scenarios.world_of import world_of
from rebalance_sim.sim.client.client_kinds import looks_at_topics
from rebalance_sim.sim.trace import FullTrace

_NO_VERDICT = "budget"
_COORDINATOR = "coordinator"

Issues = tuple[str, ...]


class Prove(StrEnum):
    """How much is found out about what known issues may be the reason of."""

    CAUSES = "causes"
    """Each violation is held against runs without the issues, and the deciding step is named."""
    ALL = "all"
    """Each is held against runs without the issues."""
    DOUBTFUL = "doubtful"
    """Each that several issues may be the reason of; where there is one, it is taken for that."""
    NONE = "none"
    """Nothing is run again."""


def prove_known(
    scenario: Scenario,
    result: RunResult,
    run_once: Callable[[Scenario], RunResult],
    prove: Prove = Prove.CAUSES,
) -> RunResult:
    """The result of a run, with what its suspected violations turn out to be.

    ``run_once`` runs a scenario as this one was run, and proves nothing. The result of a run that
    violates something else anyway comes back as it is.
    """
    is_open = result.suspected and result.outcome not in ("violation", "stuck")
    if not is_open or prove is Prove.NONE:
        return result
    proof = _Proof(scenario, result, run_once, prove)
    return proof.judged() if prove is Prove.CAUSES else proof.judged_at_less_cost()


class _Proof:
    """What is found out about one run."""

    def __init__(
        self,
        scenario: Scenario,
        result: RunResult,
        run_once: Callable[[Scenario], RunResult],
        prove: Prove,
    ) -> None:
        self._scenario = scenario
        self._prove = prove
        self._result = result
        self._run_once = run_once
        most = max(one.row.step for one in result.suspected) + 1
        self._up_to_violation = replace(scenario, max_steps=min(scenario.max_steps, most))
        self._repaired: dict[Issues, RunResult] = {}
        self._decisions: dict[Issues, list[Difference]] = {}
        self._found: dict[str, None] = {}
        """Issues that the run is known to show."""

    def judged(self) -> RunResult:
        """The result with a verdict on each suspected violation."""
        suspected = self._result.suspected
        repairs = _together(one.issues for one in suspected)
        repaired = self._without(repairs)
        if repaired.outcome not in (*PASSING, _NO_VERDICT):
            return self._refuted(repairs, repaired)
        self._found = {one.issues[0]: None for one in suspected if len(one.issues) == 1}
        reasons: list[Issues] = []
        for one in suspected:
            reason = self._reason_of(one)
            if reason is None:
                issues = tuple(sorted(one.issues))
                return self._refuted(issues, self._without(issues))
            reasons.append(reason)
        # One repair may make room for another issue in the same place.
        chosen = _together(reasons)
        if self._takes_away(chosen, suspected):
            repairs, repaired = chosen, self._without(chosen)
        verdict = REPAIRED if repaired.outcome in PASSING else UNPROVEN
        rows = tuple(
            self._known(one, reason[0], verdict)
            for one, reason in zip(suspected, reasons, strict=True)
        )
        return self._with_known(rows, _repaired_run(repairs, repaired))

    def judged_at_less_cost(self) -> RunResult:
        """The same, from runs without one issue after the other, and those that were found before:
        the first that takes a violation away is the reason, whatever it decided. What none takes
        away is found out in full. Each that takes nothing away is a run for nothing: issues that
        the run shows anyway come first, and those of what is not in it last."""
        suspected, reasons = self._result.suspected, []
        shown = {one.issues[0] for one in suspected if len(one.issues) == 1}
        tried: dict[str, None] = {}
        for one in suspected:
            if len(one.issues) == 1 and self._prove is Prove.DOUBTFUL:
                reasons.append(one.issues[0])
                continue
            order = sorted(
                one.issues,
                key=lambda i: (
                    i not in tried,
                    i not in shown,
                    self._is_idle(i),
                    Place.HOST in _places(i),
                ),
            )
            # Without what was found before, a run is shorter, and another issue shows by itself.
            runs = [(i, (i,) if i in tried else tuple(sorted({*tried, i}))) for i in order]
            found = next((i for i, some in runs if self._takes_away(some, [one])), None)
            if found is None:
                return self.judged()
            tried[found] = None
            reasons.append(found)
        repairs = tuple(sorted(tried))
        proven = [one for one, issue in zip(suspected, reasons, strict=True) if issue in tried]
        if len(repairs) > 1 and not self._takes_away(repairs, proven):
            return self.judged()
        rows = tuple(
            self._known(one, issue, REPAIRED if issue in tried else SAMPLED)
            for one, issue in zip(suspected, reasons, strict=True)
        )
        return self._with_known(
            rows, _repaired_run(repairs, self._without(repairs)) if repairs else None
        )

    def _is_idle(self, issue: str) -> bool:
        """Whether the rules of an issue are all about a protocol that no client begins with."""
        has_classic = any(map(looks_at_topics, self._scenario.world.clients))
        return not has_classic and _is_about_classic(issue)

    def _takes_away(self, issues: Issues, suspected: Iterable[Suspected]) -> bool:
        repaired = self._without(issues)
        return repaired.outcome in PASSING and not any(_shows(repaired, one) for one in suspected)

    def _without(self, issues: Issues) -> RunResult:
        if issues not in self._repaired:
            self._repaired[issues] = self._run_once(self._scenario.without(*issues))
        return self._repaired[issues]

    # -- nomination ----------------------------------------------------------------------------

    def _reason_of(self, one: Suspected) -> Issues | None:
        """The issue whose repair alone takes the violation away; if there is none, all that may
        have led to it. None: it shows without any that is known to violate the property."""
        nominated = one.issues
        for nominated in self._nominations(one):
            for is_same in (_is_of_same_group, _is_same):
                for issue in nominated:
                    repaired = self._without((issue,))
                    if repaired.outcome in PASSING and not _shows(repaired, one, is_same):
                        self._found[issue] = None
                        return (issue,)
        if self._takes_away(tuple(sorted(nominated)), [one]):
            return nominated
        is_left = _is_violated(one, self._without(tuple(sorted(one.issues))))
        return None if is_left else one.issues

    def _nominations(self, one: Suspected) -> Iterator[Issues]:
        """What to try: first the issues that the run shows anyway, which costs least. Then those
        whose repair decides otherwise before the violation, that which does so last in front; and
        those of hosts, which no reference shows."""
        yield tuple(issue for issue in self._found if issue in one.issues)
        if len(one.issues) == 1:
            return
        differing = self._differing(one.issues)
        places = {
            Place.COORDINATOR if found.machine == _COORDINATOR else Place.CLIENT
            for found in differing
        }
        last: dict[str, int] = {}
        for issue in one.issues:
            decision = self._last_decision(issue, one) if _places(issue) & places else None
            if decision is not None:
                last[issue] = decision.step_index
        of_hosts = [issue for issue in one.issues if Place.HOST in _places(issue)]
        yield (*sorted(last, key=lambda issue: -last[issue]), *of_hosts) or one.issues

    def _last_decision(self, issue: str, one: Suspected) -> Difference | None:
        differing = self._differing((issue,))
        return next((d for d in reversed(differing) if d.step_index <= one.row.step), None)

    def _differing(self, issues: Issues) -> list[Difference]:
        """What a reference without the issues decides otherwise, up to the last violation."""
        if issues in self._decisions:
            return self._decisions[issues]
        found = self._decisions[issues] = []
        world = self._scenario.world
        rules = Rules(world.semantics, world.defects, (*world.repairs, *issues))
        try:
            watched_by(self._up_to_violation, rules, on_difference=found.append)
        except Exception:
            if self._result.outcome != "error":
                raise  # else the run itself ended so
        return found

    def _cause(self, issue: str, one: Suspected) -> Cause:
        found = self._last_decision(issue, one)
        if found is not None:
            given = f"{found.subject}, given {found.given}"
            what = f"{given}: {found.what} is {found.decided}, and {found.reference} without it"
            return Cause(found.step_index, found.at_ms, what)
        return self._parting(issue, one)

    def _parting(self, issue: str, one: Suspected) -> Cause:
        """Where the run without an issue of hosts goes another way; if it does so only after the
        violation, that is it."""
        scenario = replace(self._scenario, max_steps=one.row.step + 1)
        for line, other in zip_longest(_steps_of(scenario), _steps_of(scenario.without(issue))):
            if line != other:
                here, there = ({} if step is None else json.loads(step) for step in (line, other))
                first = here or there
                what = f"{_in_words(here)}, and {_in_words(there)} without it"
                return Cause(min(first["step"], one.row.step), first["at_ms"], what)
        return Cause(one.row.step, one.row.at_ms, one.row.detail)

    # -- verdicts ------------------------------------------------------------------------------

    def _known(self, one: Suspected, issue: str, verdict: str) -> KnownRow:
        title, page = page_of(issue)
        row = one.row
        cause = self._cause(issue, one) if self._prove is Prove.CAUSES else None
        return KnownRow(
            issue=issue,
            title=title,
            page=page,
            property=row.property,
            sentence=row.sentence,
            subject=one.subject,
            step=row.step,
            at_ms=row.at_ms,
            detail=row.detail,
            cause=cause,
            times=one.times,
            group_id=row.group_id,
            open_faults=row.open_faults,
            is_late=one.is_late,
            verdict=verdict,
        )

    def _with_known(self, rows: tuple[KnownRow, ...], repaired: RepairedRun | None) -> RunResult:
        result = self._result
        counts: Counter[str] = Counter()
        for row in rows:
            counts[row.issue] += row.times
        known = dict(sorted(counts.items()))
        reason = result.reason
        if result.outcome == "known":
            shown = ", ".join(f"{name} ({count} times)" for name, count in known.items())
            shown = f"known issues of {self._scenario.world.semantics} showed: {shown}"
            reason = "; ".join(filter(None, (shown, result.not_judged)))
        return replace(
            result, known=known, known_issues=rows, suspected=(), repaired=repaired, reason=reason
        )

    def _refuted(self, repairs: Issues, repaired: RunResult) -> RunResult:
        """The same run, with what shows all the same as violations; what the repaired run says
        nothing about stays suspected."""
        result = replace(self._result, repaired=_repaired_run(repairs, repaired))
        ending = f"the run without it ends {repaired.outcome}, {repaired.reason}"
        if repaired.outcome == "error":
            return replace(result, outcome="error", reason=f"{repaired.reason}; {ending}")
        refuted = [one for one in result.suspected if _is_violated(one, repaired)]
        rows = tuple(one.row for one in refuted)
        if not refuted:
            # It violates something else, and so proves nothing about what is to be proven.
            refuted = list(result.suspected)
            rows = tuple(
                replace(
                    one.row,
                    detail=f"{one.row.detail}; looks like {' or '.join(one.issues)}, but {ending}",
                )
                for one in refuted
            )
        reason = rows[0].in_a_line(of_several=len(self._scenario.world.group_ids) > 1)
        if result.outcome == "error":
            reason += f"; afterwards {result.reason}"
        return replace(
            result,
            outcome="stuck" if all(one.is_late for one in refuted) else "violation",
            reason=reason,
            violations=rows,
            suspected=tuple(one for one in result.suspected if one not in refuted),
        )


def _together(issues: Iterable[Issues]) -> Issues:
    return tuple(sorted({issue for some in issues for issue in some}))


def _steps_of(scenario: Scenario) -> list[str]:
    trace = FullTrace()
    world_of(scenario, trace=trace).run()
    return trace.lines


def _in_words(step: Mapping[str, Any]) -> str:
    """A step in a few words: its kind, what it was about, when and where."""
    if not step:
        return "nothing"
    about = step.get("event") or step.get("request") or step.get("detail") or ""
    name = about.get("type", about.get("kind", "")) if isinstance(about, dict) else about
    where = step.get("client") or step.get("shard") or ""
    return " ".join(filter(None, (step["kind"], str(name), f"at {step['at_ms']} ms", where)))


@cache
def _places(issue: str) -> frozenset[Place]:
    """Where the rules of an issue decide."""
    return places_of(DEFECTS[issue].rules)


@cache
def _is_about_classic(issue: str) -> bool:
    """Whether its rules are those of classic groups, or of groups of both protocols."""
    packages = (f"{PROTOCOL}.classic.", f"{PROTOCOL}.migration.")
    return all(r.__bases__[0].__module__.startswith(packages) for r in DEFECTS[issue].rules)


def _is_of_same_place(mine: ViolationRow, theirs: ViolationRow) -> bool:
    return (mine.property, mine.group_id) == (theirs.property, theirs.group_id)


def _is_of_same_group(one: Suspected, other: Suspected) -> bool:
    return _is_of_same_place(one.row, other.row)


def _is_same(one: Suspected, other: Suspected) -> bool:
    is_same_subject = one.subject == other.subject or THE_GROUP in (one.subject, other.subject)
    return is_same_subject and _is_of_same_group(one, other)


def _is_violated(one: Suspected, repaired: RunResult) -> bool:
    """Whether the run without an issue violates the same property, in the same group."""
    return any(_is_of_same_place(row, one.row) for row in repaired.violations)


def _shows(
    result: RunResult,
    one: Suspected,
    is_same: Callable[[Suspected, Suspected], bool] = _is_same,
) -> bool:
    return any(is_same(one, other) for other in result.suspected)


def _repaired_run(repairs: Issues, repaired: RunResult) -> RepairedRun:
    return RepairedRun(
        repairs=repairs,
        scenario_hash=repaired.scenario_hash,
        outcome=repaired.outcome,
        reason=repaired.reason,
        digest=repaired.digest,
        steps=repaired.steps,
    )
