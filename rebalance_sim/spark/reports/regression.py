"""The results of a regression for the programs of others: JUnit's XML, JSON, and Markdown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from xml.etree import ElementTree

from rebalance_sim.scenarios.documents.document import Document, Fold, Heading, Lines, Part, Table
from rebalance_sim.scenarios.result import UNJUDGED
from rebalance_sim.spark.regress import CHANGED, FAILED, NEW, SAME, SKIPPED, Checked
from rebalance_sim.spark.reports.markdown import markdown

VERDICTS = {
    FAILED: "another outcome than before, a new case that does not pass, or too much of a metric",
    CHANGED: "the same outcome by other steps",
    NEW: "in no lock, and it passed",
    SAME: "as before",
    SKIPPED: "not run: the time was up",
}
LISTED = 50
SHOWN = 10
"""Of how many failures Markdown has what led to them."""


def counts_of(checked: Sequence[Checked]) -> dict[str, int]:
    """Verdict -> how many cases, those that there are."""
    counts = Counter(one.verdict for one in checked)
    return {verdict: counts[verdict] for verdict in VERDICTS if verdict in counts}


def unjudged_of(checked: Sequence[Checked]) -> list[Checked]:
    """The cases that pass, but of which not everything was judged."""
    return [one for one in checked if one.got.outcome in UNJUDGED]


def headline(one: Checked) -> str:
    """What has become of a case, in a line."""
    got = one.got.outcome + (f" ({', '.join(one.got.properties)})" if one.got.properties else "")
    if one.expected is None or one.verdict in (SAME, CHANGED):
        return got
    if (one.got.outcome, one.got.properties) == (one.expected.outcome, one.expected.properties):
        return got  # it failed on a metric: the reason says so
    before = one.expected.outcome
    if one.expected.properties:
        before += f" ({', '.join(one.expected.properties)})"
    return f"{got}, not {before}"


def expected_words(one: Checked) -> str:
    """What a case should have come to."""
    before = one.expected
    if before is None:
        return "an outcome that passes, as it is in no lock"
    return before.outcome + (f" ({', '.join(before.properties)})" if before.properties else "")


def failure_lines(one: Checked) -> list[str]:
    """What to know of a case that failed: what was expected and what was found, what led to it, and
    the command that replays it."""
    found = one.got.outcome + (f" ({', '.join(one.got.properties)})" if one.got.properties else "")
    lines = [f"expected  {expected_words(one)}", f"found     {found}"]
    if one.reason:
        lines.append(f"reason    {one.reason}")
    return [*lines, f"replay    {one.replay}", *(["", *one.screen] if one.screen else [])]


def as_junit(checked: Sequence[Checked]) -> str:
    """One test case for each case; a change of digest, or what was not judged, is no failure, and
    is written as output."""
    suite = ElementTree.Element(
        "testsuite",
        name="rebalance-sim",
        tests=str(len(checked)),
        failures=str(sum(one.verdict == FAILED for one in checked)),
        skipped=str(sum(one.verdict == SKIPPED for one in checked)),
    )
    for one in checked:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname="rebalance-sim.regress",
            name=one.case.id,
            time=f"{one.wall_ms / 1000:.3f}",
        )
        if one.verdict == FAILED:
            failure = ElementTree.SubElement(case, "failure", message=headline(one))
            failure.text = _printable("\n".join(failure_lines(one)))
        elif one.verdict == SKIPPED:
            ElementTree.SubElement(case, "skipped", message=one.reason)
        output: list[str] = []
        if one.verdict == CHANGED and one.expected is not None:
            output.append(f"digest {one.got.digest}, not {one.expected.digest}")
        output += [f"{of.got.outcome}: {of.reason}" for of in unjudged_of([one])]
        if output:
            ElementTree.SubElement(case, "system-out").text = _printable("\n".join(output))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _printable(text: str) -> str:
    """XML has no control characters."""
    return "".join(one if one.isprintable() or one == "\n" else " " for one in text)


def as_json(checked: Sequence[Checked]) -> str:
    """Every case with what it came to."""
    rows = [
        {
            "case": one.case.id,
            "verdict": one.verdict,
            **asdict(one.got),
            "expected": one.expected and asdict(one.expected),
            "reason": one.reason,
            "replay": one.replay,
            "screen": list(one.screen),
            "wall_ms": round(one.wall_ms, 1),
        }
        for one in checked
    ]
    return json.dumps({"counts": counts_of(checked), "cases": rows}, indent=2) + "\n"


def as_markdown(checked: Sequence[Checked]) -> str:
    """A short summary, for a pull request: counts, then what needs a look."""
    counts = ", ".join(f"{count:,} {name}" for name, count in counts_of(checked).items())
    parts: list[Part] = [counts]
    for verdict in (FAILED, CHANGED):
        found = [one for one in checked if one.verdict == verdict]
        if found:
            rows = ([one.case.id, headline(one), f"`{one.replay}`"] for one in found)
            table = Table([["case", "came to", "see it again"], *rows], LISTED)
            parts += [Heading(f"{verdict.capitalize()}: {VERDICTS[verdict]}"), table]
        for one in found[:SHOWN] if verdict == FAILED else ():
            parts.append(Fold(one.case.id, [Lines(failure_lines(one))]))
    if unjudged := unjudged_of(checked):
        rows = ([one.case.id, one.got.outcome, one.reason] for one in unjudged)
        parts += [Heading("Not judged"), Table([["case", "came to", "why"], *rows], LISTED)]
    return markdown(Document("Regression", parts))
