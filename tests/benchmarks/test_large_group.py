"""The benchmark of a large group, with a small one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "large_group.py"


def test_every_member_is_restarted_and_the_group_is_at_rest_at_the_end() -> None:
    command = [sys.executable, str(SCRIPT), "--members", "20", "--partitions", "60"]
    command += ["--minutes", "6", "--gap-ms", "4000"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[0] for row in rows] == [str(36 * tenth) for tenth in range(1, 11)]
    steps = [int(row[1].replace(",", "")) for row in rows]
    assert steps == sorted(steps)
    # Twenty heartbeats and commits in five seconds, two steps each at least.
    assert steps[-1] > 20 * 2 * 2 * 360 // 5
