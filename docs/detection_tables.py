"""The tables of docs/detection.md, from the last measurement (docs/measured/)."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markdown_lines import heading, line

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.spark.detection.mix import is_shipped

ROOT = Path(__file__).parent.parent
REFERENCE = Path(__file__).parent / "reference"
LISTS = ROOT / "docs/reference/defects.md"
MEASURED = Path(__file__).parent / "measured"
EXPLAINED = ROOT / "benchmarks" / "mutation_explained.toml"

_HISTORY, _MUTANTS = "## 3.", "## 4."
"""Headings of the two lists in docs/reference/defects.md."""

ORACLES = ("laws", "reference")

_VERDICTS = ("explained", "unnoticed", "unreached")
"""Of mutants that no judge has noticed."""


def defect_summary() -> str:
    """How many defects each oracle notices, by the list that they are from and, of history, by
    part."""
    data = _measured("defects")
    head = ("defects", "of", "reached", "laws", "reference", "one of the two")
    lines = [heading(*head)]
    history = _listed(_HISTORY)
    by_id = {row["defect"]: row for row in data["rows"]}
    for part in dict.fromkeys(history.values()):
        ids = [one for one, its in history.items() if its == part]
        lines.append(_count(f"of history: {part}", ids, by_id))
    lines += [_count(f"**{words}**", ids, by_id) for words, ids in _lists(by_id)]
    budget = (
        f"Commit {data['commit']}: {data['seeds']} runs of the mix for each defect and oracle, "
        f"fewer once {data['enough']} of them noticed it.\n\n"
    )
    return budget + "".join(lines)


def _lists(ids: Iterable[str]) -> list[tuple[str, list[str]]]:
    """All defects, by where they come from."""
    history, mutants = list(_listed(_HISTORY)), list(_listed(_MUTANTS))
    others = [one for one in ids if one not in {*history, *mutants}]
    return [
        ("Bugs of history", history),
        ("Mutants of the same list", mutants),
        ("Known issues of simulated versions", [one for one in others if is_shipped(one)]),
        ("Further bugs and mutants", [one for one in others if not is_shipped(one)]),
    ]


def _listed(section: str) -> dict[str, str]:
    """The ids of a table of docs/reference/defects.md, with the component of each."""
    text = LISTS.read_text(encoding="utf-8")
    rows = text.split(f"\n{section}")[1].split("\n## ")[0].splitlines()
    cells = [row.split("|")[1:-1] for row in rows if row.startswith("| ")][1:]
    return {
        name.split("(")[0].strip(): component.strip()
        for component, *lists in cells
        for names in lists
        for name in re.split(r", (?![^(]*\))", names)
        if name.strip()
    }


def _count(words: str, ids: Sequence[str], by_id: Mapping[str, Mapping[str, Any]]) -> str:
    found = [by_id[one]["by_oracle"] for one in ids if one in by_id]
    reached = sum(any(one["reached"] for one in by.values()) for by in found)
    noticed = [[by[oracle]["noticed"] > 0 for oracle in ORACLES] for by in found]
    by_each = (sum(one[at] for one in noticed) for at in range(len(ORACLES)))
    return line(words, len(ids), reached, *by_each, sum(map(any, noticed)))


def defect_results() -> str:
    """Every defect: by what each oracle noticed it, where first, how often."""
    by_id = {row["defect"]: row for row in _measured("defects")["rows"]}
    return "\n".join(
        f"### {words}\n\n" + _result_table([by_id[one] for one in ids if one in by_id])
        for words, ids in _lists(by_id)
    )


def _result_table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["defect"]
    for oracle in ORACLES:
        head += [oracle, "first run", "density, 95 %"]
    lines = [heading(*head)]
    for row in sorted(rows, key=_by_component):
        cells = [f"`{row['defect']}`"]
        for oracle in ORACLES:
            found = row["by_oracle"][oracle]
            by = f"`{found['by']}`" if found["by"] else "**no**"
            cells += [by, found["first_run"], _density(found)]
        lines.append(line(*cells))
    return "".join(lines)


def _density(found: Mapping[str, Any]) -> str:
    share = found["density"]
    if not found["noticed"]:
        return f"below {share['high']:.1%}"
    return f"{share['value']:.1%} ({share['low']:.1%} .. {share['high']:.1%})"


def unnoticed_defects() -> str:
    """Why each defect that no oracle notices is not noticed."""
    rows = [
        row
        for row in _measured("defects")["rows"]
        if not any(found["noticed"] for found in row["by_oracle"].values())
    ]
    lines, unreached = [heading("defect", "reached", "why")], []
    looked_at = tomllib.loads((MEASURED / "unnoticed.toml").read_text(encoding="utf-8"))
    for row in sorted(rows, key=_by_component):
        defect = DEFECTS[row["defect"]]
        reached = max(found["reached"] for found in row["by_oracle"].values())
        reason = defect.unobserved
        if not reason and defect.measured:
            reason = f"it violates no property: `{defect.measured}` grows"
        reason = looked_at.get(defect.id, reason)
        if not reason and reached:
            reason = "the wrong rule decided otherwise, and no law is violated by what followed"
        if reason:
            lines.append(line(f"`{defect.id}`", reached, reason))
        else:
            unreached.append(f"`{defect.id}`")
    pages = [page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md"))]
    for section in (part for page in pages for part in page.split("\n### ")[1:]):
        _, is_without, reason = section.partition("- **No switch:** ")
        if is_without:
            name = section.partition(":")[0]
            lines.append(line(f"`{name}`", "no switch", reason.splitlines()[0]))
    ids = ", ".join(unreached)
    return f"Only its own scenario gets into the situation of each of {ids}.\n\n" + "".join(lines)


def mutant_summary() -> str:
    """Verdicts by part of the protocol, and which judge was the first to notice."""
    return _noticed_first("mutants", {"runs": "laws", "reference": "reference", "tests": "tests"})


def reading_summary() -> str:
    """The same by part of what people read."""
    judges = {"runs": "runs", "figures": "figures and laws", "tests": "tests"}
    return _noticed_first("reading", judges)


def _noticed_first(kind: str, judges: Mapping[str, str]) -> str:
    """``judges``: as rows name them, and as a reader does."""
    data = _measured(kind)
    head = ("part", *judges.values(), *_VERDICTS, "of", "noticed or explained, of those reached")
    lines = [heading(*head)]
    rows = [(_part(row), row.get("by") or _verdict(row)) for row in data["rows"]]
    for part in [*sorted({part for part, _ in rows}), ""]:
        counts = Counter(found for name, found in rows if part in ("", name))
        reached = counts.total() - counts["unreached"]
        noticed = reached - counts["unnoticed"]
        share = f"{noticed / reached:.0%}" if reached else ""
        found = (counts[name] for name in (*judges, *_VERDICTS))
        lines.append(line(part or "all", *found, counts.total(), share))
    return f"Commit {data['commit']}, seed {data['seed']}, plan `{data['plan']}`.\n\n" + "".join(
        lines
    )


def shipped_summary(kind: str = "shipped") -> str:
    """How many runs of the shipped version show each known issue, and what is not explained."""
    data = _measured(kind)
    seeds = "; ".join(
        f"{count} {'each ' if len(of) > 1 else ''}of {', '.join(of)}"
        for count, of in data["seeds"].items()
    )
    runs, known, open_ = data["runs"], data["known"], data["unexplained"]
    right = runs - known - len(open_) - data["vacuous"]
    head = (
        f"Commits {', '.join(data['commits'])}: {runs:,} runs; {seeds}. {right:,} ok, {known:,} "
        f"known ({known / runs:.1%}), {data['vacuous']} vacuous, {len(open_)} not explained.\n\n"
    )
    lines = [heading("known issue", "runs", "share")]
    for issue, count in data["issues"].items():
        lines.append(line(f"`{issue}`", f"{count:,}", f"{count / runs:.2%}"))
    found: dict[str, list[str]] = {}
    for row in open_:
        found.setdefault(row["property"], []).append(f"{row['profile']} {row['seed']}")
    if found:
        lines += ["\n", heading("not explained", "runs")]
        lines += [line(f"`{one}`", ", ".join(where)) for one, where in found.items()]
    return head + "".join(lines)


def _measured(kind: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((MEASURED / f"{kind}.json").read_text(encoding="utf-8"))
    return data


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["place"], row["code"], row["change"]


def _explained() -> set[tuple[str, str, str]]:
    entries: Sequence[Mapping[str, Any]] = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get(
        "mutant", []
    )
    return {
        (entry["place"], entry["code"], change) for entry in entries for change in entry["changes"]
    }


def _verdict(row: Mapping[str, Any]) -> str:
    is_explained = row["verdict"] == "unnoticed" and _key(row) in _explained()
    return "explained" if is_explained else str(row["verdict"])


def _part(row: Mapping[str, Any]) -> str:
    parts = str(row["place"]).partition(":")[0].split("/")
    return "/".join(parts[: 3 if parts[1] == "clients" else 2])


def _by_component(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["component"], row["defect"]
