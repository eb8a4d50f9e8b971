"""Explore small scopes to their end, for docs/explore.md.

    python docs/explore_scopes.py
    python docs/explore_scopes.py --again "--disturbances 0" --again ""
    python docs/generate.py

Each is a call of ``rebalance-sim explore`` with these options, in a process of its own. What it
came to goes to docs/measured/explored-scopes.json; scopes that are there already are explored again
only if that is said, or with ``--all``.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
from typing import Any

from measured import FOLDER, write
from measured_hunts import commit_of

KIND = "explored-scopes"

STATIC = "--instance x --instance y --returns"
RIVALS = "--instance x --instance x --returns"

REPAIRED = " ".join(f"--repair {issue}" for issue in ("D12", "sim-late-answer"))
EAGER = "--kind eager --kind eager"
COOPERATIVE = "--kind cooperative --kind cooperative"
MIXED = "--kind eager --kind consumer"
COOPERATIVE_MIXED = "--kind cooperative --kind consumer"

SCOPES = (
    "--disturbances 0",
    "",
    "--disturbances 2 --only connection_lost",
    f"--semantics kafka-4.3 {REPAIRED}",
    "--only connection_lost --partitions 2",
    "--only connection_lost --slow-lookups",
    "--disturbances 0 --slow-metadata",
    "--only connection_lost --slow-metadata",
    "--only connection_lost --auto-commit",
    "--disturbances 0 --assignment-interval",
    "--disturbances 0 --semantics kip-848",
    "--only crash --returns",
    STATIC,
    f"{STATIC} --topics 1 --full",
    RIVALS,
    f"{RIVALS} --topics 1 --disturbances 2 --only close --only crash --only session_timeout",
    "--members 1 --instance x --returns --disturbances 2",
    f"--disturbances 0 {EAGER}",
    EAGER,
    f"--disturbances 0 {COOPERATIVE}",
    f"{COOPERATIVE} --only connection_lost",
    f"--disturbances 0 {EAGER} --slow-metadata",
    f"--disturbances 0 {COOPERATIVE} --slow-metadata",
    f"--disturbances 0 {EAGER} {STATIC}",
    f"--disturbances 0 {MIXED}",
    f"{MIXED} --only connection_lost --topics 1",
    f"{MIXED} --only close --only crash --topics 1",
    f"{MIXED} --only subscription_change",
    f"--disturbances 0 {COOPERATIVE_MIXED}",
    f"--disturbances 0 {COOPERATIVE_MIXED} --slow-metadata",
    f"{COOPERATIVE_MIXED} --only session_timeout --topics 1",
    f"{COOPERATIVE} --only coordinator_move --topics 1",
)
"""The options of each call."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--again", action="append", default=[], help="Explore this one again.")
    parser.add_argument("--all", action="store_true", help="Explore all again.")
    options = parser.parse_args()
    unknown = set(options.again) - set(SCOPES)
    if unknown:
        raise SystemExit(f"explore_scopes: error: no such scope: {', '.join(sorted(unknown))}")
    rows = {} if options.all else {row["options"]: row for row in _kept()}
    for scope in SCOPES:
        if scope not in rows or scope in options.again:
            rows[scope] = explore(scope)
            print(json.dumps(rows[scope]), flush=True)
            write(
                KIND, {"by": "docs/explore_scopes.py"}, [rows[one] for one in SCOPES if one in rows]
            )


def _kept() -> list[dict[str, Any]]:
    file = FOLDER / f"{KIND}.json"
    if not file.exists():
        return []
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["rows"]
    return rows


def explore(scope: str) -> dict[str, Any]:
    """What one scope came to; ``cpu_s``: of its process, start and end included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    call = "import sys; from rebalance_sim.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", call, "explore", "--json", *shlex.split(scope)]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(f"explore_scopes: error: explore {scope}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = json.loads(done.stdout)
    return {
        "options": scope,
        "commit": commit_of(),
        "is_complete": said["is_complete"],
        "violated": [one["property"] for one in said["violated"]],
        **{name: said[name] for name in ("states", "transitions", "depth", "calls", "memory_mb")},
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
    }


if __name__ == "__main__":
    main()
