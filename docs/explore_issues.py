"""Find the shortest way to each known issue of shipped versions, for docs/explore.md.

    python docs/explore_issues.py --max-states 100_000
    python docs/generate.py

Each is explored alone: the version without its known issues, but for this one, stopped at the first
violated property; in a scope of dynamic members, and where nothing is violated there, in one of
static members that come back; issues of classic groups in scopes with classic members. Scenarios go
to docs/explored/, the list to docs/measured/explored.json. An issue that two versions have is
explored in the newer. With ``--only`` and ``--new`` (those that are not listed) other issues stay
as they are.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from measured import FOLDER as MEASURED
from measured import write
from measured_hunts import commit_of

from rebalance_sim.protocol.defects import DEFECTS
from rebalance_sim.protocol.versions.semantics import SEMANTICS
from rebalance_sim.scenarios.explore.explorer import Explorer
from rebalance_sim.scenarios.explore.scenario_of import scenario_of
from rebalance_sim.scenarios.explore.scope import Disturbance, Scope
from rebalance_sim.scenarios.explore.verdict import describe_scope

FOLDER = Path(__file__).parent / "explored"
VERSIONS = ("kafka-4.4", "kafka-4.3", "kafka-4.1")
HEAD = {"by": "docs/explore_issues.py"}
OF_CLASSIC_GROUPS = "classic-"

SCOPES = (Scope(), Scope(instances=("x", "y"), returns=True, full=True))
"""The scopes in which an issue is looked for, one after another."""

SCOPES_OF_CLASSIC = (
    Scope(kinds=("eager", "consumer")),
    Scope(kinds=("cooperative", "consumer")),
    Scope(kinds=("eager", "eager"), instances=("x", "y"), returns=True),
    Scope(kinds=("eager", "consumer"), disturbances=(Disturbance.SUBSCRIPTION_CHANGE,)),
)
"""The same for issues of classic groups."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--max-states", type=int, default=100_000)
    parser.add_argument("--only", action="append", help="This issue; may be repeated.")
    parser.add_argument("--new", action="store_true", help="Those that are not listed yet.")
    options = parser.parse_args()
    is_part = options.new or options.only is not None
    kept = {row["issue"]: row for row in _kept()} if is_part else {}
    wanted = [
        issue
        for _, issue in issues()
        if not is_part or issue in (options.only or ()) or (options.new and issue not in kept)
    ]
    if not is_part:
        shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(exist_ok=True)
    rows = []
    for version, issue in issues():
        if issue in wanted:
            rows.append(explore(version, issue, options.max_states))
            print(
                {name: rows[-1][name] for name in ("issue", "scope", "states", "property")},
                flush=True,
            )
        elif issue in kept:
            rows.append(kept[issue])
        done = {row["issue"] for row in rows}
        write("explored", HEAD, [*rows, *(row for one, row in kept.items() if one not in done)])


def _kept() -> list[dict[str, Any]]:
    text = (MEASURED / "explored.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)["rows"]
    return rows


def issues() -> Iterator[tuple[str, str]]:
    """Each known issue, with the newest version that has it."""
    seen = set()
    for version in VERSIONS:
        for issue in SEMANTICS[version].shipped_defects:
            if issue not in seen:
                seen.add(issue)
                yield version, issue


def explore(version: str, issue: str, max_states: int) -> dict[str, Any]:
    """What became of one issue; the scenario is written if there is a way to it."""
    tried = []
    for scope in SCOPES_OF_CLASSIC if issue.startswith(OF_CLASSIC_GROUPS) else SCOPES:
        explorer = Explorer(replace(scope, semantics=f"{version}-clean", defects=(issue,)))
        explored = explorer.run(max_states=max_states, stops_at_first=True)
        if explored.paths:
            break
        tried.append(_words(scope))
    row = {
        "version": version,
        "issue": issue,
        "title": DEFECTS[issue].title,
        "commit": commit_of(),
        "scope": _words(scope),
        "tried": tried,
        "max_states": max_states,
        "states": explored.progress.states,
        "is_complete": not explored.cut_off,
        "property": "",
        "steps": [],
        "is_confirmed": False,
    }
    if explored.paths:
        path = explored.paths[0]
        concrete = scenario_of(explorer, path)
        (FOLDER / f"{issue}.toml").write_text(concrete.text(), encoding="utf-8")
        row["property"] = path.finding.property
        row["steps"] = [str(action) for action in path.actions]
        row["is_confirmed"] = concrete.is_confirmed
    return row


def _words(scope: Scope) -> str:
    return describe_scope(scope).replace(f", {scope.semantics}", "")


if __name__ == "__main__":
    main()
