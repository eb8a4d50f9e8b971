"""What a run says: one value, printable whole, and the same for the same scenario and code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rebalance_sim.scenarios.documents.document import (
    Document,
    Fold,
    Part,
    Table,
    Tiles,
    Verdict,
)
from rebalance_sim.scenarios.documents.html_page import html_fragment
from rebalance_sim.scenarios.units import shown_in_unit, title_of
from rebalance_sim.sim.observe.sampling import MetricSample

if TYPE_CHECKING:
    # The command line names outcomes, and needs no world for that.
    from rebalance_sim.sim.observe.rebalances import Episode
    from rebalance_sim.sim.phases import PhaseSpan

OUTCOMES: Mapping[str, str] = {
    "ok": "every property held",
    "violation": "a property was violated, and not by a known issue of the simulated version",
    "known": "properties were violated only in ways that the simulated version is known for",
    "stuck": "a liveness property did not hold in the quiet period",
    "budget": "the run was cut off: by its budget of steps, or as time stood still",
    "error": "our own code failed; `reason` holds the exception",
    "not-judged": "nothing was violated, but the quiet period ended before liveness was due",
    "partly-judged": "nothing was violated, but a rule of a plug-in acted that replaces properties",
    "vacuous": "nothing was violated, but at the end no client that was to be in a group was",
}
"""Every outcome of a run, with its meaning."""

UNJUDGED = frozenset({"vacuous", "not-judged", "partly-judged"})
"""Outcomes in which nothing was found, but not everything was judged, or nothing."""

PASSING = UNJUDGED | {"ok", "known"}
"""Outcomes in which nothing was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolationRow:
    """A violated property: which, of which group, where in the run, and what was seen.

    ``open_faults`` are the faults whose windows were open then: ``client_pause(a) since 20000 ms``.
    """

    property: str
    sentence: str
    step: int
    at_ms: int
    detail: str
    group_id: str = ""
    open_faults: tuple[str, ...] = ()

    def in_a_line(self, *, of_several: bool) -> str:
        """Property, place and what was seen; the group too, where the world has ``of_several``."""
        of_group = f" of group {self.group_id}" if of_several else ""
        return f"{self.property}{of_group} at step {self.step} ({self.at_ms} ms): {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspected:
    """A violation that one of these known issues may be the reason of: the first of a property, by
    one subject. ``times``: how often the property was violated so; ``is_late``: of a liveness
    property, judged at the end of the run."""

    row: ViolationRow
    subject: str
    issues: tuple[str, ...]
    times: int = 1
    is_late: bool = False


