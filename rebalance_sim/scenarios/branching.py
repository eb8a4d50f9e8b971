"""How likely was it, and from when on? A run up to a moment, and other draws from there.

A scenario says which faults there are and when; its seed draws the rest: latencies, the order of
what happens at once, when applications are away. A branch is the run of a scenario, with the same
draws, until a moment; from there every random stream draws otherwise. What many branches of one
moment come to is how likely that was at this moment.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rebalance_sim.scenarios.counterfactual import Prove
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.result import PASSING, RunResult
from rebalance_sim.scenarios.runner import run
from rebalance_sim.scenarios.scenario import Scenario
from rebalance_sim.sim.streams import Branch

NO_VERDICT = frozenset({"budget", "error"})
"""Outcomes of a run that say nothing about what would have come."""

_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of a run: whether it violates a ``property_id``, whether a known ``issue`` may
    be the reason of what it violates, or whether a ``metric`` keeps to ``sign`` and ``bound``. With
    none of them: whether it does not pass."""

    property_id: str = ""
    issue: str = ""
    metric: str = ""
    sign: str = ""
    bound: float = 0

    @classmethod
    def parse(cls, where: str) -> Question:
        """``deploy.unowned_partition_ms > 60000``. Raises ScenarioError."""
        match = re.fullmatch(r"\s*([a-z][a-z0-9_.]*)\s*(>=|<=|>|<)\s*(-?\d[\d_]*\.?\d*)\s*", where)
        if match is None:
            raise ScenarioError(
                f"{where!r}: write a metric, >, >=, < or <=, and a number, as in "
                "'unowned_partition_ms > 60000'"
            )
        return cls(metric=match[1], sign=match[2], bound=float(match[3]))

    def __str__(self) -> str:
        if self.property_id:
            return f"violates {self.property_id}"
        if self.issue:
            return f"shows {self.issue}"
        if self.metric:
            return f"has {self.metric} {self.sign} {self.bound:g}"
        return "does not pass"

    def is_in(self, result: RunResult) -> bool:
        """The answer. A run without the metric does not keep to anything."""
        if self.property_id:
            return self.property_id in _violated(result)
        if self.issue:
            return self.issue in _issues(result)
        if self.metric:
            value = result.metrics.get(self.metric)
            return value is not None and _SIGNS[self.sign](value, self.bound)
        return result.outcome not in PASSING


def question_about(
    result: RunResult, *, property_id: str | None, issue: str | None, where: str | None
) -> Question:
    """What is asked of branches of this run: one of the three that is given, else what the run
    itself came to. Raises ScenarioError for what the run does not show, and for a metric that it
    does not have."""
    if where is not None:
        question = Question.parse(where)
        if question.metric not in result.metrics:
            remedy = did_you_mean(question.metric, result.metrics)
            raise ScenarioError(f"the run has no metric {question.metric!r}; {remedy}")
        return question
    for name, found, kind in (
        (property_id, _violated(result), "violate"),
        (issue, _issues(result), "show"),
    ):
        if name is not None and name not in found:
            shown = ", ".join(found) or "nothing"
            raise ScenarioError(f"the run does not {kind} {name!r}; it does: {shown}")
    if property_id is not None:
        return Question(property_id=property_id)
    if issue is not None:
        return Question(issue=issue)
    if result.violations:
        return Question(property_id=result.violations[0].property)
    issues = _issues(result)
    return Question(issue=next(iter(issues))) if issues else Question()


def run_branch(scenario: Scenario, branch: Branch | None) -> RunResult:
    """The run of a scenario that branches off; None: the run itself. Of what a known issue may be
    the reason of nothing is proven, by either."""
    return run(scenario, branch=branch, prove=Prove.NONE)


def _violated(result: RunResult) -> dict[str, None]:
    rows = (*result.violations, *(one.row for one in result.suspected))
    return dict.fromkeys(row.property for row in rows)


def _issues(result: RunResult) -> dict[str, None]:
    return dict.fromkeys(issue for one in result.suspected for issue in one.issues)
