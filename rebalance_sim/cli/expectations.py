"""Which known issues a command expects, and what it says of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from rebalance_sim.cli.errors import BadInput
from rebalance_sim.scenarios.errors import ScenarioError, did_you_mean
from rebalance_sim.scenarios.metric_limits import LIMIT_WORDS, LIMITED, MetricLimit, limit_word

KNOWN = "known"
UNPROVEN = "unproven"
NOT_JUDGED = "not-judged"
_WORDS = frozenset({KNOWN, UNPROVEN, NOT_JUDGED})
_OUTCOMES = (KNOWN, NOT_JUDGED)
_FAIL_ON = (KNOWN, UNPROVEN, NOT_JUDGED, *map(limit_word, LIMITED))

FailOn = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        help="Exit code 1 also if a known issue shows (known), or one that is not proven by a run "
        "without it (unproven), or if liveness was not judged (not-judged); or if a run has more "
        "of a metric than so many: " + LIMIT_WORDS,
    ),
]
FailOnOutcome = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-on",
        help="Exit code 1 also if a run showed a known issue (known), or liveness was not judged "
        "in one (not-judged).",
    ),
]
Expect = Annotated[
    str | None,
    typer.Option(
        help="Known issues that are no news, as in known:KAFKA-20601,PR-23542; others make the "
        "exit code 1. Without it, those of the simulated version."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """``issues``: the known issues that may show; None: all that the simulated version has.
    ``limits``: what no run may have more of."""

    issues: frozenset[str] | None = None
    fails_on: frozenset[str] = frozenset()
    limits: tuple[MetricLimit, ...] = ()

    def objections(
        self, known: Iterable[str], unproven: Iterable[str], not_judged: str
    ) -> list[str]:
        """A line for each thing that makes a run that passed a failure; empty: it is expected.
        ``not_judged`` says what was not judged."""
        shown, not_proven = sorted(set(known)), sorted(set(unproven))
        lines = []
        if self.issues is not None and not self.issues.issuperset(shown):
            news = ", ".join(issue for issue in shown if issue not in self.issues)
            lines.append(f"unexpected: {news} (expected: {', '.join(sorted(self.issues))})")
        if KNOWN in self.fails_on and shown:
            lines.append(f"failed on known: {', '.join(shown)}")
        if UNPROVEN in self.fails_on and not_proven:
            lines.append(f"failed on unproven: {', '.join(not_proven)}")
        if NOT_JUDGED in self.fails_on and not_judged:
            lines.append(f"failed on not-judged: {not_judged}")
        return lines


def expectation(expect: str | None, fail_on: list[str] | None) -> Expectation:
    """What ``--expect`` and ``--fail-on`` say. Raises BadInput for a word or an issue that there
    is not."""
    words = fail_on or ()
    for word in words:
        _check_fail_on(word, word.partition(":")[0], _FAIL_ON)
    return Expectation(
        issues=None if expect is None else _issues(expect),
        fails_on=_WORDS.intersection(words),
        limits=limits_of(word for word in words if word not in _WORDS),
    )


def checked_outcomes(fail_on: list[str] | None) -> tuple[str, ...]:
    """The outcomes that ``--fail-on`` names. Raises BadInput for another word."""
    words = fail_on or ()
    for word in words:
        _check_fail_on(word, word, _OUTCOMES)
    return tuple(outcome for outcome in _OUTCOMES if outcome in words)


def outcome_objections(fails_on: Iterable[str], outcomes: Mapping[str, int]) -> list[str]:
    """A line for each of these outcomes that some run has had. ``outcomes``: how many had each."""
    total = sum(outcomes.values())
    return [
        f"failed on {outcome}: {outcomes[outcome]:,} of {total:,} runs"
        for outcome in fails_on
        if outcomes.get(outcome)
    ]


def _check_fail_on(word: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise BadInput(f"--fail-on {word!r}: no such thing; {did_you_mean(word, known)}")


def limits_of(words: Iterable[str]) -> tuple[MetricLimit, ...]:
    """The limits that ``--fail-on`` names. Raises BadInput for what is none."""
    try:
        return tuple(map(MetricLimit.parse, words))
    except ScenarioError as problem:
        raise BadInput(f"--fail-on {problem}") from None


def _issues(expect: str) -> frozenset[str]:
    from rebalance_sim.invariants.known.known_issues import every_issue

    kind, colon, text = expect.partition(":")
    issues = [name.strip() for name in text.split(",")]
    if kind != KNOWN or not colon or not all(issues):
        raise BadInput(f"--expect {expect!r}: write known:ISSUE,ISSUE, as in known:KAFKA-20601")
    known = every_issue()
    for issue in issues:
        if issue not in known:
            raise BadInput(
                f"--expect {expect!r}: no known issue {issue!r}; {did_you_mean(issue, known)}"
            )
    return frozenset(issues)
