"""The tables of docs/detection.md, from the last measurement (docs/measured/)."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.scenarios.defects import defect_scenario
from rebalance_sim.spark.detection.mix import needs_clean

ROOT = Path(__file__).parent.parent
REFERENCE = Path(__file__).parent / "reference"
MEASURED = Path(__file__).parent / "measured"
EXPLAINED = ROOT / "benchmarks" / "mutation_explained.toml"

_HISTORY, _MUTANTS = "## 3.", "## 4."
"""The lists of reference/defects.md."""

_VERDICTS = ("detected", "explained", "unnoticed", "unreached")


def defect_summary() -> str:
    """How many defects are noticed, by the list that they are from and, of history, by part."""
    data = _measured("defects")
    lines = [_table_line("defects", "of", "reached", "noticed"), _table_line(*["---"] * 4)]
    history = _listed(_HISTORY)
    by_id = {row["defect"]: row for row in data["rows"]}
    for part in dict.fromkeys(history.values()):
        ids = [one for one, its in history.items() if its == part]
        lines.append(_count(f"of history: {part}", ids, by_id))
    lines += [_count(f"**{words}**", ids, by_id) for words, ids in _lists(data["rows"])]
    head = (
        f"Commit {data['commit']}: {data['seeds']} runs for each defect, fewer once "
        f"{data['enough']} of them noticed it.\n\n"
    )
    return head + "".join(lines)


def _lists(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    """All defects, by where they come from."""
    history, mutants = list(_listed(_HISTORY)), list(_listed(_MUTANTS))
    others = [row["defect"] for row in rows if row["defect"] not in {*history, *mutants}]
    return [
        ("Bugs of history", history),
        ("Mutants of the same list", mutants),
        ("Known issues of simulated versions", [one for one in others if needs_clean(one)]),
        ("Further bugs and mutants", [one for one in others if not needs_clean(one)]),
    ]


def _listed(section: str) -> dict[str, str]:
    """The ids of a table of reference/defects.md, with the component of each."""
    text = (REFERENCE / "defects.md").read_text(encoding="utf-8")
    rows = text.split(f"\n{section}")[1].split("\n## ")[0].splitlines()
    cells = [row.split("|") for row in rows if row.startswith("| ")][1:]
    return {row[1].strip(): row[2].strip() for row in cells}


def _count(words: str, ids: Sequence[str], by_id: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [by_id[one] for one in ids if one in by_id]
    reached = sum(row["reached"] > 0 for row in rows)
    return _table_line(words, len(ids), reached, sum(row["noticed"] > 0 for row in rows))


def defect_results() -> str:
    """Every defect: noticed or not, by what, where first, how often."""
    rows = _measured("defects")["rows"]
    by_id = {row["defect"]: row for row in rows}
    return "\n".join(
        f"### {words}\n\n" + _result_table([by_id[one] for one in ids if one in by_id])
        for words, ids in _lists(rows)
    )


def _result_table(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ("defect", "noticed", "by", "first run", "density, 95 %", "reached", "runs", "scenario")
    lines = [_table_line(*head), _table_line(*["---"] * len(head))]
    for row in sorted(rows, key=_by_component):
        share = row["density"]
        density = f"{share['value']:.1%} ({share['low']:.1%} .. {share['high']:.1%})"
        if not row["noticed"]:
            density = f"below {share['high']:.2%}"
        lines.append(
            _table_line(
                f"`{row['defect']}`",
                "yes" if row["noticed"] else "**no**",
                f"`{row['by']}`" if row["by"] else "",
                row["first_run"],
                density,
                row["reached"],
                row["runs"],
                _smallest(row),
            )
        )
    return "".join(lines)


def unnoticed_defects() -> str:
    """Why each defect that is not noticed is not."""
    rows = [row for row in _measured("defects")["rows"] if not row["noticed"]]
    lines = [_table_line("defect", "reached", "why"), _table_line("---", "---", "---")]
    for row in sorted(rows, key=_by_component):
        defect = DEFECTS[row["defect"]]
        reason = defect.unobserved
        if not reason and defect.measured:
            reason = f"it violates no property: `{defect.measured}` grows"
        if not reason:
            reason = "no property noticed" if row["reached"] else "no run got there"
        lines.append(_table_line(f"`{defect.id}`", row["reached"], reason))
    pages = [page.read_text(encoding="utf-8") for page in sorted(REFERENCE.glob("*.md"))]
    for section in (part for page in pages for part in page.split("\n### ")[1:]):
        _, is_without, reason = section.partition("- **No switch:** ")
        if is_without:
            name = section.partition(":")[0]
            lines.append(_table_line(f"`{name}`", "no switch", reason.splitlines()[0]))
    return "".join(lines)


def mutant_summary() -> str:
    """Verdicts by part of the protocol."""
    data = _measured("mutants")
    head = ("part", *_VERDICTS, "of", "reached", "noticed or explained, of those reached")
    lines = [_table_line(*head), _table_line(*["---"] * len(head))]
    rows = [(_part(row), _verdict(row)) for row in data["rows"]]
    for part in [*sorted({part for part, _ in rows}), ""]:
        counts = Counter(verdict for name, verdict in rows if part in ("", name))
        total = counts.total()
        reached = total - counts["unreached"]
        noticed = counts["detected"] + counts["explained"]
        lines.append(
            _table_line(
                part or "all",
                *(counts[verdict] for verdict in _VERDICTS),
                total,
                f"{reached / total:.0%}",
                f"{noticed / reached:.0%}" if reached else "",
            )
        )
    return f"Commit {data['commit']}, seed {data['seed']}, plan `{data['plan']}`.\n\n" + "".join(
        lines
    )


def mutant_lists() -> str:
    """Every mutant that was reached and not detected."""
    rows = _measured("mutants")["rows"]
    reasons = _reasons()
    head = ("where", "change", "why it does not matter")
    explained = [_table_line(*head), _table_line(*["---"] * 3)]
    open_ones = [_table_line("where", "change", "runs"), _table_line(*["---"] * 3)]
    for row in sorted(rows, key=lambda row: (row["place"], row["line"], row["change"])):
        where, change = f"`{row['place']}`", f"`{row['change']}`"
        verdict = _verdict(row)
        if verdict == "explained":
            explained.append(_table_line(where, change, reasons[_key(row)]))
        elif verdict == "unnoticed":
            open_ones.append(_table_line(where, change, row["why"]))
    return "### Explained\n\n" + "".join(explained) + "\n### Unnoticed\n\n" + "".join(open_ones)


def _measured(kind: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((MEASURED / f"{kind}.json").read_text(encoding="utf-8"))
    return data


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["place"], row["code"], row["change"]


def _reasons() -> dict[tuple[str, str, str], str]:
    entries: Sequence[Mapping[str, Any]] = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get(
        "mutant", []
    )
    return {
        (entry["place"], entry["code"], change): " ".join(entry["reason"].split())
        for entry in entries
        for change in entry["changes"]
    }


def _verdict(row: Mapping[str, Any]) -> str:
    is_explained = row["verdict"] == "unnoticed" and _key(row) in _reasons()
    return "explained" if is_explained else str(row["verdict"])


def _part(row: Mapping[str, Any]) -> str:
    parts = str(row["place"]).split("/")
    return "/".join(parts[: 3 if parts[1] == "clients" else 2])


def _by_component(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["component"], row["defect"]


def _smallest(row: Mapping[str, Any]) -> str:
    """The size of the shrunk run that noticed it, or of the defect's own scenario."""
    if row["shrunk"] is not None:
        size = row["shrunk"]
        faults, clients, seconds = size["faults"], size["clients"], size["seconds"]
    elif DEFECTS[row["defect"]].has_scenario:
        world = defect_scenario(row["defect"]).world
        faults, clients = len(world.faults), len(world.clients)
        seconds = (world.duration_ms + world.quiet_period_ms) / 1000
    else:
        return ""
    return f"faults {faults}, clients {clients}, {seconds:g} s"


def _table_line(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n"