SAMPLED = "sampled"
REPAIRED = "repaired"
UNPROVEN = "unproven"
VERDICTS: Mapping[str, str] = {
    REPAIRED: "the run without the known issue does not show this",
    UNPROVEN: "the run without the known issue gave no verdict on this",
    SAMPLED: "no other known issue violates this; other seeds were run without it",
}
"""What the repaired run says of a known issue."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What was decided otherwise than without a known issue, and in which step."""

    step: int
    at_ms: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRow:
    """A known issue in a run: the first violation of a property, by one subject, that goes with its
    repair.

    ``subject`` is who or what is concerned; ``cause`` is the last decision before it that is
    another one without the issue, if that was asked for; ``times``: how often the property was
    violated so. ``page`` is where the issue is described. ``is_late``: of a liveness
    property, judged at the end of the run.
    """

    issue: str
    title: str
    page: str
    property: str
    sentence: str
    subject: str
    step: int
    at_ms: int
    detail: str
    cause: Cause | None = None
    times: int = 1
    group_id: str = ""
    open_faults: tuple[str, ...] = ()
    is_late: bool = False
    verdict: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairedRun:
    """What the same scenario came to without these known issues."""

    repairs: tuple[str, ...]
    scenario_hash: str
    outcome: str
    reason: str
    digest: str
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """One run.

    ``known`` counts, for each known issue of the simulated version, how often it showed;
    ``known_issues`` has them one by one, and ``repaired`` the run without them, if there was one.
    ``suspected``: what known issues may be the reason of, and no one has tried: because it was not
    asked for, or the run violates something else anyway.
    ``reason`` says in one line why the outcome is not ``ok``; of an ``error``, type, message and
    innermost frames. ``not_judged``: why liveness was not judged at the end, whatever the outcome;
    empty if it was, or after a violation. ``replaced``: which properties were not judged, from
    which step on, because a rule of a plug-in acted there that replaces them. ``digest`` is that of
    the trace: equal digests, equal runs. ``samples`` are the series of the run, if any were asked
    for. ``rebalances`` are the episodes of rebalancing that ended, by group and time. ``phases``
    are those of the scenario that began; their metrics are among the others, with the phase before
    the name. ``leaps``: when the run left time out because its world was at rest, and how much,
    both in ms.
    ``leap_difference``: in what it differs from the run that goes step by step; None: there is
    none.
    """

    seed: int
    profile: str
    scenario_hash: str
    code_version: str
    outcome: str
    steps: int = 0
    simulated_ms: int = 0
    digest: str = ""
    ties: int = 0
    known: Mapping[str, int] = field(default_factory=dict)
    violations: tuple[ViolationRow, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    coverage: Mapping[str, int] = field(default_factory=dict)
    reason: str = ""
    not_judged: str = ""
    replaced: tuple[str, ...] = ()
    samples: tuple[MetricSample, ...] = ()
    known_issues: tuple[KnownRow, ...] = ()
    suspected: tuple[Suspected, ...] = ()
    repaired: RepairedRun | None = None
    rebalances: tuple[Episode, ...] = ()
    phases: tuple[PhaseSpan, ...] = ()
    leaps: tuple[tuple[int, int], ...] = ()
    leap_difference: str | None = None

    @property
    def leapt_ms(self) -> int:
        """How much of ``simulated_ms`` was left out."""
        return sum(span_ms for _, span_ms in self.leaps)

    @property
    def all_not_judged(self) -> str:
        """What was not judged, and why; empty: everything was."""
        return "; ".join(filter(None, (*self.replaced, self.not_judged)))

    @property
    def unproven(self) -> tuple[str, ...]:
        """Known issues on which the run without them gave no verdict."""
        return tuple(sorted({r.issue for r in self.known_issues if r.verdict == UNPROVEN}))

    def __repr__(self) -> str:
        reason = f": {self.reason}" if self.reason else ""
        return f"<RunResult of {self.profile} {self.seed}: {self.outcome}{reason}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        metrics = ([title_of(n), shown_in_unit(n, v)] for n, v in self.metrics.items())
        parts: list[Part] = [
            verdict_of(self),
            *([Tiles(list(headlines(self)))] if self.metrics else []),
            *findings(self),
            Fold(f"{len(self.metrics)} metrics", [Table([["metric", "value"], *metrics])]),
            f"{self.steps:,} steps, {self.simulated_ms / 1000:,.1f} s simulated, "
            f"digest `{self.digest}`",
        ]
        title = f"{self.outcome}: seed {self.seed}, profile `{self.profile or 'none'}`"
        return html_fragment(Document(title, parts))


_KINDS = {"ok": "good", "known": "known", **dict.fromkeys(UNJUDGED, "")}
"""Outcome -> the colour of its verdict; any other is bad."""

_HEADLINES = (
    ("unowned_partition_ms", "", "partition-seconds without an owner"),
    ("unowned_partition_ms_max", "s", "longest time without an owner of one partition"),
    ("rebalance_episodes", "", "rebalances"),
    ("rebalance_ms_max", "s", "longest rebalance"),
    ("member_stopped_ms", "s", "standstill of members, summed over members"),
    ("records_redelivered", "", "records delivered again"),
    ("records_reprocessed", "", "records processed again"),
    ("records_lost", "", "records lost"),
    ("fatal_clients", "", "clients that ended with an error"),
)
"""Metrics that people ask for first, each with its unit and in words (docs/results.md)."""


_LOSSES = frozenset({"records_lost", "fatal_clients"})
"""Of these any is to be looked at, though every property held."""


def verdict_of(result: RunResult) -> Verdict:
    """The outcome in words. What was not judged is said."""
    why = result.reason if result.outcome not in ("ok", "known") else ""
    left_out = [one for one in (*result.replaced, result.not_judged) if one not in why]
    more = "; ".join(filter(None, (why, *left_out)))
    words = f"{result.outcome}: {OUTCOMES[result.outcome]}"
    return Verdict(f"{words} ({more})" if more else words, _KINDS.get(result.outcome, "bad"))


def headlines(result: RunResult) -> Iterator[tuple[str, str, str]]:
    """Tiles of the figures that the run has measured."""
    for name, unit, words in _HEADLINES:
        if name in result.metrics:
            value = result.metrics[name]
            kind = "bad" if value and name in _LOSSES else ""
            yield f"{shown_in_unit(name, value)} {unit}".strip(), words, kind


def findings(result: RunResult) -> Iterator[Part]:
    """Violated properties and known issues, a table each; nothing where there are none."""
    if result.violations:
        found = [[f"`{row.property}`\n{row.sentence}", *_seen(row)] for row in result.violations]
        yield Table([["violated property", "step", "time (s)", "seen"], *found])
    if result.known_issues:
        rows = [["known issue", "violates", "step", "time (s)", "seen"]]
        for row in result.known_issues:
            rows.append([f"{row.issue}\n{row.title}", f"`{row.property}`", *_seen(row)])
        yield Table(rows)


def _seen(row: ViolationRow | KnownRow) -> list[str]:
    return [f"{row.step:,}", f"{row.at_ms / 1000:,.3f}", row.detail]
